"""Uploads saved models to the Hub in one atomic commit."""

import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Literal

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, hf_hub_url, is_offline_mode
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils.sha import git_hash, sha_fileobj

from .. import __version__
from ..label_index import LabelIndex
from ..models import GileForSequenceClassification, GileProcessor
from ..models.labels_gile import LABELS_FILE, LabelSet
from ..models.saving_gile import check_folder
from ..writing import check_files
from .card_info import Card, CardInfo
from .contents import TEXTS_HEADING, UNKNOWN_REPOSITORY, is_managed, missing_parts, select_files
from .folder import check_saveable, save
from .hub_errors import explain_hub_errors
from .report import REPORT_FILE, Report


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
    status: Literal["new", "changed", "unchanged", "deleted"]


@dataclass(frozen=True)
class Publication:
    """Result of a push, or of a dry run.

    Attributes:
        repo_id: The repository.
        url: URL of the repository.
        commit: Id of the commit; None for a dry run, or if nothing has changed.
        pull_request: URL of the pull request, if requested.
        files: All files of the model, and deleted files of an earlier version, sorted by path.
        left_out: Files of the folder that are not uploaded, with the reason.
        is_new: Whether the repository is new, as far as visible with this token; None if unknown because offline.
    """

    repo_id: str
    url: str
    commit: str | None
    pull_request: str | None
    files: list[PlannedFile]
    left_out: list[tuple[str, str]]
    is_new: bool | None = False

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
    the same commit; other files in the repository stay. Pickles, checkpoints, logs, caches and hidden files are not
    uploaded, nor are texts of documents in `results.json` unless the card shows them. Unchanged files are not sent
    again, and without changes there is no commit. A card without a `repo_id` gets the name of the repository.

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
        dry_run: Whether to report the changes without making them. If the repository cannot be read, or offline, all
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


class _Target:
    """A branch of a repository to push to."""

    def __init__(
        self, repo_id: str, revision: str | None, create_pr: bool, private: bool | None, token: str | bool | None
    ) -> None:
        if not isinstance(repo_id, str) or repo_id.count("/") != 1:
            raise ValueError(f"repo_id must be 'user/name' or 'organisation/name', got {repo_id!r}")
        hf_hub_url(repo_id, "README.md")  # raises an error for an invalid name
        if revision is not None and re.fullmatch(r"[0-9a-f]{40}", revision):
            raise ValueError(f"revision {revision} is a commit, which cannot be changed: pass a branch")
        if isinstance(token, str) and not re.fullmatch(r"[!-~]+", token):
            # The HTTP library would report it too, but show the token.
            raise ValueError("token must not contain spaces or line breaks: pass the token alone")
        self.repo_id, self.revision, self.create_pr, self.private = repo_id, revision, create_pr, private
        self.api = HfApi(token=token)

    def command(self, folder: Path) -> str:
        """Returns the shell command that pushes a folder to this target."""
        words = ["hf-gile", "push", str(folder), self.repo_id]
        if self.private is not None:
            words.append("--private" if self.private else "--public")
        if self.revision is not None:
            words += ["--revision", self.revision]
        return shlex.join([*words, "--create-pr"] if self.create_pr else words)

    def push(self, folder: Path, message: str | None, dry_run: bool, hint: str = "") -> Publication:
        files, left_out = select_files(folder)
        url = f"{self.api.endpoint}/{self.repo_id}"
        commit = pull_request = None
        with explain_hub_errors(self.repo_id, hint), tempfile.TemporaryDirectory() as scratch:
            _name_repository(files, self.repo_id, Path(scratch))
            left_out += _remove_hidden_texts(files, Path(scratch))
            is_offline = dry_run and is_offline_mode()
            head = None if is_offline else self._head()
            is_new = None if is_offline else head is None
            if head is None and not dry_run:
                self.api.create_repo(self.repo_id, private=self.private, exist_ok=True)
                head = self._head()
                if head is None:
                    raise FileNotFoundError(
                        f"repository {self.repo_id} exists, but is not visible with this token: use another token or "
                        "another name"
                    )
            plan = _plan(files, {} if head is None else self._files(head.commit))
            if head is not None and not dry_run:
                if head.is_new_branch:
                    self.api.create_branch(self.repo_id, branch=str(self.revision), revision=head.commit, exist_ok=True)
                if any(file.status != "unchanged" for file in plan):
                    if message is None:
                        labels = (folder / LABELS_FILE).read_bytes().count(b"\n")
                        message = f"GILE model with {labels:,} labels, by hf_gile {__version__}"
                    commit, pull_request = self._commit(head.commit, files, plan, message)
        return Publication(self.repo_id, url, commit, pull_request, plan, left_out, is_new)

    def _head(self) -> "_Head | None":
        """Returns the head of the branch, or its starting point; None if no repository is visible."""
        try:
            info = self.api.model_info(self.repo_id)
        except RepositoryNotFoundError:
            return None
        except HfHubHTTPError as error:
            # Without access, the Hub gives the same answer for private and missing repositories.
            if error.response.status_code == 401 and "Invalid credentials" not in str(error.server_message):
                return None
            raise
        if self.private is not None and bool(info.private) != self.private:
            actual, requested = ("private", "public") if info.private else ("public", "private")
            raise ValueError(
                f"{self.repo_id} exists and is {actual}, not {requested} as requested: change its settings on the Hub, "
                "or do not set the visibility (private=None, or without --private and --public)"
            )
        if self.revision is None:
            return _Head(str(info.sha))
        if self.revision.startswith("refs/"):
            return _Head(str(self.api.model_info(self.repo_id, revision=self.revision).sha))
        refs = self.api.list_repo_refs(self.repo_id)
        if any(tag.name == self.revision for tag in refs.tags):
            raise ValueError(
                f"revision {self.revision!r} is a tag of {self.repo_id}, which cannot be changed: pass a branch"
            )
        for branch in refs.branches:
            if branch.name == self.revision:
                return _Head(branch.target_commit)
        if self.create_pr:
            raise ValueError(f"{self.repo_id} has no branch {self.revision!r} as the target of a pull request")
        return _Head(str(info.sha), is_new_branch=True)

    def _files(self, revision: str) -> dict[str, RepoFile]:
        tree = self.api.list_repo_tree(self.repo_id, recursive=True, revision=revision)
        return {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}

    def _commit(
        self, head: str, files: dict[str, Path], plan: list[PlannedFile], message: str
    ) -> tuple[str, str | None]:
        """Creates the commit; returns its id and the URL of the pull request."""
        additions = [CommitOperationAdd(file.path, files[file.path]) for file in plan if file.status in _UPLOADED]
        deletions = [CommitOperationDelete(file.path) for file in plan if file.status == "deleted"]
        # Checked before create_commit, which would skip files in the .gitignore of the repository.
        self.api.preupload_lfs_files(
            self.repo_id,
            additions=additions,
            revision=self.revision,
            create_pr=self.create_pr,
            free_memory=False,
            gitignore_content="",
        )
        # create_commit would silently skip them.
        ignored = [addition.path_in_repo for addition in additions if addition._should_ignore]
        if ignored:
            excluded = f"{len(ignored)} of the files, including {ignored[0]}"
            raise ValueError(f"the .gitignore of {self.repo_id} excludes {excluded}: delete it there")
        try:
            info = self.api.create_commit(
                self.repo_id,
                [*additions, *deletions],
                commit_message=message,
                revision=self.revision,
                create_pr=self.create_pr,
                parent_commit=head,
            )
        except Exception as error:
            if isinstance(error, ValueError) or _is_refusal(error):
                raise
            # The commit may exist even if the response was lost or is an error.
            commit = self._find_commit(head, files, plan, message)
            if commit is None:
                raise
            return commit
        return info.oid, info.pr_url

    def _find_commit(
        self, head: str, files: dict[str, Path], plan: list[PlannedFile], message: str
    ) -> tuple[str, str | None] | None:
        """Looks for the commit after an error; returns the same as `_commit`, or None."""
        try:
            candidates: list[tuple[str | None, str | None]] = [(self.revision, None)]
            if self.create_pr:
                opened = self.api.get_repo_discussions(
                    self.repo_id, discussion_type="pull_request", discussion_status="open"
                )
                candidates = [(f"refs/pr/{request.num}", request.url) for request in opened if request.title == message]
            for revision, url in candidates:
                commit = str(self.api.model_info(self.repo_id, revision=revision).sha)
                if commit != head and all(file.status == "unchanged" for file in _plan(files, self._files(commit))):
                    return commit, url
        except Exception:  # report the original error of the push
            return None
        return None


def _name_repository(files: dict[str, Path], repo_id: str, scratch: Path) -> None:
    """Inserts the name of the repository into the uploaded card, if it has none."""
    text = _read_card(files)
    if UNKNOWN_REPOSITORY in text:
        files["README.md"] = scratch / "README.md"
        files["README.md"].write_bytes(text.replace(UNKNOWN_REPOSITORY, repo_id).encode())


def _remove_hidden_texts(files: dict[str, Path], scratch: Path) -> list[tuple[str, str]]:
    """Removes texts of documents from the uploaded report, unless the card shows them; returns what it removed."""
    if REPORT_FILE not in files or TEXTS_HEADING in _read_card(files):
        return []
    try:
        report = Report.load(files[REPORT_FILE])
    except ValueError:  # not a report of hf_gile
        return []
    if not report.examples:
        return []
    files[REPORT_FILE] = scratch / REPORT_FILE
    replace(report, examples={}).save(files[REPORT_FILE])
    return [(f"{REPORT_FILE}, examples", "texts of documents that the card does not show")]


def _read_card(files: dict[str, Path]) -> str:
    if "README.md" not in files:
        return ""
    try:
        return files["README.md"].read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{files['README.md']} is not UTF-8 ({error.reason}): convert it") from None


@dataclass(frozen=True)
class _Head:
    commit: str
    is_new_branch: bool = False


_UPLOADED = ("new", "changed")


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, HfHubHTTPError) and 400 <= error.response.status_code < 409


def _plan(files: dict[str, Path], remote_files: dict[str, RepoFile]) -> list[PlannedFile]:
    plan = []
    for path, file in files.items():
        size = file.stat().st_size
        remote = remote_files.get(path)
        is_unchanged = remote is not None and remote.size == size and _is_same(file, remote)
        plan.append(PlannedFile(path, size, "new" if remote is None else "unchanged" if is_unchanged else "changed"))
    plan += [
        PlannedFile(path, remote.size, "deleted")
        for path, remote in remote_files.items()
        if path not in files and is_managed(path)
    ]
    return sorted(plan, key=lambda file: file.path)


def _is_same(file: Path, remote: RepoFile) -> bool:
    if remote.lfs is None:
        return git_hash(file.read_bytes()) == remote.blob_id
    with file.open("rb") as stream:
        return sha_fileobj(stream).hex() == remote.lfs.sha256
