"""`to_thread`: prompt cancels, and a limiter of the engine's own."""

import contextvars
import threading

import pytest
import trio

from engine.core.threads import LIMIT, Alarm, current_limiter, in_background, to_thread, to_thread_within

pytestmark = pytest.mark.os


async def test_result_arguments_and_context() -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    variable.set("inside")

    def work(a: int, b: int) -> tuple[int, str, bool]:
        return a + b, variable.get(), threading.current_thread() is threading.main_thread()

    assert await to_thread(work, 1, 2) == (3, "inside", False)


async def test_error_passes() -> None:
    def work() -> None:
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        await to_thread(work)


async def test_cancel_abandons_the_thread_which_keeps_its_slot() -> None:
    hang = threading.Event()
    with trio.move_on_after(0.02):
        await to_thread(hang.wait, 100)
    assert current_limiter().borrowed_tokens == 1
    hang.set()
    with trio.fail_after(30):
        while current_limiter().borrowed_tokens:
            await trio.sleep(0.001)


async def test_cancel_waits_for_unabandonable_work() -> None:
    hang = threading.Event()
    threading.Timer(0.05, hang.set).start()
    with trio.move_on_after(0.01):
        assert await to_thread(hang.wait, 100, abandon_on_cancel=False)
    assert hang.is_set()


async def test_cancelled_before_it_begins() -> None:
    done: list[int] = []
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        await to_thread(done.append, 1)
    assert scope.cancelled_caught
    await trio.sleep(0.02)
    assert done == []


async def test_cancelled_while_it_waits_for_a_place() -> None:
    limiter, done = trio.CapacityLimiter(1), list[int]()
    async with limiter:
        with trio.move_on_after(0.02):
            await to_thread(done.append, 1, limiter=limiter)
    await to_thread(done.append, 2, limiter=limiter)
    assert done == [2]


async def test_limit_abandons_the_thread() -> None:
    hang = threading.Event()
    try:
        with trio.fail_after(30), pytest.raises(trio.TooSlowError):
            await to_thread_within(0.01, hang.wait, 100)
        assert await to_thread_within(100, lambda: 3) == 3
    finally:
        hang.set()


async def test_cancel_under_a_limit_is_a_cancel() -> None:
    hang = threading.Event()
    try:
        with trio.move_on_after(0.02) as scope:
            await to_thread_within(100, hang.wait, 100)
        assert scope.cancelled_caught
    finally:
        hang.set()


def test_nearer_limit_wakes_the_alarm() -> None:
    alarm, called = Alarm(lingers=60), threading.Semaphore(0)
    with alarm.set(100, lambda: None):
        # The thread may come to its wait late; it does before the second or the third of them.
        for _ in range(3):
            with alarm.set(0.01, called.release):
                assert called.acquire(timeout=30)


async def test_host_and_engine_have_separate_threads() -> None:
    hang = threading.Event()
    theirs, ours = trio.to_thread.current_default_thread_limiter(), current_limiter()
    assert (theirs is not ours, ours.total_tokens) == (True, LIMIT)
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(int(theirs.total_tokens)):
                nursery.start_soon(lambda: trio.to_thread.run_sync(hang.wait, 100, abandon_on_cancel=True))
            while theirs.available_tokens:
                await trio.sleep(0.001)
            with trio.fail_after(30):
                assert await to_thread(lambda: 3) == 3
            nursery.cancel_scope.cancel(reason="test")
    finally:
        hang.set()


def test_each_run_has_its_own_limiter() -> None:
    async def main() -> trio.CapacityLimiter:
        await trio.lowlevel.checkpoint()
        assert current_limiter() is current_limiter()
        return current_limiter()

    assert trio.run(main) is not trio.run(main)


async def test_unawaited_work_is_harmless() -> None:
    done = threading.Event()

    def fail() -> None:
        done.set()
        raise OSError("nobody hears this")

    in_background(fail)
    assert await trio.to_thread.run_sync(done.wait, 30)
