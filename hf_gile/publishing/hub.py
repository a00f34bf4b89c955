"""Uploads saved models to the Hub in one atomic commit."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Literal

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, is_offline_mode
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from huggingface_hub.utils.sha import git_hash

from .. import __version__
from ..masking import masked
from ..models.labels_gile import LABELS_FILE
from ..models.saving_gile import check_folder, compute_digest
from ..writing import check_files
from .contents import UNKNOWN_REPOSITORY, is_managed, missing_parts, select_files

_CONFLICT = OSError, "somebody else has pushed to {name} meanwhile ({answer}): review the changes and push again"
_REFUSALS: dict[int, tuple[type[Exception], str]] = {
    401: (
        PermissionError,
        "{name} does not exist, or needs a valid token ({answer}): check the name; log in with `hf auth login`, set "
        "HF_TOKEN, or pass a token (--token); a push needs write permission",
    ),
    403: (
        PermissionError,
        "this token has no permission for {name} ({answer}): to read, request access on its page; to push, use a token "
        "with the write role (https://huggingface.co/settings/tokens), or propose the change with create_pr=True, or "
        "--create-pr",
    ),
    404: (
        FileNotFoundError,
        "{name}, or this branch of it, does not exist or is not visible with this token ({answer}): check the names; "
        "if it is private, log in with `hf auth login` or set HF_TOKEN",
    ),
    409: _CONFLICT,
    412: _CONFLICT,
    429: (ConnectionError, "the Hub limits the rate of requests ({answer}): try again later"),
}
"""Error and message by the status of an answer of the Hub."""


Status = Literal["new", "changed", "unchanged", "deleted"]
"""Effect of a push on a file."""


@dataclass(frozen=True)
class PlannedFile:
    """A file of a push.

    Attributes:
        path: Path in the repository.
        size: Size in bytes; for a file to be deleted, its size on the Hub.
        status: Effect of the push: `"new"`, `"changed"`, `"deleted"` or `"unchanged"`.
    """

    path: str
    size: int
    status: Status


@dataclass(frozen=True)
class Publication:
    """Result of a push, or of a dry run.

    Attributes:
        url: URL of the repository.
        commit: Id of the commit; None for a dry run, or if nothing has changed.
        pull_request: URL of the pull request, if requested.
        files: All files of the model, and deleted files of an earlier version, sorted by path.
        left_out: Files of the folder that are not uploaded, since they do not belong to a model.
        is_new: Whether the repository is new, as far as visible with this token, and offline.
    """

    url: str
    commit: str | None
    pull_request: str | None
    files: list[PlannedFile]
    left_out: list[str]
    is_new: bool

    @property
    def changes(self) -> list[PlannedFile]:
        """Returns the files that the push changes."""
        return [file for file in self.files if file.status != "unchanged"]


def push_folder(
    folder: str | PathLike[str],
    repo_id: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    commit_message: str | None = None,
    token: str | bool | None = None,
    dry_run: bool = False,
) -> Publication:
    """Uploads a saved model to the Hub in one atomic commit.

    Outdated files of an earlier version of the model (weights, code, index, labels, results, figures) are deleted in
    the same commit; other files in the repository stay. Only the files of a model are uploaded, chosen by their names,
    so no pickles, checkpoints, logs or data. Unchanged files are not sent again, and without changes there is no
    commit. A card without a `repo_id` gets the name of the repository.

    Args:
        folder: Folder written by `save` or `Trainer.save_model`.
        repo_id: `"user/name"` or `"organisation/name"`; created if missing. `HF_ENDPOINT` selects the Hub.
        private: Whether a new repository is private; by default as in its owner's settings. The visibility of an
            existing repository must match.
        revision: Branch, created from `main` if missing; `"refs/pr/3"` adds to a pull request.
        create_pr: Whether to open a pull request instead of changing the branch. For a public repository, this needs
            only a token with read permission.
        commit_message: Commit message; by default it contains the number of labels and the version of hf_gile.
        token: Access token; by default from `HF_TOKEN` or `hf auth login`.
        dry_run: Whether to report the changes without making them. If the repository is not visible, or offline, all
            files count as new.

    Raises:
        ValueError: If the folder is not a saved model, `repo_id` has no owner, `token` is malformed, the visibility of
            an existing repository differs, or `revision` is a tag or a commit.
        PermissionError: If the token is missing or lacks permission.
        FileNotFoundError: If the folder does not exist, or the repository or pull request is not visible with the
            token.
        ConnectionError: If the Hub cannot be reached or is not available.
        OSError: If the branch was changed meanwhile, or the Hub refused the files.
    """
    folder = Path(folder)
    _check_model(folder)
    _check_target(repo_id, revision, token)
    files, left_out = select_files(folder)
    api = HfApi(token=token)
    with _explained(repo_id), tempfile.TemporaryDirectory() as scratch:
        _name_repository(files, repo_id, Path(scratch))
        head = None
        if not (dry_run and is_offline_mode()):
            head = _find_head(api, repo_id, revision, private)
        is_new = head is None
        if is_new and not dry_run:
            head = _create(api, repo_id, revision, private)
        plan = _plan(files, {} if head is None else _list_files(api, repo_id, head))
        publication = Publication(f"{api.endpoint}/{repo_id}", None, None, plan, left_out, is_new)
        if head is None or dry_run:
            return publication
        if revision is not None and not revision.startswith("refs/") and not create_pr:
            api.create_branch(repo_id, branch=revision, revision=head, exist_ok=True)
        if not publication.changes:
            return publication
        changed = [file.path for file in publication.changes]
        added = [CommitOperationAdd(path, files[path]) for path in changed if path in files]
        deleted = [CommitOperationDelete(path) for path in changed if path not in files]
        # Not upload_folder, which may split a commit into several.
        info = api.create_commit(
            repo_id,
            [*added, *deleted],
            commit_message=commit_message or _describe(folder),
            revision=revision,
            create_pr=create_pr,
            parent_commit=head,
        )
        return replace(publication, commit=info.oid, pull_request=info.pr_url)


def _check_model(folder: Path) -> None:
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}: pass the folder of a saved model")
    check_folder(folder)
    missing = missing_parts(folder)
    if missing:
        raise ValueError(f"{folder} is not a complete saved GILE model: it lacks {'; '.join(missing)}")
    check_files(folder)


def _check_target(repo_id: str, revision: str | None, token: str | bool | None) -> None:
    """Checks what the Hub would refuse without advice, before any request."""
    if not isinstance(repo_id, str) or repo_id.count("/") != 1:
        raise ValueError(f"repo_id must be 'user/name' or 'organisation/name', got {repo_id!r}")
    validate_repo_id(repo_id)
    if revision is not None and re.fullmatch(r"[0-9a-f]{40}", revision):
        raise ValueError(f"revision {revision} is a commit, which cannot be changed: pass a branch")
    if isinstance(token, str) and not re.fullmatch(r"[!-~]+", token):
        # The HTTP library would report it too, but show the token.
        raise ValueError("token must not contain spaces or line breaks: pass the token alone")


def _find_head(api: HfApi, repo_id: str, revision: str | None, private: bool | None) -> str | None:
    """Returns the commit of the branch, or its starting point; None if no repository is visible."""
    try:
        info = api.model_info(repo_id)
    except HfHubHTTPError as error:
        # Without a token, the Hub gives the same answer for private and missing repositories.
        is_hidden = error.response.status_code == 401 and "Invalid credentials" not in str(error.server_message)
        if isinstance(error, RepositoryNotFoundError) or is_hidden:
            return None
        raise
    if private is not None and bool(info.private) != private:
        kinds = {True: "private", False: "public"}
        raise ValueError(
            f"{repo_id} exists and is {kinds[not private]}, not {kinds[private]} as requested: change its settings on "
            "the Hub, or do not set the visibility (private=None, or without --private and --public)"
        )
    if revision is None:
        return str(info.sha)
    if revision.startswith("refs/"):
        return str(api.model_info(repo_id, revision=revision).sha)
    refs = api.list_repo_refs(repo_id)
    if any(tag.name == revision for tag in refs.tags):
        raise ValueError(f"revision {revision!r} is a tag of {repo_id}, which cannot be changed: pass a branch")
    heads = {branch.name: branch.target_commit for branch in refs.branches}
    return heads.get(revision, str(info.sha))


def _create(api: HfApi, repo_id: str, revision: str | None, private: bool | None) -> str:
    """Creates a repository; returns its first commit."""
    api.create_repo(repo_id, private=private, exist_ok=True)
    head = _find_head(api, repo_id, revision, private)
    if head is None:
        raise FileNotFoundError(
            f"repository {repo_id} exists, but is not visible with this token: use another token, or another name"
        )
    return head


def _list_files(api: HfApi, repo_id: str, revision: str) -> dict[str, RepoFile]:
    tree = api.list_repo_tree(repo_id, recursive=True, revision=revision)
    files = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
    if ".gitignore" in files:
        raise ValueError(f"{repo_id} has a .gitignore, so the Hub may leave out files: delete it there")
    return files


def _describe(folder: Path) -> str:
    """Returns the default commit message."""
    labels = (folder / LABELS_FILE).read_bytes().count(b"\n")
    return f"GILE model with {labels:,} labels, by hf_gile {__version__}"


def _name_repository(files: dict[str, Path], repo_id: str, scratch: Path) -> None:
    """Inserts the name of the repository into the uploaded card, if it has none."""
    if "README.md" not in files:
        return
    card = files["README.md"].read_bytes()
    if UNKNOWN_REPOSITORY.encode() in card:
        files["README.md"] = scratch / "README.md"
        files["README.md"].write_bytes(card.replace(UNKNOWN_REPOSITORY.encode(), repo_id.encode()))


def _plan(files: dict[str, Path], remote_files: dict[str, RepoFile]) -> list[PlannedFile]:
    plan = [
        PlannedFile(path, file.stat().st_size, _compare(file, remote_files.get(path))) for path, file in files.items()
    ]
    for path, remote in remote_files.items():
        if path not in files and is_managed(path):
            plan.append(PlannedFile(path, remote.size, "deleted"))
    return sorted(plan, key=lambda file: file.path)


def _compare(file: Path, remote: RepoFile | None) -> Status:
    """Returns the effect of a push on a file of the folder."""
    if remote is None:
        return "new"
    if file.stat().st_size != remote.size:
        return "changed"
    if remote.lfs is None:
        is_same = git_hash(file.read_bytes()) == remote.blob_id
    else:
        is_same = compute_digest(file) == remote.lfs.sha256
    return "unchanged" if is_same else "changed"


@contextmanager
def _explained(repo_id: str) -> Iterator[None]:
    """Converts errors of the Hub and of the connection to a sentence, with the original error as the cause."""
    try:
        yield
    except (FileNotFoundError, PermissionError, ValueError):  # of this package, and of local files
        raise
    except Exception as error:
        kind, sentence = explain(error, repo_id)
        raise kind(masked(sentence)) from error


def explain(error: BaseException, name: str) -> tuple[type[Exception], str]:
    """Explains an error of the Hub or of the connection.

    Args:
        error: Error of a library; the answer of the Hub may be its cause.
        name: The requested repository.

    Returns:
        The error to raise instead, and its message with advice.
    """
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    for cause in chain:
        if isinstance(cause, HfHubHTTPError):
            return _explain_answer(cause, name)
    if is_offline_mode():
        advice = "unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE"
        return ConnectionError, f"offline mode is on, so {name} cannot be reached: {advice}"
    for cause in chain:
        if isinstance(cause, ConnectionError | TimeoutError) or type(cause).__module__.startswith("httpx"):
            problem = f"{type(cause).__name__}: {cause}"
            return ConnectionError, f"the connection to the Hub was interrupted ({problem}): try again"
    return OSError, " ".join(f"{type(error).__name__}: {error}".split())


def _explain_answer(error: HfHubHTTPError, name: str) -> tuple[type[Exception], str]:
    status = error.response.status_code
    answer = " ".join(f"{status}: {error.server_message or error.response.reason_phrase}".split())
    if status in _REFUSALS:
        kind, sentence = _REFUSALS[status]
        return kind, sentence.format(name=name, answer=answer)
    if status >= 500:
        return ConnectionError, f"the Hub is not available ({answer}): try again later"
    return OSError, f"the Hub refused the files of {name} ({answer})"
