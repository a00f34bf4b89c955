"""Wrong arguments of commands are answered on standard error with what to do, and without a traceback."""

import json
import shlex

import pytest

pytestmark = pytest.mark.usefixtures("datasets_cache")

USAGE = [
    ("train --recipe bio", "must be one of table, bioasq, dw, xmc, units, got 'bio'"),
    ("train --label tags", "error: --label: unknown flag; did you mean --labels?; --help shows the flags"),
    ("train", "error: no training documents: pass --train_files"),
    ("train --train-files absent.csv", "error: train_files: nothing matches absent.csv"),
    ("evaluate model rows.jsonl --output model", "'model' is a directory"),
    ("score model --threshold much", "must be a number or stored, got 'much'"),
    ("score model --format pdf", "'pdf' is not one of 'text', 'jsonl', 'csv'"),
    ("score model --label a --index b", "pass only one of --label, --label-file and --index"),
    ("score model rows.jsonl - --output out", "needs files as input, not standard input"),
    ("score model rows.jsonl --output out --evidence", "cannot be combined with --output"),
    ("score model rows.jsonl --output out --shortlist 5", "cannot be combined with --output"),
    ("score model rows.jsonl --output out --shard 2/2", "must be I/N with I from 0 to N-1"),
    ("score general rows.jsonl", "the general scorer has no labels"),
    ("score --status", "pass the folder of the run as --output FOLDER"),
    ("score --output out --merge all.csv", "writes Parquet: name the file .parquet, not all.csv"),
]
FAILURES = [
    ("labels show modell", "did you mean model?"),
    ("labels show .", ". is not a saved model with labels: it has no labels.jsonl"),
    ("labels add user/model a A", "to change a model on the Hub, change a copy: hf download user/model"),
    ("labels add model Iron Rats", "already has a label 'Iron', 'Iron': change its name with hf-gile labels rename"),
    ("labels add model x Iron", "'Iron' is already the text of another label in row 3"),
    ("labels rename model iron Rats", "did you mean 'Iron'"),
    ("evaluate model rows.jsonl", "no column 'text', only body, tags; name the column with --text"),
    ("calibrate user/model rows.jsonl", "to calibrate a model on the Hub, download a copy"),
    ("calibrate model rows.jsonl --method magic --text body --labels tags", "'magic'"),
    ("score model --label-file absent.csv", "nothing matches absent.csv"),
    ("score model absent.txt", "no file at absent.txt"),
    ("score model --device gpu", "this machine has no device 'gpu': "),
    ("score rows.jsonl --label milk", "hf-gile score general"),
    ("score absent", "no folder absent (in "),
    ("score runs/absent/model", "models on the Hub are named user/name"),
    ("score .", "is not a saved model: it has no config.json"),
    ("push model user/model", "offline mode is on"),
    ("push model model", "repo_id must be 'user/name'"),
    ("push absent user/model", "no folder"),
]


CASES = [*((2, *usage) for usage in USAGE), *((1, *failure) for failure in FAILURES)]


@pytest.mark.parametrize(("ends", "command", "message"), CASES)
def test_errors_say_what_to_do(run, saved_model, monkeypatch, ends, command, message):
    monkeypatch.chdir(saved_model.parent)
    (saved_model.parent / "rows.jsonl").write_text(json.dumps({"body": "Rats.", "tags": ["Iron"]}))
    result = run(*shlex.split(command), input="a\n", ends=ends)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
