"""What is shown of a session that is opened again: its last lines, however long it is."""

from engine.cli.chat.display.styles import Painter
from engine.cli.chat.display.transcript_view import TranscriptView
from engine.cli.terminal.terminal_text import ASCII
from engine.core.ids import MessageId, PartId
from engine.core.messages import AssistantMessage, TextPart, Transcript, UserMessage
from engine.journal.state import SessionState


def session(text: str) -> SessionState:
    said = UserMessage(id=MessageId("m1"), parts=(TextPart(id=PartId("p1"), text="the question"),))
    answer = AssistantMessage(id=MessageId("m2"), parts=(TextPart(id=PartId("p2"), text=text),), model="m")
    return SessionState(transcript=Transcript([said, answer]))


def shown(text: str, most: int | None) -> list[str]:
    return TranscriptView(Painter(is_styled=False), ASCII, 80).history(session(text), 2, most)


def test_last_lines_of_a_long_answer() -> None:
    lines = shown("\n".join(f"line {number}" for number in range(1_000)), 20)
    assert lines == ["- Earlier lines are not shown: /redraw 2", *(f"line {number}" for number in range(980, 1_000))]


def test_code_whose_beginning_is_left_out_stays_code() -> None:
    lines = shown("\n".join(["```", *["*not emphasis*"] * 50, "```"]), 10)
    assert lines.count("*not emphasis*") == 9


def test_long_message_of_the_user_is_shown_in_part() -> None:
    view = TranscriptView(Painter(is_styled=False), ASCII, 80)
    lines = view.prompt_lines("\n".join(f"line {number}" for number in range(1, 3_001)))
    assert lines[:2] == ["", "> line 1"]
    assert lines[20:23] == ["  line 20", "  [... 2,970 more lines, sent but not shown ...]", "  line 2991"]
    assert lines[-2:] == ["  line 3000", ""]
    assert len("".join(view.prompt_lines("x" * 10_000_000))) < 2_100
    assert len(view.prompt_lines("\n" * 30)) == 33


def test_short_session_is_shown_as_it_is() -> None:
    assert shown("one\n\ntwo", 20) == shown("one\n\ntwo", None)


def test_labelled_lines_are_no_wider_than_the_terminal() -> None:
    view = TranscriptView(Painter(is_styled=False), ASCII, 60, is_accessible=True)
    lines = view.history(session("word " * 100), 1)
    assert lines[1].startswith("Engine: word")
    assert max(map(len, lines)) < 60
