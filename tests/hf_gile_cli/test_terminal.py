"""Names of labels and files reach the terminal as text, never as control sequences."""

import json
import re

import pytest

from hf_gile import Label, LabelSet

# Escape, bell, carriage return, delete, a C1 control, a bidirectional override, a line separator.
HOSTILE = "a\x1b[31m\x07b\r\x7f\x9b2J\u202ec\u2028d"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]")


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        (["show", "FILE"], 0),
        (["show", "FILE", "--json"], 0),
        (["rename", "FILE", HOSTILE, "New " + HOSTILE, "--dry-run"], 0),
        (["add", "FILE", HOSTILE, HOSTILE], 1),
        (["import", "FILE", HOSTILE], 1),
    ],
)
def test_control_characters_in_labels_are_escaped(run, tmp_path, command, ends):
    file = tmp_path / "labels.jsonl"
    LabelSet([Label(HOSTILE, HOSTILE, HOSTILE), Label("other", "Other")]).save(file)
    result = run("labels", *(file if word == "FILE" else word for word in command), ends=ends)
    assert not OBEYED.search(result.stdout + result.stderr)
    assert "\\u001b" in result.stdout + result.stderr or "\\x1b" in result.stderr


def test_control_characters_in_scores_are_escaped(run, saved_model):
    result = run("score", saved_model, "--label", HOSTILE, "--label", "Iron", input=f"iron \x9b {HOSTILE[:3]}\n")
    assert not OBEYED.search(result.stdout + result.stderr)
    answer = json.loads(result.stdout)
    assert sorted(answer["labels"]) == ["Iron", HOSTILE]
    assert "\x9b" in answer["text"]


@pytest.mark.parametrize("flag", [["--debug"], []])
def test_a_traceback_is_optional_and_hides_secrets_and_control_characters(run, saved_model, monkeypatch, flag):
    monkeypatch.setenv("WANDB_API_KEY", "irony-of-fate")
    message = run(*flag, "labels", "retire", saved_model, "irony-of-fate\x1b[31m", ends=1).stderr
    assert ("Traceback" in message) == bool(flag)
    assert "no label has the id '<secret>\\x1b[31m' among 5 labels" in message
    assert "irony-of-fate" not in message
    assert not OBEYED.search(message)


def test_the_shell_can_complete_commands(run):
    environment = {"_HF_GILE_COMPLETE": "complete_bash", "COMP_WORDS": "hf-gile labels sh", "COMP_CWORD": "2"}
    assert run(env=environment).stdout.split() == ["show"]


def test_tables_can_be_printed_as_json(run, saved_model):
    rows = [json.loads(line) for line in run("verify", saved_model, "--json").stdout.splitlines()]
    assert {row["status"] for row in rows} == {"same"}
    assert {"status", "sha256", "path"} == set(rows[0])


@pytest.mark.parametrize("group", [[], ["labels"], ["export"]])
def test_the_list_of_commands_truncates_no_sentence(run, group):
    commands = run(*group, "--help", env={"COLUMNS": "80"}).stdout.split("\nCommands:\n")[1]
    assert "..." not in commands
