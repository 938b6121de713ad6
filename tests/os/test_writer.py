"""`Writer`: what was put is written, in order, whatever becomes of the tasks (rule 5)."""

import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import attrs
import pytest
import trio

from engine.core.errors import StoreError
from engine.core.threads import LIMIT, to_thread
from engine.store.writer_thread import WriteFailed, Writer, WriterUnusable
from tests.conftest import CountRuns, Soak

pytestmark = pytest.mark.os


@attrs.define(eq=False)
class Disk:
    """A sink to be stopped, slowed down, and broken."""

    batches: list[list[int]] = attrs.field(factory=list[list[int]])
    spins: threading.Event = attrs.field(factory=threading.Event)
    is_closed: threading.Event = attrs.field(factory=threading.Event)
    latency: float = 0.0
    idle: float | None = None
    error: BaseException | None = None
    error_at_close: BaseException | None = None
    threads: set[threading.Thread] = attrs.field(factory=set[threading.Thread])

    def __attrs_post_init__(self) -> None:
        self.spins.set()

    @property
    def items(self) -> list[int]:
        return [item for batch in self.batches for item in batch]

    def write(self, batch: Sequence[int]) -> None:
        self.threads.add(threading.current_thread())
        self.spins.wait()
        time.sleep(self.latency)
        if self.error is not None:
            raise self.error
        self.batches.append(list(batch))

    def idle_seconds(self) -> float | None:
        return self.idle

    def close(self) -> None:
        self.threads.add(threading.current_thread())
        self.is_closed.set()
        if self.error_at_close is not None:
            raise self.error_at_close


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.spins.set()
    for thread in disk.threads:
        thread.join(2)
        assert not thread.is_alive()


@pytest.fixture
async def writer(disk: Disk) -> Writer[int]:
    return Writer(disk, name="store")


async def test_everything_is_written_once_in_order(disk: Disk, writer: Writer[int]) -> None:
    tickets = [writer.put(item) for item in range(1000)]
    assert tickets == list(range(1, 1001))
    await writer.flushed(tickets[-1])
    assert disk.items == list(range(1000))
    assert writer.durable == 1000
    assert await writer.aclose(30)
    assert disk.is_closed.is_set()
    (thread,) = disk.threads
    assert thread.name == "store"
    assert thread is not threading.main_thread()


async def test_queued_work_is_one_batch(disk: Disk, writer: Writer[int]) -> None:
    disk.spins.clear()
    first = writer.put(0)
    while not disk.threads:
        await trio.sleep(0.001)
    rest = [writer.put(item) for item in range(1, 101)]
    assert writer.durable == 0
    disk.spins.set()
    await writer.flushed(first)
    await writer.flushed(rest[-1])
    assert [len(batch) for batch in disk.batches] == [1, 100]
    assert await writer.aclose(30)


async def test_flushed_waits_no_longer_than_it_must(disk: Disk, writer: Writer[int]) -> None:
    """What is durable already costs a checkpoint, while later items wait for the disk."""
    await writer.flushed(0)
    early = writer.put(1)
    await writer.flushed(early)
    disk.spins.clear()
    late = writer.put(2)
    await writer.flushed(early)
    with trio.move_on_after(0.02) as scope:
        await writer.flushed(late)
    assert scope.cancelled_caught
    assert writer.durable == early
    disk.spins.set()
    await writer.flushed(late)
    for wrong in (-1, late + 1):
        with pytest.raises(ValueError, match="ticket"):
            await writer.flushed(wrong)
    assert await writer.aclose(30)


# ---- the tasks come and go -------------------------------------------------------------------------------------------


async def test_rule_05_flush_survives_a_host_cancel(disk: Disk, writer: Writer[int]) -> None:
    """A thread that was a task of a nursery died with the host's cancel, and the flush of the clean-up hung."""
    disk.latency = 0.03
    is_durable = False
    with trio.CancelScope() as host:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            writer.put(1)
            host.cancel(reason="test")
            try:
                await trio.sleep_forever()
            finally:
                ticket = writer.put(2)
                with trio.move_on_after(30, shield=True):
                    await writer.flushed(ticket)
                    is_durable = True
    assert host.cancelled_caught
    assert is_durable
    assert disk.items == [1, 2]
    assert await writer.aclose(30)


async def test_rule_05_mark_decides_in_a_cancelled_scope(writer: Writer[int]) -> None:
    ticket = writer.put(1)
    await writer.flushed(ticket)
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        await writer.flushed(ticket)
    assert scope.cancelled_caught
    assert writer.durable >= ticket
    assert await writer.aclose(30)


async def test_rule_05_abandoned_threads_delay_no_flush(writer: Writer[int]) -> None:
    """Neither those of the host nor those of tools: behind a shared limiter a flush waited 1.9 s."""
    hang = threading.Event()
    theirs = trio.to_thread.current_default_thread_limiter()
    try:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                for _ in range(int(theirs.total_tokens) + 5):
                    nursery.start_soon(lambda: trio.to_thread.run_sync(hang.wait, 100, abandon_on_cancel=True))
                for _ in range(LIMIT + 5):
                    nursery.start_soon(to_thread, hang.wait, 100)
                while theirs.available_tokens:
                    await trio.sleep(0.001)
                scope.cancel(reason="test")
        assert theirs.available_tokens == 0
        with trio.fail_after(30):
            await writer.flushed(writer.put(1))
    finally:
        hang.set()
    assert await writer.aclose(30)


@pytest.mark.soak
def test_rule_05_order_and_durability_under_cancels(soak: Soak, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=20):
        trio.run(_put_and_cancel, seed)
        count_runs(1)


async def _put_and_cancel(seed: int) -> None:
    dice = random.Random(seed)
    disk = Disk(latency=dice.choice([0, 0.001]))
    writer = Writer(disk, name="store")
    put: list[int] = []

    async def turn() -> None:
        for _ in range(dice.randrange(1, 20)):
            item = dice.randrange(1000)
            ticket = writer.put(item)
            put.append(item)
            assert ticket == len(put)
            if dice.random() < 0.3:
                await writer.flushed(ticket)
                assert writer.durable >= ticket
                assert disk.items[:ticket] == put[:ticket]
            elif dice.random() < 0.5:
                await trio.sleep(dice.random() * 0.001)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            scope = trio.move_on_after(dice.random() * 0.02)
            nursery.start_soon(_within, scope, turn)
    assert await writer.aclose(30)
    assert disk.items == put
    assert writer.durable == len(put)


async def _within(scope: trio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await work()


# ---- a disk that hangs -----------------------------------------------------------------------------------------------


async def test_rule_05_hanging_sink_blocks_no_task(disk: Disk, writer: Writer[int]) -> None:
    disk.spins.clear()
    ticket = writer.put(1)
    with trio.move_on_after(0.05) as scope:
        await writer.flushed(ticket)
    assert scope.cancelled_caught
    assert not await writer.aclose(0.05)
    disk.spins.set()
    assert await writer.aclose(30)  # asked again, once the disk has woken up
    assert disk.items == [1]


async def test_rule_05_cancelled_aclose_leaves_the_thread(disk: Disk, writer: Writer[int]) -> None:
    disk.spins.clear()
    writer.put(1)
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        await writer.aclose(10)
    assert scope.cancelled_caught
    disk.spins.set()
    assert disk.is_closed.wait(30)
    assert disk.items == [1]


_HANGS = """
import threading, trio
from engine.store.writer_thread import Writer
class Disk:
    def write(self, batch): threading.Event().wait()
    def close(self): pass
async def main():
    writer = Writer(Disk(), name="store")
    writer.put(1)
    print(await writer.aclose(0.05), flush=True)
trio.run(main)
"""


async def test_rule_05_hanging_sink_lets_the_program_exit() -> None:
    with trio.fail_after(60):
        done = await trio.run_process(
            [sys.executable, "-c", _HANGS], capture_stdout=True, cwd=Path(__file__).parents[2]
        )
    assert done.stdout == b"False\n"


# ---- the end of a run ------------------------------------------------------------------------------------------------


def test_rule_05_pending_writes_happen_after_the_run(disk: Disk) -> None:
    """The answers have nobody to reach then (`RunFinishedError`), which must not end the thread early."""

    async def main() -> None:
        writer = Writer(disk, name="store")
        disk.spins.clear()
        writer.put(1)
        while not disk.threads:
            await trio.sleep(0.001)
        writer.put(2)
        writer.close()

    trio.run(main)
    disk.spins.set()
    assert disk.is_closed.wait(30)
    assert disk.items == [1, 2]


def test_rule_05_a_writer_answers_to_one_run(disk: Disk) -> None:
    async def first() -> Writer[int]:
        writer = Writer(disk, name="store")
        await writer.flushed(writer.put(1))
        return writer

    async def second(writer: Writer[int]) -> None:
        with pytest.raises(WriterUnusable, match="other run"):
            writer.put(2)
        with pytest.raises(WriterUnusable, match="other run"):
            await writer.flushed(1)
        with pytest.raises(WriterUnusable, match="other run"):
            await writer.aclose(30)

    async def third(writer: Writer[int]) -> None:
        await trio.lowlevel.checkpoint()
        writer._token = trio.lowlevel.current_trio_token()
        writer.close()  # so that no thread is left of this test

    writer = trio.run(first)
    trio.run(second, writer)
    trio.run(third, writer)
    assert disk.is_closed.wait(30)


async def test_rule_05_use_after_fork_is_refused(writer: Writer[int]) -> None:
    """The thread lives in the parent; in the child a flush would wait for ever, and both would write one file."""
    ticket = writer.put(1)
    await writer.flushed(ticket)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is the point
        pid = os.fork()
    if not pid:
        refused = 0
        for use in (lambda: writer.put(2), writer.close):
            try:
                use()
            except WriterUnusable as error:
                refused += error.reason == "forked"
        for wait in (writer.flushed(ticket), writer.aclose(30)):
            try:
                wait.send(None)
            except WriterUnusable as error:
                refused += error.reason == "forked"
        os._exit(refused)
    assert _exit_code(pid) == 4
    await writer.flushed(writer.put(3))
    assert await writer.aclose(30)


def _exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SystemExit(3)], ids=type)
async def test_sink_error_fails_all_waiters(error: BaseException, disk: Disk, writer: Writer[int]) -> None:
    kept = writer.put(1)
    await writer.flushed(kept)
    disk.error = error
    disk.spins.clear()
    failures: list[WriteFailed] = []

    async def wait(ticket: int) -> None:
        with pytest.raises(WriteFailed) as caught:
            await writer.flushed(ticket)
        failures.append(caught.value)

    async with trio.open_nursery() as nursery:
        for item in range(3):
            nursery.start_soon(wait, writer.put(item))
        await trio.sleep(0.01)
        disk.spins.set()
    assert [failure.__cause__ for failure in failures] == [error] * 3
    assert len({id(failure) for failure in failures}) == 3
    with pytest.raises(StoreError, match=r"store could not be written") as caught:
        writer.put(9)
    assert caught.value.__cause__ is error
    await writer.flushed(kept)
    assert not await writer.aclose(30)
    assert disk.is_closed.is_set()
    assert disk.items == [1]


async def test_an_error_at_the_close(disk: Disk, writer: Writer[int]) -> None:
    disk.error_at_close = OSError(5, "Input/output error")
    ticket = writer.put(1)
    assert not await writer.aclose(30)
    await writer.flushed(ticket)


async def test_the_first_error_is_the_cause(disk: Disk, writer: Writer[int]) -> None:
    disk.error, disk.error_at_close = OSError("write"), OSError("close")
    with pytest.raises(WriteFailed) as caught:
        await writer.flushed(writer.put(1))
    assert caught.value.__cause__ is disk.error


async def test_closed(disk: Disk, writer: Writer[int]) -> None:
    ticket = writer.put(1)
    writer.close()
    writer.close()
    with pytest.raises(WriterUnusable, match="closed") as caught:
        writer.put(2)
    assert caught.value.reason == "closed"
    await writer.flushed(ticket)
    assert await writer.aclose(30)
    assert await writer.aclose(0)
    assert disk.items == [1]


async def test_unused_writer_closes_its_sink(disk: Disk, writer: Writer[int]) -> None:
    assert disk.threads == set()
    assert await writer.aclose(30)
    assert disk.is_closed.is_set()


async def test_no_thread_to_be_had(disk: Disk, writer: Writer[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(WriteFailed) as caught:
        writer.put(1)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert not await writer.aclose(30)
    assert not await Writer(disk, name="unused").aclose(30)
