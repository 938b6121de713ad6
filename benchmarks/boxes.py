"""Figure `boxes`: what the reader box adds to a command, for each back end that works here."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, get_args
from uuid import uuid4

import trio

from benchmarks.report import Figure, Row, median, seconds
from engine.config.sandbox_config import SECRETS
from engine.core.threads import to_thread
from engine.process.run_tree import run_tree
from engine.process.start import Launch
from engine.sandbox.backends import choose_backend
from engine.sandbox.reader import Backend, launch_reader

COMMAND: Final = ("true",)
ROUNDS: Final = 101
LIMIT: Final = 0.003


async def _taken(folder: str, make: Callable[[], Launch]) -> float:
    began = time.perf_counter()
    launch = await to_thread(make)
    await run_tree(
        launch.argv,
        cwd=folder,
        marker=f"benchmark-{uuid4().hex}",
        env={"PATH": "/usr/bin:/bin", **launch.environment},
        confine=launch.confine,
        on_output=lambda _: None,
    )
    return time.perf_counter() - began


def measure() -> list[Row]:
    rows: list[Row] = []

    async def main(folder: str, backend: Backend) -> None:
        if (await choose_backend(backend)).backend is None:
            return
        home = str(Path.home())
        plain: list[float] = []
        boxed: list[float] = []
        # By turns, so that a busy moment hits both.
        for _ in range(ROUNDS):
            plain.append(await _taken(folder, lambda: Launch(argv=COMMAND)))
            boxed.append(
                await _taken(folder, lambda: launch_reader(backend, COMMAND, cwd=folder, home=home, hidden=SECRETS))
            )
        added = median(one - other for one, other in zip(boxed, plain, strict=True))
        has_target = backend == "landlock"
        rows.append(
            Row(
                name=f"boxes: a command in the reader box ({backend}) over one without",
                measured=seconds(added),
                baseline=seconds(median(plain)),
                ratio=median(boxed) / median(plain),
                target="≤ 3 ms over it" if has_target else "",
                ok=added <= LIMIT if has_target else None,
            )
        )

    with tempfile.TemporaryDirectory() as folder:
        for backend in get_args(Backend):
            trio.run(main, folder, backend)
    return rows


def _workload() -> None:
    measure()


FIGURE = Figure(
    name="boxes", about="a command in the reader box versus one without", measure=measure, workload=_workload
)
