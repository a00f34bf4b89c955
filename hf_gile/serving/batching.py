"""Scores the texts of concurrent requests together."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


_PAUSE = 1e-4
"""Seconds, for each further text of a batch, in which clients may send the next text: then these share a batch."""


class Overloaded(Exception):
    """Too many items are waiting: try again later."""


class Failed(Exception):
    """The answer to an item could not be computed; the argument is the error, of any kind."""


class Batcher(Generic[Item, Answer]):
    """Answers items in batches, in the order in which they arrive.

    A single thread computes the answers. Items that arrive while it is busy wait for the next batch, so batches grow
    with the load, and a lone request is answered immediately.

    Args:
        answer: Function that maps a list of items to their answers; runs in a thread.
        batch_size: Maximum number of items in a batch.
        max_waiting: Maximum number of waiting items.
    """

    def __init__(self, answer: Callable[[list[Item]], Iterable[Answer]], batch_size: int, max_waiting: int) -> None:
        self._answer = answer
        self._batch_size = batch_size
        self._max_waiting = max_waiting
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._started: float | None = None
        self._thread = ThreadPoolExecutor(1)

    def __len__(self) -> int:
        """Returns the number of waiting items."""
        return len(self._waiting)

    def busy_seconds(self) -> float:
        """Returns how long the current batch has been computed; 0 without a batch."""
        return 0.0 if self._started is None else time.monotonic() - self._started

    async def __call__(self, items: Sequence[Item]) -> list[Answer]:
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
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in items]
        self._waiting.extend(zip(items, futures, strict=True))
        if self._started is None:
            self._started = time.monotonic()
            loop.call_soon(self._start, loop)  # after the other requests that arrive just now
        try:
            return list(await asyncio.gather(*futures))
        finally:
            for future in futures:  # the client may have disconnected or timed out
                future.cancel()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the next batch in the thread, if items are waiting."""
        self._started = None
        batch = [self._waiting.popleft() for _ in range(min(self._batch_size, len(self)))]
        if batch:
            self._started = time.monotonic()
            pending = [(item, future) for item, future in batch if not future.done()]
            finish = partial(self._finish, loop, [future for _, future in pending])
            answers = self._thread.submit(self._answers, [item for item, _ in pending])
            # The service may have ended meanwhile, as after a text that takes too long.
            answers.add_done_callback(lambda done: loop.is_closed() or loop.call_soon_threadsafe(finish, done))

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        futures: list[asyncio.Future[Answer]],
        answers: Future[Sequence[Answer | Exception]],
    ) -> None:
        """Hands over the answers to a batch, and starts the next when the clients had time to ask again."""
        for future, answer in zip(futures, answers.result(), strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        loop.call_later(_PAUSE * (len(futures) - 1), self._start, loop)

    def _answers(self, items: list[Item]) -> Sequence[Answer | Exception]:
        """Returns an answer or an error for each item; after an error, items are retried one by one.

        No error ends the worker, not even SystemExit or a panic of a Rust library, which is no Exception.
        """
        if not items:
            return []
        try:
            answers = list(self._answer(items))
            if len(answers) != len(items):
                raise RuntimeError(f"{len(answers)} answers to {len(items)} items")
        except BaseException as error:
            if len(items) > 1:
                return [answer for item in items for answer in self._answers([item])]
            return [error if isinstance(error, ValueError) else Failed(error)]
        return answers
