"""Calls, reasoning and retries as finished lines (cli C16), and lists of any length (cli C20)."""

import json
from dataclasses import dataclass

import attrs
import pytest

from engine.cli.chat.editor.key_decoder import Key, TypedText
from engine.cli.chat.machine.picker import Chosen, Closed, Picker, PickerItem, PickerRequest
from engine.core import events as ev
from engine.core.ids import CallId, MessageId, PartId, TurnId
from engine.core.messages import ReasoningPart, Settlement
from tests.cli.chat.chat_machine import Chat

TURN, MESSAGE, PART, CALL = TurnId("turn_1"), MessageId("msg_1"), PartId("part_1"), CallId("call_1")


@dataclass
class Clock:
    """Stamps events, a second after the other."""

    chat: Chat
    now: float = 1_000.0

    def event(self, event: ev.Durable | ev.Live) -> None:
        self.now += 1
        self.chat.event(attrs.evolve(event, time=self.now))


@pytest.fixture
def clock() -> Clock:
    clock = Clock(Chat())
    clock.event(ev.TurnStarted(turn_id=TURN))
    return clock


def run_call(clock: Clock, settlement: Settlement) -> list[str]:
    """Play a call of one second; return what was printed."""
    clock.chat.printed.clear()
    arguments = json.dumps({"command": "pytest -q"})
    clock.event(ev.CallAnnounced(message_id=MESSAGE, part_id=PART, call_id=CALL, tool="bash"))
    clock.event(ev.CallQueued(call_id=CALL, tool="bash", arguments=arguments))
    clock.event(ev.CallStarted(call_id=CALL))
    assert clock.chat.printed == []
    clock.event(ev.CallSettled(call_id=CALL, settlement=settlement))
    return clock.chat.printed


def test_settled_call_is_one_line(clock: Clock) -> None:
    facts = json.dumps({"summary": "3 failed"})
    (line,) = run_call(clock, Settlement(status="completed", text="long\n" * 50, failed=True, metadata=facts))
    assert line.split() == ["x", "bash", "pytest", "-q", "3", "failed", "1.0", "s"]


def test_diff_shows_its_first_lines(clock: Clock) -> None:
    rows = [f"+line {number}" for number in range(60)]
    diff = "\n".join(["--- a/f.py", "+++ b/f.py", "@@ -0,0 +1,60 @@", *rows])
    facts = json.dumps({"summary": "changed", "diff": diff})
    first, *shown = run_call(clock, Settlement(status="completed", text="done", metadata=facts))
    assert "changed" in first
    added = [line.split("line ")[1] for line in shown if "line " in line and "+" in line]
    assert added[0] == "0"
    assert 10 <= len(added) <= 20
    assert any("more" in line for line in shown[-2:])


def test_reasoning_folds_into_its_seconds(clock: Clock) -> None:
    clock.event(ev.ReasoningDelta(message_id=MESSAGE, part_id=PART, offset=0, after=1, text="a secret thought"))
    clock.now += 3
    clock.event(ev.PartEnded(message_id=MESSAGE, part=ReasoningPart(id=PART, text="a secret thought")))
    assert clock.chat.printed == ["- Thought for 4.0 s"]


def test_text_that_is_taken_back_is_named(clock: Clock) -> None:
    clock.event(ev.TextDelta(message_id=MESSAGE, part_id=PART, offset=0, after=1, text="The answer\nis 4"))
    clock.event(ev.PartDiscarded(message_id=MESSAGE, part_id=PART, reason="provider_retry"))
    assert clock.chat.printed[-1] == "- Retrying; ignore the partial answer above."
    assert "The answer" in clock.chat.printed[0]


def test_list_of_ten_thousand_draws_what_fits() -> None:
    items = tuple(PickerItem(f"ses_{number}", f"session {number}") for number in range(10_000))
    picker = Picker(PickerRequest("resume", "Session", items))
    assert len(picker.rows(12)) == 12
    for _ in range(20):
        picker.press(Key("down"))
    assert "> " in "".join(row[:2] for row in picker.rows(12)[1:])
    picker.press(TypedText("on 987"))
    assert picker.rows(12)[0].startswith("Session (20 of 10000;")
    assert all("987" in row for row in picker.rows(12)[1:])
    picker.press(Key("ctrl+u"))
    picker.press(TypedText("session 9999"))
    assert picker.press(Key("enter")) == Chosen("ses_9999")
    assert picker.press(Key("escape")) == Closed()
    assert Picker(PickerRequest("resume", "Session", items)).press(TypedText("3")) == Chosen("ses_2")
