"""What went wrong with the Hub, in a sentence that says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

# What this package says itself, and files of this machine.
_OWN = (FileNotFoundError, PermissionError, ValueError)


@contextmanager
def explained(repo_id: str, hint: str = "") -> Iterator[None]:
    """Turns what the Hub and the way to it answer into one sentence, with the library's own error as the cause.

    Args:
        repo_id: The repository asked for.
        hint: What else to say, such as where the files are.

    Raises:
        PermissionError: No token, one that the Hub does not know, or one that may not do this.
        FileNotFoundError: There is no such repository or branch, or none that this token may see.
        ConnectionError: The Hub is not reached, is in trouble, or asks to wait; or offline mode.
        OSError: Somebody else pushed meanwhile, or the Hub refused for another reason.
        ValueError: One raised within, with the hint; as are the first two.
    """
    tail = f"; {hint}" if hint else ""
    kind: type[Exception]
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"interrupted{tail}") from error
    except _OWN as error:
        kind = next(one for one in _OWN if isinstance(error, one))
        raise kind(f"{error}{tail}") from error
    except Exception as error:
        # The upload of a large file tells of its trouble as a cause.
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
        if isinstance(cause, HfHubHTTPError):
            kind, sentence = _answered(cause, repo_id)
        elif isinstance(cause, OfflineModeIsEnabled):
            kind, sentence = (
                ConnectionError,
                "offline mode is on: unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE to push",
            )
        elif isinstance(cause, ConnectionError | TimeoutError) or type(cause).__module__.startswith("httpx"):
            kind = ConnectionError
            sentence = f"the connection to the Hub broke off ({type(cause).__name__}: {cause}): push again"
        else:
            kind, sentence = OSError, f"the push failed ({type(cause).__name__}: {cause})"
        raise kind(f"{sentence}{tail}") from error


def _answered(error: HfHubHTTPError, repo_id: str) -> tuple[type[Exception], str]:
    status = error.response.status_code
    said = f" ({status}: {' '.join(error.server_message.split())})" if error.server_message else f" ({status})"
    if status == 401:
        return PermissionError, (
            f"the Hub takes no token, or not this one, for {repo_id}{said}: log in with `hf auth login`, set HF_TOKEN, "
            "or pass token=, with write permission"
        )
    if status == 403:
        return PermissionError, (
            f"this token may not write to {repo_id}{said}: take one with the write role, of a user who may write to "
            f"{repo_id.split('/')[0]} (https://huggingface.co/settings/tokens), or propose the change with "
            "create_pr=True"
        )
    if status == 404:
        return FileNotFoundError, f"there is no {repo_id}, or no such branch of it, that this token may see{said}"
    if status in (409, 412):
        return OSError, f"somebody else pushed to {repo_id} meanwhile{said}: look at what is new there, and push again"
    if status == 429:
        return ConnectionError, f"the Hub asks to wait{said}: push again later"
    if status >= 500:
        return ConnectionError, f"the Hub is in trouble{said}: push again later"
    return OSError, f"the Hub refused the files of {repo_id}{said}"
