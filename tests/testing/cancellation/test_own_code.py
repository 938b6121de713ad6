"""This project's own store and process helper, with real files and real processes, cancelled at each of their points."""

import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.process.run_tree import run_tree
from engine.store.sqlite.store import open_sqlite_store
from engine.testing import NotRepeatable, cancel_everywhere
from tests.conftest import CountRuns

pytestmark = pytest.mark.os


def test_store_cancelled_everywhere(tmp_path: Path, count_runs: CountRuns) -> None:
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

    count_runs(cancel_everywhere(case, by=("scope", "interrupt")).runs)


def test_process_output_is_not_repeatable() -> None:
    async def run() -> None:
        program = "import time; [print(n, flush=True) or time.sleep(0.001 * (time.time_ns() % 3)) for n in range(20)]"
        await run_tree([sys.executable, "-S", "-c", program], cwd="/", marker="kit", on_output=lambda _: None)

    # When a process writes is not decided by a seed: that is said, instead of a pass.
    with pytest.raises(NotRepeatable, match="processes"):
        cancel_everywhere(run, by=("scope",))
