"""Fuzz target: folders of saved models whose tree is hostile, for every command that takes a model.

A command passes if it ends in time with a result, or with a sentence; changes nothing outside the folder; and changes
nothing inside if it only reads.
"""

from __future__ import annotations

import faulthandler
import hashlib
import io
import os
import shutil
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

import typer
from fuzzing import Crash, Target, TooSlow
from hypothesis import strategies as st
from model_targets import parts
from reader_targets import FOLDER

from hf_gile import LabelIndex
from hf_gile_cli.app import app

SECONDS = 20
"""Longest time that a command waits without using the processor; on a busy machine, it may take longer."""

LEAST_WORK = 0.05
"""Processor time of a command that works, in seconds."""

# In the folder of a case: the model, texts and labels for the commands, and files that nothing may touch.
MODEL, TEXTS, OUTPUT, CANARY = "model", "texts.jsonl", "out", "canary"
READERS = {
    "score": ("score", MODEL, TEXTS),
    "labels show": ("labels", "show", MODEL),
    "serve": ("serve", MODEL, "--port", "0"),
    "push": ("push", MODEL, "user/model", "--dry-run"),
    "index": ("index", MODEL, OUTPUT),
    "evaluate": ("evaluate", MODEL, TEXTS),
    "audit": ("audit", MODEL, TEXTS, "--output", OUTPUT),
    "export": ("export", "vectors", MODEL, f"{OUTPUT}.jsonl"),
    "verify": ("verify", MODEL),
    "labels add --dry-run": ("labels", "add", MODEL, "new", "Zebra", "--dry-run"),
}
WRITERS = {
    "labels add": ("labels", "add", MODEL, "new", "Zebra"),
    "labels rename": ("labels", "rename", MODEL, "Iron", "Zinc"),
    "labels retire": ("labels", "retire", MODEL, "Blood"),
    "calibrate": ("calibrate", MODEL, TEXTS),
    "card": ("card", MODEL),
}
COMMANDS = READERS | WRITERS

_FILES = [
    "config.json", "model.safetensors", "labels.jsonl", "tokenizer.json", "tokenizer_config.json",
    "processor_config.json", "modeling_gile.py", "README.md", "card.yaml", "labels.csv", "results.json",
    "model_manifest.json", "model.safetensors.index.json", "adapter_config.json", "generation_config.json",
    "chat_template.jinja", "special_tokens_map.json", "index", "index/label_index.json", "new.json", "\u202emodel.py",
    "a\nb\x1b[31m.json",
    "Config.json", "MODEL.SAFETENSORS", b"\xff\xfe.json", ".saving", ".saving-x", ".saving/new", ".saving/old",
    ".saving/moves.json", ".saving/new/config.json", ".saving/new/.bashrc", ".saving-x/moves.json", ".lock", "d" * 200,
]  # fmt: skip
_TARGETS = [
    f"../{CANARY}", f"../{CANARY}/secret", f"../{CANARY}/new", ".", "..", "nowhere", "loop", "config.json",
    "/dev/zero", "/dev/full", "/proc/self/mem",
]  # fmt: skip
_JOURNALS = [
    b'{"stale": []}', b'{"stale": ["config.json"]}', b'{"stale": ["../canary/secret"]}', b"[]", b"{}", b"null",
    b'{"stale": {"a": 1}}', b'{"stale": [1]}', b'{"stale": ["/etc/passwd"]}', b"\xff", b"", b"[" * 5000,
]  # fmt: skip

_edit = st.one_of(
    st.tuples(st.just("link"), st.sampled_from(_FILES), st.sampled_from(_TARGETS)),
    st.tuples(st.just("hard link"), st.sampled_from(_FILES), st.none()),
    st.tuples(st.sampled_from(["pipe", "socket", "folder", "missing", "device"]), st.sampled_from(_FILES), st.none()),
    st.tuples(st.just("sparse"), st.sampled_from(_FILES), st.sampled_from([1 << 20, 1 << 32, 1 << 42])),
    st.tuples(st.just("deep"), st.sampled_from(_FILES), st.sampled_from([3, 300])),
    st.tuples(st.just("mode"), st.sampled_from(_FILES), st.sampled_from([0, 0o200, 0o4755])),
    st.tuples(st.just("write"), st.sampled_from(_FILES), st.sampled_from([*_JOURNALS, b"\0" * 100, b"x" * 100])),
    st.tuples(st.just("write"), st.just(".saving/moves.json"), st.sampled_from(_JOURNALS)),
)
# The last take seconds.
_QUICK = [name for name in COMMANDS if name not in ("calibrate", "audit", "evaluate")]
_case = st.tuples(st.sampled_from([*_QUICK, *_QUICK, *COMMANDS]), st.lists(_edit, min_size=1, max_size=4))


@cache
def _original() -> Path:
    """Saves a model with an index, and creates the files around it."""
    folder = FOLDER / "tree"
    model, processor, _ = parts("wan")
    model.save_pretrained(folder / MODEL)
    processor.save_pretrained(folder / MODEL)
    LabelIndex.build(model, processor).save_pretrained(folder / MODEL / "index")
    labels = '"labels": ["Iron", "Blood"]'
    (folder / TEXTS).write_text("".join(f'{{"text": "iron in blood {number}", {labels}}}\n' for number in range(7)))
    (folder / CANARY / "new").mkdir(parents=True)
    (folder / CANARY / "secret").write_text("canary")
    (folder / CANARY / "new" / ".bashrc").write_text("canary")
    return folder


def _edit_tree(folder: Path, edit: tuple[str, Any, Any]) -> None:
    kind, name, value = edit
    path = folder / os.fsdecode(name)
    if path.parent.resolve() != path.parent:  # below a link of another edit
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind != "mode":
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(path.name if value == "loop" else value)
    elif kind == "hard link":
        path.hardlink_to(folder.parent / CANARY / "secret")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind == "folder":
        (path / "inside").mkdir(parents=True)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(value)
    elif kind == "deep":
        for _ in range(value):
            path = path / "d"
            path.mkdir(parents=True)
    elif kind == "mode":
        path.chmod(value)
    elif kind == "write":
        path.write_bytes(value)


def _snapshot(folder: Path) -> dict[str, Any]:
    """Describes every file of a tree by type, size, times and content; reads no pipes and follows no links."""
    contents: dict[str, Any] = {}
    for root, folders, files in os.walk(folder):
        for path in (Path(root, name) for name in folders + files):
            info = path.lstat()
            content: Any = path.readlink() if path.is_symlink() else None
            if stat.S_ISREG(info.st_mode) and info.st_size < 1 << 21 and info.st_mode & 0o400:
                content = hashlib.sha256(path.read_bytes()).digest()
            size = None if stat.S_ISDIR(info.st_mode) else (info.st_size, info.st_mtime_ns)
            contents[str(path.relative_to(folder))] = stat.S_IFMT(info.st_mode), size, content
    return contents


@contextmanager
def _limited_wait() -> Iterator[None]:
    """Ends a command that waits, and the process if not even a signal ends it."""
    used = time.process_time()

    def watch() -> None:
        signal.alarm(SECONDS)
        faulthandler.dump_traceback_later(10 * SECONDS, exit=True, file=sys.__stderr__)

    def stop(*_: object) -> None:
        nonlocal used
        worked = time.process_time() - used
        used += worked
        if worked < LEAST_WORK:
            raise TooSlow(f"waited for more than {SECONDS} s")
        watch()

    handler = signal.signal(signal.SIGALRM, stop)
    watch()
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)


def _serves(*_: object, **__: object) -> None:
    """Stands for the server, which would run for ever."""


def _run(case: tuple[str, list[Any]]) -> None:
    import uvicorn

    command, edits = case
    around = FOLDER / "tree-case"
    shutil.rmtree(around, ignore_errors=True)
    shutil.copytree(_original(), around)
    for edit in edits:
        with suppress(OSError):  # not permitted here, or not after another edit
            _edit_tree(around / MODEL, edit)
    watched = around if command in READERS else around / CANARY
    before = {name: value for name, value in _snapshot(watched).items() if not name.startswith(OUTPUT)}
    messages = io.StringIO()
    code: Any = 0
    here, run, uvicorn.run = Path.cwd(), uvicorn.run, _serves
    os.chdir(around)
    try:
        with _limited_wait(), redirect_stderr(messages), redirect_stdout(io.StringIO()):
            code = app(list(COMMANDS[command]), standalone_mode=False)
    except typer.Exit as error:
        code = error.exit_code
    finally:
        os.chdir(here)
        uvicorn.run = run
    text = messages.getvalue()
    if "Traceback" in text or "unexpected error" in text:
        raise Crash(f"an unexpected error: {text[-300:]}")
    after = {name: value for name, value in _snapshot(watched).items() if not name.startswith(OUTPUT)}
    if changed := sorted(name for name in before | after if before.get(name) != after.get(name)):
        raise Crash(f"{command} changed {changed[:3]}")
    if code:
        raise ValueError(text.strip()[-1000:])


TARGETS = [Target("model tree", "Saved folders", _case, _run, quick=4, long=100)]
