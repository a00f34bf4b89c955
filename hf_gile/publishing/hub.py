"""Uploads saved models to the Hub in one atomic commit."""

import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Literal

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, HfApi, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils.sha import git_hash

from .. import __version__
from ..label_index import LabelIndex
from ..models import GileForSequenceClassification, GileProcessor
from ..models.labels_gile import LABELS_FILE, LabelSet
from ..models.saving_gile import check_folder, compute_digest
from ..writing import check_files
from .card_info import Card, CardInfo
from .contents import UNKNOWN_REPOSITORY, is_managed, missing_parts, select_files
from .folder import check_saveable, save
from .hub_errors import explain_hub_errors
from .report import Report

Status = Literal["new", "changed", "unchanged", "deleted"]


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
        is_new: Whether the repository is new, as far as visible with this token.
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


def publish(
    model: GileForSequenceClassification,
    processor: GileProcessor,
    label_set: LabelSet | None,
    repo_id: str,
    *,
    report: Report | None = None,
    card: Card = None,
    index: bool | LabelIndex = True,
    private: bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    commit_message: str | None = None,
    token: str | bool | None = None,
    dry_run: bool = False,
) -> Publication:
    """Uploads a model to the Hub in one atomic commit: weights, code, processor, labels, index, results and card.

    The model is first saved to a temporary folder. If the upload fails, this folder is not removed, and the error names
    it for `hf-gile push FOLDER REPO` or `push_folder`.

    Args:
        model: A `GileForSequenceClassification`. It is not changed.
        processor: The `GileProcessor` of the model.
        label_set: As in `save`; None for the labels stored with the model.
        repo_id: `"user/name"` or `"organisation/name"`; created if missing.
        report: As in `save`.
        card: As in `save`.
        index: As in `save`.
        private: As in `push_folder`.
        revision: As in `push_folder`.
        create_pr: As in `push_folder`.
        commit_message: As in `push_folder`.
        token: As in `push_folder`.
        dry_run: As in `push_folder`.

    Raises:
        ValueError: As in `save` and `push_folder`.
        PermissionError: As in `push_folder`.
        FileNotFoundError: As in `push_folder`.
        ConnectionError: As in `push_folder`.
        OSError: As in `push_folder`.

    Example:
        ```python
        published = publish(model, processor, None, "user/gile-mesh", private=True, dry_run=True)
        for file in published.files:
            print(file.status, file.size, file.path)
        ```
    """
    target = _Target(repo_id, revision, create_pr, private, token)
    check_saveable(model, label_set, report, card)
    folder = Path(tempfile.mkdtemp(prefix="hf_gile-"))
    keep = False
    try:
        card = _for_repository(card, repo_id)
        save(folder, model, processor, label_set, index=index, report=report, card=card)
        keep = not dry_run
        hint = f"the model is saved in {folder}: {target.command(folder)}" if keep else ""
        publication = target.push(folder, commit_message, dry_run, hint)
        keep = False
    finally:
        if not keep:
            shutil.rmtree(folder)
    return publication


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
        dry_run: Whether to report the changes without making them. If the repository is not visible, all files count
            as new.

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
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}: pass the folder of a saved model")
    check_folder(folder)
    missing = missing_parts(folder)
    if missing:
        raise ValueError(f"{folder} is not a complete saved GILE model: it lacks {'; '.join(missing)}")
    check_files(folder)
    return _Target(repo_id, revision, create_pr, private, token).push(folder, commit_message, dry_run)


def _for_repository(card: Card, repo_id: str) -> Card:
    """Adds the repository to the information about a model; an existing card is not changed."""
    if card is not None and not isinstance(card, CardInfo):
        return card
    card = CardInfo() if card is None else card
    return card if card.repo_id else replace(card, repo_id=repo_id)


@dataclass(frozen=True)
class _Target:
    """A branch of a repository to push to."""

    repo_id: str
    revision: str | None
    create_pr: bool
    private: bool | None
    token: str | bool | None = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.repo_id, str) or self.repo_id.count("/") != 1:
            raise ValueError(f"repo_id must be 'user/name' or 'organisation/name', got {self.repo_id!r}")
        hf_hub_url(self.repo_id, "README.md")  # raises an error for an invalid name
        if self.revision is not None and re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise ValueError(f"revision {self.revision} is a commit, which cannot be changed: pass a branch")
        if isinstance(self.token, str) and not re.fullmatch(r"[!-~]+", self.token):
            # The HTTP library would report it too, but show the token.
            raise ValueError("token must not contain spaces or line breaks: pass the token alone")

    @property
    def api(self) -> HfApi:
        return HfApi(token=self.token)

    def command(self, folder: Path) -> str:
        """Returns the shell command that pushes a folder to this target."""
        words = ["hf-gile", "push", str(folder), self.repo_id]
        if self.private is not None:
            words.append("--private" if self.private else "--public")
        if self.revision is not None:
            words += ["--revision", self.revision]
        if self.create_pr:
            words.append("--create-pr")
        return shlex.join(words)

    def push(self, folder: Path, message: str | None, dry_run: bool, hint: str = "") -> Publication:
        files, left_out = select_files(folder)
        if message is None:
            labels = (folder / LABELS_FILE).read_bytes().count(b"\n")
            message = f"GILE model with {labels:,} labels, by hf_gile {__version__}"
        url = f"{self.api.endpoint}/{self.repo_id}"
        commit = pull_request = None
        with explain_hub_errors(self.repo_id, hint), tempfile.TemporaryDirectory() as scratch:
            _name_repository(files, self.repo_id, Path(scratch))
            head = self._find_head()
            is_new = head is None
            if is_new and not dry_run:
                self.api.create_repo(self.repo_id, private=self.private, exist_ok=True)
                head = self._find_head()
                if head is None:
                    raise FileNotFoundError(
                        f"repository {self.repo_id} exists, but is not visible with this token: use another token or "
                        "another name"
                    )
            plan = _plan(files, self._list_files(head))
            if head is not None and not dry_run:
                self._create_branch(head)
                if any(file.status != "unchanged" for file in plan):
                    info = self._commit(head, files, plan, message)
                    commit = info.oid
                    pull_request = info.pr_url
        return Publication(url, commit, pull_request, plan, left_out, is_new)

    def _find_head(self) -> str | None:
        """Returns the commit of the branch, or its starting point; None if no repository is visible."""
        try:
            info = self.api.model_info(self.repo_id)
        except HfHubHTTPError as error:
            # Without a token, the Hub gives the same answer for private and missing repositories.
            is_hidden = error.response.status_code == 401 and "Invalid credentials" not in str(error.server_message)
            if isinstance(error, RepositoryNotFoundError) or is_hidden:
                return None
            raise
        if self.private is not None and bool(info.private) != self.private:
            actual = "private" if info.private else "public"
            requested = "private" if self.private else "public"
            raise ValueError(
                f"{self.repo_id} exists and is {actual}, not {requested} as requested: change its settings on the Hub, "
                "or do not set the visibility (private=None, or without --private and --public)"
            )
        if self.revision is None:
            return str(info.sha)
        if self.revision.startswith("refs/"):
            return str(self.api.model_info(self.repo_id, revision=self.revision).sha)
        refs = self.api.list_repo_refs(self.repo_id)
        if any(tag.name == self.revision for tag in refs.tags):
            raise ValueError(
                f"revision {self.revision!r} is a tag of {self.repo_id}, which cannot be changed: pass a branch"
            )
        heads = {branch.name: branch.target_commit for branch in refs.branches}
        return heads.get(self.revision, str(info.sha))

    def _create_branch(self, head: str) -> None:
        """Creates the branch if it is missing, but not as the target of a pull request."""
        if self.revision is not None and not self.revision.startswith("refs/") and not self.create_pr:
            self.api.create_branch(self.repo_id, branch=self.revision, revision=head, exist_ok=True)

    def _list_files(self, head: str | None) -> dict[str, RepoFile]:
        if head is None:
            return {}
        tree = self.api.list_repo_tree(self.repo_id, recursive=True, revision=head)
        files = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
        if ".gitignore" in files:
            raise ValueError(f"{self.repo_id} has a .gitignore, so the Hub may leave out files: delete it there")
        return files

    def _commit(self, head: str, files: dict[str, Path], plan: list[PlannedFile], message: str) -> CommitInfo:
        operations: list[CommitOperationAdd | CommitOperationDelete] = []
        for file in plan:
            if file.status == "deleted":
                operations.append(CommitOperationDelete(file.path))
            elif file.status != "unchanged":
                operations.append(CommitOperationAdd(file.path, files[file.path]))
        # Not upload_folder, which may split a commit into several.
        return self.api.create_commit(
            self.repo_id,
            operations,
            commit_message=message,
            revision=self.revision,
            create_pr=self.create_pr,
            parent_commit=head,
        )


def _name_repository(files: dict[str, Path], repo_id: str, scratch: Path) -> None:
    """Inserts the name of the repository into the uploaded card, if it has none."""
    if "README.md" not in files:
        return
    try:
        text = files["README.md"].read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{files['README.md']} is not UTF-8 ({error.reason}): convert it") from None
    if UNKNOWN_REPOSITORY in text:
        files["README.md"] = scratch / "README.md"
        files["README.md"].write_bytes(text.replace(UNKNOWN_REPOSITORY, repo_id).encode())


def _plan(files: dict[str, Path], remote_files: dict[str, RepoFile]) -> list[PlannedFile]:
    plan = []
    for path, file in files.items():
        remote = remote_files.get(path)
        status: Status = "changed"
        if remote is None:
            status = "new"
        elif _is_same(file, remote):
            status = "unchanged"
        plan.append(PlannedFile(path, file.stat().st_size, status))
    plan += [
        PlannedFile(path, remote.size, "deleted")
        for path, remote in remote_files.items()
        if path not in files and is_managed(path)
    ]
    return sorted(plan, key=lambda file: file.path)


def _is_same(file: Path, remote: RepoFile) -> bool:
    if file.stat().st_size != remote.size:
        return False
    if remote.lfs is None:
        return git_hash(file.read_bytes()) == remote.blob_id
    return compute_digest(file) == remote.lfs.sha256
