"""A polite HTTP client for web pages that sends one request at a time.

Protego reads robots.txt, as in Scrapy, because Python's own parser lacks `*` and `$`, which the site's rules use.
Scrapy itself ignores Retry-After and Crawl-delay, and takes an unavailable robots.txt as permission.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

from ...extras import needs_extra

with needs_extra("data", "crawl_dw"):
    import httpx2
    from protego import Protego

_AGENT = "hf-gile"  # user agent, for rules in robots.txt
_MAX_REDIRECTS = 10
_MAX_PAUSE = 600.0
_ROBOTS_AGE = 86_400.0
_ROBOTS_BYTES = 500 * 1024  # RFC 9309, section 2.5
_BUSY = {408, 425, 429}
_PORTS = {"http": 80, "https": 443}


@dataclass
class Visit:
    """The result of a visit: a page, or the reason why it is missing."""

    url: str  # the last address requested
    status: int | None = None  # None if there was no answer
    charset: str | None = None  # as the headers declare it
    reason: str | None = None  # None if there is a page
    again: bool = False  # whether the failure may be temporary
    page: bytes = b""  # unpacked
    target: str | None = None  # of a redirect
    pause: float = 0.0  # seconds to leave the host alone, by Retry-After


class Visitor:
    """Requests one address at a time, with pauses for each host; arguments are as in `crawl_dw`.

    `closed` is the reason to stop: a host asks for a pause of more than ten minutes, once or always.
    """

    def __init__(self, contact: str, hosts: Sequence[str], delay: float, timeout: float, max_bytes: int) -> None:
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(
                "an event loop is already running, as in a notebook: crawl in a separate process, "
                "with recipes/crawl_dw.py"
            )
        is_address = "@" in contact or contact.startswith(("http://", "https://"))
        if not is_address or not (contact.isascii() and contact.isprintable()):
            raise ValueError(f"contact must be an e-mail address or the address of a web page, got {contact!r}")
        if delay < 0 or timeout <= 0:
            raise ValueError(f"delay and timeout must be positive, got {delay} and {timeout}")
        self.closed = ""
        self._hosts, self._delay, self._timeout, self._max_bytes = hosts, delay, timeout, max_bytes
        self._robots: dict[str, tuple[Any, float]] = {}
        self._delays: dict[str, float] = {}
        self._free_at: dict[str, float] = {}
        agent = f"{_AGENT} (research crawler; {contact})"
        self._headers = {"User-Agent": agent, "Accept": "text/html,application/xhtml+xml", "Connection": "close"}
        self._tls = httpx2.create_ssl_context()

    def visit(self, start: str, *, robots: bool = False) -> Visit:
        """Follows the redirects of an address, as far as robots.txt allows; robots.txt itself is always allowed."""
        url = start
        for _ in range(_MAX_REDIRECTS + 1):
            if reason := self._forbidden_redirect(url, start):
                return Visit(url, reason=reason)
            if not robots and (refusal := self._refusal(url)):
                return refusal
            visit = self._ask(url, robots)
            if visit.target is None:
                return visit
            url = urldefrag(urljoin(url, visit.target)).url
        return Visit(url, visit.status, reason=f"more than {_MAX_REDIRECTS} redirects")

    def _forbidden_redirect(self, url: str, start: str) -> str | None:
        """Returns the reason against following a redirect; None if it may be followed."""
        try:
            (scheme, host, port), (first, _, first_port) = _parse_site(url), _parse_site(start)
        except ValueError as error:
            return f"invalid address: {error}"
        if scheme not in _PORTS or host not in self._hosts:
            return "redirects to another host"
        if scheme == "http" and first == "https":
            return "redirects from https to http"
        return (
            None if port in (_PORTS[scheme], first_port if scheme == first else None) else "redirects to another port"
        )

    def _refusal(self, url: str) -> Visit | None:
        """Returns why robots.txt forbids an address (RFC 9309): a rule, or that it is unavailable for now."""
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc}"
        rules, read_at = self._robots.get(site, (None, -math.inf))
        if time.monotonic() - read_at > _ROBOTS_AGE:
            robots = self.visit(f"{site}/robots.txt", robots=True)
            is_missing = robots.status is not None and 400 <= robots.status < 500 and robots.status not in _BUSY
            if not is_missing and robots.status != 200:
                return Visit(site, robots.status, reason=f"robots.txt: {robots.reason}", again=True)
            rules = Protego.parse("" if is_missing else robots.page.decode("utf-8-sig", "replace"))
            delay = max(self._delay, _delay(rules))
            if delay > _MAX_PAUSE:
                self.closed = f"{parts.netloc}: robots.txt asks for more than {_MAX_PAUSE:,.0f} s between requests"
                return Visit(url, reason=self.closed, again=True)
            self._robots[site] = rules, time.monotonic()
            self._delays[parts.netloc] = delay
            self._free_at[parts.netloc] = max(self._free_at.get(parts.netloc, 0.0), time.monotonic() + delay)
        return None if rules.can_fetch(url, _AGENT) else Visit(url, reason="forbidden by robots.txt")

    def _ask(self, url: str, robots: bool) -> Visit:
        """Sends a request after the pause that the host requires."""
        host = urlsplit(url).netloc
        time.sleep(max(0.0, self._free_at.get(host, 0.0) - time.monotonic()))
        start = time.monotonic()
        try:
            visit = asyncio.run(self._answer(url, robots))
        except (ValueError, httpx2.InvalidURL) as error:  # not a valid address for a request
            visit = Visit(url, reason=f"invalid address: {error}")
        except TimeoutError:
            visit = Visit(url, reason="timeout", again=True)
        except (httpx2.HTTPError, OSError) as error:
            visit = Visit(url, reason=f"no answer: {type(error).__name__}", again=True)
        now = time.monotonic()
        pause = max(self._delays.get(host, self._delay), now - start, visit.pause)
        self._free_at[host] = now + pause
        if pause > _MAX_PAUSE:
            self.closed = f"{host} asks to wait {pause:,.0f} s"
        return visit

    async def _answer(self, url: str, robots: bool) -> Visit:
        async with (
            asyncio.timeout(self._timeout),  # the client's own timeout restarts with every byte received
            httpx2.AsyncClient(headers=self._headers, verify=self._tls, timeout=None) as client,
            client.stream("GET", url) as response,
        ):
            status, headers = response.status_code, response.headers
            visit = Visit(url, status, response.charset_encoding)
            kind = headers.get("Content-Type", "html").partition(";")[0].strip().lower()
            if response.has_redirect_location:
                visit.target = headers["Location"]
            elif status != 200:
                visit.reason = f"{status} {response.reason_phrase}".strip()
                visit.again = status >= 500 or status in {403, *_BUSY}  # 403: a site may answer so for a while
                visit.pause = _parse_retry_after(headers.get("Retry-After", "")) if visit.again else 0.0
            elif "html" not in kind and not robots:
                visit.reason = f"{kind}, not HTML"
            else:
                page, limit = bytearray(), _ROBOTS_BYTES if robots else self._max_bytes
                async for piece in response.aiter_bytes():
                    page += piece
                    if len(page) > limit:
                        visit.reason = f"longer than {limit:,} bytes"
                        break
                visit.page = bytes(page)
            return visit


def _parse_retry_after(value: str) -> float:
    if value.strip().isdecimal():
        return float(value)
    try:
        return (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _parse_site(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _delay(rules: Any) -> float:
    """Returns the seconds between requests that robots.txt asks for; invalid values are ignored."""
    rate = rules.request_rate(_AGENT)
    delay = float(rules.crawl_delay(_AGENT) or 0)
    rate_delay = (rate.seconds / rate.requests if rate.requests else math.inf) if rate else 0.0
    return max(delay if math.isfinite(delay) else 0.0, rate_delay)
