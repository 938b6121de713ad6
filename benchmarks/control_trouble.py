"""Figure `control`: what a flood of nonsense and a client that is stopped cost the others."""

from __future__ import annotations

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import attrs

from benchmarks import control_cursors
from benchmarks.control_processes import TOKENS, Child, Served, new_server
from benchmarks.control_server import Stream
from benchmarks.report import Row, kilobytes, median, megabytes, seconds

_MEGABYTE: Final = 1_000_000
_PACE: Final = 500
_FRAMES: Final = 100_000
# Rounds, each with a measurement without the trouble.
_FLOODS: Final = 5
_STOPS: Final = 5


def flood_rows() -> list[Row]:
    """100,000 malformed frames, while another client works and a turn streams.

    Two cores hold the server, its client and the attackers, who use most of one. So the client is also measured while
    the same attack goes to another server: the rest of the difference is what the attacked one does about it. The two
    take turns, and the same turn streams in both cases.
    """
    there: list[_Flooded] = []
    here: list[_Flooded] = []
    with new_server(tokens=TOKENS) as server, new_server(tokens=TOKENS) as elsewhere:
        session = server.session()
        for each in (server, elsewhere):
            with each.clients("flood", count=8, frames=2_000) as warm_up:
                warm_up.read()
        with server.clients("ask", sessions=[session]) as client:
            files = server.files
            alone = [_ask(client)]
            for _ in range(_FLOODS):
                there.append(_flooded(server, session, elsewhere, client, _FRAMES // 4 // _FLOODS))
                here.append(_flooded(server, session, server, client, _FRAMES // _FLOODS))
                alone.append(_ask(client))
            left = server.files - files
    beside, spared = (median([time for each in rounds for time in each.asked]) for rounds in (here, there))
    took = sum(each.seconds for each in here)
    # A turn's messages stay in memory, with and without a flood.
    of_turn = sum(each.growth for each in there) / sum(len(each.asked) for each in there)
    growth = sum(each.growth - of_turn * len(each.asked) for each in here)
    name = f"control: {sum(each.sent for each in here):,} malformed frames in {took:.0f} s"
    return [
        Row(
            name=f"{name}: a request of another client, versus none",
            measured=seconds(beside),
            baseline=seconds(median(alone)),
            ratio=beside / median(alone),
        ),
        Row(
            name=f"{name}: the same, versus as many frames at another server",
            measured=seconds(beside),
            baseline=seconds(spared),
            ratio=beside / spared,
            target="ratio ≤ 1.10",
            ok=beside <= 1.1 * spared,
        ),
        Row(
            name=f"{name}: the latest that a turn's delta was read, versus the same",
            measured=seconds(max(each.late for each in here)),
            baseline=seconds(max(each.late for each in there)),
        ),
        Row(
            name=f"{name}: memory and files that are left, beyond those of its {sum(len(each.asked) for each in here)} turns",
            measured=f"{megabytes(growth)}, {left}",
            baseline=f"{kilobytes(of_turn)} a turn",
            target="≤ 10 MB, 0",
            ok=growth <= 10 * _MEGABYTE and left == 0,
        ),
        Row(
            name=f"{name}: CPU of the server, versus the same",
            measured=f"{median([each.busy for each in here]):.0%}",
            baseline=f"{median([each.busy for each in there]):.0%}",
        ),
    ]


@attrs.frozen
class _Flooded:
    """What was measured during a flood.

    Attributes:
        asked: the median times of a request, in seconds.
        late: the latest that a delta of a turn was read.
        busy: the share of a core that the server used.
        growth: by how many bytes the server grew.
        sent: how many malformed frames were sent.
        seconds: how long that took.
    """

    asked: list[float]
    late: float
    busy: float
    growth: int
    sent: int
    seconds: float


def _flooded(server: Served, session: str, target: Served, client: Child, frames: int) -> _Flooded:
    """Measure *client* and turns of *server* while *target* gets so many malformed frames."""
    asked: list[float] = []
    delays: list[float] = []
    with target.clients("flood", count=32, frames=frames) as flood:
        cpu, resident, began = server.cpu, server.resident, time.perf_counter()
        while not flood.has_line:
            turn = server.prompt(session, Stream(deltas=3 * _PACE, rate=_PACE))
            asked.append(_ask(client))
            delays.append(server.ended(session, turn)[1]["late"])
        facts = flood.read()
        busy = (server.cpu - cpu) / (time.perf_counter() - began)
    growth = server.resident - resident
    return _Flooded(asked, max(delays), busy, growth, sum(facts["sent"].values()), facts["seconds"])


def _ask(client: Child) -> float:
    client.write("250")
    return float(client.read()["median"])


def stopped_rows() -> list[Row]:
    """A client that is stopped while 20,000 deltas come, in turns with none; the last one until it is closed.

    While the server waits for that, the cursors of one process are measured.
    """
    alone: list[dict[str, Any]] = []
    beside: list[dict[str, Any]] = []
    with new_server() as server:
        session = server.session()
        _watched(server, session)  # what is made once is made
        for _ in range(_STOPS - 1):
            alone.append(_watched(server, session))
            with _stopped(server, session):
                beside.append(_watched(server, session))
        alone.append(_watched(server, session))
        with _stopped(server, session) as stopped:
            beside.append(_watched(server, session))
            rows = control_cursors.cursor_rows()
            closed = _seconds_until_closed(server, since=beside[-1]["ended"])
            stopped.process.send_signal(signal.SIGCONT)
            back = stopped.read()
    lag, lag_alone = (median([each["lag"] for each in rounds]) for rounds in (beside, alone))
    growth, growth_alone = (max(each["growth"] for each in rounds) for rounds in (beside, alone))
    extra = max(0, growth - growth_alone)
    is_whole = back["digest"] == beside[-1]["digest"]
    name = "control: a client stopped in 20,000 deltas"
    return [
        *rows,
        Row(
            name=f"{name}: an event's way to another, versus none",
            measured=seconds(lag),
            baseline=seconds(lag_alone),
            ratio=lag / lag_alone,
            target="ratio ≤ 1.10",
            ok=lag <= 1.1 * lag_alone,
        ),
        Row(
            name=f"{name}: growth of memory, versus none",
            measured=megabytes(growth),
            baseline=megabytes(growth_alone),
            target="≤ 5 MB more",
            ok=extra <= 5 * _MEGABYTE,
        ),
        Row(
            name=f"{name}: closed after the turn's end", measured=f"≤ {closed:.0f} s", target="≤ 60 s", ok=closed <= 60
        ),
        Row(
            name=f"{name}: what it has after its return",
            measured="the same text" if is_whole else "another text",
            baseline=f"closed with {', '.join(back['closes'])}",
            target="the same",
            ok=is_whole and bool(back["closes"]),
        ),
    ]


@contextmanager
def _stopped(server: Served, session: str) -> Generator[Child]:
    """Let a client watch a session, and stop its process."""
    with server.clients("follow", sessions=[session]) as client:
        client.process.send_signal(signal.SIGSTOP)
        yield client


def _watched(server: Served, session: str) -> dict[str, Any]:
    """Run a turn that a client watches; return what it has seen, and by how much the server grew."""
    with server.clients("follow", sessions=[session], interval=0) as client:
        before = server.resident
        server.prompt(session, Stream(deltas=20_000, rate=4_000, chars=200))
        facts = client.read()
        return {**facts, "growth": server.resident - before}


def _seconds_until_closed(server: Served, *, since: float) -> float:
    while server.request("server.status")["connections"] and time.time() < since + 90:
        time.sleep(0.5)
    return time.time() - since
