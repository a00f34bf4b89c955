"""Error messages for models that cannot be loaded from the Hub."""

import pytest
from huggingface_hub import constants
from loopback_hub import Fault
from transformers.utils.hub import cached_file

from hf_gile.publishing.hub_errors import explain_read_error


@pytest.fixture
def why(hub, tmp_path):
    """Returns the error message for a file of a repository."""
    hub.create("ada/milk", private=True)

    def ask(**options):
        with pytest.raises(OSError, match=r".") as error:
            cached_file("ada/milk", "labels.jsonl", cache_dir=tmp_path / "cache", **options)
        return explain_read_error(error.value)

    return ask


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (
            False,
            "it does not exist or is not visible with this token (401: Invalid username or password.): check the name; "
            "if it",
        ),
        (
            "hf_bob",
            "it does not exist or is not visible with this token (404: Repository not found): check the name; if it is "
            "priv",
        ),
        ("hf_nobody", "this token is not valid (401: Invalid credentials in Authorization header): log in with `h"),
    ],
    ids=["no token", "another's token", "no token of the Hub"],
)
def test_the_error_for_a_hidden_model_suggests_logging_in(why, token, reason):
    message = why(token=token)
    assert message.startswith(reason)
    assert "log in with `hf auth login` or set HF_TOKEN" in message


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "this token may not read it (403: simulated error): request access on its page, or log in with"),
        (500, "the Hub is not available (500: simulated error): try again later"),
        (429, "the Hub is not available (429: simulated error): try again later"),
    ],
)
def test_the_error_repeats_the_answer_of_the_hub(hub, why, status, reason):
    hub.faults = [Fault("HEAD .*", status=status, times=20)]
    assert why().startswith(reason)


def test_missing_revisions_are_reported(why):
    assert why(revision="next") == "it has no such branch, tag or commit (404: Invalid rev id: next)"


def test_missing_files_raise_the_error_of_the_library(why):
    assert "does not appear to have a file named labels.jsonl" in why()


def test_the_error_mentions_offline_mode(why, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert why() == "offline mode is on, and it is not in the cache: unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE"
