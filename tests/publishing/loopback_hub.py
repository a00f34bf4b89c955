"""A loopback Hub for tests: the part of the HTTP interface for pushing and loading models.

It implements the requests of huggingface_hub as documented: repositories with commits, branches, tags and pull
requests; large files in git LFS; users, organisations, tokens with read or write access, and private repositories. It
simulates faults of selected requests: errors, and connections closed within a body or before the answer.
"""

import base64
import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True)
class Token:
    user: str
    role: str = "write"
    organisations: tuple[str, ...] = ()

    def may_write(self, namespace: str) -> bool:
        return self.role == "write" and namespace in (self.user, *self.organisations)


@dataclass(frozen=True)
class Stored:
    """A file: its bytes, and whether they are stored in LFS."""

    data: bytes
    is_large: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def blob(self) -> str:
        """Returns the git id of the file, or of its LFS pointer."""
        data = self.data
        if self.is_large:
            data = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(data)}\n".encode()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass(frozen=True)
class Commit:
    files: dict[str, Stored]
    parent: str | None
    title: str


@dataclass
class Repository:
    private: bool
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    pulls: dict[str, str] = field(default_factory=dict)

    def at(self, revision: str) -> str | None:
        """Returns the commit of a branch, a tag, a pull request or a commit id."""
        for refs in (self.branches, self.tags, self.pulls):
            if revision in refs:
                return refs[revision]
        return revision if revision in self.commits else None

    def add(self, files: dict[str, Stored], parent: str | None, title: str) -> str:
        listing = sorted((path, stored.blob) for path, stored in files.items())
        oid = hashlib.sha1(repr((parent, title, listing, len(self.commits))).encode()).hexdigest()
        self.commits[oid] = Commit(files, parent, title)
        return oid

    def files(self, revision: str = "main") -> dict[str, bytes]:
        oid = self.at(revision)
        assert oid is not None
        return {path: stored.data for path, stored in self.commits[oid].files.items()}

    def history(self, revision: str = "main") -> list[str]:
        """Returns the titles of the commits, newest first."""
        titles, oid = [], self.at(revision)
        while oid is not None:
            titles.append(self.commits[oid].title)
            oid = self.commits[oid].parent
        return titles


@dataclass
class Fault:
    """A fault of the next requests that match a pattern.

    Attributes:
        request: Pattern of method and path, such as `"POST .*/commit/"`.
        status: Status of an answer that is sent without handling the request.
        code: Error code of the Hub.
        cut: Number of bytes of the body to read before the connection is closed.
        lose: Whether to handle the request, and then close the connection.
        times: Number of requests.
        before: Called with the Hub before the request, to simulate a concurrent change.
    """

    request: str
    status: int = 0
    code: str = ""
    cut: int | None = None
    lose: bool = False
    times: int = 1
    before: Callable[[Any], None] | None = None


class LoopbackHub:
    """The state of the Hub, and the requests it received.

    Args:
        tokens: Valid tokens.
    """

    def __init__(self, tokens: dict[str, Token]) -> None:
        self.tokens = tokens
        self.large = (".safetensors", ".png")
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.unknown: list[str] = []
        self.lock = threading.RLock()
        self.url = ""

    def create(self, repo_id: str, private: bool = False, files: dict[str, bytes] | None = None) -> Repository:
        """Creates a repository with an initial commit, like the Hub."""
        repository = self.repositories[repo_id] = Repository(private)
        first = {".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n"} | (files or {})
        stored = {path: Stored(data, path.endswith(self.large)) for path, data in first.items()}
        repository.branches["main"] = repository.add(stored, None, "initial commit")
        return repository

    def change(self, repo_id: str, path: str, data: bytes, branch: str = "main") -> None:
        """Adds a commit by another user."""
        repository = self.repositories[repo_id]
        head = repository.branches[branch]
        files = repository.commits[head].files | {path: Stored(data)}
        repository.branches[branch] = repository.add(files, head, f"Change {path}")

    def count_requests(self, pattern: str) -> int:
        """Returns the number of requests that match a pattern."""
        return sum(re.match(pattern, request) is not None for request in self.requests)


class Refusal(Exception):
    def __init__(self, status: int, message: str, code: str = "") -> None:
        self.status, self.message, self.code = status, message, code


@dataclass
class Request:
    """A parsed request."""

    method: str
    query: dict[str, list[str]]
    headers: Any
    body: bytes
    token: Token | None
    params: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    content: Any = None
    data: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200


Route = Callable[["Routes", Request], Answer]


def route(pattern: str) -> Callable[[Route], Route]:
    def register(function: Route) -> Route:
        Routes.table.append((re.compile(pattern), function))
        return function

    return register


class Routes:
    """Handlers of requests by pattern."""

    table: ClassVar[list[tuple[re.Pattern[str], Route]]] = []

    def __init__(self, hub: LoopbackHub) -> None:
        self.hub = hub

    def answer(self, path: str, request: Request) -> Answer:
        for pattern, function in self.table:
            match = pattern.fullmatch(f"{request.method} {path}")
            if match:
                request.params = {name: unquote(part) for name, part in match.groupdict().items() if part is not None}
                return function(self, request)
        if re.match(r"/api/(models|repos)/|/lfs/|.*/resolve/", path):  # requests that the library can do without
            self.hub.unknown.append(f"{request.method} {path}")
        raise Refusal(404, "no such route")

    def repository(self, request: Request) -> Repository:
        """Returns the requested repository, if it is visible with the token."""
        repo_id = request.params["repo"]
        repository = self.hub.repositories.get(repo_id)
        if repository is None or (repository.private and not self.can_read(request.token, repo_id)):
            if request.token is None:  # without a token, the Hub does not reveal whether a repository exists
                raise Refusal(401, "Invalid username or password.")
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return repository

    def can_read(self, token: Token | None, repo_id: str) -> bool:
        return token is not None and repo_id.split("/")[0] in (token.user, *token.organisations)

    def require_write(self, request: Request, repo_id: str) -> None:
        """Refuses a request without write access."""
        if request.token is None:
            raise Refusal(401, "Invalid username or password.")
        if not request.token.may_write(repo_id.split("/")[0]):
            raise Refusal(403, "You have read access but not the required permissions for this operation")

    def commit_at(self, repository: Repository, revision: str) -> tuple[str, Commit]:
        oid = repository.at(revision)
        if oid is None:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return oid, repository.commits[oid]


_REPO = r"/api/models/(?P<repo>[^/]+/[^/]+)"


@route(r"POST /api/repos/create")
def create(self: Routes, request: Request) -> Answer:
    content = request.json
    if request.token is None:
        raise Refusal(401, "Invalid username or password.")
    owner = content.get("organization") or request.token.user
    repo_id = f"{owner}/{content['name']}"
    if not request.token.may_write(owner):
        raise Refusal(403, f'You don\'t have the rights to create a model under the namespace "{owner}"')
    answer = {"url": f"{self.hub.url}/{repo_id}", "id": repo_id, "name": repo_id}
    if repo_id in self.hub.repositories:
        return Answer({"error": "You already created this model repo", **answer}, status=409)
    self.hub.create(repo_id, private=content.get("visibility") == "private" or bool(content.get("private")))
    return Answer(answer)


@route(r"POST /api/validate-yaml")
def validate_yaml(self: Routes, request: Request) -> Answer:
    return Answer({"errors": [], "warnings": []})


@route(rf"GET {_REPO}(/revision/(?P<revision>[^/]+))?")
def info(self: Routes, request: Request) -> Answer:
    repository = self.repository(request)
    oid, commit = self.commit_at(repository, request.params.get("revision", "main"))
    siblings = [{"rfilename": path} for path in sorted(commit.files)]
    repo_id = request.params["repo"]
    return Answer(
        {"id": repo_id, "modelId": repo_id, "sha": oid, "private": repository.private, "tags": [], "siblings": siblings}
    )


@route(rf"GET {_REPO}/refs")
def refs(self: Routes, request: Request) -> Answer:
    repository = self.repository(request)

    def list_refs(refs: dict[str, str], kind: str) -> list[dict[str, str]]:
        return [{"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": oid} for name, oid in refs.items()]

    tags = list_refs(repository.tags, "tags")
    return Answer({"branches": list_refs(repository.branches, "heads"), "tags": tags, "converts": []})


@route(rf"GET {_REPO}/tree/(?P<revision>[^/]+)(/(?P<folder>.+))?")
def tree(self: Routes, request: Request) -> Answer:
    _, commit = self.commit_at(self.repository(request), request.params["revision"])
    above = f"{request.params['folder'].rstrip('/')}/" if "folder" in request.params else ""
    recursive = request.query.get("recursive", ["false"])[0].lower() in ("true", "1")
    entries: dict[str, Any] = {}
    for path, stored in sorted(commit.files.items()):
        if not path.startswith(above):
            continue
        folder, _, _ = path[len(above) :].rpartition("/")
        if folder:
            first = above + folder.split("/")[0]
            entries[first] = {"type": "directory", "path": first, "oid": "0" * 40, "size": 0}
        if not folder or recursive:
            entries[path] = {"type": "file", "path": path, "size": len(stored.data), "oid": stored.blob}
            if stored.is_large:
                entries[path]["lfs"] = {"oid": stored.sha256, "size": len(stored.data), "pointerSize": 134}
    if above and not entries:
        raise Refusal(404, "Entry not found", "EntryNotFound")
    return Answer(list(entries.values()))


@route(rf"POST {_REPO}/branch/(?P<branch>[^/]+)")
def branch(self: Routes, request: Request) -> Answer:
    repository = self.repository(request)
    self.require_write(request, request.params["repo"])
    name = request.params["branch"]
    if name in repository.branches:
        raise Refusal(409, "Reference already exists")
    start = (request.json or {}).get("startingPoint") if request.body else None
    repository.branches[name], _ = self.commit_at(repository, start or "main")
    return Answer({})


def _may_commit(self: Routes, request: Request) -> bool:
    """Checks access to commit; returns whether it is a pull request, which only needs read access."""
    is_pull = request.query.get("create_pr") == ["1"]
    if not is_pull:
        self.require_write(request, request.params["repo"])
    elif request.token is None:
        raise Refusal(401, "Invalid username or password.")
    return is_pull


@route(rf"POST {_REPO}/preupload/(?P<revision>[^/]+)")
def preupload(self: Routes, request: Request) -> Answer:
    repository = self.repository(request)
    _may_commit(self, request)
    _, commit = self.commit_at(repository, request.params["revision"])
    content = request.json
    files = []
    for file in content["files"]:
        path = file["path"]
        base64.b64decode(file["sample"], validate=True)
        stored = commit.files.get(path)
        large = path.endswith(self.hub.large)
        oid = None if stored is None else stored.sha256 if stored.is_large else stored.blob
        mode = "lfs" if large else "regular"
        files.append({"path": path, "uploadMode": mode, "oid": oid, "shouldIgnore": False})
    return Answer({"files": files})


@route(r"POST /(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch")
def large_files(self: Routes, request: Request) -> Answer:
    self.repository(request)
    objects = []
    for item in request.json["objects"]:
        objects.append({"oid": item["oid"], "size": item["size"]})
        if item["oid"] not in self.hub.objects:
            objects[-1]["actions"] = {"upload": {"href": f"{self.hub.url}/lfs/{item['oid']}"}}
    return Answer({"transfer": "basic", "objects": objects})


@route(r"PUT /lfs/(?P<oid>[0-9a-f]{64})")
def large_file(self: Routes, request: Request) -> Answer:
    if hashlib.sha256(request.body).hexdigest() != request.params["oid"]:
        raise Refusal(400, "the content differs from the announced hash")
    self.hub.objects[request.params["oid"]] = request.body
    return Answer({})


@route(rf"POST {_REPO}/commit/(?P<revision>[^/]+)")
def commit(self: Routes, request: Request) -> Answer:
    repository, revision = self.repository(request), request.params["revision"]
    is_pull = _may_commit(self, request)
    head, before = self.commit_at(repository, revision)
    lines = [json.loads(line) for line in request.body.splitlines() if line.strip()]
    title, parent = lines[0]["value"]["summary"], lines[0]["value"].get("parentCommit")
    if parent is not None and parent != head and not is_pull:
        raise Refusal(412, "A commit has happened since. Please refresh and try again.")
    if revision in repository.tags or (revision not in repository.branches and revision not in repository.pulls):
        raise Refusal(400, f"not a branch: {revision}")
    files = dict(before.files)
    for line in lines[1:]:
        key, value = line["key"], line["value"]
        path = value["path"]
        if key == "file":
            files[path] = Stored(base64.b64decode(value["content"], validate=True))
        elif key == "lfsFile":
            if value["oid"] not in self.hub.objects:
                raise Refusal(422, f"no such LFS object: {value['oid']}")
            files[path] = Stored(self.hub.objects[value["oid"]], is_large=True)
        elif key == "deletedFile":
            if files.pop(path, None) is None:
                raise Refusal(404, "A file with this name doesn't exist", "EntryNotFound")
        else:
            raise Refusal(400, f"unknown operation {key}")
    oid = repository.add(files, head, title)
    answer = {"success": True, "commitOid": oid, "commitUrl": f"{self.hub.url}/{request.params['repo']}/commit/{oid}"}
    if is_pull:
        number = len(repository.pulls) + 1
        repository.pulls[f"refs/pr/{number}"] = oid
        answer["pullRequestUrl"] = f"{self.hub.url}/{request.params['repo']}/discussions/{number}"
    elif revision in repository.pulls:
        repository.pulls[revision] = oid
    else:
        repository.branches[revision] = oid
    return Answer(answer)


@route(r"(GET|HEAD) /(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
def resolve(self: Routes, request: Request) -> Answer:
    oid, commit = self.commit_at(self.repository(request), request.params["revision"])
    stored = commit.files.get(request.params["path"])
    if stored is None:
        raise Refusal(404, "Entry not found", "EntryNotFound")
    etag = stored.sha256 if stored.is_large else stored.blob
    headers = {"X-Repo-Commit": oid, "ETag": f'"{etag}"', "Content-Type": "application/octet-stream"}
    if stored.is_large:
        headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(stored.data))}
    return Answer(data=stored.data, headers=headers)


class Handler(BaseHTTPRequestHandler):
    """Reads a request, applies due faults, and writes the answer of `Routes`."""

    protocol_version = "HTTP/1.1"
    hub: ClassVar[LoopbackHub]

    def log_message(self, *args: Any) -> None:
        pass

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        line = f"{self.command} {unquote(url.path)}"
        fault = self.take_fault(line)
        if fault is not None and fault.before is not None:
            fault.before(self.hub)
        if fault is not None and fault.cut is not None:
            self.rfile.read(fault.cut)
            self.cut()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if fault is not None and fault.status:
            self.refuse(Refusal(fault.status, "simulated error", fault.code))
            return
        try:
            with self.hub.lock:
                request = Request(self.command, parse_qs(url.query), self.headers, body, self.token())
                answer = Routes(self.hub).answer(url.path, request)
        except Refusal as refusal:
            self.refuse(refusal)
            return
        if fault is not None and fault.lose:
            self.cut()
            return
        data = json.dumps(answer.content).encode() if answer.data is None else answer.data
        self.write(answer.status, data, {"Content-Type": "application/json", **answer.headers})

    do_GET = do_POST = do_PUT = do_HEAD = handle_any

    def take_fault(self, line: str) -> Fault | None:
        with self.hub.lock:
            self.hub.requests.append(line)
            for fault in self.hub.faults:
                if fault.times and re.match(fault.request, line):
                    fault.times -= 1
                    return fault
        return None

    def token(self) -> Token | None:
        authorization = self.headers.get("Authorization")
        if authorization is None:
            return None
        token = self.hub.tokens.get(authorization.removeprefix("Bearer "))
        if token is None:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return token

    def refuse(self, refusal: Refusal) -> None:
        headers = {"Content-Type": "application/json", "X-Error-Message": refusal.message}
        if refusal.code:
            headers["X-Error-Code"] = refusal.code
        self.write(refusal.status, json.dumps({"error": refusal.message}).encode(), headers)

    def write(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: Any) -> None:
        pass  # clients that close the connection


@contextmanager
def serve(hub: LoopbackHub) -> Iterator[LoopbackHub]:
    """Serves a Hub on a free loopback port, `hub.url`."""
    server = Server(("127.0.0.1", 0), type("HubHandler", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
