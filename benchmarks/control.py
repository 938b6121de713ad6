"""Figure `control`: the control endpoint under many, slow and hostile clients.

The server, its clients and this program are processes of their own; the clients use real sockets.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx

from benchmarks import control_cursors
from benchmarks.control_page import page_rows
from benchmarks.control_processes import TOKENS, Served, new_server, served
from benchmarks.control_server import Stream
from benchmarks.control_trouble import flood_rows, stopped_rows
from benchmarks.report import Figure, Row, kilobytes, megabytes, seconds

_MEGABYTE: Final = 1_000_000
SUBSCRIBERS: Final = 1_000
CONNECTIONS: Final = 10_000
PACE: Final = 500


def run_turn(server: Served, session: str, stream: Stream) -> tuple[float, dict[str, float]]:
    """Return the seconds that a turn takes, and how late its stream was read."""
    began = time.perf_counter()
    _, late = server.ended(session, server.prompt(session, stream))
    return time.perf_counter() - began, late


# -- one client -------------------------------------------------------------------------


def one_client_seconds(stream: Stream, rounds: int) -> list[float]:
    """Return the CPU seconds of a server that streams to one client, in each round after the first."""
    taken: list[float] = []
    with new_server() as server:
        for _ in range(rounds + 1):
            session = server.session()
            with server.clients("follow", sessions=[session]) as client:
                cpu = server.cpu
                server.prompt(session, stream)
                client.read()
                taken.append(server.cpu - cpu)
    return taken[1:]


def one_client_rows() -> list[Row]:
    """100,000 deltas to one client, versus a cursor in the same process."""
    stream, rounds = Stream(deltas=100_000), 3
    bare: list[float] = []
    over_socket: list[float] = []
    walls: list[float] = []
    with new_server() as server:
        for number in range(rounds + 1):
            session = server.session()
            with server.clients("follow", sessions=[session]) as client:
                began, cpu = time.time(), server.cpu
                server.prompt(session, stream)
                facts = client.read()
                if number:  # the first one warms up
                    over_socket.append(server.cpu - cpu)
                    walls.append(facts["ended"] - began)
                    bare.append(control_cursors.one_cursor_seconds(stream.deltas))
            assert facts["whole"] == 2, "text is missing"
    ratio = min(over_socket) / min(bare)
    return [
        Row(
            name=f"control: {stream.deltas:,} deltas to one client, CPU of the server, versus a cursor",
            measured=seconds(min(over_socket)),
            baseline=seconds(min(bare)),
            ratio=ratio,
            target="ratio ≤ 1.50",
            ok=ratio <= 1.5,
        ),
        Row(
            name="control: the same until the client has folded all, by the clock",
            measured=seconds(min(walls)),
            baseline=seconds(min(bare)),
            ratio=min(walls) / min(bare),
        ),
    ]


def latency_rows() -> list[Row]:
    """From the journal to a client over the loopback, while 100 sessions are busy."""
    stream = Stream(deltas=200, rate=20)
    with new_server() as server:
        sessions = [server.session() for _ in range(100)]
        watched = sessions.pop()
        alone = _lag(server, watched)
        with server.clients("follow", sessions=sessions, count=len(sessions)):
            turns = [server.prompt(session, stream) for session in sessions]
            busy = _lag(server, watched)
            for session, turn in zip(sessions, turns, strict=True):
                server.ended(session, turn)
    return [
        Row(
            name="control: journal to client, median, 100 sessions busy, versus one",
            measured=seconds(busy["lag"]),
            baseline=seconds(alone["lag"]),
            ratio=busy["lag"] / alone["lag"],
            target="≤ 2 ms",
            ok=busy["lag"] <= 0.002,
        ),
        Row(
            name="control: the same, 99 of 100 events",
            measured=seconds(busy["lag_99"]),
            baseline=seconds(alone["lag_99"]),
            ratio=busy["lag_99"] / alone["lag_99"],
        ),
    ]


def _lag(server: Served, session: str) -> dict[str, Any]:
    with server.clients("follow", sessions=[session], interval=0) as client:
        server.prompt(session, Stream(deltas=200, rate=50))
        return client.read()


# -- many clients -------------------------------------------------------------------------


def subscriber_rows() -> list[Row]:
    """1,000 subscribers of one turn that has its own pace."""
    stream = Stream(deltas=8 * PACE, rate=PACE)
    with new_server(tokens=TOKENS) as server:
        session = server.session()
        alone, alone_late = run_turn(server, session, stream)
        before = server.resident
        with server.clients("follow", sessions=[session], count=SUBSCRIBERS) as clients:
            connected = server.resident
            began, cpu = time.perf_counter(), server.cpu
            turn = server.prompt(session, stream)
            sizes: list[int] = []
            while time.perf_counter() - began < stream.deltas / PACE:
                time.sleep(0.25)
                sizes.append(server.resident)
            _, late = server.ended(session, turn)
            took = time.perf_counter() - began
            busy = (server.cpu - cpu) / took
            facts = clients.read()
        assert facts["whole"] == 2, "text is missing"
    ratio = took / alone
    # Once it is under way; what is sent first makes buffers for each connection.
    growth = max(sizes) - sizes[len(sizes) // 4]
    name = f"control: {SUBSCRIBERS:,} subscribers of {PACE} deltas/s"
    return [
        Row(
            name=f"{name}: the turn, versus none",
            measured=seconds(took),
            baseline=seconds(alone),
            ratio=ratio,
            target="ratio ≤ 1.05",
            ok=ratio <= 1.05,
        ),
        Row(
            name=f"{name}: the latest that a delta was read",
            measured=seconds(late["late"]),
            baseline=seconds(alone_late["late"]),
        ),
        Row(
            name=f"{name}: growth of memory in {len(sizes) * 3 // 16} s",
            measured=megabytes(growth),
            baseline=f"{megabytes(connected - before)} to connect",
            target="≤ 10 MB",
            ok=growth <= 10 * _MEGABYTE,
        ),
        Row(
            name=f"{name}: an event's way, median",
            measured=seconds(facts["lag"]),
            target="≤ 500 ms",
            ok=facts["lag"] <= 0.5,
        ),
        Row(
            name=f"{name}: CPU of the server, messages to each",
            measured=f"{busy:.0%}",
            baseline=f"{facts['messages'] / SUBSCRIBERS / took:.1f}/s",
        ),
    ]


def idle_rows() -> list[Row]:
    """10,000 connections that do nothing."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = CONNECTIONS if hard == resource.RLIM_INFINITY else min(CONNECTIONS, hard - 200)
    with new_server(tokens=TOKENS) as server:
        with server.clients("idle", count=50):
            pass  # so that what is made once is made
        before = server.resident
        with server.clients("idle", count=count):
            time.sleep(6)  # until no `hello` is waited for any more
            growth = server.resident - before
            cpu = server.cpu
            time.sleep(5)
            busy = (server.cpu - cpu) / 5
    limited = "" if count == CONNECTIONS else f" (the limit on open files is {hard:,})"
    return [
        Row(
            name=f"control: {count:,} idle connections{limited}",
            measured=megabytes(growth),
            baseline=f"{megabytes(before)} without",
            target="≤ 500 MB",
            ok=growth * CONNECTIONS / count <= 500 * _MEGABYTE,
        ),
        Row(
            name="control: one of them",
            measured=kilobytes(growth / count),
            target="≤ 50 KB",
            ok=growth / count <= 50_000,
        ),
        Row(name="control: CPU of the server meanwhile", measured=f"{busy:.1%}"),
    ]


# -- a restart ------------------------------------------------------------------------------


def restart_rows() -> list[Row]:
    """1,000 clients come back to a server that was started again, whose turn is under way."""
    with tempfile.TemporaryDirectory() as folder:
        with served(folder, tokens=TOKENS, store=True) as old:
            session = old.session()
            with old.clients("follow", sessions=[session], count=SUBSCRIBERS, turns=2) as clients:
                run_turn(old, session, Stream(deltas=10))
                time.sleep(2)  # until all have it, and so a position to come back to
                old.end()
                ended = time.time()
                with served(folder, port=old.port, store=True) as server:
                    server.tokens = old.tokens
                    _, late = run_turn(server, session, Stream(deltas=10 * PACE, rate=PACE))
                    while not clients.has_line and time.time() < ended + 60:
                        # For those who have come back after its end.
                        run_turn(server, session, Stream(deltas=10))
                    facts = clients.read()
    took = facts["back"] - ended
    closes = facts["closes"]
    name = f"control: a restart with {SUBSCRIBERS:,} clients"
    return [
        Row(name=f"{name}: the last is back after", measured=seconds(took), target="≤ 10 s", ok=took <= 10),
        Row(
            name=f"{name}: the latest that a turn's delta was read",
            measured=seconds(late["late"]),
            target="≤ 50 ms",
            ok=late["late"] <= 0.05,
        ),
        Row(
            name=f"{name}: codes of the closes, resyncs of each",
            measured=", ".join(f"{code}: {count}" for code, count in closes.items()),
            baseline=f"{facts['resyncs'][0]} to {facts['resyncs'][1]}",
            target="1012, 1",
            ok=set(closes) == {"1012"} and facts["resyncs"] == [1, 1],
        ),
    ]


PARTS: Final = (
    one_client_rows,
    latency_rows,
    subscriber_rows,
    idle_rows,
    flood_rows,
    stopped_rows,
    restart_rows,
    page_rows,
)


def measure() -> Sequence[Row]:
    """Take all rows; `CONTROL_PART` names one of them, for those who work on it."""
    only = os.environ.get("CONTROL_PART", "")
    return [row for part in PARTS if part.__name__.startswith(only) for row in _measured(part)]


def _measured(part: Callable[[], Sequence[Row]]) -> Sequence[Row]:
    began = time.perf_counter()
    try:
        return part()
    except (AssertionError, OSError, httpx.HTTPError) as error:
        traceback.print_exc()
        return [Row(name=f"control: {part.__name__} could not be measured", measured=type(error).__name__, ok=False)]
    finally:
        print(f"{part.__name__} {time.perf_counter() - began:.0f} s, ", end="", file=sys.stderr, flush=True)


def workload() -> object:
    """Serve one client in this process."""
    return [control_cursors.one_cursor_seconds(20_000) for _ in range(3)]


FIGURE = Figure(
    name="control",
    about="the control endpoint: many, slow and hostile clients, versus none",
    measure=measure,
    workload=workload,
)
