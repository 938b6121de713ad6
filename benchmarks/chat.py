"""Figure `chat`: what a user of `engine chat` waits for, over a pseudo-terminal, and what it costs while nothing happens."""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.chat_terminal import ChatHost, ChatTerminal
from benchmarks.report import Figure, Row, median, seconds

_STARTS: Final = 7
_KEYS: Final = 100
_LINES: Final = 100_000
_TURNS: Final = 20
# The first ones fill caches of a fixed size.
_FIRST_TURNS: Final = 4
_SETTLING_SECONDS: Final = 40.0
_IDLE_SECONDS: Final = float(os.environ.get("ENGINE_BENCH_IDLE") or 60)
# Time, in seconds; the specification has them at the 99th percentile (cli C26).
_PAINT, _LONG_PAINT, _KEY, _BUSY_KEY = 0.3, 0.5, 0.010, 0.025
_MOVES: Final = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]")


def measure() -> list[Row]:
    """Measure everything."""
    with ChatHost() as host, tempfile.TemporaryDirectory(prefix="engine-chat-") as name:
        folder = Path(name)
        rows = [*_paints(host.address, folder, "a new session", _PAINT), *_typing(host.address, folder)]
        rows += _streaming(host.address, folder)
        rows += _idle(host.address, folder)
        rows += _long(host.address, folder / "long")
        return rows


def _paints(host: str, folder: Path, what: str, limit: float, *arguments: str) -> list[Row]:
    first, ready = list[float](), list[float]()
    for _ in range(_STARTS):
        with ChatTerminal(host, folder, *arguments) as chat:
            chat.read_until("> ")
            first.append(time.perf_counter() - chat.began)
            chat.read_until("Ready")
            ready.append(time.perf_counter() - chat.began)
    return [
        _row(f"first paint, {what}", seconds(median(first)), f"≤ {seconds(limit)}", ok=median(first) <= limit),
        _row(f"the session is there, {what}", seconds(median(ready))),
    ]


def _keys(chat: ChatTerminal, pause: float) -> tuple[list[float], list[int]]:
    """Press keys one by one; return how long the bytes of each took, and how many there were."""
    taken, sizes = list[float](), list[int]()
    for number in range(_KEYS):
        key = "abcdefgh"[number % 8]
        chat.read_for(pause)
        began = time.perf_counter()
        chat.type(key)
        data = chat.read(10.0)
        while key.encode() not in _MOVES.sub(b"", data):
            data += chat.read(10.0)
        taken.append(time.perf_counter() - began)
        sizes.append(len(data))
    return taken, sizes


def _typing(host: str, folder: Path) -> list[Row]:
    with ChatTerminal(host, folder) as chat:
        chat.read_until("Ready")
        chat.read_for(0.5)
        taken, sizes = _keys(chat, 0.05)
        rows = [
            _row("key to bytes, idle, median", seconds(median(taken)), f"≤ {seconds(_KEY)}", ok=median(taken) <= _KEY),
            _row("key to bytes, idle, 99th percentile", seconds(_percentile(taken))),
            _row("bytes for a key, the most", f"{max(sizes)}", "≤ 300", ok=max(sizes) <= 300),
        ]
        chat.type("\x15")
        chat.enter("deltas 5000")
        chat.read_until("word50")
        busy, _ = _keys(chat, 0.03)
        rows += [
            _row(
                "key to bytes, 500 deltas a second, median",
                seconds(median(busy)),
                f"≤ {seconds(_BUSY_KEY)}",
                ok=median(busy) <= _BUSY_KEY,
            ),
            _row("key to bytes, 500 deltas a second, 99th percentile", seconds(_percentile(busy))),
        ]
    return rows


def _streaming(host: str, folder: Path) -> list[Row]:
    with ChatTerminal(host, folder) as chat:
        chat.read_until("Ready")
        chat.enter("deltas 1500")
        # Not the status before it, which a busy machine may never show.
        chat.read_until("word10 ")
        chat.forget()
        chat.read_until("Done in")
        visible = sum(len(f"word{number} ") for number in range(11, 1501))
        ratio = len(chat.output) / visible
        return [_row("bytes written while text streams, to visible ones", f"{ratio:.2f}", "≤ 2", ok=ratio <= 2)]


def _idle(host: str, folder: Path) -> list[Row]:
    with ChatTerminal(host, folder) as chat:
        chat.read_until("Ready")
        chat.enter("deltas 10")
        chat.read_until("Done in")
        # Until the store renews its leases no more.
        chat.read_for(_SETTLING_SECONDS)
        switches, cpu = chat.switches(), chat.cpu_seconds()
        chat.read_for(_IDLE_SECONDS)
        # A thread that has ended meanwhile was woken for that; one that is new was not there to be woken.
        after = chat.switches()
        woken = sum(after.get(task, count + 1) - count for task, count in switches.items()) * 60 / _IDLE_SECONDS
        load = (chat.cpu_seconds() - cpu) / _IDLE_SECONDS
        return [
            _row("wake-ups in a minute while idle", f"{woken:.0f}", "≤ 2", ok=woken <= 2),
            _row("processor while idle", f"{load:.2%}", "≤ 0.10%", ok=load <= 0.001),
        ]


def _long(host: str, folder: Path) -> list[Row]:
    folder.mkdir()
    with ChatTerminal(host, folder) as chat:
        chat.read_until("Ready")
        before = 0.0
        for turn in range(_TURNS):
            if turn == _FIRST_TURNS:
                before = chat.megabytes()
            chat.forget()
            chat.enter(f"lines {_LINES // _TURNS}")
            chat.read_until("Done in")
        after = chat.megabytes()
        growth = (after - before) / (_LINES / 10_000) * _TURNS / (_TURNS - _FIRST_TURNS)
        chat.type("x")
        chat.read_for(1.5)
        taken, _ = _keys(chat, 0.05)
        rows = [
            _row(f"memory after {_LINES:,} lines", f"{after:.0f} MB", "≤ 90 MB", ok=after <= 90),
            _row("memory for 10,000 lines", f"{growth:.1f} MB", "≤ 1 MB", ok=growth <= 1),
            _row(
                f"key to bytes after {_LINES:,} lines, median",
                seconds(median(taken)),
                f"≤ {seconds(_KEY)}",
                ok=median(taken) <= _KEY,
            ),
        ]
    return rows + _paints(host, folder, f"{_LINES:,} lines", _LONG_PAINT, "--continue")


def _percentile(samples: list[float]) -> float:
    return sorted(samples)[int(len(samples) * 0.99) - 1]


def _row(name: str, measured: str, target: str = "", *, ok: bool | None = None) -> Row:
    return Row(name=f"chat: {name}", measured=measured, target=target, ok=ok)


FIGURE = Figure(name="chat", about="first paint, keys, streaming, idling and memory of engine chat", measure=measure)
