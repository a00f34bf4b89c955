"""Settings in YAML are read safely."""

import pytest

from hf_gile.yaml_files import read_yaml


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"a: " + "ä".encode("cp1252"), "byte 4 is not UTF-8"),
        (b"{[1]: 2}", "is not YAML: .*unhashable"),
        (b"!!python/object/apply:os.system [touch mark]", "is not YAML: could not determine a constructor"),
        (b"#" * (2 << 20), "longer than 1,048,576 bytes"),
        (b"a: &a [lol]\nb: [*a, *a]\n", r"is not YAML: line 2: aliases are not allowed, replace \*a by"),
    ],
    ids=["nested", "bytes", "unhashable", "code", "long", "aliases"],
)
def test_invalid_yaml_gets_a_short_message(tmp_path, content, message):
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"settings\.yaml.*{message}") as error:
        read_yaml(path)
    assert len(str(error.value)) < 1000
