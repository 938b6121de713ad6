"""Figure `imports`: what it costs to begin, each time in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.report import Figure, Row, interleaved, seconds

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 15
LIMIT = 0.03


def python(*arguments: str) -> float:
    """Return the seconds that a fresh interpreter takes."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return time.perf_counter() - began


def measure() -> list[Row]:
    programs: list[tuple[str, ...]] = [
        ("-c", "pass"),
        ("-c", "import trio, attrs"),
        ("-c", "import engine"),
        ("-c", "import engine; engine.open_engine"),
    ]
    if (ROOT / "engine" / "__main__.py").exists():
        programs.append(("-m", "engine", "--version"))
    taken = interleaved(ROUNDS, *(partial(python, *arguments) for arguments in programs))
    # The best of many: what is beyond it is other people's work on the same cores.
    bare, trio_attrs, imported, used, *version = (min(samples) for samples in taken)
    rows = [
        Row(
            name="imports: import engine, beside import trio, attrs",
            measured=seconds(imported),
            baseline=seconds(trio_attrs),
            ratio=imported / trio_attrs,
            target="≤ +30 ms",
            ok=imported <= trio_attrs + LIMIT,
        ),
        Row(
            name="imports: the same with engine.open_engine loaded",
            measured=seconds(used),
            baseline=seconds(trio_attrs),
            ratio=used / trio_attrs,
        ),
    ]
    return rows + [
        Row(
            name="imports: engine --version, beside a bare interpreter",
            measured=seconds(told),
            baseline=seconds(bare),
            ratio=told / bare,
        )
        for told in version
    ]


FIGURE = Figure(name="imports", about="import engine against import trio, attrs; engine --version", measure=measure)
