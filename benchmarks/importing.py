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
PROVIDER_LIMIT = 0.15
FIRST_MODEL = (
    "from engine.providers.registry import resolve; resolve('anthropic/claude-sonnet-4-5', {'ANTHROPIC_API_KEY': 'k'})"
)


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
        ("-c", "import httpx"),
        ("-c", FIRST_MODEL),
    ]
    if (ROOT / "engine" / "__main__.py").exists():
        programs.append(("-m", "engine", "--version"))
    taken = interleaved(ROUNDS, *(partial(python, *arguments) for arguments in programs))
    # The best of many: what is beyond it is other people's work on the same cores.
    bare, trio_attrs, imported, used, httpx_alone, provider, *version = (min(samples) for samples in taken)
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
        Row(
            name="imports: a first model, trio and all, beside import httpx",
            measured=seconds(provider),
            baseline=seconds(httpx_alone),
            ratio=provider / httpx_alone,
            target="≤ +150 ms",
            ok=provider <= httpx_alone + PROVIDER_LIMIT,
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


FIGURE = Figure(
    name="imports",
    about="import engine against import trio, attrs; a first model against httpx; engine --version",
    measure=measure,
)
