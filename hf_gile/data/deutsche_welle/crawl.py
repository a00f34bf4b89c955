"""A polite crawler for the published lists of addresses of Deutsche Welle: one request at a time, resumable.

The lists are the folders in data_urls of https://github.com/idiap/mhan, `dw_general/SPLIT/LANGUAGE.json` and
`dw_specific/SPLIT/LANGUAGE.json`, with the splits train, dev and test:

    {"urls": ["http://dw.com/p/10o55", "http://dw.com/p/10osv"]}

Each address redirects to an article. A crawl writes the lists into one folder, as `lists/general/train/english.json`,
and the result of each address into an SQLite table, `answers.sqlite`, in transactions, so that it can be stopped at any
time and resumed. Addresses with a result are not requested again, unless the failure may be temporary.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from reprlib import repr as shortened
from typing import TypeAlias

from ...writing import whole_file

HOSTS = ("dw.com", "www.dw.com", "p.dw.com")  # short addresses redirect through them to articles on www.dw.com
SETS = ("general", "specific")  # the lists: articles with sections of the site as labels, and articles with keywords
SPLITS = ("train", "dev", "test")
MAX_PAGE_BYTES = 5_000_000  # maximum size of a decompressed page; longer pages are dropped

AnyPath: TypeAlias = str | os.PathLike[str]
Lists: TypeAlias = dict[tuple[str, str, str], list[str]]  # from set, split and language to addresses
_TABLE = """
    CREATE TABLE IF NOT EXISTS answers (
        url PRIMARY KEY,  -- as listed
        final_url,        -- last address of the redirects followed
        charset,          -- as declared by the site
        reason,           -- why the page is missing; NULL for a page
        again,            -- whether the failure may be temporary; the next run tries again
        page              -- as received, compressed by zlib
    )"""
_MAX_FAILURES = 10  # number of temporary failures in a row that ends the crawl


@dataclass(frozen=True)
class CrawlSummary:
    """The state of a crawl."""

    pages: int  # addresses with a page
    failed: dict[str, int]  # addresses without a page, by reason
    again: dict[str, int]  # addresses that the next run tries again, by reason
    left: int  # addresses not tried yet
    ended: str  # why the crawl ended


def crawl_dw(
    lists: AnyPath | Iterable[AnyPath],
    folder: AnyPath,
    contact: str,
    languages: Iterable[str] | None = None,
    *,
    hosts: Sequence[str] = HOSTS,
    delay: float = 1.0,
    max_pages: int | None = None,
    timeout: float = 30.0,
) -> CrawlSummary:
    """Fetches the pages of published lists, slowly and politely.

    robots.txt is obeyed, with its Crawl-delay; after each answer the crawler waits `delay` seconds, or as long as the
    answer took; Retry-After is respected. Server errors, timeouts and lost connections are tried again in the next run;
    ten such failures in a row end the crawl. Ctrl-C ends it too. Addresses are requested in the order of a hash, so
    that a part of a crawl is a sample of all lists.

    Check yourself whether you may store the texts; the site does not permit redistribution.

    Args:
        lists: Folders such as `data_urls/dw_general`; an address in several lists is requested once.
        folder: Output folder, new or of an earlier crawl.
        contact: Your e-mail address or web page, sent to the site with each request.
        languages: Languages of the lists; by default all.
        hosts: Only these hosts are contacted, also after redirects, at the port of the address or the standard port.
        delay: Minimum number of seconds between requests.
        max_pages: Maximum number of addresses in this run; by default all.
        timeout: Seconds from the start of a request until its answer must be complete.

    Returns:
        The state of the crawl, including earlier runs.

    Raises:
        RuntimeError: If an event loop is already running, as in a notebook.
        FileNotFoundError: If a list is missing.
        ValueError: If an argument or list is malformed, or another crawl is writing into the folder, or damaged it.
    """
    from tqdm.auto import tqdm

    from .polite_web import Visitor

    visitor = Visitor(contact, hosts, delay, timeout, MAX_PAGE_BYTES)
    if max_pages is not None and max_pages < 0:
        raise ValueError(f"max_pages must not be negative, got {max_pages}")
    addresses = read_lists(lists, languages)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open_answers(folder) as table:
        for (name, split, language), urls in addresses.items():
            with whole_file(folder / "lists" / name / split / f"{language}.json") as temporary_file:
                temporary_file.write_text(json.dumps({"urls": urls}), encoding="utf-8")
        stored = table.execute("SELECT url, reason, again FROM answers")
        results = {url: (reason, again) for url, reason, again in stored}
        listed = {url for urls in addresses.values() for url in urls}
        waiting = [url for url in listed if results.get(url, ("", True))[1]]
        waiting.sort(key=lambda url: sha256(url.encode()).digest())
        ended = "all fetched" if max_pages is None or len(waiting) <= max_pages else "max_pages reached"
        failures = 0
        try:
            for url in tqdm(waiting[:max_pages], desc="addresses", unit=" fetched"):
                visit = visitor.visit(url)
                page = b"" if visit.reason else zlib.compress(visit.page)
                answer = (url, visit.url, visit.charset, visit.reason, visit.again, page)
                table.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", answer)
                results[url] = visit.reason, visit.again
                failures = failures + 1 if visit.again else 0
                if visitor.closed or failures == _MAX_FAILURES:
                    ended = visitor.closed or f"{failures} failures in a row, the last: {visit.reason}"
                    break
        except KeyboardInterrupt:
            ended = "interrupted"
    counts = Counter(results[url] for url in listed & results.keys()).most_common()
    failed, temporary = (
        {reason: count for (reason, again), count in counts if reason and again == is_temporary}
        for is_temporary in (False, True)
    )
    pages = sum(count for (reason, _), count in counts if not reason)
    return CrawlSummary(pages, failed, temporary, len(listed - results.keys()), ended)


def read_lists(lists: AnyPath | Iterable[AnyPath], languages: Iterable[str] | None = None) -> Lists:
    """Reads published lists of addresses, by default for all languages with a training list.

    Raises:
        FileNotFoundError: If a list is missing.
        ValueError: If a folder is not called general or specific, or a list is malformed.
    """
    lists = [lists] if isinstance(lists, (str, os.PathLike)) else list(lists)
    requested = list(languages or ())
    addresses: Lists = {}
    for folder in map(Path, lists):
        name = folder.resolve().name.removeprefix("dw_")
        if name not in SETS:
            raise ValueError(f"{folder}: a folder of lists must be named dw_general or dw_specific")
        for language in requested or sorted(path.stem for path in (folder / "train").glob("*.json")):
            for split in SPLITS:
                addresses[name, split, language] = _read_addresses(folder / split / f"{language}.json")
    if not addresses:
        raise FileNotFoundError(
            f"no list LANGUAGE.json in {', '.join(str(Path(folder) / 'train') for folder in lists)}"
        )
    return addresses


@contextmanager
def open_answers(folder: Path) -> Iterator[sqlite3.Connection]:
    """Opens the table `answers` of a crawl, for one process at a time.

    Raises:
        ValueError: If another process has it open, or the file is damaged.
    """
    path = folder / "answers.sqlite"
    table = sqlite3.connect(path, timeout=0, isolation_level=None)  # each statement is its own transaction
    try:
        table.execute("PRAGMA locking_mode = EXCLUSIVE")
        table.execute("PRAGMA journal_mode = WAL")
        table.execute(_TABLE)
        yield table
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise OSError(f"{path}: {error}") from error
        raise ValueError(
            f"{folder}: another crawl is writing into this folder; wait for it, or choose another"
        ) from None
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{path}: {error}; crawl into another folder") from error
    finally:
        table.close()


def _read_addresses(path: Path) -> list[str]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(f"no list {path}; the lists are SET/SPLIT/LANGUAGE.json") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    urls = content.get("urls") if isinstance(content, dict) else None
    if not isinstance(urls, list):
        raise ValueError(f'{path}: expected {{"urls": [...]}}, got {shortened(content)}')
    for position, url in enumerate(urls):
        if not isinstance(url, str) or not url.isprintable() or not url.startswith(("http://", "https://")):
            raise ValueError(f"{path}: urls[{position}] must be an address that starts with http, got {shortened(url)}")
    return list(dict.fromkeys(url.strip() for url in urls))
