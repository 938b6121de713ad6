"""Figure `snapshots`: what it costs to note the files of a project, the first time and then."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from benchmarks.report import Figure, Row, median, seconds
from engine.snapshots.project_snapshots import ProjectSnapshots

SIZES: Final = (10_000, 100_000)
LINES: Final = 60
ROUNDS: Final = 5
# Within a turn, and the first time of a project of the first size.
LIMITS: Final = (0.25, 1.0)
FIRST: Final = 5.0


def measure() -> list[Row]:
    rows: list[Row] = []
    for size, limit in zip(SIZES, LIMITS, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder, "project")
            _fill(root, size)
            rows += trio.run(_measured, root, Path(folder, "kept"), size, limit)
    return rows


async def _measured(root: Path, kept: Path, size: int, limit: float) -> list[Row]:
    snapshots = ProjectSnapshots(folder=kept)

    async def take() -> str:
        taken = await snapshots.take(str(root), owner="ses_1", within=600)
        assert taken.tree is not None
        return taken.tree

    first = await _timed(take)
    status = _git_status(root)
    same = median([await _timed(take) for _ in range(ROUNDS)])
    before = await take()
    changed: list[float] = []
    for number in range(ROUNDS):
        _write(root / "d1" / "e0" / f"f1_{number}.py", number)
        changed.append(await _timed(take))
    after = await take()
    diff = await _timed(lambda: snapshots.diff(before, after, owner="ses_1"))
    return [
        _row(size, "the first time", first, FIRST if size == SIZES[0] else None),
        _row(size, "nothing has changed", same, limit, status),
        _row(size, "a file has changed", median(changed), limit, status),
        _row(size, "compare two", diff, limit),
    ]


def _row(size: int, what: str, took: float, limit: float | None, base: float | None = None) -> Row:
    return Row(
        name=f"snapshots: {size:,} files, {what}",
        measured=seconds(took),
        baseline="" if base is None else f"git status: {seconds(base)}",
        ratio=None if base is None else took / base,
        target="" if limit is None else f"≤ {limit:g} s",
        ok=None if limit is None else took <= limit,
    )


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def _git_status(root: Path) -> float:
    """Return what the user's own git takes to look through the same files."""
    git = shutil.which("git") or "git"
    for command in (["init", "-q"], ["-c", "core.bigFileThreshold=1", "add", "."]):
        subprocess.run([git, *command], cwd=root, check=True)
    taken: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([git, "status", "--porcelain"], cwd=root, check=True, capture_output=True)
        taken.append(time.perf_counter() - began)
    return median(taken)


def _fill(root: Path, count: int) -> None:
    for number in range(count):
        _write(root / f"d{number % 50}" / f"e{number // 50 % 40}" / f"f{number}.py", number)


def _write(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"value_{number}_{line} = {hash((number, line))}\n" for line in range(LINES)))


FIGURE = Figure(name="snapshots", about="noting the files of a project of 10,000 and of 100,000 files", measure=measure)
