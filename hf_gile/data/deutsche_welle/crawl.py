"""A polite crawler for the published lists of addresses of Deutsche Welle: one request at a time, resumable.

The lists are the folders in data_urls of https://github.com/idiap/mhan, `dw_general/SPLIT/LANGUAGE.json` and
`dw_specific/SPLIT/LANGUAGE.json`, with the splits train, dev and test:

    {"urls": ["http://dw.com/p/10o55", "http://dw.com/p/10osv"]}

Each address redirects to an article. A crawl writes into one folder

    lists/general/train/english.json         the lists, as they were given
    pages/english/9c/9c1f...20.html.gz       pages as they came; named by a hash of the listed address
    index.jsonl                              a line for each address that was asked

    {"url": "http://dw.com/p/10o55", "final_url": "https://www.dw.com/en/...", "status": 200, "time": "2026-...",
     "file": "pages/english/9c/9c1f...20.html.gz", "size": 31415, "charset": "utf-8", "reason": null,
     "again": false}

A page is complete before its line is written, and a line counts once it is complete, so a crawl may be ended at any
moment and started again: what has a line is not asked again, unless its failure may pass (`again`).
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from ...models.labels_gile import whole_file
from ..report import ReadReport
from .polite_web import Visitor

HOSTS = ("dw.com", "www.dw.com", "p.dw.com")
"""The hosts that short addresses lead through; articles are on www.dw.com."""

SETS = ("general", "specific")
"""The published lists: articles with sections of the site as labels, and articles with keywords."""

SPLITS = ("train", "dev", "test")

_MOST_FAILURES = 10  # that may pass, in a row: then something is wrong that more requests do not mend

Lists = dict[tuple[str, str, str], list[str]]
"""From set, split and language to addresses."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one address: a line of the index.

    Args:
        url: The address, as listed.
        final_url: Where redirects led, as far as they were followed.
        status: The last HTTP status; None if there was no answer.
        time: When, in UTC.
        file: The page, relative to the folder; None if there is none.
        size: Bytes of that file.
        charset: As the site declares it.
        reason: Why there is no page.
        again: Whether that may pass, so that the next start asks again.
    """

    url: str
    final_url: str
    status: int | None
    time: str
    file: str | None = None
    size: int = 0
    charset: str | None = None
    reason: str | None = None
    again: bool = False


@dataclass(frozen=True)
class CrawlSummary:
    """Where a crawl stands.

    Args:
        pages: Number of addresses with a page.
        failed: Those that have none, by reason.
        again: Those that the next start asks again, by reason.
        left: Number of addresses not asked yet.
        ended: Why the crawl ended.
    """

    pages: int
    failed: dict[str, int]
    again: dict[str, int]
    left: int
    ended: str


_KINDS: dict[str, Any] = {one.name: (str, type(None)) for one in fields(Answer)}
_KINDS |= {"url": str, "final_url": str, "time": str, "status": (int, type(None)), "size": int, "again": bool}


def crawl_dw(
    lists: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    contact: str,
    languages: Iterable[str] | None = None,
    *,
    hosts: Sequence[str] = HOSTS,
    delay: float = 1.0,
    max_pages: int | None = None,
    max_bytes: int = 5_000_000,
    timeout: float = 30.0,
) -> CrawlSummary:
    """Fetches the pages of published lists, as slowly as a guest should.

    robots.txt is obeyed, with its Crawl-delay; a host is left alone for `delay` seconds after each answer, or as long
    as the answer took; Retry-After is heeded. An error of the server, a timeout or a lost connection is tried three
    times, with growing pauses, and again at the next start; ten such failures in a row end the crawl. Ctrl-C ends it
    too. Addresses are asked in the order of a hash, so that a part of a crawl is a sample of all lists.

    Whether you may keep the texts is for you to find out; the site does not allow to pass them on.

    Args:
        lists: Folders such as `data_urls/dw_general`; an address that several lists have is asked once.
        folder: Where to write, or where an earlier crawl wrote.
        contact: A mail address or a web page where the site's people find you; it is sent with each request.
        languages: By default all that the lists have.
        hosts: No other is asked, wherever a redirect leads.
        delay: Seconds.
        max_pages: Addresses to ask this time; by default all.
        max_bytes: A longer page is not kept.
        timeout: Seconds until an answer must be complete.

    Returns:
        Where the crawl stands, earlier starts included.

    Raises:
        ImportError: If httpx2 or protego is not installed.
        RuntimeError: Where an event loop runs already, as in a notebook.
        FileNotFoundError: If there is no such list.
        ValueError: If a list is malformed, contact is no address, or another crawl is writing into the folder.
    """
    from tqdm.auto import tqdm

    visitor = Visitor(contact, hosts, delay, timeout, max_bytes)
    if max_pages is not None and max_pages < 0:
        raise ValueError(f"max_pages must not be negative, got {max_pages}")
    addresses = read_lists(lists, languages)
    language_of = {url: language for (*_, language), urls in addresses.items() for url in urls}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        _keep_lists(addresses, folder)
        _drop_half_line(folder / "index.jsonl")
        last = {answer.url: answer for answer in read_index(folder, ReadReport(on_error="skip"))}
        waiting = sorted((url for url in language_of if not _is_done(last.get(url), folder)), key=_name)
        ended = "all asked" if max_pages is None or len(waiting) <= max_pages else "max_pages reached"
        failures = 0
        with (folder / "index.jsonl").open("a", encoding="utf-8") as index:
            try:
                for url in tqdm(waiting[:max_pages], desc="addresses", unit=" asked"):
                    answer = last[url] = _fetched(visitor, url, folder, language_of[url])
                    index.write(json.dumps(asdict(answer)) + "\n")
                    index.flush()
                    failures = failures + 1 if answer.again else 0
                    if visitor.closed or failures == _MOST_FAILURES:
                        ended = visitor.closed or f"{failures} failures in a row, the last: {answer.reason}"
                        break
            except KeyboardInterrupt:
                ended = "interrupted"
    return _summary([last.get(url) for url in language_of], ended)


def read_lists(
    lists: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], languages: Iterable[str] | None = None
) -> Lists:
    """Reads published lists of addresses.

    Args:
        lists: Folders whose names end in general or specific, each with folders train, dev and test.
        languages: By default all that have a file in train, by name.

    Returns:
        The addresses of each set, split and language, each once.

    Raises:
        FileNotFoundError: If there is no list of a split and language.
        ValueError: If a folder has another name, or a list is not of the format.
    """
    lists = [lists] if isinstance(lists, (str, os.PathLike)) else list(lists)
    wanted = None if languages is None else list(languages)
    found: Lists = {}
    for folder in map(Path, lists):
        name = folder.resolve().name.removeprefix("dw_")
        if name not in SETS:
            raise ValueError(f"{folder}: the name of a folder of lists must be dw_general or dw_specific")
        for language in sorted(path.stem for path in (folder / "train").glob("*.json")) if wanted is None else wanted:
            for split in SPLITS:
                found[name, split, language] = _addresses(folder / split / f"{language}.json")
    if not found:
        raise FileNotFoundError(f"no list LANGUAGE.json in {', '.join(str(Path(one) / 'train') for one in lists)}")
    return found


def read_index(folder: str | os.PathLike[str], report: ReadReport | None = None) -> Iterator[Answer]:
    """Reads what came of the addresses so far; a later answer for the same address replaces an earlier one.

    Args:
        folder: What `crawl_dw` wrote.
        report: Says whether a malformed line raises, as it does without. The last line is passed over if it is not
            complete: a crawl that was ended was about to write it.

    Yields:
        The answers, in the order of the index.

    Raises:
        ValueError: If a line is malformed, unless the report says to skip.
    """
    report = ReadReport() if report is None else report
    path = Path(folder) / "index.jsonl"
    if not path.is_file():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                return
            try:
                answer = _answer(json.loads(line))
            except (ValueError, RecursionError) as error:
                report.problem("damaged line of the index", f"{path}: line {number:,}: {error}")
                continue
            yield answer


def _answer(raw: object) -> Answer:
    if not isinstance(raw, dict):
        raise ValueError(f"expected an object, got {shortened(raw)}")
    for name, kind in _KINDS.items():
        if name not in raw or not isinstance(raw[name], kind):
            raise ValueError(f"{name} is missing or of the wrong type, got {shortened(raw.get(name))}")
    return Answer(*(raw[name] for name in _KINDS))


def _addresses(path: Path) -> list[str]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(f"no list {path}; the lists are SET/SPLIT/LANGUAGE.json") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    urls = content.get("urls") if isinstance(content, dict) else None
    if not isinstance(urls, list):
        raise ValueError(f'{path}: expected {{"urls": [...]}}, got {shortened(content)}')
    for place, url in enumerate(urls):
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ValueError(f"{path}: urls[{place}] must be an address that starts with http, got {shortened(url)}")
    return list(dict.fromkeys(url.strip() for url in urls))


def _alone(folder: Path) -> AbstractContextManager[object]:
    from filelock import FileLock, Timeout

    try:
        return FileLock(folder / "index.lock").acquire(timeout=0)
    except Timeout:
        raise ValueError(f"{folder}: another crawl is writing into this folder; wait for it, or name another") from None


def _keep_lists(addresses: Lists, folder: Path) -> None:
    for (name, split, language), urls in addresses.items():
        path = folder / "lists" / name / split / f"{language}.json"
        with whole_file(path) as written:
            written.write_text(json.dumps({"urls": urls}), encoding="utf-8")


def _name(url: str) -> str:
    return sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _is_done(answer: Answer | None, folder: Path) -> bool:
    if answer is None or answer.file is None:
        return answer is not None and not answer.again
    path = folder / answer.file
    return path.is_file() and path.stat().st_size == answer.size


def _drop_half_line(path: Path) -> None:
    if path.is_file():
        with path.open("r+b") as stream:
            stream.truncate(sum(len(line) for line in stream if line.endswith(b"\n")))


def _summary(last: list[Answer | None], ended: str) -> CrawlSummary:
    asked = [answer for answer in last if answer is not None]
    failed = Counter(answer.reason or "" for answer in asked if not answer.file and not answer.again)
    again = Counter(answer.reason or "" for answer in asked if answer.again)
    pages = sum(1 for answer in asked if answer.file)
    return CrawlSummary(pages, dict(failed.most_common()), dict(again.most_common()), len(last) - len(asked), ended)


def _fetched(visitor: Visitor, url: str, folder: Path, language: str) -> Answer:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    visit = visitor.visit(url)
    if visit.reason is not None:
        return Answer(url, visit.url, visit.status, now, reason=visit.reason, again=visit.again)
    name = _name(url)
    path = folder / "pages" / language / name[:2] / f"{name}.html.gz"
    packed = gzip.compress(visit.body, mtime=0)
    with whole_file(path) as written:
        written.write_bytes(packed)
    file = path.relative_to(folder).as_posix()
    return Answer(url, visit.url, visit.status, now, file, len(packed), visit.charset)
