"""Explains failed requests to the Hub, with advice."""

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import is_offline_mode
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RevisionNotFoundError

from ..masking import masked

_CONFLICT = OSError, "somebody else has pushed to {repo_id} meanwhile{response}: review the changes and push again"
_REFUSALS: dict[int, tuple[type[Exception], str]] = {
    401: (
        PermissionError,
        "the Hub needs a valid token for {repo_id}{response}: log in with `hf auth login`, set HF_TOKEN, or pass a "
        "token (--token) with write permission",
    ),
    403: (
        PermissionError,
        "this token may not write to {repo_id}{response}: use a token with the write role "
        "(https://huggingface.co/settings/tokens), or propose the change with create_pr=True, or --create-pr",
    ),
    404: (
        FileNotFoundError,
        "{repo_id}, or this branch of it, does not exist or is not visible with this token{response}",
    ),
    409: _CONFLICT,
    412: _CONFLICT,
    429: (ConnectionError, "the Hub limits the rate of requests{response}: push again later"),
}


@contextmanager
def explain_hub_errors(repo_id: str) -> Iterator[None]:
    """Converts errors of the Hub and of the connection to a sentence, with the original error as the cause.

    Args:
        repo_id: The requested repository.

    Raises:
        PermissionError: If the token is missing, invalid or lacks permission.
        FileNotFoundError: If the repository or branch does not exist or is not visible with this token.
        ConnectionError: If the Hub cannot be reached, is not available or limits the rate; or in offline mode.
        OSError: If the branch was changed meanwhile, or the Hub refused the request for another reason.
    """
    try:
        yield
    except (FileNotFoundError, PermissionError, ValueError):  # of this package, and of local files
        raise
    except Exception as error:
        # Errors in uploads of large files are wrapped, with the actual error as the cause.
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
        kind, sentence = _explain(cause, repo_id)
        raise kind(masked(sentence)) from error


def _explain(error: BaseException, repo_id: str) -> tuple[type[Exception], str]:
    if isinstance(error, HfHubHTTPError):
        response = _describe_response(error)
        status = error.response.status_code
        if status in _REFUSALS:
            kind, sentence = _REFUSALS[status]
            return kind, sentence.format(repo_id=repo_id, response=response)
        if status >= 500:
            return ConnectionError, f"the Hub is not available{response}: push again later"
        return OSError, f"the Hub refused the files of {repo_id}{response}"
    if isinstance(error, OfflineModeIsEnabled):
        return ConnectionError, "offline mode is on: unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE to push"
    if _is_interruption(error):
        name = type(error).__name__
        return ConnectionError, f"the connection to the Hub was interrupted ({name}: {error}): push again"
    return OSError, f"the push failed ({type(error).__name__}: {error})"


def explain_read_error(error: BaseException) -> str:
    """Explains in a sentence why a file of a model cannot be read from the Hub.

    Args:
        error: Error of a library; the response of the Hub may be its cause.
    """
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    for cause in chain:
        if isinstance(cause, HfHubHTTPError):
            return _explain_refused_read(cause)
    if is_offline_mode():
        return "offline mode is on, and it is not in the cache: unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE"
    for cause in chain[1:]:
        if _is_interruption(cause):
            return f"it cannot be reached ({type(cause).__name__}: {cause}): check the connection"
    return " ".join(str(error).split())


def _explain_refused_read(error: HfHubHTTPError) -> str:
    response = _describe_response(error)
    status = error.response.status_code
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    if isinstance(error, RevisionNotFoundError):
        return f"it has no such branch, tag or commit{response}"
    if status == 401 and "Invalid credentials" in str(error.server_message):
        return f"this token is not valid{response}: {log_in} to a valid token"
    if status in (401, 404):
        return (
            f"it does not exist or is not visible with this token{response}: check the name; if it is private, {log_in}"
        )
    if status == 403:
        return f"this token may not read it{response}: request access on its page, or {log_in} to another"
    return f"the Hub is not available{response}: try again later"


def _is_interruption(error: BaseException) -> bool:
    return isinstance(error, ConnectionError | TimeoutError) or type(error).__module__.startswith("httpx")


def _describe_response(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    return f" ({status}: {' '.join(error.server_message.split())})" if error.server_message else f" ({status})"
