"""Secrets never appear in cards, reports, settings or errors."""

import pytest

from hf_gile.masking import masked
from hf_gile.publishing import CardInfo, Report
from hf_gile.publishing.card import write_card
from hf_gile_cli.running import explain_error

TOKEN = "mellon-und-tritt-ein"
RANDOM = "aB3dE6gH9" * 4
HUB = f"hf_{RANDOM}"


@pytest.mark.parametrize(
    "text",
    [
        f"python train.py --hub_token {TOKEN} --seed 1",
        f"WANDB_API_KEY={TOKEN} python train.py",
        f"got {{'hub_token': '{TOKEN}', 'seed': 1}}",
        f"https://ada:{TOKEN}@hub.example.org/a.csv",
        f"https://hub.example.org/a.csv?year=1815&access_token={TOKEN}#rows",
        f"401 for 'Authorization: Bearer {TOKEN}'",
        f"unknown arguments ['--hub_tokn', '{HUB}']",
        f"api_key={TOKEN} or api-key: {TOKEN}",
        f"curl -H 'X-Api-Key: {TOKEN}'",
        f"Authorization: Token {TOKEN}",
        f"postgres://ada:{TOKEN}@at@db.example.org/x",
        f"-----BEGIN RSA PRIVATE KEY-----\n{TOKEN}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_secret_is_masked(text):
    hidden = masked(text)
    assert "<secret>" in hidden
    assert TOKEN not in hidden
    assert HUB not in hidden
    assert masked(hidden) == hidden


@pytest.mark.parametrize(
    "secret",
    [
        *(f"{prefix}_{RANDOM}" for prefix in ("hf", "ghp", "github_pat", "npm", "sk_live")),
        *(f"{prefix}-{RANDOM}" for prefix in ("glpat", "sk-proj", "pypi")),
        f"xoxb-123456789012-{RANDOM}",
        "AKIAIOSFODNN7EXAMPLE",
        f"AIza{RANDOM[:35]}",
        f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{RANDOM}",
        "Basic YWRhOmxvdmVsYWNlMTgxNQ==",
        f"Bearer {RANDOM}",
    ],
)
def test_a_credential_is_known_by_its_form(secret):
    for frame in ("{}", "trained with {}.", "'{}'", "x={};y", "Authorization: {}"):
        hidden = masked(frame.format(secret))
        assert "<secret>" in hidden
        assert secret.split()[-1] not in hidden
        assert RANDOM not in hidden


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --max_tokens 5 --average_tokens_across_devices true --key_frames 3",
        "Secret: a novel; Password, the; monkey: an animal; token: a word",
        "https://hub.example.org/a.csv?keys=3&page=2 and ada@example.org",
        "Basic authorization; Basic Instructions for Beginners; basic knowledge; Authorization: basic knowledge",
        "Task-oriented-dialogue-systems-of-2026; sk-learn-based-classifiers-for-texts; risk-2026-Assessment-Of-Banks",
        "Low-key: calm; turn-key: ready; passphrase: a long password; API keys: how to use them; Public-key: a key",
        "npm_internationalization, ghs_abbreviationsandmore",
        "-----BEGIN CERTIFICATE-----",
        "AutoModel.from_pretrained(name, token=True, use_auth_token=None)",
    ],
)
def test_text_without_secrets_is_unchanged(text):
    assert masked(text) == text


def test_the_value_of_a_secret_variable_is_masked_everywhere(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", TOKEN)
    assert masked(f"--hub_tok {TOKEN}") == "--hub_tok <secret>"


def test_the_value_of_a_secret_flag_is_masked_everywhere(monkeypatch):
    monkeypatch.setattr("sys.argv", ["hf-gile", "push", "model", "ada/gile", "--token", TOKEN])
    assert explain_error(OSError(f"the header b'{TOKEN}' is illegal")) == "the header b'<secret>' is illegal"


def test_no_field_of_a_card_or_report_keeps_a_secret():
    secret, word = f"ghp_{RANDOM}", "ghp"
    texts = dict.fromkeys(("model_name", "summary", "dataset_name", "dataset_license", "citation"), secret)
    assert word not in repr(CardInfo(**texts, limits=["ordinary", f"needs {secret}"], tags=[secret]))
    report = Report(metrics={}, labels=[], dataset=secret, split=secret, versions={secret: secret})
    assert word not in report.to_json()


def test_the_files_of_a_card_contain_no_secret_that_was_added_later(make_model, tmp_path):
    info, report = CardInfo(repo_id="ada/gile"), Report(metrics={"micro_f1": 0.5}, labels=[], documents=3)
    report.dataset = f"glpat-{RANDOM}"
    info.limits.append(f"needs {report.dataset}")
    write_card(tmp_path, make_model()[0], info, report)
    report.save(tmp_path / "results.json")
    for name in ("README.md", "card.yaml", "results.json"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert RANDOM not in text
        assert "secret" in text


def test_a_message_does_not_quote_a_whole_file():
    assert len(explain_error(ValueError("a" * 99_999))) < 5000
    assert len(explain_error(KeyError("a" * 99_999))) < 5000
