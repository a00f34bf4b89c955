"""A saved model on the Hub: what would go up, and one commit that takes it there or leaves everything as it was."""

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
from .card_info import Card, CardInfo
from .contents import TEXTS_HEADING, UNKNOWN_PLACE, contents_of, is_ours, missing_parts
from .exchange import complete
from .folder import check_saveable, save
from .hub_errors import explained
from .report import REPORT_FILE, Report


@dataclass(frozen=True)
class PlannedFile:
    """A file of a push.

    Attributes:
        path: Its path in the repository.
        size: Its bytes; of a file to be deleted, those it has there.
        status: What the push does: `"new"`, `"changed"` and `"deleted"`, or nothing, `"unchanged"`.
    """

    path: str
    size: int
    status: Literal["new", "changed", "unchanged", "deleted"]


@dataclass(frozen=True)
class Publication:
    """What a push did, or what one would do.

    Attributes:
        repo_id: The repository.
        url: Where a browser finds it.
        commit: The id of the commit; None of a dry run, and where nothing had changed.
        pull_request: The address of the pull request, if one was asked for.
        files: All files of the model, and those of an earlier one that go; in the order of their paths.
        left_out: What of the folder stays here, and why.
        is_new: Whether there was no repository before, as far as this token can tell; None where nobody asked, offline.
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
        """The files that are not unchanged."""
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
    """Puts a model on the Hub in one commit: weights, code, processor, labels, index, results and card.

    It is saved to a temporary folder first. If the upload fails, that folder stays, the error names it, and
    `hf-gile push FOLDER REPO`, or `push_folder`, goes on from there. The branch has all of the commit or nothing of it.

    Args:
        model: A `GileForSequenceClassification`; it stays as it is.
        processor: Its `GileProcessor`.
        label_set: As in `save`; None for the labels stored with the model.
        repo_id: `"user/name"` or `"organisation/name"`; made if there is none.
        report: As in `save`.
        card: As in `save`.
        index: As in `save`.
        private: As in `push_folder`, and so are all below.
        revision: A branch.
        create_pr: Whether to open a pull request.
        commit_message: The message.
        token: A token.
        dry_run: Whether only to say what would be done.

    Raises:
        ValueError: As for `save` and `push_folder`, and so are the errors below.
        PermissionError: The token.
        FileNotFoundError: The repository.
        ConnectionError: The connection.
        OSError: Any other answer of the Hub.

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
        hint = f"the saved model is kept in {folder}: {target.command(folder)}" if keep else ""
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
    """Puts a saved model on the Hub in one commit.

    Files of an earlier version of the model that this one does not have (weights, code, index, labels, results,
    figures) are deleted in the same commit; files of others stay. Pickles, checkpoints, logs, caches and hidden files
    do not go up, nor do texts of documents in `results.json` that the card does not show. What is there already is not
    sent again, and where nothing has changed there is no commit. A card that was made without a `repo_id` names the
    repository there.

    Args:
        folder: What `save` wrote, or a Trainer's `save_model`.
        repo_id: `"user/name"` or `"organisation/name"`; made if there is none. The Hub is that of `HF_ENDPOINT`.
        private: Whether a new repository is private; by default as its owner's settings say. One that exists must be
            so already.
        revision: The branch, made from `main` if there is none; `"refs/pr/3"` adds to a pull request.
        create_pr: Whether to open a pull request instead of changing the branch; a token that may read is enough for
            a public repository.
        commit_message: The message; by default it names the number of labels and the version of this package.
        token: A token of the Hub; by default that of `HF_TOKEN` or `hf auth login`.
        dry_run: Whether only to say what would be done: nothing changes. Without a repository that can be read, or
            offline, all files are new.

    Raises:
        ValueError: The folder is no saved model, `repo_id` names no owner, `token` can be none, a repository that is
            there is private or public other than asked for, or `revision` is a tag or a commit.
        PermissionError: No token, or one that may not do this.
        FileNotFoundError: There is no such folder, or the token may not see the repository or the pull request.
        ConnectionError: The Hub is not reached, or in trouble.
        OSError: Somebody else pushed to the branch meanwhile, or the Hub refused the files.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}: pass that of a saved model")
    complete(folder)
    missing = missing_parts(folder)
    if missing:
        raise ValueError(f"{folder} is no saved GILE model that loads anywhere: it lacks {'; '.join(missing)}")
    return _Target(repo_id, revision, create_pr, private, token).push(folder, commit_message, dry_run)


def _for_repository(card: Card, repo_id: str) -> Card:
    """What is known about a model, and where it will be; a card that is there stays as it is."""
    if card is not None and not isinstance(card, CardInfo):
        return card
    card = CardInfo() if card is None else card
    return card if card.repo_id else replace(card, repo_id=repo_id)


class _Target:
    """A branch of a repository, to be pushed to."""

    def __init__(
        self, repo_id: str, revision: str | None, create_pr: bool, private: bool | None, token: str | bool | None
    ) -> None:
        if not isinstance(repo_id, str) or repo_id.count("/") != 1:
            raise ValueError(f"repo_id must be 'user/name' or 'organisation/name', got {repo_id!r}")
        hf_hub_url(repo_id, "README.md")  # refuses what no repository can be called
        if revision is not None and re.fullmatch(r"[0-9a-f]{40}", revision):
            raise ValueError(f"revision {revision} is a commit, which cannot change: name a branch")
        if isinstance(token, str) and not re.fullmatch(r"[!-~]+", token):
            # The way to the Hub would say so too, and show it.
            raise ValueError(
                "token must be that of the Hub and nothing else, no space or end of a line: pass the token alone"
            )
        self.repo_id, self.revision, self.create_pr, self.private = repo_id, revision, create_pr, private
        self.api = HfApi(token=token)

    def command(self, folder: Path) -> str:
        """What pushes a folder to this place from a shell."""
        words = ["hf-gile", "push", str(folder), self.repo_id]
        if self.private is not None:
            words.append("--private" if self.private else "--public")
        if self.revision is not None:
            words += ["--revision", self.revision]
        return shlex.join([*words, "--create-pr"] if self.create_pr else words)

    def push(self, folder: Path, message: str | None, dry_run: bool, hint: str = "") -> Publication:
        files, left_out = contents_of(folder)
        url = f"{self.api.endpoint}/{self.repo_id}"
        commit = pull_request = None
        with explained(self.repo_id, hint), tempfile.TemporaryDirectory() as scratch:
            _name_repository(files, self.repo_id, Path(scratch))
            left_out += _without_hidden_texts(files, Path(scratch))
            unasked = dry_run and is_offline_mode()
            head = None if unasked else self._head()
            is_new = None if unasked else head is None
            if head is None and not dry_run:
                self.api.create_repo(self.repo_id, private=self.private, exist_ok=True)
                head = self._head()
                if head is None:
                    raise FileNotFoundError(
                        f"there is a repository {self.repo_id}, but this token may not see it: take another token, or "
                        "another name"
                    )
            plan = _plan(files, {} if head is None else self._files(head.commit))
            if head is not None and not dry_run:
                if head.is_new_branch:
                    self.api.create_branch(self.repo_id, branch=str(self.revision), revision=head.commit, exist_ok=True)
                if any(file.status != "unchanged" for file in plan):
                    if message is None:
                        labels = (folder / LABELS_FILE).read_bytes().count(b"\n")
                        message = f"GILE model of {labels:,} labels, by hf_gile {__version__}"
                    commit, pull_request = self._commit(head.commit, files, plan, message)
        return Publication(self.repo_id, url, commit, pull_request, plan, left_out, is_new)

    def _head(self) -> "_Head | None":
        """Where the branch is, or starts; None if there is no repository, as far as anybody without a key can tell."""
        try:
            info = self.api.model_info(self.repo_id)
        except RepositoryNotFoundError:
            return None
        except HfHubHTTPError as error:
            # To whom it does not know, the Hub says the same of what is private and of what is not there.
            if error.response.status_code == 401 and "Invalid credentials" not in str(error.server_message):
                return None
            raise
        if self.private is not None and bool(info.private) != self.private:
            kind, other = ("private", "public") if info.private else ("public", "private")
            raise ValueError(
                f"{self.repo_id} is there already and {kind}, not {other} as asked for: change that in its settings on "
                "the Hub, or ask for neither (private=None, or without --private and --public)"
            )
        if self.revision is None:
            return _Head(str(info.sha))
        if self.revision.startswith("refs/"):
            return _Head(str(self.api.model_info(self.repo_id, revision=self.revision).sha))
        refs = self.api.list_repo_refs(self.repo_id)
        if any(tag.name == self.revision for tag in refs.tags):
            raise ValueError(
                f"revision {self.revision!r} is a tag of {self.repo_id}, which cannot change: name a branch"
            )
        for branch in refs.branches:
            if branch.name == self.revision:
                return _Head(branch.target_commit)
        if self.create_pr:
            raise ValueError(f"{self.repo_id} has no branch {self.revision!r} that a pull request could be made to")
        return _Head(str(info.sha), is_new_branch=True)

    def _files(self, revision: str) -> dict[str, RepoFile]:
        tree = self.api.list_repo_tree(self.repo_id, recursive=True, revision=revision)
        return {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}

    def _commit(
        self, head: str, files: dict[str, Path], plan: list[PlannedFile], message: str
    ) -> tuple[str, str | None]:
        """Makes the commit; returns its id and the address of the pull request."""
        additions = [CommitOperationAdd(file.path, files[file.path]) for file in plan if file.status in _SENT]
        deletions = [CommitOperationDelete(file.path) for file in plan if file.status == "deleted"]
        # Before create_commit does it: the list is complete, so no .gitignore of the repository shall shorten it.
        self.api.preupload_lfs_files(
            self.repo_id,
            additions=additions,
            revision=self.revision,
            create_pr=self.create_pr,
            free_memory=False,
            gitignore_content="",
        )
        # Only create_commit knows otherwise, and leaves them out without a word.
        ignored = [addition.path_in_repo for addition in additions if addition._should_ignore]
        if ignored:
            among = f"{len(ignored)} of the files, among them {ignored[0]}"
            raise ValueError(f"the .gitignore of {self.repo_id} keeps out {among}: delete it there")
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
            # An answer may be lost, or be an error, though the commit was made.
            found = self._arrived(head, files, plan, message)
            if found is None:
                raise
            return found
        return info.oid, info.pr_url

    def _arrived(
        self, head: str, files: dict[str, Path], plan: list[PlannedFile], message: str
    ) -> tuple[str, str | None] | None:
        """Looks whether a commit was made of which no word came back: returns the same as `_commit`, or None."""
        try:
            places: list[tuple[str | None, str | None]] = [(self.revision, None)]
            if self.create_pr:
                opened = self.api.get_repo_discussions(
                    self.repo_id, discussion_type="pull_request", discussion_status="open"
                )
                places = [(f"refs/pr/{one.num}", one.url) for one in opened if one.title == message]
            for revision, url in places:
                commit = str(self.api.model_info(self.repo_id, revision=revision).sha)
                if commit != head and all(one.status == "unchanged" for one in _plan(files, self._files(commit))):
                    return commit, url
        except Exception:  # the reason why the push failed is the one to tell
            return None
        return None


def _name_repository(files: dict[str, Path], repo_id: str, scratch: Path) -> None:
    """Lets a card that was made before anybody knew its place say it, in what goes up."""
    text = _card_of(files)
    if UNKNOWN_PLACE in text:
        files["README.md"] = scratch / "README.md"
        files["README.md"].write_bytes(text.replace(UNKNOWN_PLACE, repo_id).encode())


def _without_hidden_texts(files: dict[str, Path], scratch: Path) -> list[tuple[str, str]]:
    """Takes texts of documents out of the report that goes up, unless the card shows them; returns what stays here."""
    if REPORT_FILE not in files or TEXTS_HEADING in _card_of(files):
        return []
    try:
        report = Report.load(files[REPORT_FILE])
    except ValueError:  # of somebody else
        return []
    if not report.examples:
        return []
    files[REPORT_FILE] = scratch / REPORT_FILE
    replace(report, examples={}).save(files[REPORT_FILE])
    return [(f"{REPORT_FILE}, examples", "texts of documents, which the card does not show")]


def _card_of(files: dict[str, Path]) -> str:
    if "README.md" not in files:
        return ""
    try:
        return files["README.md"].read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{files['README.md']} is no text in UTF-8 ({error.reason}): save it as such") from None


@dataclass(frozen=True)
class _Head:
    commit: str
    is_new_branch: bool = False


_SENT = ("new", "changed")


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, HfHubHTTPError) and 400 <= error.response.status_code < 409


def _plan(files: dict[str, Path], there: dict[str, RepoFile]) -> list[PlannedFile]:
    plan = []
    for path, file in files.items():
        size = file.stat().st_size
        remote = there.get(path)
        same = remote is not None and remote.size == size and _is_same(file, remote)
        plan.append(PlannedFile(path, size, "new" if remote is None else "unchanged" if same else "changed"))
    plan += [
        PlannedFile(path, remote.size, "deleted")
        for path, remote in there.items()
        if path not in files and is_ours(path)
    ]
    return sorted(plan, key=lambda file: file.path)


def _is_same(file: Path, remote: RepoFile) -> bool:
    if remote.lfs is None:
        return git_hash(file.read_bytes()) == remote.blob_id
    with file.open("rb") as opened:
        return sha_fileobj(opened).hex() == remote.lfs.sha256
