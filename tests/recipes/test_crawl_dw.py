"""The crawler against a local site, and the export of its pages."""

import asyncio
import contextlib
import gzip
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from datasets import load_dataset

from hf_gile import GileConfig, GileProcessor, LabelSet, build_tokenizer
from hf_gile.data import load_dw, load_word_vectors
from hf_gile.data.deutsche_welle.crawl import crawl_dw, open_answers, read_lists
from hf_gile.data.deutsche_welle.polite_web import Visitor
from hf_gile.training import encode_dataset

RECIPES = Path(__file__).parents[2] / "recipes"
HTML = "text/html; charset=utf-8"
CONTACT = "crawler@example.org"


def article(number, language="en", section="Science", words="Mice were seen."):
    """Returns a page in the current layout."""
    data = {
        "@type": "NewsArticle",
        "headline": f"Article {number}",
        "datePublished": "2026-01-02",
        "inLanguage": language,
    }
    return (
        f'<html lang="{language}"><script type="application/ld+json">{json.dumps(data)}</script>'
        f'<header><div data-tracking-name="content-detail-kicker"><span>{section}</span></div><h1>Article {number}</h1>'
        f'</header><div data-tracking-name="rich-text"><p>{f"{words} Number {number}. " * 20}</p></div></html>'
    ).encode()


class Site:
    """A site with answers by path: (status, headers, body), a list of answers, or a function of the request."""

    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}"
        self.answers = {}
        self.requests = []  # (time, path, headers)

    @property
    def counts(self):
        return Counter(path for _, path, _ in self.requests)

    def page(self, number, body=None, headers=(), **options):
        """Adds a short address that redirects to an article, and returns it."""
        self.answers[f"/p/{number}"] = (301, {"Location": f"/en/article/a-{number}"}, b"")
        body = article(number, **options) if body is None else body
        self.answers[f"/en/article/a-{number}"] = (200, {"Content-Type": HTML} | dict(headers), body)
        return f"{self.address}/p/{number}"


@pytest.fixture
def site(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            site.requests.append((time.monotonic(), self.path, self.headers))
            answer = site.answers.get(self.path, (404, {}, b"not here"))
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            if callable(answer):
                answer(self)
                return
            status, headers, body = answer
            self.send_response(status)
            for name, value in ({"Content-Type": HTML, "Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_):
            """Ignores a crawler that closes the connection."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site = Site(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def lists(tmp_path):
    """Writes lists: `lists(general={"train": {"english": [...]}})`; missing splits and languages are empty lists."""

    def write(**sets):
        folders = []
        for name, splits in sets.items():
            folder = tmp_path / "data_urls" / f"dw_{name}"
            for split in ("train", "dev", "test"):
                for language in {language for names in splits.values() for language in names}:
                    path = folder / split / f"{language}.json"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps({"urls": splits.get(split, {}).get(language, [])}))
            folders.append(folder)
        return folders

    return write


@pytest.fixture
def crawl(tmp_path, lists):
    def run(*urls, splits=None, **options):
        options = {"delay": 0.0, "timeout": 5.0, "hosts": ["127.0.0.1"], "contact": CONTACT} | options
        folders = lists(general=splits or {"train": {"english": [*urls]}})
        return crawl_dw(folders, tmp_path / "crawl", **options)

    return run


def answers(tmp_path):
    """Returns the final address, charset and page of each requested address."""
    with open_answers(tmp_path / "crawl") as table:
        rows = table.execute("SELECT url, final_url, charset, page FROM answers").fetchall()
    return {
        url: (final_url, charset, zlib.decompress(page) if page else None) for url, final_url, charset, page in rows
    }


def test_short_addresses_are_followed_and_pages_stored_unchanged(site, crawl, tmp_path):
    urls = [site.page(number) for number in (2, 3, 5)]
    summary = crawl(*urls)
    assert (summary.pages, summary.failed, summary.again, summary.left) == (3, {}, {}, 0)
    for number, url in zip((2, 3, 5), urls, strict=True):
        assert answers(tmp_path)[url] == (f"{site.address}/en/article/a-{number}", "utf-8", article(number))
    assert site.counts["/robots.txt"] == 1


def test_requests_identify_the_crawler_and_its_contact(site, crawl):
    crawl(site.page(2))
    assert {headers["User-Agent"] for *_, headers in site.requests} == {f"hf-gile (research crawler; {CONTACT})"}


@pytest.mark.parametrize("contact", ["", "me", "me\r\nX: @", "mé@example.org"])
def test_an_invalid_contact_address_is_refused(site, crawl, contact):
    with pytest.raises(ValueError, match="contact must be an e-mail address or the address of a web page"):
        crawl(site.page(2), contact=contact)


def test_a_second_run_repeats_no_request(site, crawl, tmp_path):
    urls = [site.page(number) for number in (2, 3, 5)]
    assert crawl(*urls, max_pages=2).left == 1
    first = site.counts
    summary = crawl(*urls)
    assert (summary.pages, summary.left, summary.ended) == (3, 0, "all fetched")
    assert crawl(*urls) == summary
    assert sum(count for path, count in site.counts.items() if path.startswith("/p/")) == 3
    assert sum(count for path, count in first.items() if path.startswith("/p/")) == 2
    assert len(answers(tmp_path)) == 3


def test_only_temporary_failures_are_retried(site, crawl, tmp_path):
    gone, missing, broken, forbidden, image = (f"{site.address}/p/{name}" for name in "gmbfi")
    site.answers |= {
        "/p/g": (410, {}, b""),
        "/p/b": (500, {}, b""),
        "/p/f": (403, {}, b""),
        "/p/i": (200, {"Content-Type": "image/png"}, b"png"),
    }
    urls = [gone, missing, broken, forbidden, image]
    summary = crawl(*urls)
    assert summary.failed == {"410 Gone": 1, "404 Not Found": 1, "image/png, not HTML": 1}
    assert summary.again == {"500 Internal Server Error": 1, "403 Forbidden": 1}
    site.page("b")
    site.page("f")
    assert crawl(*urls).pages == 2
    assert [site.counts[f"/p/{name}"] for name in "gmibf"] == [1, 1, 1, 2, 2]
    assert answers(tmp_path)[broken][2] == article("b")


def test_retry_after_headers_are_respected(site, crawl):
    urls = [f"{site.address}/p/2", f"{site.address}/p/3"]
    site.answers |= {path: (503, {"Retry-After": "1"}, b"") for path in ("/p/2", "/p/3")}
    assert crawl(*urls).again == {"503 Service Unavailable": 2}
    (robots, *_), (first, *_), (second, *_) = site.requests
    assert second - first >= 1
    assert robots <= first


def test_a_host_that_demands_a_long_pause_ends_the_crawl(site, crawl):
    urls = [site.page(number) for number in (2, 3, 5)]
    for number in (2, 3, 5):
        site.answers[f"/p/{number}"] = (429, {"Retry-After": "3600"}, b"")
    summary = crawl(*urls)
    assert summary.ended == f"{site.address.removeprefix('http://')} asks to wait 3,600 s"
    assert summary.again == {"429 Too Many Requests": 1}
    assert summary.left == 2
    assert len(site.requests) == 2  # robots.txt and a single address


def test_ten_failures_in_a_row_end_the_crawl(site, crawl):
    urls = [f"{site.address}/p/{number}" for number in range(13)]
    site.answers |= {f"/p/{number}": (403, {}, b"") for number in range(13)}
    summary = crawl(*urls)
    assert summary.ended == "10 failures in a row, the last: 403 Forbidden"
    assert (summary.left, summary.again) == (3, {"403 Forbidden": 10})


def test_requests_to_a_host_are_separated_by_the_delay(site, crawl):
    urls = [site.page(number) for number in (2, 3, 5)]
    crawl(*urls, delay=0.07)
    assert len(site.requests) == 7
    assert all(later - earlier >= 0.07 for (earlier, *_), (later, *_) in pairwise(site.requests))


def test_the_delays_and_patterns_of_robots_txt_are_obeyed(site, crawl):
    rules = "User-agent: *\nDisallow: /p/3\nDisallow: /*/article/a-5$\nCrawl-delay: 0.06\n"
    site.answers["/robots.txt"] = (200, {"Content-Type": "text/plain"}, rules.encode())
    urls = [site.page(number) for number in (2, 3, 5, 55)]
    summary = crawl(*urls)
    assert (summary.pages, summary.failed) == (2, {"forbidden by robots.txt": 2})
    assert site.counts["/p/3"] == site.counts["/en/article/a-5"] == 0
    assert all(later - earlier >= 0.06 for (earlier, *_), (later, *_) in pairwise(site.requests))
    crawl(*urls)
    assert site.counts["/p/5"] == 1


def test_rules_for_this_crawler_override_general_rules(site, crawl):
    rules = b"User-agent: *\nDisallow:\n\nUser-agent: hf-gile\nDisallow: /\n"
    site.answers["/robots.txt"] = (200, {"Content-Type": "text/plain"}, rules)
    assert crawl(site.page(2)).failed == {"forbidden by robots.txt": 1}


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable", "429 Too Many Requests"])
def test_without_robots_txt_no_page_is_requested(site, crawl, status):
    url = site.page(2)
    site.answers["/robots.txt"] = [(int(status[:3]), {}, b""), (404, {}, b"")]
    assert crawl(url).again == {f"robots.txt: {status}": 1}
    assert site.counts["/p/2"] == 0
    assert crawl(url).pages == 1


def test_a_robots_txt_redirect_to_another_host_is_refused(site, crawl):
    site.answers["/robots.txt"] = (301, {"Location": "http://example.org/robots.txt"}, b"")
    assert crawl(site.page(2)).again == {"robots.txt: redirects to another host": 1}


def test_a_robots_txt_redirect_on_the_same_host_is_followed(site, crawl):
    site.answers["/robots.txt"] = (301, {"Location": "/rules"}, b"")
    site.answers["/rules"] = (200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /p/\n")
    assert crawl(site.page(2)).failed == {"forbidden by robots.txt": 1}


def test_other_hosts_are_not_contacted(site, crawl):
    site.answers["/p/2"] = (302, {"Location": "http://localhost/elsewhere"}, b"")
    site.answers["/p/3"] = (302, {"Location": "ftp://127.0.0.1/p/5"}, b"")
    summary = crawl(f"{site.address}/p/2", f"{site.address}/p/3", "http://example.org/p/5", "http://[/p/7")
    assert summary.failed.pop("redirects to another host") == 3
    assert list(summary.failed) == ["invalid address: Invalid IPv6 URL"]


def test_circular_redirects_end(site, crawl):
    site.answers["/p/2"] = (301, {"Location": "/p/3"}, b"")
    site.answers["/p/3"] = (301, {"Location": "/p/2#top"}, b"")
    assert crawl(f"{site.address}/p/2").failed == {"more than 10 redirects": 1}
    assert site.counts["/p/2"] + site.counts["/p/3"] == 11


def test_redirects_may_have_non_ascii_targets_but_need_a_target(site, crawl, tmp_path):
    site.answers["/p/2"] = (301, {}, b"")
    site.answers["/p/3"] = (301, {"Location": "/de/f%C3%BCr/a-3"}, b"")
    site.answers["/p/5"] = (301, {"Location": "/de/für/a-3".encode().decode("latin-1")}, b"")
    site.answers["/de/f%C3%BCr/a-3"] = (200, {}, article(3))
    summary = crawl(*(f"{site.address}/p/{number}" for number in (2, 3, 5)))
    assert (summary.pages, summary.failed) == (2, {"301 Moved Permanently": 1})


def test_a_slow_page_is_abandoned_and_retried(site, crawl):
    def trickle(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", HTML)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        try:
            for _ in range(50):
                handler.wfile.write(b"<p>")
                handler.wfile.flush()
                time.sleep(0.02)
        except OSError:
            pass
        handler.close_connection = True

    def silence(handler):
        time.sleep(0.3)
        handler.close_connection = True

    site.answers |= {"/p/2": trickle, "/p/3": silence}
    summary = crawl(f"{site.address}/p/2", f"{site.address}/p/3", timeout=0.1)
    assert summary.again == {"timeout": 2}


@pytest.mark.parametrize("drips", ["headers", "a body of any length"])
def test_a_trickling_response_is_abandoned_after_the_timeout(site, crawl, drips):
    sent = []

    def drip(handler):
        handler.wfile.write(
            b"HTTP/1.1 200 OK\r\n" + (b"" if drips == "headers" else b"Content-Type: text/html\r\n\r\n")
        )
        handler.close_connection = True
        with contextlib.suppress(OSError):
            for number in range(100):
                handler.wfile.write(b"X-%d: y\r\n" % number)
                handler.wfile.flush()
                sent.append(number)
                time.sleep(0.05)

    site.answers["/p/2"] = drip
    assert crawl(f"{site.address}/p/2", timeout=0.3).again == {"timeout": 1}
    assert len(sent) < 30  # truncated well before its end


@pytest.mark.parametrize(
    "rule",
    [
        "Crawl-delay: 100000",
        "Crawl-delay: 1e300",
        "Request-rate: 1/100000s",
        "Request-rate: 1/9999h",
    ],
)
def test_a_host_that_demands_a_long_crawl_delay_ends_the_crawl(site, crawl, rule):
    site.answers["/robots.txt"] = (200, {"Content-Type": "text/plain"}, f"User-agent: *\n{rule}\n".encode())
    summary = crawl(site.page(2), site.page(3))
    assert summary.ended.endswith(": robots.txt asks for more than 600 s between requests")
    assert summary.left == 1
    assert [path for _, path, _ in site.requests] == ["/robots.txt"]


@pytest.mark.parametrize(
    "rule", ["Crawl-delay: nan", "Crawl-delay: inf", "Crawl-delay: -5", "Crawl-delay: x", "Request-rate: 0/0"]
)
def test_invalid_delays_are_ignored(site, crawl, rule):
    site.answers["/robots.txt"] = (200, {"Content-Type": "text/plain"}, f"User-agent: *\n{rule}\n".encode())
    assert crawl(site.page(2)).pages == 1


def test_a_very_long_retry_after_ends_the_crawl(site, crawl):
    site.answers["/p/2"] = (429, {"Retry-After": "9" * 5000}, b"")
    assert "asks to wait" in crawl(f"{site.address}/p/2").ended


def test_other_ports_and_schemes_of_a_host_are_not_contacted(site, crawl):
    port = int(site.address.rpartition(":")[2])
    site.answers["/p/2"] = (302, {"Location": f"http://127.0.0.1:{port - 1}/p/5"}, b"")
    site.answers["/p/3"] = (302, {"Location": f"https://127.0.0.1:{port}/p/5"}, b"")
    assert crawl(f"{site.address}/p/2", f"{site.address}/p/3").failed == {"redirects to another port": 2}


def test_redirects_may_use_default_ports_but_not_downgrade_to_http():
    visitor = Visitor(CONTACT, ["dw.com", "www.dw.com"], 1.0, 1.0, 1000)
    assert visitor._forbidden_redirect("https://www.dw.com/en/a-2", "http://dw.com/p/2") is None
    assert visitor._forbidden_redirect("http://www.dw.com:80/en/a-2", "http://dw.com/p/2") is None
    assert visitor._forbidden_redirect("http://dw.com/p/2", "https://dw.com/p/2") == "redirects from https to http"
    assert visitor._forbidden_redirect("https://dw.com:8443/p/2", "https://dw.com/p/2") == "redirects to another port"
    assert visitor._forbidden_redirect("https://dw.com:99999/p/2", "https://dw.com/p/2").startswith("invalid address")


def test_a_lost_connection_is_retried(site, crawl):
    def cut(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", HTML)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.write(b"<p>half")
        handler.close_connection = True

    def hang_up(handler):
        handler.close_connection = True

    urls = [site.page(2), site.page(3)]
    site.answers |= {
        f"/p/{number}": [fails, site.answers[f"/p/{number}"]] for number, fails in ((2, cut), (3, hang_up))
    }
    assert crawl(*urls).again == {"no answer: RemoteProtocolError": 2}
    assert crawl(*urls).pages == 2


def test_compressed_and_chunked_pages_are_decoded(site, crawl, tmp_path):
    def chunked(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", HTML)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in (article(5)[:100], article(5)[100:], b""):
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

    urls = [
        site.page(2, gzip.compress(article(2)), {"Content-Encoding": "gzip"}),
        site.page(3, zlib.compress(article(3)), {"Content-Encoding": "deflate"}),
        site.page(5),
        site.page(7, b"no gzip", {"Content-Encoding": "gzip"}),
    ]
    site.answers["/en/article/a-5"] = chunked
    summary = crawl(*urls)
    assert (summary.pages, list(summary.again)) == (3, ["no answer: DecodingError"])
    for number, url in zip((2, 3, 5), urls, strict=False):
        assert answers(tmp_path)[url][2] == article(number)


@pytest.mark.parametrize("packed", [False, True])
def test_a_too_long_page_is_not_stored(site, crawl, monkeypatch, packed):
    monkeypatch.setattr("hf_gile.data.deutsche_welle.crawl.MAX_PAGE_BYTES", 100_000)
    body = b"<p>" + bytes(3_000_000)
    options = (gzip.compress(body), {"Content-Encoding": "gzip"}) if packed else (body, {})
    assert crawl(site.page(2, *options)).failed == {"longer than 100,000 bytes": 1}


def test_an_address_in_several_lists_is_requested_once(site, lists, tmp_path):
    both, single = site.page(2), site.page(3)
    folders = lists(general={"train": {"english": [both, both, single]}}, specific={"test": {"english": [both]}})
    crawl_dw(folders[:1], tmp_path / "crawl", CONTACT, delay=0, hosts=["127.0.0.1"])
    crawl_dw(folders, tmp_path / "crawl", CONTACT, delay=0, hosts=["127.0.0.1"])
    assert site.counts["/p/2"] == 1
    merged = read_lists([tmp_path / "crawl" / "lists" / name for name in ("general", "specific")])
    assert merged["general", "train", "english"] == [both, single]
    assert merged["specific", "test", "english"] == [both]


def test_only_the_requested_languages_are_crawled(site, lists, tmp_path):
    folders = lists(general={"train": {"english": [site.page(2)], "german": [site.page(3)]}})
    options = {"delay": 0, "hosts": ["127.0.0.1"]}
    assert crawl_dw(folders, tmp_path / "crawl", CONTACT, ["german"], **options).pages == 1
    assert site.counts["/p/2"] == 0
    assert list(answers(tmp_path)) == [f"{site.address}/p/3"]


LISTS = {
    "not JSON": ('{"urls": [', "english.json: not JSON"),
    "a list": ("[]", r'english.json: expected \{"urls": \[...\]\}, got \[\]'),
    "half a surrogate pair": ('{"urls": ["http://a/\\ud800"]}', r"urls\[0\] must be an address"),
    "a number": (
        '{"urls": ["http://a", 5]}',
        r"english.json: urls\[1\] must be an address that starts with http, got 5",
    ),
    "invalid address": ('{"urls": ["dw.com/p/2"]}', r"urls\[0\] must be an address that starts with http"),
    "wrong encoding": (b'{"urls": ["http://a/\xff"]}', "english.json: not JSON"),
}


@pytest.mark.parametrize(("content", "message"), LISTS.values(), ids=LISTS)
def test_a_malformed_address_list_is_named_by_position(lists, content, message):
    (folder,) = lists(general={"train": {"english": []}})
    (folder / "dev" / "english.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        read_lists(folder)


def test_missing_address_lists_are_named(lists, tmp_path):
    (folder,) = lists(general={"train": {"english": []}})
    with pytest.raises(FileNotFoundError, match=r"no list .*german\.json"):
        read_lists(folder, ["german"])
    with pytest.raises(FileNotFoundError, match=r"no list LANGUAGE\.json in .*dw_general"):
        read_lists(tmp_path / "dw_general")
    with pytest.raises(ValueError, match="a folder of lists must be named dw_general or dw_specific"):
        read_lists(folder.rename(folder.with_name("dw")))


def test_a_damaged_response_file_is_named(site, crawl, tmp_path):
    crawl(site.page(2))
    (tmp_path / "crawl" / "answers.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(ValueError, match=r"answers\.sqlite: file is not a database; crawl into another folder"):
        crawl(site.page(2))


def test_two_crawls_cannot_use_the_same_folder(site, crawl):
    def second(handler):
        try:
            crawl(f"{site.address}/p/2")
        except ValueError as error:
            messages.append(str(error))
        handler.send_response(404)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    messages = []
    site.answers["/p/2"] = second
    crawl(f"{site.address}/p/2")
    assert len(messages) == 1
    assert "another crawl is writing into this folder" in messages[0]


@pytest.fixture
def recipe(monkeypatch, capsys):
    """Runs the recipe, and returns the printed text."""
    monkeypatch.syspath_prepend(str(RECIPES))
    import crawl_dw as module

    monkeypatch.setattr(module, "crawl_dw", partial(crawl_dw, hosts=["127.0.0.1"]))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["crawl_dw.py", *map(str, arguments)])
        module.main()
        return capsys.readouterr().out

    return run


def short_addresses(site):
    return Counter(path for path in list(site.counts.elements()) if path.startswith("/p/"))


@pytest.fixture
def listens_to_ctrl_c():
    """Restores interrupts, which background processes of shell scripts ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listens_to_ctrl_c")
def test_a_crawl_interrupted_with_ctrl_c_can_be_resumed(site, crawl):
    urls = [site.page(number) for number in range(2, 13)]

    def interrupt(handler):
        if len(short_addresses(site)) == 5 and len(interrupted) == 0:
            interrupted.append(handler.path)
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.2)
        plain[handler.path](handler)

    def redirect(handler):
        handler.send_response(301)
        handler.send_header("Location", f"/en/article/a-{handler.path.rpartition('/')[2]}")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    interrupted = []
    plain = {f"/p/{number}": redirect for number in range(2, 13)}
    site.answers |= dict.fromkeys(plain, interrupt)
    summary = crawl(*urls)
    assert (summary.pages, summary.left, summary.ended) == (4, 7, "interrupted")
    assert (crawl(*urls).pages, crawl(*urls).left) == (11, 0)
    counts = short_addresses(site)
    assert counts.pop(interrupted[0]) == 2  # interrupted while running
    assert set(counts.values()) == {1}


# Only the crawler, since importing the package takes longer than the crawl.
CHILD = f"""
import sys, types
for name, path in {{"hf_gile": "hf_gile", "hf_gile.data": "hf_gile/data"}}.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [{str(RECIPES.parent)!r} + "/" + path]
from hf_gile.data.deutsche_welle.crawl import crawl_dw
crawl_dw(sys.argv[1], sys.argv[2], {CONTACT!r}, hosts=["127.0.0.1"], delay=0.02)
"""


@pytest.mark.slow
def test_a_killed_crawl_resumes_where_it_stopped(site, crawl, lists, tmp_path):
    urls = [site.page(number) for number in range(2, 42)]
    lists(general={"train": {"english": urls}})
    command = [sys.executable, "-c", CHILD, str(tmp_path / "data_urls" / "dw_general"), str(tmp_path / "crawl")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while len(short_addresses(site)) < 5:
        time.sleep(0.01)
        assert process.poll() is None
    process.kill()
    process.wait()
    assert 5 <= len(short_addresses(site)) < 40
    summary = crawl(*urls)
    assert (summary.pages, summary.left) == (40, 0)
    counts = sorted(short_addresses(site).values())
    assert counts[:-1] == [1] * 39
    assert counts[-1] <= 2  # the interrupted request


SECTIONS = {"english": ("Sports", "Science"), "german": ("Sport", "Wissen")}
WORDS = {
    "english": (
        "ball goal team",
        "cell light planet",
        ["sports", "science", "ball", "goal", "team", "cell", "light", "planet"],
    ),
    "german": (
        "spiel tor elf",
        "zelle licht planet",
        ["sport", "wissen", "spiel", "tor", "elf", "zelle", "licht", "planet"],
    ),
}
NOT_FOUND = b"<html><body><h1>404 Not found</h1></body></html>"
CODES = {"english": "en", "german": "de"}


@pytest.fixture
def crawled(site, lists, recipe, tmp_path):
    """Crawls pages in two languages: pages with even numbers are about sports, with odd numbers about science."""
    splits = {split: {language: [] for language in WORDS} for split in ("train", "dev", "test")}
    number = 100
    for split, size in {"train": 12, "dev": 4, "test": 4}.items():
        for language, (sports, science, _) in WORDS.items():
            for _ in range(size):
                number += 1
                splits[split][language].append(
                    site.page(
                        number,
                        language=CODES[language],
                        section=SECTIONS[language][number % 2],
                        words=f"{(sports, science)[number % 2].title()}.",
                    )
                )
    splits["train"]["english"] += [
        f"{site.address}/p/gone",
        site.page("gallery", b"<html><body><h1>404 Not found</h1></body></html>"),
    ]
    (folder,) = lists(general=splits)
    arguments = ["--urls", folder, "--output_dir", tmp_path / "crawl", "--contact", CONTACT, "--delay", "0"]
    output = recipe(*arguments, "--export", "text")
    vectors = tmp_path / "word_vectors"
    vectors.mkdir()
    rows = np.random.default_rng(0).normal(size=(8, 13)).astype("float32")
    for language, (*_, words) in WORDS.items():
        (vectors / f"{language}.pkl.gz").write_bytes(gzip.compress(pickle.dumps((words, [*rows]), protocol=2)))
    return tmp_path / "crawl", vectors, output


def test_a_crawl_is_exported_as_texts_and_as_word_ids(crawled, recipe):
    folder, vectors, output = crawled
    assert "pages=41, failed={'404 Not Found': 1}" in output
    assert "english: {'train': 12, 'dev': 4, 'test': 4}, 2 labels" in output
    assert "without page: 404 Not Found (1), no article: error page (1)" in output

    texts = folder / "text" / "general"
    rows = load_dataset("json", data_files=str(texts / "train" / "german.jsonl"), split="train", cache_dir=str(folder))
    labels = LabelSet.load(texts / "labels" / "german.jsonl")
    assert set(labels.names) == {"sport", "wissen"}
    assert {label.count for label in labels} == {6}
    tokenizer = build_tokenizer(rows["text"], label_texts=labels.texts, min_count=1)
    processor = GileProcessor.for_config(tokenizer, GileConfig(vocab_size=len(tokenizer), num_labels=2))
    encoded = encode_dataset(rows, processor, labels)
    assert len(encoded) == 12
    assert tokenizer.decode(encoded[0]["input_ids"]).startswith("article NUM ")
    assert {column for row in encoded for column in row["labels"]} == {0, 1}

    recipe("--output_dir", folder, "--export", "ids", "--word_vectors", vectors)
    tables = {language: load_word_vectors(vectors / f"{language}.pkl.gz") for language in WORDS}
    corpus = load_dw(folder / "ids" / "general", word_vectors=tables)
    assert corpus.languages == ["english", "german"]
    assert sorted(corpus.label_sets["german"].names) == ["sport", "wissen"]
    document = corpus.documents["german"]["train"][0]
    words = [WORDS["german"][2][word] for sentence in document["input_ids"] for word in sentence]
    name = corpus.label_sets["german"].names[document["labels"][0]]
    assert (words[:3], name) in [(["spiel", "tor", "elf"], "sport"), (["zelle", "licht", "planet"], "wissen")]


@pytest.mark.slow
def test_a_model_is_trained_on_the_exported_word_ids(crawled, recipe):
    folder, vectors, _ = crawled
    recipe("--output_dir", folder, "--export", "ids", "--word_vectors", vectors)
    options = ["--data", str(folder / "ids" / "general"), "--word_vectors", str(vectors), "--use_cpu"]
    options += ["--output_dir", str(folder / "out"), "--hidden_size", "17", "--joint_size", "19", "--epoch_size", "0"]
    options += ["--num_train_epochs", "12", "--learning_rate", "2e-2", "--hidden_act", "tanh", "--units", "gile"]
    options += ["--problem_type", "multi_label_classification", "--seed", "1"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(RECIPES / "train_dw.py"), *options]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((folder / "out" / "results.json").read_text())["gile"]
    assert all(results[language]["tuned_f1"] > 0.9 for language in WORDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to do: pass --urls to crawl, or --export to convert crawled pages"),
        (["--urls", "dw_general"], "--contact: identify yourself to the site"),
        (["--export", "ids"], "--export ids needs --word_vectors"),
        (["--export", "csv"], "argument --export: invalid choice: 'csv' (choose from "),
    ],
)
def test_the_recipe_reports_missing_settings(arguments, message, recipe, capsys):
    with pytest.raises(SystemExit):
        recipe(*arguments)
    assert message in capsys.readouterr().err


def test_without_its_libraries_a_crawl_names_the_extra(crawl, monkeypatch):
    monkeypatch.setitem(sys.modules, "protego", None)
    monkeypatch.delitem(sys.modules, Visitor.__module__)
    with pytest.raises(ImportError, match=r"crawl_dw needs the `data` extra: pip install 'hf-gile\[data\]'"):
        crawl("http://127.0.0.1/p/2")


def test_crawling_in_a_notebook_raises_an_error(crawl):
    async def cell():
        crawl("http://127.0.0.1/p/2")

    with pytest.raises(
        RuntimeError, match=r"an event loop is already running, as in a notebook: crawl in a separate process"
    ):
        asyncio.run(cell())


@pytest.mark.parametrize("options", [{"delay": -1.0}, {"timeout": 0.0}, {"max_pages": -1}])
def test_invalid_numbers_are_refused(crawl, options):
    with pytest.raises(ValueError, match=r"must (be positive|not be negative), got .*-1|must be positive, got .*\b0"):
        crawl("http://127.0.0.1/p/2", **options)
