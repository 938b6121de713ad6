"""Figure `imports`: what it costs to begin, each time in a fresh interpreter."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
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


def python(bytecode: str, *arguments: str) -> float:
    """Return the processor seconds of a fresh interpreter which keeps its bytecode in that folder."""
    # What is installed has bytecode. A working tree may have none, or that of older sources: then every run would
    # compile it all, which is another figure.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60
    )
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Importing waits for nobody. By the clock it would wait for whoever else works on these cores.
    return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime


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
    with tempfile.TemporaryDirectory(prefix="engine-bytecode-") as bytecode:
        # The first round compiles; the best of many is of the others.
        taken = interleaved(ROUNDS, *(partial(python, bytecode, *arguments) for arguments in programs))
    # The best of many: what is beyond it is other people's work on the same cores.
    bare, trio_attrs, imported, used, httpx_alone, provider, *version = (min(samples) for samples in taken)
    rows = [
        Row(
            name="imports: import engine, versus import trio, attrs",
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
            name="imports: a first model, trio and all, versus import httpx",
            measured=seconds(provider),
            baseline=seconds(httpx_alone),
            ratio=provider / httpx_alone,
            target="≤ +150 ms",
            ok=provider <= httpx_alone + PROVIDER_LIMIT,
        ),
    ]
    return rows + [
        Row(
            name="imports: engine --version, versus a bare interpreter",
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
