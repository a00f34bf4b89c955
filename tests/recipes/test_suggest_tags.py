"""Tags are suggested for notes from the tags that a folder has, and from no others."""

import json
import sys

import pytest
import suggest_tags

from hf_gile.training import general
from hf_gile.training.encoders import FoundEncoder

NOTES = {
    "bread.md": "---\ntags: [cooking, home/kitchen]\n---\nFlour, water and salt for bread.\n",
    "soup.md": "Carrots and salt for a soup. #cooking\n\n```\n#no-tag\n```\n",
    "bulbs.md": "---\ntags: garden, home/kitchen\n---\nPlant tulips in water.\n",
    "hedge.md": "---\ntags:\n  - '#garden'\n  - 2026\n---\nCut the hedge, issue #12 of the plan.\n",
    "cake.md": "Flour and water for a cake.\n",
    ".trash/old.md": "Salt. #deleted\n",
}


@pytest.fixture
def notes(write, tmp_path):
    for name, text in NOTES.items():
        write(f"notes/{name}", text)
    return tmp_path / "notes"


@pytest.fixture
def suggest(monkeypatch, capsys, save_text_encoder):
    """Runs the recipe with a random encoder, and returns what it prints."""
    encoder = FoundEncoder("sentence-transformers/all-MiniLM-L6-v2", save_text_encoder(texts=list(NOTES.values())))
    monkeypatch.setattr(general, "best_text_encoder", lambda *texts: encoder)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["suggest_tags.py", *map(str, arguments)])
        suggest_tags.main()
        printed = capsys.readouterr()
        return [json.loads(line) for line in printed.out.splitlines()], printed.err

    return run


def test_only_existing_tags_are_suggested_and_no_note_changes(notes, suggest):
    (answer,), _ = suggest(notes, "--top", 7)
    assert answer["note"] == str(notes / "cake.md")
    assert answer["tags"].keys() == {"cooking", "garden", "home/kitchen", "2026"}
    assert list(answer["tags"].values()) == sorted(answer["tags"].values(), reverse=True)
    assert {name: (notes / name).read_text() for name in NOTES} == NOTES


def test_texts_of_notes_do_not_contain_their_tags(notes):
    read = {note.path.rpartition("/")[2]: note for note in suggest_tags.read_notes(notes)}
    assert read.keys() == NOTES.keys() - {".trash/old.md"}
    assert read["soup.md"].tags == ["cooking"]
    assert read["hedge.md"].tags == ["garden", "2026"]
    assert "#cooking" not in read["soup.md"].text
    assert "tags" not in read["bulbs.md"].text
    assert "#12" in read["hedge.md"].text


UNREADABLE = {"no YAML": b"---\ntags: [a\n---\ntext", "utf-8": b"caf\xe9"}
UNREADABLE |= {"more than 1,000,000 bytes": b"x" * 1_000_003}


@pytest.mark.parametrize("message", UNREADABLE)
def test_a_note_that_cannot_be_read_is_named_and_left_out(tmp_path, capsys, message):
    (tmp_path / "bad.md").write_bytes(UNREADABLE[message])
    (tmp_path / "good.md").write_text("---\nno front matter\n---\ntext #tag")
    (good,) = suggest_tags.read_notes(tmp_path)
    assert (good.tags, "no front matter" in good.text) == (["tag"], True)
    error = capsys.readouterr().err
    assert "bad.md" in error
    assert message in error


def test_a_folder_without_tags_says_what_to_do(tmp_path, suggest):
    (tmp_path / "note.md").write_text("Salt.")
    with pytest.raises(SystemExit, match=r"has 1 notes, 0 tags: .*--tags"):
        suggest(tmp_path)
    with pytest.raises(SystemExit, match="has 0 notes, 0 tags"):
        suggest(tmp_path / "absent")


def test_a_file_of_tags_may_have_any_encoding_and_is_named_if_it_cannot_be_read(notes, suggest, write):
    tags = write("notes/tags.txt", "thé\n#cooking\n".encode("utf-16"))
    (answer,), _ = suggest(notes, "--tags", tags, "--top", 7)
    assert answer["tags"].keys() == {"cooking", "garden", "home/kitchen", "2026", "thé"}
    with pytest.raises(SystemExit, match=r"absent\.txt"):
        suggest(notes, "--tags", notes / "absent.txt")
