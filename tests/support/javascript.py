"""Node, for tests of the JavaScript in `engine/`: where it is, and what npm has installed for it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "tests" / "javascript"
PACKAGES = FOLDER / "node_modules"
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="there is no node")
needs_packages = pytest.mark.skipif(
    NODE is None or not (PACKAGES / "ws").exists(), reason="there is no node, or `make packages` was not run"
)


@contextmanager
def node_process(script: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """Run a script of `tests/javascript`, with pipes to its input and from its output; it's gone when the block ends."""
    assert NODE is not None
    command = [NODE, str(FOLDER / script), *arguments]
    with subprocess.Popen(command, cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def answers(script: str, lines: Sequence[str], *, seconds: float = 100) -> list[Any]:
    """Return what a script writes, a line of JSON for each of *lines*."""
    assert NODE is not None
    run = subprocess.run(
        [NODE, str(FOLDER / script)],
        cwd=FOLDER,
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    # Floats, since JavaScript writes whole ones without a point: 1.0 is 1, and large ones have no exact int.
    # By this line end alone: JSON has U+2028 and others as they are.
    found = [json.loads(line, parse_int=float) for line in run.stdout.split("\n")[:-1]]
    assert len(found) == len(lines), run.stderr
    return found
