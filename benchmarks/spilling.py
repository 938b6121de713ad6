"""Figure `spill`: an output of one gigabyte, kept in a file while it comes, in memory that does not grow.

Each measurement has a process of its own, so that what it says of memory is the peak of
nothing else. As a program, `python -m benchmarks.spilling MODE` makes one and prints it.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, Literal, cast, get_args

import attrs
import trio

from benchmarks.importing import ROOT
from benchmarks.report import Figure, Row, median, seconds
from engine.process.run_tree import run_tree
from engine.tools.output.spill import SpillStore
from engine.tools.output.spill_writer import CapturedOutput, SpillWriter
from engine.tools.output.truncate import fits

SIZE: Final = 1_000_000_000
# Enough for a file to be made, and for nothing to wait in a queue.
WARM: Final = 200_000
ROUNDS: Final = 3
LIMIT: Final = 8 << 20
LINE: Final = "a line of an output as compilers and tests write them, 64 bytes"
STATUS: Final = Path("/proc/self/status")
# "spill": through the writer that bash uses; "drop": the same output, and nothing is done with it.
Mode = Literal["spill", "drop"]


@attrs.frozen
class Found:
    """What one process measured: by how many bytes its peak grew, and how many seconds it took."""

    growth: int
    seconds: float


def command(size: int) -> list[str]:
    """Return a command that writes *size* bytes of lines as quickly as a pipe takes them."""
    return ["sh", "-c", f"yes '{LINE}' | head -c {size}"]


async def spill(folder: Path, size: int) -> None:
    """Take an output of *size* bytes, show its ends, keep all of it. Always a checkpoint."""
    spills = SpillStore(folder).of("benchmark")
    with SpillWriter(spills) as writer:
        await run_tree(command(size), cwd="/", marker=f"bench-{size}", on_output=writer.feed, room=writer.room)
        captured = await writer.finish()
    _check(folder, captured, size)


async def drop(size: int) -> None:
    """Take the same output, and let it go. Always a checkpoint."""
    count = 0

    def take(chunk: bytes) -> None:
        nonlocal count
        count += len(chunk)

    await run_tree(command(size), cwd="/", marker=f"bench-{size}", on_output=take)
    assert count == size


def _check(folder: Path, captured: CapturedOutput, size: int) -> None:
    assert fits(captured.text)
    (file,) = (path for path in folder.glob("*/*") if path.name == captured.spill_id)
    assert file.stat().st_size == size
    with file.open("rb") as kept:
        assert kept.read(2 * len(LINE) + 2) == f"{LINE}\n{LINE}\n".encode()


def peak() -> int:
    """Return the most memory that this process ever had, in bytes."""
    with contextlib.suppress(OSError):
        # Not `ru_maxrss`, which begins with what the parent had.
        (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    value = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return value if sys.platform == "darwin" else value * 1024


def found(mode: Mode) -> Found:
    """Measure in this process: first a little, so that all is loaded, then all."""
    with tempfile.TemporaryDirectory() as name:

        async def main(size: int) -> None:
            await (spill(Path(name), size) if mode == "spill" else drop(size))

        trio.run(main, WARM)
        before, began = peak(), time.perf_counter()
        trio.run(main, SIZE)
        return Found(peak() - before, time.perf_counter() - began)


def in_a_process(mode: Mode) -> Found:
    """Return what a fresh process measures."""
    program = [sys.executable, "-m", "benchmarks.spilling", mode]
    finished = subprocess.run(program, cwd=ROOT, check=True, stdout=subprocess.PIPE, timeout=600)
    return Found(**json.loads(finished.stdout))


def measure() -> list[Row]:
    """Measure both in turns."""
    spilled: list[Found] = []
    dropped: list[Found] = []
    for _ in range(ROUNDS):
        spilled.append(in_a_process("spill"))
        dropped.append(in_a_process("drop"))
    growth, base = max(one.growth for one in spilled), max(one.growth for one in dropped)
    took, without = median(one.seconds for one in spilled), median(one.seconds for one in dropped)
    return [
        Row(
            name="spill: growth of the process, 1 GB of output, the worst of three",
            measured=f"{growth / 2**20:.1f} MiB",
            baseline=f"{base / 2**20:.1f} MiB",
            target="≤ 8 MiB",
            ok=growth <= LIMIT,
        ),
        Row(
            name="spill: time for it, versus the same output thrown away",
            measured=seconds(took),
            baseline=seconds(without),
            ratio=took / without,
        ),
    ]


FIGURE = Figure(
    name="spill",
    about="1 GB of a command's output, kept in a file while it comes",
    measure=measure,
)


if __name__ == "__main__":
    (wanted,) = sys.argv[1:]
    assert wanted in get_args(Mode)
    print(json.dumps(attrs.asdict(found(cast("Mode", wanted)))))
