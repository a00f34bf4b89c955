"""Explains failed requests to the Hub, with advice."""

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import is_offline_mode
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RevisionNotFoundError

from ..masking import masked

# Errors of this package, and of local files.
_LOCAL_ERRORS = (FileNotFoundError, PermissionError, ValueError)


@contextmanager
def explain_hub_errors(repo_id: str, hint: str = "") -> Iterator[None]:
    """Converts errors of the Hub and of the connection to a sentence, with the original error as the cause.

    Args:
        repo_id: The requested repository.
        hint: Additional advice, such as the location of the files.

    Raises:
        PermissionError: If the token is missing, invalid or lacks permission.
        FileNotFoundError: If the repository or branch does not exist or is not visible with this token.
        ConnectionError: If the Hub cannot be reached, is not available or limits the rate; or in offline mode.
        OSError: If the branch was changed meanwhile, or the Hub refused the request for another reason.
        ValueError: If raised in the context; the hint is added.
    """
    suffix = f"; {hint}" if hint else ""
    kind: type[Exception]
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"interrupted{suffix}") from error
    except _LOCAL_ERRORS as error:
        kind = next(local for local in _LOCAL_ERRORS if isinstance(error, local))
        raise kind(f"{error}{suffix}") from error
    except Exception as error:
        # Errors in uploads of large files are wrapped, with the actual error as the cause.
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
        if isinstance(cause, HfHubHTTPError):
            kind, sentence = _explain_response(cause, repo_id)
        elif isinstance(cause, OfflineModeIsEnabled):
            kind, sentence = (
                ConnectionError,
                "offline mode is on: unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE to push",
            )
        elif isinstance(cause, ConnectionError | TimeoutError) or type(cause).__module__.startswith("httpx"):
            kind = ConnectionError
            sentence = f"the connection to the Hub was interrupted ({type(cause).__name__}: {cause}): push again"
        else:
            kind, sentence = OSError, f"the push failed ({type(cause).__name__}: {cause})"
        raise kind(masked(f"{sentence}{suffix}")) from error


def explain_read_error(error: BaseException) -> str:
    """Explains in a sentence why a file of a model cannot be read from the Hub.

    Args:
        error: Error of a library; the response of the Hub may be its cause.
    """
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    for cause in chain:
        if isinstance(cause, RevisionNotFoundError):
            return f"it has no such branch, tag or commit{_describe_response(cause)}"
        if isinstance(cause, HfHubHTTPError):
            status = cause.response.status_code
            if status == 401 and "Invalid credentials" in str(cause.server_message):
                return f"this token is not valid{_describe_response(cause)}: {log_in} to a valid token"
            if status in (401, 404):
                problem = f"it does not exist or is not visible with this token{_describe_response(cause)}"
                return f"{problem}: check the name; if it is private, {log_in}"
            if status == 403:
                response = _describe_response(cause)
                return f"this token may not read it{response}: request access on its page, or {log_in} to another"
            return f"the Hub is not available{_describe_response(cause)}: try again later"
    if is_offline_mode():
        return "offline mode is on, and it is not in the cache: unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE"
    for cause in chain[1:]:
        if isinstance(cause, ConnectionError | TimeoutError) or type(cause).__module__.startswith("httpx"):
            return f"it cannot be reached ({type(cause).__name__}: {cause}): check the connection"
    return " ".join(str(error).split())


def _describe_response(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    return f" ({status}: {' '.join(error.server_message.split())})" if error.server_message else f" ({status})"


def _explain_response(error: HfHubHTTPError, repo_id: str) -> tuple[type[Exception], str]:
    status, response = error.response.status_code, _describe_response(error)
    if status == 401:
        return PermissionError, (
            f"the Hub needs a valid token for {repo_id}{response}: log in with `hf auth login`, set HF_TOKEN, or pass "
            "a token (--token) with write permission"
        )
    if status == 403:
        return PermissionError, (
            f"this token may not write to {repo_id}{response}: use a token with the write role and of a user who may "
            f"write to {repo_id.split('/')[0]} (https://huggingface.co/settings/tokens), or propose the change with "
            "create_pr=True, or --create-pr"
        )
    if status == 404:
        return (
            FileNotFoundError,
            f"{repo_id}, or this branch of it, does not exist or is not visible with this token{response}",
        )
    if status in (409, 412):
        return OSError, f"somebody else has pushed to {repo_id} meanwhile{response}: review the changes and push again"
    if status == 429:
        return ConnectionError, f"the Hub limits the rate of requests{response}: push again later"
    if status >= 500:
        return ConnectionError, f"the Hub is not available{response}: push again later"
    return OSError, f"the Hub refused the files of {repo_id}{response}"
