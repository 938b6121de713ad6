"""What chat commands say of sessions, costs, waiting messages and sub-agents."""

from __future__ import annotations

from typing import TypeVar

import attrs
import pytest

from engine.cli.chat.command_texts import cost_lines
from engine.cli.chat.editor.key_decoder import Key
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.picker import Chosen, Picker, PickerItem, PickerRequest
from engine.cli.chat.machine.session_follower import what_happened
from engine.cli.chat.session_commands import session_item
from engine.config.chat_keys import bind_keys
from engine.core import events as ev
from engine.core.ids import CallId, InputId, MessageId, SessionId, TurnId
from engine.core.messages import Transcript, Usage
from engine.journal.state import PendingInput, Resync, SessionState, UndoneTurn
from engine.store.store_protocols import SessionRow
from tests.cli.chat.chat_machine import Chat, message, new_machine

ROW = SessionRow(
    id=SessionId("ses_a"),
    parent_id=None,
    root_id=SessionId("ses_a"),
    title="Fix the parser",
    cwd="/project",
    model="h/m",
    created=0.0,
    updated=1_000.0,
    seq=9,
    messages=4,
    turns=2,
    status="idle",
    stop_reason="completed",
    usage=Usage(),
    cost=0.5,
    holder="nobody",
)
EventT = TypeVar("EventT", bound=ev.EventBase)
CHILD = (SessionId("ses_1"), SessionId("child"))


@pytest.mark.parametrize(
    ("seconds", "age"), [(5, "now"), (65, "1 min ago"), (7_300, "2 h ago"), (3 * 86_400, "3 d ago")]
)
def test_sessions_show_age_turns_and_cost(seconds: float, age: str) -> None:
    item = session_item(ROW, "/project", now=1_000.0 + seconds)
    assert item == PickerItem(ROW.id, f"Fix the parser  {age}  2 turns  $0.50")
    titled = session_item(attrs.evolve(ROW, first_words="the parser fails on"), "/project", now=1_000.0)
    assert titled.label == 'Fix the parser  now  2 turns  $0.50  "the parser fails on"'
    long = session_item(attrs.evolve(ROW, first_words="w" * 61), "/project", now=1_000.0)
    assert long.label.endswith(f'  "{"w" * 59}…"')
    other = session_item(attrs.evolve(ROW, title="", turns=1, cost=0.0), "/elsewhere", now=1_000.0)
    assert other.label == "(empty)  now  1 turn  /project"


def test_current_item_is_marked_and_selected() -> None:
    items = tuple(PickerItem(name, name) for name in ("a/one", "a/two", "b/two"))
    picker = Picker(PickerRequest("model", "Model", items, current="a/two"))
    assert picker.rows(9)[1:] == ["  1 a/one", "> 2 a/two (current)", "  3 b/two"]
    assert "  2. a/two (current)" in picker.numbered_lines()
    assert picker.press(Key("enter")) == Chosen("a/two")


def test_other_folders_come_with_a_key() -> None:
    here, there = PickerItem("a", "here"), PickerItem("b", "there")
    # Made only then: there may be thousands.
    listed: list[tuple[PickerItem, ...]] = []

    def everything() -> tuple[PickerItem, ...]:
        listed.append((here, there))
        return listed[-1]

    picker = Picker(PickerRequest("resume", "Session", (here,), more=everything))
    assert "Ctrl+O: other folders" in picker.rows(5)[0]
    assert len(picker.rows(5)) == 2
    assert not listed
    lines = picker.choose_line("more")
    assert isinstance(lines, list)
    assert lines[1:] == ["  1. here", "  2. there"]
    assert picker.choose_line("2") == Chosen("b")


def test_costs_are_told_by_model_and_sub_agents() -> None:
    step = ev.StepEnded(
        step=1,
        message_id=MessageId("m"),
        results_id=MessageId("m"),
        finish=None,
        usage=Usage(input=100, cache_read=300, output=50),
        cost=0.25,
    )
    started = ev.StepStarted(step=1, attempt=1, message_id=MessageId("m"), model="h/a")
    events: list[ev.Durable] = [
        started,
        step,
        attrs.evolve(started, model="h/b"),
        attrs.evolve(step, cost=0.0),
        ev.TurnEnded(turn_id=TurnId("t"), result=ev.TurnResult(stop_reason="completed", cost=1.25)),
    ]
    assert cost_lines(events) == [
        "  h/a: 400 tokens in (75% from a cache), 50 out, $0.25",
        "  h/b: 400 tokens in (75% from a cache), 50 out, unknown price",
        "  sub-agents: $1.00",
        "  in all: $1.25",
    ]
    assert cost_lines([]) == ["  in all: nothing"]


def test_opened_session_says_what_happened() -> None:
    state = SessionState(session_id=SessionId("ses_1"))
    assert what_happened(state) == []
    pending = PendingInput(input_id=InputId("i"), mode="queue", message=message("later"))
    state = attrs.evolve(
        state,
        last_result=ev.TurnResult(stop_reason="aborted", detail="the terminal is gone"),
        inbox=(pending,),
        undone=(UndoneTurn(turn_id=TurnId("t"), keep=0, messages=()),),
    )
    assert what_happened(state) == [
        "The last turn did not end by itself (the terminal is gone). Your next message continues.",
        "1 message waits from then. Enter sends; /queue shows.",
        "1 turn is undone. /redo brings it back.",
    ]


def test_opened_session_shows_its_last_two_turns() -> None:
    chat = Chat()
    chat.machine = new_machine(bind_keys({}))
    said = Transcript(message(f"prompt {number}") for number in range(5))
    chat.event(Resync(session_id=CHILD[0], epoch="", seq=0, state=SessionState(transcript=said)))
    assert [line for line in chat.printed if line] == [
        "- 3 earlier messages are not shown",
        "> prompt 3",
        "> prompt 4",
    ]


# -- the queue ---------------------------------------------------------------------------------------------


def waiting(*texts: str) -> Chat:
    chat = Chat()
    chat.event(ev.TurnStarted(turn_id=TurnId("turn")))
    for text in texts:
        chat.type(text)
        chat.press("alt+enter")
        (effect,) = chat.take()
        assert isinstance(effect, do.SendQueued)
        chat.event(ev.InputAdmitted(input_id=effect.input_id, mode="queue", message=message(text)))
    return chat


def run(chat: Chat, line: str) -> list[do.Effect]:
    chat.printed.clear()
    chat.type(line)
    chat.press("enter")
    return chat.take()


def test_queue_is_listed_moved_edited_and_cut() -> None:
    chat = waiting("one", "two")
    first, second = (each.input_id for each in chat.machine.outbox.messages)
    assert run(chat, "/queue") == []
    assert chat.printed == ["  1  after this turn: one", "  2  after this turn: two"]
    assert run(chat, "/queue up 2") == [do.SwapWaiting(first, second)]
    assert run(chat, "/queue up 1") == []
    assert chat.machine.notice == "It is the first one"
    assert run(chat, "/queue remove 1") == [do.TakeBack(first)]
    chat.event(ev.InputRemoved(input_id=first, message_id=MessageId("m")))
    assert run(chat, "/queue edit 1") == [do.TakeBack(second)]
    chat.event(ev.InputRemoved(input_id=second, message_id=MessageId("m")))
    assert chat.machine.composer.text == "two"
    assert not chat.machine.outbox.messages


@pytest.mark.parametrize("line", ["/queue up", "/queue up 9", "/queue remove x", "/queue nonsense 1"])
def test_queue_refuses_nonsense(line: str) -> None:
    chat = waiting("one")
    assert run(chat, line) == []
    assert chat.machine.notice == "1 message waits. Next: /queue, or /queue edit|up|remove NUMBER"
    assert len(chat.machine.outbox.messages) == 1


# -- sub-agents --------------------------------------------------------------------------------------------


def inner(event: EventT) -> EventT:
    """The event as one of a sub-agent."""
    return attrs.evolve(event, session_id=CHILD[1], path=CHILD)


def test_sub_agent_has_a_row_and_then_a_line() -> None:
    chat = Chat()
    chat.event(ev.TurnStarted(turn_id=TurnId("turn"), time=90.0))
    for event in (
        ev.SessionCreated(context=ev.SharedContext(cwd="/"), model="h/m", agent="explore"),
        ev.TurnStarted(turn_id=TurnId("inner"), time=100.0),
        ev.StepStarted(step=2, attempt=1, message_id=MessageId("m"), model="h/m"),
        ev.CallQueued(call_id=CallId("c"), tool="grep", arguments='{"pattern": "x\\u001b[2J"}'),
    ):
        chat.event(inner(event))
    (row,) = chat.machine.sub_agents.rows(112.0)
    mark = chat.machine.view.symbols.note
    assert row.endswith(f"agent explore {mark} request 2 {mark} grep x^[[2J {mark} 12 s")
    result = ev.TurnResult(stop_reason="completed", steps=2, cost=0.25)
    chat.event(inner(ev.TurnEnded(turn_id=TurnId("inner"), time=120.0, result=result)))
    assert not list(chat.machine.sub_agents.rows(121.0))
    assert chat.printed[-1].endswith(f"agent explore {mark} 2 requests {mark} 20.0 s {mark} $0.25")


def test_end_of_a_job_is_a_line() -> None:
    chat = Chat()
    chat.event(ev.Notice(level="info", code="job_ended", text="the background job web has ended: exit code 0, 1.0 s"))
    assert chat.printed == [f"{chat.machine.view.symbols.note} the background job web has ended: exit code 0, 1.0 s"]
    chat.event(ev.Notice(level="info", code="another", text="nothing"))
    assert len(chat.printed) == 1


def test_resync_forgets_sub_agents_that_are_gone() -> None:
    chat = Chat()
    chat.event(ev.TurnStarted(turn_id=TurnId("inner"), session_id=CHILD[1], path=CHILD))
    state = SessionState(session_id=CHILD[0])
    chat.event(Resync(session_id=CHILD[0], epoch="", seq=0, state=state))
    assert not list(chat.machine.sub_agents.rows(1.0))
