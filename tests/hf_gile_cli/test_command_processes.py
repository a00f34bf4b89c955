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
    for command in ([], ["score"], ["labels", "add"], ["push"]):
        done = subprocess.run([sys.executable, "-c", code, *command, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "hf-gile" in done.stdout


def test_without_typer_the_error_names_the_extra():
    code = "import sys; sys.modules['typer'] = None; from hf_gile_cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    message = "hf-gile needs the `cli` extra: pip install 'hf-gile[cli]', or in a clone: pip install -e '.[cli]'\n"
    assert (done.returncode, done.stderr) == (1, message)


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
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_terminated_command_removes_its_unfinished_files(saved_model, name):
    code = f"""
import os, signal
signal.signal(signal.{name}, signal.SIG_DFL)  # which under nohup, say, would be ignored
from hf_gile.publishing import folder
write_index = folder._write_index
def end(path, *rest):
    write_index(path, *rest)
    if os.fork() == 0:  # such as a process that reads data; ends without cleaning up behind its parent
        os.kill(os.getpid(), signal.{name})
    os.wait()
    assert path.is_dir()
    os.kill(os.getpid(), signal.{name})
folder._write_index = end
from hf_gile_cli import main
main()
"""
    (saved_model / "index").mkdir()
    before = {path.name: path.read_bytes() for path in saved_model.rglob("*") if path.is_file()}
    command = [sys.executable, "-c", code, "labels", "add", saved_model, "r", "Rats"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 128 + getattr(signal, name), done.stderr
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
