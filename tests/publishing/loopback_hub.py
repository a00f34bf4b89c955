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
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = (".safetensors", ".png")


class Token(NamedTuple):
    user: str
    role: str = "write"
    organisations: tuple = ()

    @property
    def namespaces(self):
        return {self.user, *self.organisations}


class Stored(NamedTuple):
    """A file: its bytes, and whether they are stored in LFS."""

    data: bytes
    is_large: bool = False

    @property
    def sha256(self):
        return hashlib.sha256(self.data).hexdigest()

    @property
    def blob(self):
        """The git id of the file, or of its LFS pointer."""
        data = self.data
        if self.is_large:
            data = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(data)}\n".encode()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    @property
    def oid(self):
        return self.sha256 if self.is_large else self.blob


class Commit(NamedTuple):
    files: dict
    parent: str | None
    title: str


@dataclass
class Repository:
    private: bool
    commits: dict = field(default_factory=dict)
    branches: dict = field(default_factory=dict)
    tags: dict = field(default_factory=dict)
    pulls: dict = field(default_factory=dict)

    def at(self, revision):
        """Returns the commit of a branch, a tag, a pull request or a commit id."""
        refs = self.pulls | self.tags | self.branches
        return refs.get(revision, revision if revision in self.commits else None)

    def add(self, files, parent, title):
        listing = sorted((path, stored.blob) for path, stored in files.items())
        oid = hashlib.sha1(repr((parent, title, listing, len(self.commits))).encode()).hexdigest()
        self.commits[oid] = Commit(files, parent, title)
        return oid

    def files(self, revision="main"):
        return {path: stored.data for path, stored in self.commits[self.at(revision)].files.items()}

    def history(self, revision="main"):
        """Returns the titles of the commits, newest first."""
        titles, oid = [], self.at(revision)
        while oid is not None:
            titles.append(self.commits[oid].title)
            oid = self.commits[oid].parent
        return titles


@dataclass
class Fault:
    """A fault of the next requests that match a pattern of method and path, such as `"POST .*/commit/"`."""

    request: str
    status: int = 0  # of an answer that is sent without handling the request
    cut: int | None = None  # number of bytes of the body to read before the connection is closed
    lose: bool = False  # whether to handle the request, and then close the connection
    times: int = 1
    before: Callable | None = None  # called with the Hub before the request, to simulate a concurrent change


class LoopbackHub:
    """The state of the Hub, and the requests it received."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.repositories = {}
        self.objects = {}
        self.faults = []
        self.requests = []
        self.unknown = []
        self.lock = threading.RLock()
        self.url = ""

    def create(self, repo_id, private=False, files=None):
        """Creates a repository with an initial commit, like the Hub."""
        repository = self.repositories[repo_id] = Repository(private)
        first = {".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n"} | (files or {})
        stored = {path: Stored(data, path.endswith(LARGE)) for path, data in first.items()}
        repository.branches["main"] = repository.add(stored, None, "initial commit")
        return repository

    def change(self, repo_id, path, data):
        """Adds a commit by another user."""
        repository = self.repositories[repo_id]
        head = repository.branches["main"]
        files = repository.commits[head].files
        is_large = path in files and files[path].is_large
        repository.branches["main"] = repository.add(files | {path: Stored(data, is_large)}, head, f"Change {path}")

    def count_requests(self, pattern):
        return sum(re.match(pattern, request) is not None for request in self.requests)

    def take_fault(self, line):
        with self.lock:
            self.requests.append(line)
            for fault in self.faults:
                if fault.times and re.match(fault.request, line):
                    fault.times -= 1
                    return fault
        return Fault("")


class Refusal(Exception):
    def __init__(self, status, message, code="", **content):
        self.status, self.code, self.content = status, code, {"error": message, **content}


ROUTES = []


def route(pattern):
    """Registers a function of a request, which returns what is to be sent as JSON."""

    def register(function):
        ROUTES.append((re.compile(pattern), function))
        return function

    return register


class Handler(BaseHTTPRequestHandler):
    """Reads a request, applies a due fault, and sends the answer of the first route that matches."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments, hub):
        self.hub = hub
        super().__init__(*arguments)

    def log_message(self, *args):
        pass

    def handle_any(self):
        url = urlsplit(self.path)
        fault = self.hub.take_fault(f"{self.command} {unquote(url.path)}")
        if fault.before is not None:
            fault.before(self.hub)
        if fault.cut is not None:
            self.rfile.read(fault.cut)
            self.cut()
            return
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.query = parse_qs(url.query)
        try:
            if fault.status:
                raise Refusal(fault.status, "simulated error")
            with self.hub.lock:
                self.token = self.read_token()
                answer = self.answer(url.path)
        except Refusal as refusal:
            headers = {"X-Error-Message": refusal.content["error"]}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            self.write(refusal.content, refusal.status, headers)
            return
        if fault.lose:
            self.cut()
        elif isinstance(answer, Stored):
            self.write_file(answer)
        else:
            self.write(answer)

    do_GET = do_POST = do_PUT = do_HEAD = handle_any

    def read_token(self):
        authorization = self.headers.get("Authorization")
        if authorization is None:
            return None
        token = self.hub.tokens.get(authorization.removeprefix("Bearer "))
        if token is None:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return token

    def answer(self, path):
        for pattern, function in ROUTES:
            if match := pattern.fullmatch(f"{self.command} {path}"):
                self.params = {name: unquote(part) for name, part in match.groupdict().items() if part is not None}
                return function(self)
        if re.match(r"/api/(models|repos)/|/lfs/|.*/resolve/", path):  # requests that the library can do without
            self.hub.unknown.append(f"{self.command} {path}")
        raise Refusal(404, "no such route")

    def write(self, content, status=200, headers=None):
        data = json.dumps(content).encode()
        self.send(data, status, {"Content-Type": "application/json", **(headers or {})})

    def write_file(self, stored):
        headers = {"ETag": f'"{stored.oid}"', "X-Repo-Commit": self.find_commit()[0]}
        if stored.is_large:
            headers |= {"X-Linked-Etag": f'"{stored.oid}"', "X-Linked-Size": str(len(stored.data))}
        self.send(stored.data, 200, {"Content-Type": "application/octet-stream", **headers})

    def send(self, data, status, headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def cut(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    # What routes ask for.

    def json(self):
        return json.loads(self.body)

    def repository(self):
        """Returns the requested repository, if it is visible with the token."""
        repo_id = self.params["repo"]
        repository = self.hub.repositories.get(repo_id)
        can_read = self.token is not None and repo_id.split("/")[0] in self.token.namespaces
        if repository is None or (repository.private and not can_read):
            self.need_token()  # without a token, the Hub does not reveal whether a repository exists
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return repository

    def find_commit(self, revision=None):
        revision = revision or self.params.get("revision", "main")
        repository = self.repository()
        oid = repository.at(revision)
        if oid is None:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return oid, repository.commits[oid]

    def need_token(self):
        if self.token is None:
            raise Refusal(401, "Invalid username or password.")

    def need_write(self, owner, message="You have read access but not the required permissions for this operation"):
        self.need_token()
        if self.token.role != "write" or owner not in self.token.namespaces:
            raise Refusal(403, message)

    def is_pull(self):
        """Checks access to commit; returns whether it is a pull request, which only needs read access."""
        if self.query.get("create_pr") == ["1"]:
            self.need_token()
            return True
        self.need_write(self.params["repo"].split("/")[0])
        return False


REPO = r"/api/models/(?P<repo>[^/]+/[^/]+)"


@route("POST /api/repos/create")
def create(request):
    request.need_token()
    content = request.json()
    owner = content.get("organization") or request.token.user
    request.need_write(owner, f'You don\'t have the rights to create a model under the namespace "{owner}"')
    repo_id = f"{owner}/{content['name']}"
    answer = {"url": f"{request.hub.url}/{repo_id}", "id": repo_id, "name": repo_id}
    if repo_id in request.hub.repositories:
        raise Refusal(409, "You already created this model repo", **answer)
    request.hub.create(repo_id, private=content.get("visibility") == "private" or bool(content.get("private")))
    return answer


@route("POST /api/validate-yaml")
def validate_yaml(request):
    return {"errors": [], "warnings": []}


@route(rf"GET {REPO}(/revision/(?P<revision>[^/]+))?")
def info(request):
    oid, commit = request.find_commit()
    repo_id = request.params["repo"]
    siblings = [{"rfilename": path} for path in sorted(commit.files)]
    is_private = request.repository().private
    return {"id": repo_id, "modelId": repo_id, "sha": oid, "private": is_private, "tags": [], "siblings": siblings}


@route(rf"GET {REPO}/refs")
def refs(request):
    repository = request.repository()

    def list_refs(refs, kind):
        return [{"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": oid} for name, oid in refs.items()]

    branches, tags = list_refs(repository.branches, "heads"), list_refs(repository.tags, "tags")
    return {"branches": branches, "tags": tags, "converts": []}


@route(rf"GET {REPO}/tree/(?P<revision>[^/]+)(/(?P<folder>.+))?")
def tree(request):
    _, commit = request.find_commit()
    above = f"{request.params['folder'].rstrip('/')}/" if "folder" in request.params else ""
    entries = []
    for path, stored in sorted(commit.files.items()):
        entry = {"type": "file", "path": path, "size": len(stored.data), "oid": stored.blob}
        if stored.is_large:
            entry["lfs"] = {"oid": stored.sha256, "size": len(stored.data), "pointerSize": 134}
        if path.startswith(above):
            entries.append(entry)
    if above and not entries:
        raise Refusal(404, "Entry not found", "EntryNotFound")
    return entries


@route(rf"POST {REPO}/branch/(?P<branch>[^/]+)")
def branch(request):
    repository, name = request.repository(), request.params["branch"]
    request.need_write(request.params["repo"].split("/")[0])
    if name in repository.branches:
        raise Refusal(409, "Reference already exists")
    start = request.json().get("startingPoint") if request.body else None
    repository.branches[name], _ = request.find_commit(start)
    return {}


@route(rf"POST {REPO}/preupload/(?P<revision>[^/]+)")
def preupload(request):
    _, commit = request.find_commit()
    request.is_pull()
    files = []
    for file in request.json()["files"]:
        base64.b64decode(file["sample"], validate=True)
        stored = commit.files.get(file["path"])
        mode = "lfs" if file["path"].endswith(LARGE) else "regular"
        files.append({"path": file["path"], "uploadMode": mode, "oid": stored and stored.oid, "shouldIgnore": False})
    return {"files": files}


@route(r"POST /(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch")
def large_files(request):
    request.repository()
    objects = []
    for item in request.json()["objects"]:
        objects.append({"oid": item["oid"], "size": item["size"]})
        if item["oid"] not in request.hub.objects:
            objects[-1]["actions"] = {"upload": {"href": f"{request.hub.url}/lfs/{item['oid']}"}}
    return {"transfer": "basic", "objects": objects}


@route(r"PUT /lfs/(?P<oid>[0-9a-f]{64})")
def large_file(request):
    if hashlib.sha256(request.body).hexdigest() != request.params["oid"]:
        raise Refusal(400, "the content differs from the announced hash")
    request.hub.objects[request.params["oid"]] = request.body
    return {}


@route(rf"POST {REPO}/commit/(?P<revision>[^/]+)")
def commit(request):
    repository, revision = request.repository(), request.params["revision"]
    is_pull = request.is_pull()
    head, before = request.find_commit()
    header, *changes = map(json.loads, request.body.splitlines())
    if not is_pull and header["value"].get("parentCommit") not in (None, head):
        raise Refusal(412, "A commit has happened since. Please refresh and try again.")
    if revision not in repository.branches | repository.pulls:
        raise Refusal(400, f"not a branch: {revision}")
    files = dict(before.files)
    for change in changes:
        change_file(files, change["key"], change["value"], request.hub.objects)
    oid = repository.add(files, head, header["value"]["summary"])
    url = f"{request.hub.url}/{request.params['repo']}"
    answer = {"success": True, "commitOid": oid, "commitUrl": f"{url}/commit/{oid}"}
    if is_pull:
        number = len(repository.pulls) + 1
        repository.pulls[f"refs/pr/{number}"] = oid
        answer["pullRequestUrl"] = f"{url}/discussions/{number}"
    else:
        (repository.pulls if revision in repository.pulls else repository.branches)[revision] = oid
    return answer


def change_file(files, kind, value, objects):
    """Applies an operation of a commit."""
    path = value["path"]
    if kind == "file":
        files[path] = Stored(base64.b64decode(value["content"], validate=True))
    elif kind == "lfsFile" and value["oid"] in objects:
        files[path] = Stored(objects[value["oid"]], is_large=True)
    elif kind == "deletedFile" and path in files:
        del files[path]
    else:
        raise Refusal(400, f"impossible operation {kind} of {path}")


@route(r"(GET|HEAD) /(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
def resolve(request):
    _, commit = request.find_commit()
    if request.params["path"] not in commit.files:
        raise Refusal(404, "Entry not found", "EntryNotFound")
    return commit.files[request.params["path"]]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args):
        pass  # clients that close the connection


@contextmanager
def serve(hub):
    """Serves a Hub on a free loopback port, `hub.url`."""
    server = Server(("127.0.0.1", 0), partial(Handler, hub=hub))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
