"""What went wrong with the Hub, in a sentence that says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import is_offline_mode
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RevisionNotFoundError

from ..masking import masked

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
        raise kind(masked(f"{sentence}{tail}")) from error


def why_not_read(error: BaseException) -> str:
    """Says in one sentence why the Hub does not give a file of a model to read.

    Args:
        error: What a library raised; the answer of the Hub may be behind it, as its cause.
    """
    chain = [error]
    while (behind := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(behind)
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    for one in chain:
        if isinstance(one, RevisionNotFoundError):
            return f"it has no such branch, tag or commit{_said(one)}"
        if isinstance(one, HfHubHTTPError):
            status = one.response.status_code
            if status == 401 and "Invalid credentials" in str(one.server_message):
                return f"it does not know this token{_said(one)}: {log_in} to one that is valid"
            if status in (401, 404):
                return f"it is not there, or not for this token{_said(one)}: check the name; if it is private, {log_in}"
            if status == 403:
                return f"this token may not read it{_said(one)}: ask for access on its page, or {log_in} to another"
            return f"the Hub is in trouble{_said(one)}: try again later"
    if is_offline_mode():
        return "offline mode is on, and there is no copy of it here: unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE"
    for one in chain[1:]:
        if isinstance(one, ConnectionError | TimeoutError) or type(one).__module__.startswith("httpx"):
            return f"it is not reached ({type(one).__name__}: {one}): check the connection"
    return " ".join(str(error).split())


def _said(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    return f" ({status}: {' '.join(error.server_message.split())})" if error.server_message else f" ({status})"


def _answered(error: HfHubHTTPError, repo_id: str) -> tuple[type[Exception], str]:
    status, said = error.response.status_code, _said(error)
    if status == 401:
        return PermissionError, (
            f"the Hub takes no token, or not this one, for {repo_id}{said}: log in with `hf auth login`, set HF_TOKEN, "
            "or pass token=, or --token, with write permission"
        )
    if status == 403:
        return PermissionError, (
            f"this token may not write to {repo_id}{said}: take one with the write role, of a user who may write to "
            f"{repo_id.split('/')[0]} (https://huggingface.co/settings/tokens), or propose the change with "
            "create_pr=True, or --create-pr"
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
