"""What tests with a real Ray cluster need: its environment, and its processes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make ray")

# Planted: nothing that a batch writes or prints may hold it.
TOKEN = "5ec2e7" * 10 + "beef"


@contextmanager
def ray_folder() -> Generator[str]:
    """A folder for a cluster, with a short path, since it has sockets there. Its processes end with the block."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    try:
        yield folder
    finally:
        for pid in processes_of(folder):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def processes_of(folder: str, title: str = "") -> list[int]:
    """The living processes of the cluster whose folder that is, and whose command line holds *title*."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            is_ours = f"RAY_TMPDIR={folder}".encode() in (entry / "environ").read_bytes()
            if is_ours and title.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until(is_so: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait for something that other processes do."""
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.05)
