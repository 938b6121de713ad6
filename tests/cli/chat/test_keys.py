"""What the keys of the chat do, and that the configuration moves them."""

import pytest

from engine.cli.chat.layout import Size, draw
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.outbox import OutgoingMessage
from engine.cli.chat.machine.slash_commands import SlashCommand
from engine.cli.chat.machine.status_facts import StatusSetup
from engine.config.chat_keys import bind_keys
from engine.core import events as ev
from engine.core.ids import CallId, InputId, RequestId, SessionId, TurnId
from engine.core.messages import Settlement
from tests.cli.chat.chat_machine import Chat, new_machine
from tests.cli.questions.questions import offers, permission_asked


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "ctrl+enter"])
def test_newline_keys(key: str) -> None:
    chat = Chat()
    chat.type("one")
    chat.press(key)
    chat.type("two")
    assert chat.machine.composer.text == "one\ntwo"
    assert not chat.take()


def test_backslash_before_enter_is_a_newline() -> None:
    chat = Chat()
    chat.type("one\\")
    chat.press("enter")
    assert chat.machine.composer.text == "one\n"


@pytest.mark.parametrize(
    ("keys", "effect"),
    [
        (["ctrl+z"], do.Suspend()),
        (["ctrl+l"], do.Redraw()),
        (["ctrl+g"], do.EditExternally()),
        (["ctrl+x", "ctrl+e"], do.EditExternally()),
        (["ctrl+t"], do.RunCommand("jobs", "")),
        (["ctrl+d"], do.Leave()),
    ],
)
def test_key_does_its_action(keys: list[str], effect: do.Effect) -> None:
    chat = Chat()
    chat.press(*keys)
    assert chat.take() == [effect]


def test_profile_key_never_allows_everything() -> None:
    chat = Chat()
    for profile in ("full", "ask", "auto-edit", "read-only", "ask"):
        chat.machine.facts.profile = profile
        chat.press("shift+tab")
    following = [effect.argument for effect in chat.take() if isinstance(effect, do.RunCommand)]
    assert following == ["ask", "auto-edit", "read-only", "ask", "auto-edit"]


def test_history_is_searched_and_chosen() -> None:
    chat = Chat()
    for text in ("first words", "other", "first lines"):
        chat.type(text)
        chat.press("enter")
    chat.press("ctrl+r")
    chat.type("first")
    assert chat.machine.picker is not None
    assert [row.split()[-2:] for row in chat.machine.picker.rows(9)[1:]] == [["first", "lines"], ["first", "words"]]
    chat.press("down", "enter")
    assert chat.machine.composer.text == "first words"


def test_beginning_of_an_answer_stays_in_its_place() -> None:
    chat = Chat()
    chat.event(ev.TurnStarted(turn_id=TurnId("turn_1")))
    chat.event(permission_asked(offers=offers("ls", "ls *")))
    chat.now += 5
    chat.type("a")
    assert "  typed: a" in draw(chat.machine, Size(80, 24), 0.0).rows
    chat.type("nd go on")
    assert chat.machine.composer.text == "and go on"
    assert "  typed: a" not in draw(chat.machine, Size(80, 24), 0.0).rows


@pytest.mark.parametrize("sends", [True, False])
def test_what_waits_after_a_cancel(sends: bool) -> None:
    chat = Chat()
    chat.machine.facts.setup = StatusSetup(sends_after_cancel=sends)
    for number, cancels in enumerate((False, True)):
        turn = TurnId(f"turn_{number}")
        chat.event(ev.TurnStarted(turn_id=turn))
        chat.machine.outbox.add(OutgoingMessage(InputId("i"), "queued", "queue", "waiting"))
        if cancels:
            chat.press("escape")
            chat.take()
        # The first is cancelled by another client.
        chat.event(ev.TurnEnded(turn_id=turn, result=ev.TurnResult(stop_reason="aborted")))
        assert [type(effect) for effect in chat.take()] == [do.SendPrompt] * (sends and cancels)


@pytest.mark.parametrize(("typed", "shown"), [("clear", "new"), ("exit", "quit"), ("modle", "model")])
def test_unknown_command_gets_the_nearest_name(typed: str, shown: str) -> None:
    chat = Chat()
    chat.type(f"/{typed} it")
    chat.press("enter")
    assert (chat.take(), chat.machine.composer.text) == ([], f"/{typed} it")
    assert chat.machine.notice == f"Unknown command /{typed}: did you mean /{shown}?"


def test_unfinished_pair_does_nothing() -> None:
    chat = Chat()
    chat.press("ctrl+x", "ctrl+k", "ctrl+e")
    assert chat.take() == []


def test_up_moves_in_the_text_before_the_history() -> None:
    chat = Chat()
    for text in ("first", "second"):
        chat.type(text)
        chat.press("enter")
    chat.press("ctrl+c")
    chat.take()
    chat.type("one")
    chat.press("ctrl+j")
    chat.type("two")
    chat.press("up")
    assert chat.machine.composer.text == "one\ntwo"
    chat.press("up")
    assert chat.machine.composer.text == "second"
    chat.press("up", "down", "down")
    assert chat.machine.composer.text == "one\ntwo"


def test_bound_keys_replace_the_default_ones() -> None:
    chat = Chat(bind_keys({"send": "f2", "newline": ["enter"], "line_start": "ctrl+s"}))
    chat.type("one")
    chat.press("enter", "ctrl+s")
    chat.type("2")
    assert chat.machine.composer.text == "one\n2"
    chat.press("ctrl+a", "f2")
    assert chat.take() == [
        do.SendPrompt(chat.machine.outbox.messages[0].input_id, chat.machine.outbox.messages[0].parts)
    ]


def test_details_show_the_last_call_in_full() -> None:
    chat = Chat()
    chat.press("ctrl+o")
    assert chat.machine.notice == "There was no tool call"
    call = CallId("call_1")
    chat.event(ev.CallQueued(call_id=call, tool="bash", arguments='{"command": "printf \\u001b[2J\\nls"}'))
    chat.press("ctrl+o")
    assert chat.printed[-4:] == ["bash:", "  command: printf ^[[2J", "    ls", "It is still running."]
    chat.event(ev.CallSettled(call_id=call, settlement=Settlement(status="completed", text="a\nb")))
    chat.printed.clear()
    chat.press("ctrl+o")
    assert chat.printed[-3:] == ["Result:", "  a", "  b"]


def test_leaving_with_jobs_lists_them_and_asks() -> None:
    chat = Chat()
    chat.machine.ends_jobs = True
    chat.machine.facts.jobs = 2
    for choice, effects in (("1", []), ("2", [do.Leave()])):
        chat.type("/quit")
        chat.press("enter")
        assert chat.take() == [do.RunCommand("jobs", "")]
        assert chat.machine.picker is not None
        chat.type(choice)
        assert chat.take() == effects
        assert chat.machine.picker is None


def test_leaving_a_server_ends_no_jobs() -> None:
    chat = Chat()
    chat.machine.facts.jobs = 2
    chat.press("ctrl+d")
    assert chat.take() == [do.Leave()]


def test_interrupt_keeps_the_draft_in_the_history() -> None:
    chat = Chat()
    chat.event(ev.TurnStarted(turn_id=TurnId("turn_1")))
    chat.type("draft")
    chat.press("ctrl+c")
    assert (chat.take(), chat.machine.composer.text) == ([do.CancelTurn(TurnId("turn_1"))], "draft")
    chat.press("ctrl+c")
    assert chat.take() == [do.Leave(at_once=True)]
    chat.event(ev.TurnEnded(turn_id=TurnId("turn_1"), result=ev.TurnResult(stop_reason="aborted")))
    chat.press("ctrl+c")
    assert chat.machine.composer.is_empty
    chat.press("up")
    assert chat.machine.composer.text == "draft"
    chat.press("ctrl+c", "ctrl+c")
    assert chat.machine.notice == "Ctrl+C again to quit"
    chat.now += 3
    chat.press("ctrl+c")
    assert chat.take() == []
    chat.press("ctrl+c")
    assert chat.take() == [do.Leave()]


def test_up_after_an_interrupt_is_the_draft_not_the_queue() -> None:
    chat = Chat()
    chat.machine.outbox.add(OutgoingMessage(InputId("i"), "queued", "queue", "waiting"))
    chat.type("draft")
    chat.press("ctrl+c", "up")
    assert (chat.take(), chat.machine.composer.text) == ([], "draft")
    chat.press("ctrl+u", "up")
    assert chat.take() == [do.TakeBack(InputId("i"))]


def test_messages_that_wait_for_no_turn_say_what_sends_them() -> None:
    chat = Chat()
    chat.machine.outbox.add(OutgoingMessage(InputId("i"), "more", "steer", "waiting"))
    assert "waits (Enter: send): more" in draw(chat.machine, Size(80, 24), 0.0).rows
    chat.event(ev.TurnStarted(turn_id=TurnId("turn_1")))
    assert "before the next step: more" in draw(chat.machine, Size(80, 24), 0.0).rows


def test_remarks_wrap_at_words() -> None:
    chat = Chat()
    effect = chat.machine.note("The last turn did not end by itself: " + "the process ended " * 6)
    assert isinstance(effect, do.Print)
    assert [line.split()[-1] for line in effect.lines] == ["the", "ended"]
    assert max(map(len, effect.lines)) <= 80


@pytest.mark.parametrize("word", ["y", "no"])
def test_answer_in_the_message_needs_a_second_enter(word: str) -> None:
    chat = Chat()
    chat.event(ev.TurnStarted(turn_id=TurnId("turn_1")))
    chat.type("a")
    chat.event(permission_asked())
    chat.press("backspace")
    chat.type(word)
    chat.press("enter")
    assert chat.take() == []
    assert chat.machine.notice.startswith("A question waits: Tab")
    chat.press("enter")
    assert [type(effect) for effect in chat.take()] == [do.SendSteer]


def test_two_escapes_rewind() -> None:
    chat = Chat()
    chat.machine.commands = (*chat.machine.commands, SlashCommand("rewind", ""))
    chat.press("escape")
    chat.now += 5
    chat.press("escape")
    assert chat.take() == []
    chat.press("escape")
    assert chat.take() == [do.RunCommand("rewind", "")]
    chat.type("a")
    chat.press("escape", "escape")
    assert chat.take() == []


def test_key_of_a_command_that_is_not_here_says_so() -> None:
    chat = Chat()
    chat.machine.commands = ()
    chat.press("ctrl+t")
    assert (chat.take(), chat.machine.notice) == ([], "/jobs does not work here")


def test_advice_is_on_a_line_of_its_own() -> None:
    chat = Chat()
    effect = chat.machine.note("no theme is called x\nNext: /theme mono\x1b[2J")
    assert effect == do.Print(("- no theme is called x", "  Next: /theme mono^[[2J"))


def test_accessible_chat_says_what_waits_after_a_cancel() -> None:
    machine = new_machine(bind_keys({}), is_accessible=True)
    turn = TurnId("turn_1")
    machine.handle_event(ev.TurnStarted(turn_id=turn), 0.0)
    for number in (1, 2):
        machine.handle_line(f"text{number}", 0.0)
    ended = ev.TurnEnded(turn_id=turn, result=ev.TurnResult(stop_reason="aborted"))
    printed = [
        line for effect in machine.handle_event(ended, 0.0) if isinstance(effect, do.Print) for line in effect.lines
    ]
    assert printed[-1] == "Note: 2 messages wait. An empty line sends; /queue shows."


@pytest.mark.parametrize(("several", "how"), [(True, "numbers such as 1 2"), (False, "a number")])
def test_accessible_question_says_what_to_type(several: bool, how: str) -> None:
    machine = new_machine(bind_keys({}), is_accessible=True)
    choices = (ev.Choice(label="red"), ev.Choice(label="blue"))
    asked = ev.QuestionAsked(
        request_id=RequestId("q"), call_id=CallId("c"), question="Which?", choices=choices, several=several
    )
    (effect,) = machine.handle_event(asked, 0.0)
    assert isinstance(effect, do.Print)
    assert effect.lines[-1] == f"  Type {how}, or /answer and a text. Other lines are messages."
    effects = machine.handle_line("2 1", 5.0)
    assert [type(each) for each in effects] == [do.AnswerTool if several else do.SendPrompt]


def test_questions_keep_their_count() -> None:
    chat = Chat()
    for name in ("r1", "r2", "r3"):
        chat.event(permission_asked(name))
    chat.event(ev.PermissionAnswered(request_id=RequestId("r1"), answer="once"))
    tool_asks = ev.QuestionAsked(
        request_id=RequestId("r4"), call_id=CallId("c"), question="Why?", path=(SessionId("ses_1"), SessionId("ses_2"))
    )
    chat.event(tool_asks)
    chat.event(ev.PermissionAnswered(request_id=RequestId("r2"), answer="once"))
    chat.event(ev.PermissionAnswered(request_id=RequestId("r3"), answer="once"))
    asked = [line for line in chat.printed if line.startswith("* ")]
    assert [line.rpartition("(")[2] for line in asked[1:3]] == ["2 of 3)", "3 of 4)"]
    assert "  Asked by a sub-agent" in chat.printed
