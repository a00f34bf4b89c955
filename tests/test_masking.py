"""Secrets never appear in cards, reports, settings or errors."""

import json

import pytest

from hf_gile.masking import masked
from hf_gile.publishing import CardInfo, Report
from hf_gile_cli.running import explain_error

TOKEN = "mellon-und-tritt-ein"
HUB = "hf_" + "aB3dE6gH9" * 4


@pytest.mark.parametrize(
    "text",
    [
        f"python train.py --hub_token {TOKEN} --seed 1",
        f"python train.py --push-to-hub-token={TOKEN}",
        f"hf-gile push model ada/gile --token '{TOKEN}'",
        f"WANDB_API_KEY={TOKEN} python train.py",
        f"settings.yaml: hub_token: {TOKEN}",
        f"got {{'hub_token': '{TOKEN}', 'seed': 1}}",
        f"https://ada:{TOKEN}@hub.example.org/a.csv",
        f"https://{TOKEN}@hub.example.org/a.csv",
        f"https://hub.example.org/a.csv?year=1815&access_token={TOKEN}#rows",
        f"https://bucket.example.org/a.csv?X-Amz-Signature={TOKEN}",
        f"401 for 'Authorization: Bearer {TOKEN}'",
        f"unknown arguments ['--hub_tokn', '{HUB}']",
    ],
)
def test_a_secret_is_masked(text):
    hidden = masked(text)
    assert "<secret>" in hidden
    assert TOKEN not in hidden
    assert HUB not in hidden
    assert masked(hidden) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --max_tokens 5 --average_tokens_across_devices true --key_frames 3",
        "Secret: a novel; Password, the; monkey: an animal; token: a word",
        "https://hub.example.org/a.csv?keys=3&page=2 and ada@example.org",
        "hf_gile, hf_gile_cli",
    ],
)
def test_text_without_secrets_is_unchanged(text):
    assert masked(text) == text


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "MLFLOW_TRACKING_PASSWORD"])
def test_the_value_of_a_secret_variable_is_masked_everywhere(monkeypatch, name):
    monkeypatch.setenv(name, TOKEN)
    assert masked(f"--hub_tok {TOKEN}") == "--hub_tok <secret>"


def test_the_value_of_a_secret_flag_is_masked_everywhere(monkeypatch):
    monkeypatch.setattr("sys.argv", ["hf-gile", "push", "model", "ada/gile", "--token", TOKEN])
    assert explain_error(OSError(f"the header b'{TOKEN}' is illegal")) == "the header b'<secret>' is illegal"


def test_cards_and_reports_contain_no_secrets():
    command = f"hf-gile train --hub_token {TOKEN}"
    info = CardInfo(training_command=command, training_data=f"https://ada:{TOKEN}@example.org/a.csv")
    assert info.training_command == "hf-gile train --hub_token <secret>"
    assert info.training_data == "https://<secret>@example.org/a.csv"
    report = Report(metrics={}, labels=[], command=command)
    assert json.loads(report.to_json())["command"] == "hf-gile train --hub_token <secret>"
