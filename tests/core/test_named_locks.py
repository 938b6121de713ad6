"""Locks by name: one at a time, in order, and none is left behind."""

import trio
from trio.testing import wait_all_tasks_blocked

from engine.core.named_locks import Locks


async def test_lock_is_exclusive_and_fair() -> None:
    locks = Locks()
    seen: list[str] = []

    async def work(who: str, *names: str) -> None:
        async with locks.hold(*names):
            seen.append(f"{who} in")
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            seen.append(f"{who} out")

    async with trio.open_nursery() as nursery, locks.hold("a"):
        for number in range(3):
            nursery.start_soon(work, str(number), "a")
            await wait_all_tasks_blocked()
        nursery.start_soon(work, "other", "b")
        await wait_all_tasks_blocked()
        assert seen == ["other in", "other out"]
    assert seen[2:] == ["0 in", "0 out", "1 in", "1 out", "2 in", "2 out"]
    assert len(locks) == 0


async def test_several_locks_cannot_deadlock() -> None:
    locks = Locks()

    async def work(*names: str) -> None:
        for _ in range(10):
            async with locks.hold(*names):
                await trio.lowlevel.checkpoint()

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, "a", "b", "a")
            nursery.start_soon(work, "b", "a")
    assert len(locks) == 0


async def test_cancelled_waiter_holds_no_lock() -> None:
    locks = Locks()
    async with locks.hold("b"):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def wait() -> None:
                    async with locks.hold("a", "b"):
                        raise AssertionError("b is held by another")

                nursery.start_soon(wait)
                await wait_all_tasks_blocked()
                scope.cancel()
        with trio.fail_after(30):
            async with locks.hold("a"):
                pass
