"""Targets: every reader, on damaged files of its format and on bytes of any kind."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fuzzing import Crash, Target
from hypothesis import strategies as st
from mutations import mutated

from hf_gile import Label, LabelSet

FOLDER = Path(tempfile.mkdtemp(prefix="hf-gile-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

_LABELS = LabelSet(
    [
        Label("D1", "Heart Failure", 'the heart, pumps less; "blood"', "en", True, 7, 0.25, ("weak heart", "a;b")),
        Label("D2", "Herzschwäche", "", "de", synonyms=("schwaches Herz",)),
        Label("D3", "Iron"),
    ]
)


def reading(
    name: str,
    file: str,
    files: Sequence[bytes],
    read: Callable[[Path], Any],
    tokens: Sequence[bytes] = (),
    **options: Any,
) -> Target:
    """Makes the target of a reader, whose refusals must name the file.

    Args:
        name: Of the target.
        file: What the file is called.
        files: Valid ones.
        read: Reads it to its end.
        tokens: What means something in the format.
        options: See `Target`.
    """
    return Target(
        name, "Readers", mutated(files, tokens), partial(_attempt, file=f"{name}-{file}", read=read), **options
    )


def _attempt(data: bytes, file: str, read: Callable[[Path], Any]) -> None:
    path = FOLDER / file
    path.write_bytes(data)
    try:
        read(path)
    except (ValueError, OSError) as error:
        if file not in str(error):
            raise Crash(f"a refusal that does not name the file: {error}") from error
        raise


def _saved(suffix: str) -> bytes:
    path = FOLDER / f"saved{suffix}"
    _LABELS.save(path)
    return path.read_bytes()


_TEXTS = st.text(max_size=20) | st.sampled_from(
    [";", "\\;", "a;b", '"', "\r", "\n", "\0", "\ufeff", " a ", "x" * 200_000]
)
_DRAWN = st.builds(
    Label,
    id=_TEXTS | st.uuids().map(str),
    name=_TEXTS | st.uuids().map(str),
    description=_TEXTS,
    language=st.none() | st.just("en"),
    seen=st.booleans(),
    count=st.integers(0, 1 << 70),
    threshold=st.none() | st.floats(0, 1),
    synonyms=st.lists(_TEXTS.map(str.strip), max_size=3).map(tuple),
)


def _round_trip(case: tuple[list[Label], str]) -> None:
    labels, suffix = case
    path = FOLDER / f"round-trip{suffix}"
    label_set = LabelSet(labels)
    label_set.save(path)
    if LabelSet.load(path) != label_set:
        raise Crash("a label set that comes back otherwise")


TARGETS = [
    *(
        reading(f"label set {suffix}", f"labels{suffix}", [_saved(suffix)], LabelSet.load)
        for suffix in (".jsonl", ".csv")
    ),
    Target(
        "label set saved",
        "Readers",
        st.tuples(st.lists(_DRAWN, min_size=1, max_size=3), st.sampled_from([".jsonl", ".csv"])),
        _round_trip,
        quick=40,
    ),
]
