"""This project's own store and process helper, with real files and real processes, cancelled at each of their points."""

import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from engine.core.threads import alarm, to_thread_within
from engine.process.run_tree import run_tree
from engine.store.sqlite.store import open_sqlite_store
from engine.testing import NotRepeatable, PromiseBroken, cancel_everywhere
from engine.testing.cancellation.injections import FUNCTION_WAYS
from tests.conftest import CountRuns

pytestmark = pytest.mark.os


def test_store_cancelled_everywhere(tmp_path: Path, count_runs: CountRuns, is_full: bool) -> None:
    paths = iter(tmp_path / f"{number}.db" for number in range(1000))

    @contextmanager
    def case() -> Generator[Callable[[], Awaitable[None]]]:
        path = next(paths)

        async def use() -> None:
            store = await open_sqlite_store(path)
            try:
                await store.ids()
            finally:
                await store.aclose()

        yield use

    # Which of the store's threads ends first is not decided by a seed.
    count_runs(cancel_everywhere(case, by=("scope", "interrupt"), every=1 if is_full else 3, repeatable=False).runs)


async def takes_too_long() -> None:
    release = threading.Event()
    try:
        with pytest.raises(trio.TooSlowError):
            await to_thread_within(0.001, release.wait, 100)
        assert await to_thread_within(100, lambda: 3) == 3
    finally:
        release.set()


def test_limit_of_a_thread_cancelled_everywhere(count_runs: CountRuns) -> None:
    # The alarm's thread would stay a while after each run: it is there before them.
    with alarm.set(1000, lambda: None):
        count_runs(cancel_everywhere(takes_too_long, by=FUNCTION_WAYS, repeatable=False).runs)
        assert len(alarm.due) == 1


async def run_program() -> None:
    program = "import time; [print(n, flush=True) or time.sleep(0.001 * (time.time_ns() % 3)) for n in range(20)]"
    await run_tree([sys.executable, "-S", "-c", program], cwd="/", marker="kit", on_output=lambda _: None)


def test_process_output_is_not_repeatable() -> None:
    # When a process writes is not decided by a seed: that is said, instead of a pass.
    with pytest.raises(NotRepeatable, match="processes"):
        cancel_everywhere(run_program, by="scope")


def test_process_cancelled_at_its_places(count_runs: CountRuns, is_full: bool) -> None:
    report = cancel_everywhere(run_program, by=("scope", "interrupt"), every=1 if is_full else 12, repeatable=False)
    count_runs(report.runs)


def test_process_left_is_found_at_its_place() -> None:
    async def forgets_the_process() -> None:
        process = await trio.lowlevel.open_process(["sleep", "0.2"])
        await process.wait()

    with pytest.raises(PromiseBroken) as raised:
        cancel_everywhere(forgets_the_process, by="scope", repeatable=False)
    assert "a process is left" in str(raised.value)
    assert "in a run that may differ" in str(raised.value)
