"""The live region in windows of all sizes."""

import pytest

from engine.cli.chat.layout import Size, draw
from engine.core import events as ev
from engine.core.ids import CallId, MessageId, PartId, RequestId, TurnId
from tests.cli.chat.chat_machine import Chat


@pytest.fixture
def busy_chat() -> Chat:
    """A chat with much to show: an open line, a message that waits, and a long draft."""
    chat = Chat()
    chat.event(ev.TurnStarted(turn_id=TurnId("turn_1")))
    chat.event(ev.TextDelta(message_id=MessageId("m"), part_id=PartId("p"), after=1, offset=0, text="open line"))
    chat.type("waits")
    chat.press("alt+enter")
    chat.type("long draft " * 40)
    return chat


@pytest.mark.parametrize("columns", [10, 39, 40, 80, 200])
@pytest.mark.parametrize("rows", [2, 5, 7, 8, 9, 24, 60])
def test_region_takes_half_the_window(busy_chat: Chat, columns: int, rows: int) -> None:
    frame = draw(busy_chat.machine, Size(columns, rows), 0.0)
    assert 0 < len(frame.rows) <= max(1, rows // 2)
    assert all(len(row) < columns for row in frame.rows)
    assert 0 <= frame.row < len(frame.rows)
    assert frame.column < columns


def test_small_window_has_no_status_line(busy_chat: Chat) -> None:
    busy_chat.press("ctrl+u")
    assert draw(busy_chat.machine, Size(39, 24), 0.0).rows == ("sending: waits", "> ")
    assert draw(busy_chat.machine, Size(80, 7), 0.0).rows == ("sending: waits", "> ")
    assert draw(busy_chat.machine, Size(80, 24), 0.0).rows[0] == "open line"


def test_small_window_shows_remarks() -> None:
    chat = Chat()
    chat.press("ctrl+c")
    assert draw(chat.machine, Size(30, 6), 0.0).rows == ("> ", "Ctrl+C again to quit")


def test_small_window_prints_choices() -> None:
    chat = Chat()
    chat.machine.view.has_little_room = True
    choices = (ev.Choice(label="red"), ev.Choice(label="blue"))
    chat.event(ev.QuestionAsked(request_id=RequestId("q"), call_id=CallId("c"), question="Which?", choices=choices))
    assert any("[1-2] Choose" in line for line in chat.printed)
    assert not any("[1-2]" in row for row in draw(chat.machine, Size(30, 6), 0.0).rows)
