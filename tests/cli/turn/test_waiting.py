"""What a user reads while a turn takes its time."""

from __future__ import annotations

from functools import partial

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from engine.cli.turn.wait_reports import WaitReports
from engine.cli.turn.waiting import WaitState, feed, next_report, status_text
from engine.core import events as ev
from engine.core.ids import CallId, MessageId, PartId, RequestId, SessionId

M, P, C, S = MessageId("m"), PartId("p"), CallId("c"), SessionId("s")
STEP = ev.StepStarted(step=1, attempt=1, message_id=M, model="openai/gpt-6")
THOUGHT = ev.ReasoningDelta(message_id=M, part_id=P, after=0, offset=0, text="hm")
TEXT = ev.TextDelta(message_id=M, part_id=P, after=0, offset=0, text="so")
QUEUED = ev.CallQueued(call_id=C, tool="bash", arguments='{"command": "make  test"}')
STARTED = ev.CallStarted(call_id=C)
PROGRESS = ev.CallProgress(call_id=C, message="", output="1 passed")
HEARTBEAT = ev.CallHeartbeat(call_id=C, tool="bash", elapsed=70.0, last_progress="", pending_inputs=0)
ASKED = ev.RecoveryAsked(request_id=RequestId("r"), model="m", message="x")
CALL = (QUEUED, STARTED)


def after(*events: ev.Durable | ev.Live, limit: float = 0.0) -> WaitState:
    state = WaitState(limit=limit)
    for event in events:
        state = feed(state, event, 100.0)
    return state


@pytest.mark.parametrize(
    ("state", "seconds", "text"),
    [
        (after(), 50, ""),
        (after(STEP), 0.2, ""),
        (after(STEP), 0.3, "Waiting for openai/gpt-6 · 0 s"),
        (after(STEP), 3, "Waiting for openai/gpt-6 · 3 s"),
        (after(STEP, THOUGHT), 5, "Thinking · 5 s"),
        (after(STEP, THOUGHT, TEXT), 6, "Writing · 6 s"),
        (after(STEP, *CALL), 12, "Running bash: make test · 12 s"),
        (after(STEP), 20, "Waiting for openai/gpt-6 · 20 s · last sign of life 20 s ago"),
        (
            after(STEP, limit=120),
            60,
            "Waiting for openai/gpt-6 · 1 min 0 s · last sign of life 1 min 0 s ago · limit 2 min 0 s · Ctrl-C: stop",
        ),
        (
            after(*CALL, limit=120),
            75,
            "Running bash: make test · 1 min 15 s · last sign of life 1 min 15 s ago · Ctrl-C: stop",
        ),
        (after(STEP, ASKED), 99, ""),
        (after(ev.RetryScheduled(attempt=1, message="x", next_at=30, time=10)), 5, "Retrying in 15 s"),
    ],
)
def test_status_says_what_is_waited_for(state: WaitState, seconds: float, text: str) -> None:
    assert status_text(state, 100.0 + seconds) == text


def test_each_sign_of_life_counts() -> None:
    state = feed(feed(after(STEP), THOUGHT, 130.0), THOUGHT, 160.0)
    assert status_text(state, 165.0) == "Thinking · 35 s"
    state = feed(after(*CALL), PROGRESS, 160.0)
    assert status_text(state, 165.0) == "Running bash: make test · 1 min 5 s"
    # A heartbeat is the engine's own, and proves nothing.
    state = feed(state, HEARTBEAT, 190.0)
    assert "last sign of life 30 s ago" in status_text(state, 190.0)
    assert status_text(state, 190.0, is_short=True) == "last sign of life 30 s ago"
    # What a sub-agent does is a sign of its parent's call.
    child = attrs.evolve(THOUGHT, path=(S, SessionId("child")))
    assert status_text(feed(state, child, 190.0), 191.0) == "Running bash: make test · 1 min 31 s"


def test_the_stop_key_is_the_callers() -> None:
    assert status_text(after(STEP), 170.0, stop_key="Esc").endswith(" · Esc: stop")


def test_lines_come_at_30_and_120_seconds_then_every_5_minutes() -> None:
    state, now, due = after(STEP), 100.0, list[float]()
    while (at := next_report(state, now)) is not None and len(due) < 5:
        due.append(at - 100.0)
        now = at
    assert due == [30.0, 120.0, 420.0, 720.0, 1020.0]
    assert next_report(after(), 100.0) is None
    assert next_report(after(STEP, ASKED), 100.0) is None


async def _lines(*, has_status: bool, seconds: float) -> list[tuple[float, str]]:
    shown: list[tuple[float, str]] = []
    began = trio.current_time()
    reports = WaitReports(
        lambda: shown.append((round(trio.current_time() - began, 3), reports.text)), has_status=has_status
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reports.run)
        await trio.lowlevel.checkpoint()
        reports.feed(STEP)
        await trio.sleep(seconds)
        reports.feed(ASKED)
        await trio.sleep(3_600)
        nursery.cancel_scope.cancel(reason="the test is over")
    return shown


async def test_lines_where_there_is_no_status(autojump_clock: MockClock) -> None:
    del autojump_clock
    assert [at for at, _ in await _lines(has_status=False, seconds=500)] == [30.0, 120.0, 420.0]


async def test_status_is_shown_after_300_ms_then_each_second(autojump_clock: MockClock) -> None:
    del autojump_clock
    shown = await _lines(has_status=True, seconds=2.5)
    assert shown == [
        (0.3, "Waiting for openai/gpt-6 · 0 s"),
        (1.3, "Waiting for openai/gpt-6 · 1 s"),
        (2.3, "Waiting for openai/gpt-6 · 2 s"),
    ]


def test_reports_may_be_cancelled_at_any_time() -> None:
    async def main() -> None:
        reports = WaitReports(lambda: None, has_status=True)
        with trio.move_on_after(5):
            await reports.run()

    trio.run(partial(main), clock=MockClock(autojump_threshold=0))
