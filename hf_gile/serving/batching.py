"""Scores the texts of concurrent requests together."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import get_ident
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_READERS = 4
"""Number of threads that read items."""


class Overloaded(Exception):
    """Too many items are waiting: try again later."""


class Failed(Exception):
    """The answer to an item could not be computed; the argument is the error, of any kind."""


class Batcher(Generic[Item, Result]):
    """Reads the items of each request in a pool of threads, and answers the items of all requests in batches.

    A single thread computes the answers. Items that are read while it is busy share the next batch, so batches grow
    with the load, and a lone request waits for no other. To bound the memory, at most as many requests as there are
    items in two batches are read before their answers are computed.

    Args:
        answer: Function that maps a list of read items to their answers.
        batch_size: Maximum number of items in a batch.
        max_waiting: Maximum number of waiting items.
        read: Function that prepares a list of items for `answer`, in any thread; by default, nothing changes.
    """

    def __init__(
        self,
        answer: Callable[[list[Any]], Iterable[Result]],
        batch_size: int,
        max_waiting: int,
        read: Callable[[list[Item]], Iterable[Any]] = list,
    ) -> None:
        self._answer = answer
        self._batch_size = batch_size
        self._max_waiting = max_waiting
        self._read = read
        self._requests = asyncio.Semaphore(2 * batch_size)
        self._waiting: set[Future[Result]] = set()
        self._items: deque[tuple[Any, Future[Result]]] = deque()
        self._started: dict[int, float] = {}
        self._readers = ThreadPoolExecutor(_READERS)
        self._thread = ThreadPoolExecutor(1)

    def __len__(self) -> int:
        """Returns the number of waiting items."""
        return len(self._waiting)

    def busy_seconds(self) -> float:
        """Returns how long a thread has read a request or computed a batch, at most; 0 if all threads are idle."""
        now = time.monotonic()
        return now - min([now, *self._started.values()])

    async def __call__(self, items: Sequence[Item]) -> list[Result]:
        """Answers items.

        Args:
            items: The items of a request.

        Raises:
            Overloaded: If too many items are waiting.
            ValueError: If an item is invalid.
            Failed: If another error occurs.
        """
        if len(self) + len(items) > self._max_waiting:
            raise Overloaded
        futures: list[Future[Result]] = [Future() for _ in items]
        self._waiting.update(futures)
        try:
            async with self._requests:
                self._readers.submit(self._prepare, list(items), futures)
                return list(await asyncio.gather(*map(asyncio.wrap_future, futures)))
        finally:
            self._waiting.difference_update(futures)
            for future in futures:  # the client may have disconnected or timed out
                future.cancel()

    def _prepare(self, items: list[Item], futures: list[Future[Result]]) -> None:
        """Reads the items of a request, and starts to compute the answers."""
        for item, future in zip(self._attempt(self._read, items), futures, strict=True):
            if not isinstance(item, Exception):
                self._items.append((item, future))
            elif future.set_running_or_notify_cancel():
                future.set_exception(item)
        for _ in items[:: self._batch_size]:
            self._thread.submit(self._compute)

    def _compute(self) -> None:
        """Computes the answers to the next batch."""
        batch = [self._items.popleft() for _ in range(min(self._batch_size, len(self._items)))]
        self._waiting.difference_update(future for _, future in batch)
        pending = [(item, future) for item, future in batch if future.set_running_or_notify_cancel()]
        answers = self._attempt(self._answer, [item for item, _ in pending])
        for (_, future), answer in zip(pending, answers, strict=True):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _attempt(self, function: Callable[[list[Any]], Iterable[Any]], items: list[Any]) -> list[Any]:
        """Returns a result or an error for each item; after an error, items are retried one by one.

        No error ends a thread, not even SystemExit or a panic of a Rust library, which is no Exception.
        """
        if not items:
            return []
        self._started[get_ident()] = time.monotonic()
        try:
            results = list(function(items))
            if len(results) != len(items):
                raise RuntimeError(f"{len(results)} results for {len(items)} items")
        except BaseException as error:
            if len(items) > 1:
                return [result for item in items for result in self._attempt(function, [item])]
            return [error if isinstance(error, ValueError) else Failed(error)]
        finally:
            self._started.pop(get_ident(), None)
        return results
