"""Documented commands use existing flags; tests of single pages run the quick ones."""

import importlib
import re
import shlex
from dataclasses import fields

import pytest
from pages import ROOT, blocks
from transformers import TrainingArguments

COMMAND = re.compile(r"(?:hf-gile train(?: --recipe (\w+))?|recipes/train_(\w+)\.py)(.*)")
OF_ALL = {field.name for field in fields(TrainingArguments)} | {"config", "recipe", "where"}
COMMANDS = [
    pytest.param(words, id=f"{page.name}: {line[:60]}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for block in blocks(page, "bash")
    for line in block.replace("\\\n", " ").splitlines()
    if "--" in (words := line.split(" #")[0]) and COMMAND.search(words)
]


@pytest.mark.parametrize("line", COMMANDS)
def test_documented_commands_use_existing_flags(line):
    of_command, of_script, after = COMMAND.search(line).groups()
    module = importlib.import_module(f"train_{of_command or of_script or 'table'}")
    known = OF_ALL | {field.name for field in fields(module.Recipe)}
    flags = {word[2:].split("=")[0].replace("-", "_") for word in shlex.split(after) if word.startswith("--")}
    assert flags <= known, flags - known
