"""Visits to web pages, one request at a time, with the manners of a guest.

This is written on requests and on Protego, the reader of robots.txt that Scrapy uses, and not on Scrapy: one request at
a time needs no engine for many, and Scrapy 2.19 has no back-off, passes over Retry-After and Crawl-delay, and takes a
robots.txt that cannot be had for a permission. The reader in Python's own library knows no `*` and `$` in rules, which
the site crawled here uses.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from email.message import Message
from http import HTTPStatus
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

from ...extras import needs_extra

_AGENT = "hf-gile"  # the name that robots.txt may give rules for
_TRIES = 3
_MOST_REDIRECTS = 10
_LONGEST_PAUSE = 600.0
_ROBOTS_AGE = 86_400.0
_ROBOTS_BYTES = 500 * 1024  # RFC 9309, section 2.5
_BUSY = {408, 425, 429}
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Visit:
    """What came of a visit: a page, or why there is none.

    Args:
        url: The last address that was asked.
        status: Its HTTP status; None if there was no answer.
        headers: Those of its answer.
        body: The page, unpacked.
        target: Where the answer leads, if it is a redirect.
        reason: Why there is no page; None if there is one.
        again: Whether that may pass.
    """

    url: str
    status: int | None = None
    headers: Message = field(default_factory=Message)
    body: bytes = b""
    target: str | None = None
    reason: str | None = None
    again: bool = False


class Visitor:
    """Asks one address at a time, and remembers when each host may be asked next.

    Args:
        contact: A mail address or a web page where the site's people find you; it is sent with each request.
        hosts: No other is asked, wherever a redirect leads; nor another port than that of the address or the usual one.
        delay: Seconds for which a host is left alone after each answer; longer if its robots.txt says so, if the
            answer took longer, or by Retry-After.
        timeout: Seconds from the start of a request until its answer must be complete.
        max_bytes: Of a page, unpacked.
        closed: Why no more should be asked: a host wants to be left alone for more than ten minutes, once or after
            each answer.

    Raises:
        ImportError: If requests or protego is not installed.
        ValueError: If contact is no address, or a number is not positive.
    """

    def __init__(self, contact: str, hosts: Sequence[str], delay: float, timeout: float, max_bytes: int) -> None:
        with needs_extra("data", "crawl_dw"):
            import protego
            import requests
        is_address = "@" in contact or contact.startswith(("http://", "https://"))
        if not is_address or not (contact.isascii() and contact.isprintable()):
            raise ValueError(f"contact must be a mail address or the address of a web page, got {contact!r}")
        if delay < 0 or timeout <= 0 or max_bytes <= 0:
            raise ValueError(f"delay, timeout and max_bytes must be positive, got {delay}, {timeout} and {max_bytes}")
        self.closed = ""
        self._parse_robots = protego.Protego.parse
        self._hosts, self._delay, self._timeout, self._max_bytes = hosts, delay, timeout, max_bytes
        self._robots: dict[str, tuple[Any, float]] = {}
        self._delays: dict[str, float] = {}
        self._free_at: dict[str, float] = {}
        self._opened: list[socket.socket] = []
        self._session = requests.Session()
        adapter = _adapter(self._opened)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._session.headers.update(
            {
                "User-Agent": f"{_AGENT} (research crawler; {contact})",
                "Accept": "text/html,application/xhtml+xml",
                "Connection": "close",
            }
        )

    def visit(self, url: str) -> Visit:
        """Follows an address to its page.

        A failure that may pass (an error of the server, a timeout, a lost connection) is tried three times, with
        growing pauses.

        Args:
            url: The address.

        Returns:
            The page, or why there is none.
        """
        start = url
        for _ in range(_MOST_REDIRECTS + 1):
            if refusal := self._refusal(url, start):
                return refusal
            visit = self._ask(url, self._max_bytes)
            if visit.target is None:
                return visit
            url = urldefrag(urljoin(url, visit.target)).url
        return Visit(url, visit.status, reason=f"more than {_MOST_REDIRECTS} redirects")

    def _refusal(self, url: str, start: str) -> Visit | None:
        if reason := self._leads_away(url, start):
            return Visit(url, reason=reason)
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc}"
        rules, read_at = self._robots.get(site, (None, -_ROBOTS_AGE))
        if time.monotonic() - read_at >= _ROBOTS_AGE:
            text = self._robots_text(site)
            if isinstance(text, Visit):
                return text
            rules = self._parse_robots(text)
            delay = max(self._delay, _delay(rules))
            if delay > _LONGEST_PAUSE:
                self.closed = f"{parts.netloc}: robots.txt asks for more than {_LONGEST_PAUSE:,.0f} s between requests"
                return Visit(url, reason=self.closed, again=True)
            self._robots[site] = rules, time.monotonic()
            self._delays[parts.netloc] = delay
            self._free_at[parts.netloc] = max(self._free_at.get(parts.netloc, 0.0), time.monotonic() + delay)
        return None if rules.can_fetch(url, _AGENT) else Visit(url, reason="forbidden by robots.txt")

    def _leads_away(self, url: str, start: str) -> str | None:
        """Why an address that a redirect of another leads to is not asked, if it is not."""
        try:
            scheme, host, port = _site(url)
            first, _, first_port = _site(start)
        except ValueError as error:
            return f"no address: {error}"
        if scheme not in _PORTS or host not in self._hosts:
            return "leads to another host"
        if scheme == "http" and first == "https":
            return "leads from https to http"
        return None if port in (_PORTS[scheme], first_port if scheme == first else None) else "leads to another port"

    def _robots_text(self, site: str) -> str | Visit:
        """The rules; none if the site has none; a failure that may pass if it does not say (RFC 9309, section 2.3)."""
        url = f"{site}/robots.txt"
        for _ in range(6):
            visit = self._ask(url, _ROBOTS_BYTES)
            if visit.target is None or self._leads_away(urljoin(url, visit.target), site):
                break
            url = urljoin(url, visit.target)
        if visit.status == HTTPStatus.OK and not visit.again:
            return visit.body.decode("utf-8-sig", "replace")
        if visit.status is not None and 400 <= visit.status < 500 and visit.status not in _BUSY:
            return ""
        return Visit(site, visit.status, reason=f"robots.txt: {visit.reason or 'leads to another host'}", again=True)

    def _ask(self, url: str, max_bytes: int) -> Visit:
        """Asks once, or up to three times while the failure may pass."""
        host = urlsplit(url).netloc
        for attempt in range(_TRIES):
            backoff = time.monotonic() + self._delay * 2**attempt if attempt else 0.0
            time.sleep(max(0.0, max(self._free_at.get(host, 0.0), backoff) - time.monotonic()))
            start = time.monotonic()
            visit = self._asked(url, max_bytes, start + self._timeout)
            now = time.monotonic()
            pause = max(self._delays.get(host, self._delay), now - start, self._retry_after(visit))
            self._free_at[host] = now + pause
            if pause > _LONGEST_PAUSE:
                self.closed = f"{host} asks to come back in {pause:,.0f} s"
            if not visit.again or self.closed:
                break
        return visit

    def _asked(self, url: str, max_bytes: int, deadline: float) -> Visit:
        from requests import RequestException, Timeout
        from urllib3.exceptions import HTTPError, TimeoutError

        robots = urlsplit(url).path == "/robots.txt"
        visit = Visit(url)
        try:
            with (
                self._shut_at(deadline),
                self._session.get(url, stream=True, timeout=self._timeout, allow_redirects=False) as response,
            ):
                headers, status = Message(), response.status_code
                for name, value in response.headers.items():
                    headers[name] = value
                if time.monotonic() >= deadline:
                    return replace(visit, reason="timeout", again=True)
                visit = Visit(url, status, headers, target=self._session.get_redirect_target(response))
                if visit.target is not None:
                    return visit
                if status != HTTPStatus.OK:
                    # 403: what a site says that has had enough for now.
                    return replace(visit, reason=_phrase(status), again=status >= 500 or status in {403, *_BUSY})
                if not robots and "Content-Type" in headers and "html" not in headers.get_content_type():
                    return replace(visit, reason=f"{headers.get_content_type()}, not HTML")
                body = bytearray()
                # read1 gives what has come, however little; read would wait for more, and a slow site could hold it.
                while piece := response.raw.read1(1 << 16, decode_content=True):
                    body += piece
                    if len(body) > max_bytes:
                        return replace(visit, body=bytes(body), reason=f"longer than {max_bytes:,} bytes")
                    if time.monotonic() >= deadline:
                        break
                if time.monotonic() >= deadline:
                    return replace(visit, reason="timeout", again=True)
                if response.raw.length_remaining:
                    return replace(visit, reason="no complete answer", again=True)
                return replace(visit, body=bytes(body))
        except ValueError as error:  # an address that no request can be made of
            return replace(visit, reason=f"no address: {error}")
        except (Timeout, TimeoutError):
            return replace(visit, reason="timeout", again=True)
        except (RequestException, HTTPError, OSError) as error:
            late = time.monotonic() >= deadline
            return replace(visit, reason="timeout" if late else f"no answer: {type(error).__name__}", again=True)

    @contextmanager
    def _shut_at(self, deadline: float) -> Iterator[None]:
        """Shuts the connections of a request when its time is over: requests gives each byte a timeout of its own."""

        def shut() -> None:
            for twin in self._opened:
                with suppress(OSError):
                    twin.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(deadline - time.monotonic(), shut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            while self._opened:
                self._opened.pop().close()

    def _retry_after(self, visit: Visit) -> float:
        from urllib3 import Retry
        from urllib3.exceptions import InvalidHeader

        try:
            return float(Retry().parse_retry_after(visit.headers["Retry-After"])) if visit.again else 0.0
        except (InvalidHeader, TypeError):
            return 0.0
        except (ValueError, OverflowError):  # a number of too many digits
            return math.inf


def _adapter(opened: list[socket.socket]) -> Any:
    """Makes an adapter of requests that tells what it opens, as twins that shut a connection whoever waits for it."""
    from requests.adapters import HTTPAdapter
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
    from urllib3.connection import HTTPConnection, HTTPSConnection

    class Told:
        def _new_conn(self) -> socket.socket:
            connection: socket.socket = super()._new_conn()  # type: ignore[misc]
            opened.append(connection.dup())
            return connection

    class Plain(Told, HTTPConnection):
        pass

    class Secure(Told, HTTPSConnection):
        pass

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    adapter = HTTPAdapter()
    adapter.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
    return adapter


def _site(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _delay(rules: Any) -> float:
    """Seconds between requests that robots.txt asks for; what is no number asks for nothing."""
    rate = rules.request_rate(_AGENT)
    delays = [float(rules.crawl_delay(_AGENT) or 0)]
    if rate:
        delays.append(rate.seconds / rate.requests if rate.requests else math.inf)
    return max((delay for delay in delays if not math.isnan(delay)), default=0.0)


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
