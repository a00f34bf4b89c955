"""The command in a separate process: pipes, interrupts, exit codes. Each start takes seconds, so tests are few."""

import json
import signal
import subprocess
import sys

import pytest


def test_help_needs_neither_torch_nor_transformers():
    code = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = sys.modules["hf_gile"] = None  # importing them would raise
sys.argv = ["hf-gile", *sys.argv[1:]]
from hf_gile_cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code, "labels", "add", "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "hf-gile" in done.stdout


def test_without_typer_the_error_names_the_extra():
    code = "import sys; sys.modules['typer'] = None; from hf_gile_cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    message = "hf-gile needs the `cli` extra: pip install 'hf-gile[cli]', or in a clone: pip install -e '.[cli]'\n"
    assert (done.returncode, done.stderr) == (1, message)


def imported_by(code, *arguments, ends=0):
    """Returns the modules that are imported when a process ends."""
    code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {code}"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, input="Rats were fed.", capture_output=True, text=True)
    assert done.returncode == ends, done.stderr
    return set(done.stderr.split())


COMMAND = "from hf_gile_cli import main; main()"


def test_labels_are_shown_without_torch(saved_model):
    slow = {"torch", "pandas", "sklearn", "transformers.models"}
    assert not imported_by(COMMAND, "labels", "show", saved_model) & slow


@pytest.mark.slow
def test_wrong_arguments_end_before_seconds_of_imports(tmp_path):
    (tmp_path / "one.txt").write_text("Rats.")
    slow = {"torch", "datasets", "transformers.modeling_utils"}
    assert not imported_by(COMMAND, "train", "a.csv", "--label", "tags", ends=2) & slow
    assert not imported_by(COMMAND, "score", tmp_path / "one.txt", "--label", "a", ends=1) & slow


@pytest.mark.slow
def test_scoring_imports_what_it_needs(saved_model):
    spared = {"datasets", "matplotlib", "onnx", "onnxruntime", "pandas", "peft", "pyarrow", "sklearn", "rdflib"}
    spared |= {"transformers.trainer", "hf_gile.publishing", "hf_gile.metrics", "hf_gile.data.mesh"}
    by_transformers = imported_by("import transformers.modeling_utils, transformers.pipelines")
    of_a_model = imported_by(COMMAND, "score", saved_model)
    assert "torch" in of_a_model
    assert not of_a_model & spared - by_transformers
    assert "hf_gile.training" not in of_a_model


@pytest.mark.slow
def test_piped_lines_are_answered_at_once_and_an_interrupt_exits_with_130(start, saved_model):
    process = start("score", saved_model)
    for text in ("Rats were fed.", "Breast milk."):
        process.stdin.write(f"{text}\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["text"] == text  # it does not wait for a full batch
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == 130
    assert process.stderr.read() == "interrupted\n"


@pytest.mark.slow
def test_a_terminated_command_removes_its_unfinished_files(saved_model):
    code = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which under nohup would be ignored
from hf_gile.publishing import folder
write_index = folder._write_index
def end(path, *rest):
    write_index(path, *rest)
    if os.fork() == 0:  # such as a process that reads data; ends without cleaning up behind its parent
        os.kill(os.getpid(), signal.SIGHUP)
    os.wait()
    assert path.is_dir()
    os.kill(os.getpid(), signal.SIGHUP)
folder._write_index = end
from hf_gile_cli import main
main()
"""
    (saved_model / "index").mkdir()
    before = {path.name: path.read_bytes() for path in saved_model.rglob("*") if path.is_file()}
    command = [sys.executable, "-c", code, "labels", "add", saved_model, "r", "Rats"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGHUP, done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name: path.read_bytes() for path in saved_model.rglob("*") if path.is_file()} == before
    assert not (saved_model / ".saving").exists()


@pytest.mark.slow
def test_a_closed_pipe_ends_the_command_quietly(start, saved_model, tmp_path):
    (tmp_path / "texts.txt").write_text("Rats were fed.\n" * 5000)
    process = start("score", saved_model, tmp_path / "texts.txt")
    assert json.loads(process.stdout.readline())["text"] == "Rats were fed."
    process.stdout.close()
    assert process.wait(timeout=300) == 0
    assert process.stderr.read() == ""
