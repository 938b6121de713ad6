"""How a turn ended, for a person and for a shell."""

import attrs
import pytest

from engine.cli.terminal.exit_codes import MEANINGS
from engine.cli.turn.turn_summary import Tally, closing_line, exit_code, state_of
from engine.core.events import STOP_REASONS, CallAnnounced, CallSettled, StopReason, TurnResult
from engine.core.ids import CallId, MessageId, PartId, SessionId
from engine.core.messages import Settlement, Usage
from engine.tools.shell_environment import hook_marker, marker


def announced(name: str, session: str = "ses_1") -> CallAnnounced:
    return CallAnnounced(
        session_id=SessionId(session), call_id=CallId(name), message_id=MessageId("m"), part_id=PartId("p"), tool="t"
    )


def settled(name: str, settlement: Settlement) -> CallSettled:
    return CallSettled(call_id=CallId(name), settlement=settlement)


DONE = Settlement(status="completed", text="")
FAILED = Settlement(status="completed", text="", failed=True)
ABORTED = Settlement(status="aborted", text="", reason="cancelled")
UNKNOWN = Settlement(status="aborted", text="", reason="cancelled", outcome_unknown=True)
WAITED = Settlement(status="aborted", text="", reason="not_executed")


@pytest.mark.parametrize(
    ("settlement", "state"),
    [
        (DONE, "completed"),
        (FAILED, "failed"),
        (ABORTED, "aborted"),
        (UNKNOWN, "would not stop"),
        (Settlement(status="aborted", text="", reason="interrupted_by_crash", outcome_unknown=True), "aborted"),
        (WAITED, "not executed"),
        (Settlement(status="error", text=""), "error"),
        (Settlement(status="denied", text=""), "denied"),
    ],
)
def test_states(settlement: Settlement, state: str) -> None:
    assert state_of(settlement) == state


def test_tally_counts_calls_settled_by_a_cancel() -> None:
    tally = Tally()
    for event in (announced("a"), settled("a", DONE), announced("b"), announced("c"), announced("d", "ses_child")):
        tally.feed(event)
    tally.mark_cancel()
    for event in (settled("d", WAITED), settled("b", ABORTED), settled("c", WAITED)):
        tally.feed(event)
    assert tally.cancelled == "3 tool calls stopped."
    assert tally.states == "1 completed, 1 aborted, 2 not executed"
    marks = [marker("ses_1", "a"), marker("ses_child", "d"), marker("ses_2", "a"), marker("ses_11", "a"), "a"]
    assert [tally.is_ours(mark) for mark in marks] == [True, True, False, False, False]


def test_empty_tally() -> None:
    tally = Tally()
    tally.feed(announced("a"))
    assert tally.is_ours(marker("ses_1", "a"))
    assert tally.is_of_call(marker("ses_1", "a"))
    hook = hook_marker("ses_1")
    assert (tally.is_ours(hook), tally.is_of_call(hook)) == (True, False)
    tally.feed(settled("a", DONE))
    tally.mark_cancel()
    assert tally.cancelled == "No tool call was running."


def test_tally_tells_what_did_not_stop_at_a_cancel() -> None:
    tally = Tally()
    for name in ("a", "b", "c"):
        tally.feed(announced(name))
    tally.mark_cancel()
    for event in (settled("a", DONE), settled("b", UNKNOWN), settled("c", ABORTED)):
        tally.feed(event)
    assert tally.cancelled == "1 tool call stopped. 1 tool call finished. 1 tool call would not stop."


@pytest.mark.parametrize("reason", STOP_REASONS)
def test_every_stop_reason_has_its_code(reason: StopReason) -> None:
    code = exit_code(TurnResult(stop_reason=reason), None)
    assert (code == 0) == (reason == "completed")
    assert code in MEANINGS
    assert exit_code(TurnResult(stop_reason=reason), 15) == (143 if reason == "aborted" else code)


def test_the_line_of_a_turn_that_completed() -> None:
    result = TurnResult(stop_reason="completed", steps=3, usage=Usage(input=12_000, output=345), cost=0.01234)
    tally = Tally()
    tally.feed(settled("a", DONE))
    assert closing_line(result, tally, 8.21) == "Done in 8.2 s · 3 requests · 1 tool call · 12,345 tokens · $0.0123"
    assert closing_line(result, tally, None) == "Done · 3 requests · 1 tool call · 12,345 tokens · $0.0123"
    cached = attrs.evolve(result, usage=Usage(input=1_000, cache_read=8_000, cache_write=1_000, output=345), cost=1.5)
    assert closing_line(cached, tally, 8.21).endswith("10,345 tokens (80% of the prompts from the cache) · $1.50")


def test_the_line_of_a_turn_that_stopped() -> None:
    result = TurnResult(stop_reason="step_limit", detail="3 steps were used.", steps=3)
    assert closing_line(result, Tally(), 2) == "Stopped after 2.0 s · 3 requests · 0 tool calls · 0 tokens"
