"""Figure `start`: a process `engine run`, from its start to the first byte of its first request, and from the answer to its exit."""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from benchmarks.importing import ROOT
from benchmarks.report import Figure, Row, interleaved, seconds

ROUNDS = 12
MOST_TIMES = 1.6
MOST_LEAVING = 0.04
MOST_MEGABYTES = 50
# How long the model thinks: what is loaded meanwhile belongs neither to the start nor to the end.
THINKING = 0.6
BARE = """
import sys, httpx, trio
async def main():
    async with httpx.AsyncClient() as client:
        await client.post(sys.argv[1] + "/chat/completions", json={"messages": []})
trio.run(main)
"""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
_BEGINNING = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
_END = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}'
    b"\n\ndata: [DONE]\n\n"
)


@attrs.frozen(kw_only=True)
class Run:
    """One process. The times are of its processors: by the clock it would wait for whoever else works on these cores.

    Attributes:
        start: until the first byte of its request.
        leaving: from the last byte of the answer to its exit.
        peak: the most memory, in megabytes.
    """

    start: float
    leaving: float
    peak: float


def bare(url: str) -> list[str]:
    """Return the command that sends one request with httpx."""
    return [sys.executable, "-c", BARE, url]


def ours(url: str) -> list[str]:
    """Return the command that does so with the engine, its store and its snapshots."""
    settings = ("-c", f'hosts.lo.base_url="{url}"', "-c", 'hosts.lo.wire="openai_chat"', "-m", "lo/x")
    return [sys.executable, "-m", "engine", "run", *settings, "Hello."]


def run(bytecode: str, command: Sequence[str], server: socket.socket) -> Run:
    """Run a command that sends one request to *server*, with the bytecode of Python in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="engine-home-") as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "PYTHONPATH": str(ROOT), "NO_PROXY": "*"}
        environment |= {"PYTHONPYCACHEPREFIX": bytecode}
        before = _children()
        process = subprocess.Popen(  # ours
            command,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            connection, _ = server.accept()
            with connection:
                received = connection.recv(1)
                start = _used(process.pid)
                while not _is_whole(received):
                    received += connection.recv(65_536)
                connection.sendall(_HEAD + _BEGINNING)
                time.sleep(THINKING)
                used, peak = _used(process.pid), _peak(process.pid)
                connection.sendall(_END)
            process.wait(timeout=60)
        finally:
            process.kill()
            process.wait()
        return Run(start=start, leaving=_children() - before - used, peak=peak)


def measure() -> list[Row]:
    """Run both, one after the other."""
    taken: tuple[list[Run], list[Run]] = ([], [])
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryDirectory() as bytecode:
        server.settimeout(60)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"

        def one(number: int) -> float:
            taken[number].append(run(bytecode, (bare, ours)[number](url), server))
            return taken[number][-1].start

        interleaved(ROUNDS + 1, lambda: one(0), lambda: one(1))
    # The first round compiles. The best of the others: what is beyond it is other people's work on the same cores.
    alone, engine = taken[0][1:], taken[1][1:]
    least, start = (min(one.start for one in runs) for runs in (alone, engine))
    leaving, peak = min(one.leaving for one in engine), min(one.peak for one in engine)
    return [
        Row(
            name="start: CPU of engine run to its first byte, versus Trio and httpx",
            measured=seconds(start),
            baseline=seconds(least),
            ratio=start / least,
            target=f"≤ {MOST_TIMES} times",
            ok=start <= MOST_TIMES * least,
        ),
        Row(
            name="start: CPU from the end of the answer to the exit",
            measured=seconds(leaving),
            baseline=seconds(min(one.leaving for one in alone)),
            target=f"≤ {seconds(MOST_LEAVING)}",
            ok=leaving <= MOST_LEAVING,
        ),
        Row(
            name="start: memory of a run with one step, at most",
            measured=f"{peak:.1f} MB",
            baseline=f"{min(one.peak for one in alone):.1f} MB",
            target=f"≤ {MOST_MEGABYTES} MB",
            ok=peak <= MOST_MEGABYTES,
        ),
    ]


def _is_whole(request: bytes) -> bool:
    head, found, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    return bool(found) and length is not None and len(body) >= int(length[1])


def _used(pid: int) -> float:
    """Return the seconds of all threads of a process so far; Linux counts them in nanoseconds."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text("ascii").split()[0]) for thread in threads) / 1e9


def _peak(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) / 1024


def _children() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


FIGURE = Figure(
    name="start",
    about="a process engine run: to the first byte of its request, from the answer to its exit, its memory",
    measure=measure,
)
