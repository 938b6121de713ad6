"""An engine under everything at once: what it has does not grow, and every record is whole. See `make soak-engine`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Soak
from tests.support.processes import python_process, read_line
from tests.support.soaked_engine import KINDS

pytestmark = [
    pytest.mark.os,
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc"),
]

# Seconds of work, samples and sessions at a time: in `make test`, in `make full`, for longer.
BRIEF, WHOLE = (6.0, 3, 30), (60.0, 8, 200)
MEGABYTE = 1_000_000
# Seconds until the caches that have a limit have reached it.
CACHES_FULL = 600


def run_engine(
    folder: Path, seconds: float, samples: int, sessions: int, seed: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the samples, and the problems of the records."""
    with python_process("-m", "tests.cli.host") as host:
        arguments = [read_line(host), folder, seconds, samples, sessions, seed]
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.soaked_engine", *map(str, arguments)],
            env={**os.environ, "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3_000:]
    *found, last = map(json.loads, done.stdout.splitlines())
    return found, last["problems"]


def test_nothing_grows_under_everything_at_once(soak: Soak, is_full: bool) -> None:
    seconds, samples, sessions = WHOLE if is_full else BRIEF
    with tempfile.TemporaryDirectory() as folder:  # a short name, for the Unix socket
        found, problems = run_engine(Path(folder), max(seconds, soak.seconds or 0), samples, sessions, soak.first)
    assert problems == []
    counts = found[-1]["counts"]
    # Turns did end in many ways: it was no rest.
    assert len(counts) >= KINDS, counts
    assert counts["sessions"] > sessions, counts
    warm = found[samples // 3]
    for sample in found[samples // 3 :]:
        assert sample["children"] == 0, found
        assert sample["files"] <= warm["files"] + 20, found
        assert sample["tasks"] <= warm["tasks"] + 10, found
        assert sample["threads"] <= 60, found
        assert sample["resident"] <= 300 * MEGABYTE, found
    if soak.seconds >= CACHES_FULL:
        middle = statistics.median(sample["resident"] for sample in found[samples // 3 : 2 * samples // 3])
        late = statistics.median(sample["resident"] for sample in found[2 * samples // 3 :])
        assert late <= middle * 1.05 + 5 * MEGABYTE, found
