"""Processes that tests start: killed and reaped when the block ends, so that one test's failure never becomes the next one's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import REPOSITORY


@contextmanager
def python_process(
    *arguments: str,
    cwd: Path = REPOSITORY,
    env: Mapping[str, str] | None = None,
    stderr: int | None = None,
    prefix: Sequence[str] = (),
) -> Generator[subprocess.Popen[str]]:
    """Run Python on *arguments*, with pipes to its input and from its output; it's gone when the block ends.

    Args:
        arguments: of the interpreter.
        cwd: by default the root of the repository, where it finds `engine` and `tests`.
        env: instead of ours.
        stderr: `subprocess.PIPE` for a test that reads it, with `communicate`.
        prefix: a program that runs it, with its own arguments.
    """
    command = [*prefix, sys.executable, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=stderr, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: subprocess.Popen[str]) -> str:
    """Wait for the next line of its output, and return it without its end; empty if there are no more. It blocks."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def write_line(process: subprocess.Popen[str], line: str = "") -> None:
    """Write a line to its input. It blocks only if nobody reads."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
