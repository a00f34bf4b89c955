import json
import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TEXTS = ["Rats were fed.", "", "Breast milk for infants.", "The failing heart pumps less blood."]


def status(run, output):
    return json.loads(run("score", "--output", output, "--status").stdout)


def test_scoring_into_a_folder_gives_the_same_rows_as_standard_output(run, saved_model, write, tmp_path):
    notes = write("notes.txt", "\n".join(TEXTS) + "\n")
    lines = run("score", saved_model, notes, "--top-k", 3).stdout.splitlines()
    output = tmp_path / "scored"
    result = run("score", saved_model, notes, "--top-k", 3, "--output", output, "--workers", 1, "--part-size", 0.0001)
    assert result.stdout == ""
    assert "4 texts scored, 1 of 1 part done\n" in result.stderr
    assert status(run, output) == {"parts": 1, "done": 1, "rows": 4, "rejected": 0}
    result = run("score", "--output", output, "--merge", tmp_path / "all.parquet")
    assert result.stderr == f"4 rows of 1 part written to {tmp_path / 'all.parquet'}\n"
    for line, row in zip(map(json.loads, lines), pq.read_table(tmp_path / "all.parquet").to_pylist(), strict=True):
        assert row["scores"] == pytest.approx(line["scores"], rel=1e-5)
        assert (row["id"], row["text"], row["labels"]) == (None, line["text"], line["labels"])
        assert row["note"] == line.get("note")


def test_parts_are_not_merged_into_an_input_file(run, saved_model, tmp_path):
    notes = tmp_path / "notes.parquet"
    pq.write_table(pa.table({"text": TEXTS[2:]}), notes)
    run("score", saved_model, notes, "--output", tmp_path / "scored", "--workers", 1)
    message = run("score", "--output", tmp_path / "scored", "--merge", notes, ends=1).stderr
    assert f"{notes} is an input file: name another file for the output" in message
    assert pq.read_table(notes).column_names == ["text"]


def test_a_second_call_resumes_and_a_shard_does_its_share(run, saved_model, tmp_path):
    path, output = tmp_path / "notes.txt", tmp_path / "scored"
    path.write_text("Rats were fed.\n" * 100)
    options = ["--output", output, "--workers", 1, "--part-size", 0.0002]
    run("score", saved_model, path, *options, "--shard", "1/2")
    half = status(run, output)
    assert 0 < half["done"] < half["parts"]
    run("score", saved_model, path, *options)
    assert status(run, output) == {**half, "done": half["parts"], "rows": 100}
    result = run("score", saved_model, path, *options)
    assert f"0 texts scored, {half['parts']} of {half['parts']} parts done\n" in result.stderr
    result = run("score", saved_model, path, *options, "--top-k", 1, ends=1)
    advice = "choose another folder, or remove this one"
    assert f"{output} has a run with different options (top_k): {advice}" in result.stderr


OF_SLURM = {"ID": "5", "MIN": "1", "COUNT": "3", "STEP": "2"}
OF_SLURM = {f"SLURM_ARRAY_TASK_{name}": value for name, value in OF_SLURM.items()}


@pytest.mark.parametrize("environment", [{"RANK": "2", "WORLD_SIZE": "3"}, OF_SLURM])
def test_the_shard_comes_from_slurm_or_torchrun_variables(run, saved_model, write, tmp_path, monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    files = [write(f"{number}.txt", f"Rats were fed {number} times.\n") for number in range(3)]
    run("score", saved_model, *files, "--output", tmp_path / "scored")
    assert status(run, tmp_path / "scored")["done"] == 1
    (part,) = (tmp_path / "scored" / "parts").iterdir()
    assert pq.read_table(part)["text"].to_pylist() == ["Rats were fed 2 times."]


@pytest.mark.slow
def test_after_a_worker_is_killed_the_next_call_finishes_the_run(run, start, saved_model, tmp_path):
    path, output = tmp_path / "notes.txt", tmp_path / "scored"
    path.write_text("".join(f"Rats were fed {number} times.\n" for number in range(5_000)))
    words = ["score", saved_model, path, "--output", output, "--part-size", 0.01]
    process = start(*words, "--workers", 2)
    while not list(output.glob("parts/0*.parquet")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    os.kill(children[-1], signal.SIGKILL)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "a worker ended with exit code -9; finished parts are saved: start again" in error
    before = status(run, output)
    assert 0 < before["done"] < before["parts"]
    run(*words, "--workers", 1)
    run("score", "--output", output, "--merge", tmp_path / "all.parquet")
    texts = pq.read_table(tmp_path / "all.parquet")["text"].to_pylist()
    assert texts == path.read_text().splitlines()
