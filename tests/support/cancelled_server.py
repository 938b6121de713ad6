"""A server that is cancelled at steps of the scheduler: what it had open is closed."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import trio

from engine.testing.cancellation.trio_internals import seed_scheduler
from tests.support.cancel_at import CancelAt


@contextmanager
def short_folder() -> Generator[Path]:
    """Return a folder with a short name, for the Unix socket."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "run"


def cancel_server(scenario: Callable[[CancelAt, Path], Awaitable[None]], *, least: int, samples: int | None) -> int:
    """Run *scenario* with a cancel at each step, or at some; no file may stay open. Return how many runs there were.

    Args:
        scenario: with the cancel and a folder; it must have more than *least* steps.
        least: that number.
        samples: at how many steps, evenly; None: at each.
    """

    def play(folder: Path, step: int | None) -> CancelAt:
        seed_scheduler(0)
        at = CancelAt(step)
        trio.run(partial(scenario, at, folder), instruments=[at])
        return at

    with short_folder() as folder:
        steps = play(folder, None).steps
        assert steps > least
        before = open_files()
        chosen = range(steps) if samples is None else range(0, steps, max(1, steps // samples))
        for step in chosen:
            play(folder, step)
        assert open_files() <= before
    return len(chosen)


def open_files() -> int:
    """Return how many files this process has open."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))
