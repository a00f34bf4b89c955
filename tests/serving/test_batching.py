import asyncio
import threading

import pytest

from hf_gile.serving.batching import Batcher, Failed, Overloaded


def answer_lengths(sizes):
    """Answers texts with their lengths, and notes how many came at a time."""

    def answer(texts):
        sizes.append(len(texts))
        if "bad" in texts:
            raise ValueError("a bad text")
        return [len(text) for text in texts]

    return answer


def test_requests_that_arrive_during_a_batch_share_the_next_batch():
    sizes, may_go_on = [], threading.Event()

    def answer(texts):
        may_go_on.wait(10)
        return answer_lengths(sizes)(texts)

    async def ask():
        batcher = Batcher(answer, batch_size=4, max_waiting=10)
        first = asyncio.create_task(batcher(["alone"]))
        while len(batcher) or not first.done():
            await asyncio.sleep(0)
            if not len(batcher):
                break
        others = [asyncio.create_task(batcher([text])) for text in "abcdef"]
        await asyncio.sleep(0)
        may_go_on.set()
        return await asyncio.gather(first, *others)

    assert asyncio.run(ask()) == [[5]] + [[1]] * 6
    assert sizes == [1, 4, 2]


def test_a_failing_text_affects_no_other_text():
    async def ask():
        batcher = Batcher(answer_lengths([]), batch_size=8, max_waiting=10)
        texts = (["good", ""], ["bad"], [], ["fine"])
        return await asyncio.gather(*map(batcher, texts), return_exceptions=True)

    good, bad, none, fine = asyncio.run(ask())
    assert (good, none, fine) == ([4, 0], [], [4])
    assert str(bad) == "a bad text"


class Panic(BaseException):
    """A panic of a Rust library."""


@pytest.mark.parametrize("error", [Panic("in Rust"), KeyboardInterrupt(), StopIteration(), MemoryError()])
def test_an_error_of_any_kind_is_the_answer_and_the_next_text_is_answered(error):
    def answer(texts):
        if "bad" in texts:
            raise error
        return [len(text) for text in texts]

    async def ask():
        batcher = Batcher(answer, batch_size=8, max_waiting=10)
        first = await asyncio.gather(batcher(["good"]), batcher(["bad"]), return_exceptions=True)
        return first, await batcher(["fine"]), batcher.busy_seconds()

    (good, bad), fine, seconds = asyncio.run(ask())
    assert (good, fine, seconds) == ([4], [4], 0)
    assert isinstance(bad, Failed)
    assert bad.args == (error,)


def test_excess_texts_are_refused_and_the_others_answered():
    async def ask():
        batcher = Batcher(answer_lengths([]), batch_size=2, max_waiting=3)
        waiting = asyncio.create_task(batcher(["a", "b", "c"]))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await batcher(["d"])
        return await waiting

    assert asyncio.run(ask()) == [1, 1, 1]


def test_texts_of_a_disconnected_client_are_not_scored():
    sizes = []
    started = threading.Event()
    may_go_on = threading.Event()

    def answer(texts):
        started.set()
        may_go_on.wait(10)
        return answer_lengths(sizes)(texts)

    async def ask():
        batcher = Batcher(answer, batch_size=8, max_waiting=10)
        first = asyncio.create_task(batcher(["first"]))
        while not started.is_set():
            await asyncio.sleep(0)
        gone = asyncio.create_task(batcher(["gone", "gone"]))
        stays = asyncio.create_task(batcher(["stays"]))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        may_go_on.set()
        return await asyncio.gather(first, stays)

    assert asyncio.run(ask()) == [[5], [5]]
    assert sizes == [1, 1]


def test_texts_are_read_while_a_batch_is_computed():
    read = []
    may_go_on = threading.Event()

    def note(texts):
        read.extend(texts)
        return [text.upper() for text in texts]

    def answer(texts):
        assert may_go_on.wait(10)
        return texts

    async def ask():
        batcher = Batcher(answer, batch_size=2, max_waiting=20, read=note)
        tasks = [asyncio.create_task(batcher([text])) for text in "abcdef"]
        while len(read) < 4:
            await asyncio.sleep(0)
        assert len(read) == 4  # of two batches, to bound the memory
        may_go_on.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(ask()) == [[letter] for letter in "ABCDEF"]
    assert sorted(read) == list("abcdef")


def test_a_request_may_have_more_texts_than_a_batch():
    sizes = []

    async def ask():
        return await Batcher(answer_lengths(sizes), batch_size=2, max_waiting=10)(["a"] * 5)

    assert asyncio.run(ask()) == [1] * 5
    assert sizes == [2, 2, 1]


def test_a_text_that_cannot_be_read_affects_no_other_text():
    def read(texts):
        return [int(text) for text in texts]

    async def ask():
        batcher = Batcher(list, batch_size=8, max_waiting=10, read=read)
        return await asyncio.gather(*map(batcher, (["1"], ["2", "two"], ["3"])), return_exceptions=True)

    first, bad, last = asyncio.run(ask())
    assert (first, last) == ([1], [3])
    assert "'two'" in str(bad)
