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


def test_rows_have_their_order(busy_chat: Chat) -> None:
    for number in range(7):
        call = CallId(f"call_{number}")
        busy_chat.event(ev.CallAnnounced(message_id=MessageId("m"), part_id=PartId("c"), call_id=call, tool="bash"))
        busy_chat.event(ev.CallStarted(call_id=call))
    busy_chat.event(ev.QuestionAsked(request_id=RequestId("q"), call_id=CallId("c"), question="Why?"))
    rows = [row.strip() for row in draw(busy_chat.machine, Size(80, 60), 0.0).rows]
    assert rows[0] == "open line"
    assert [row.partition(" ")[0] for row in rows[1:7]] == ["*"] * 5 + ["+2"]
    assert rows[7:10] == ["Tab: type the answer", "Keys go to the message. Tab: answer", "sending: waits"]
    assert rows[10].startswith("> long draft")
    assert rows[-1].startswith("Question")
    # The draft takes 40% of a low window at most.
    assert len([row for row in draw(busy_chat.machine, Size(40, 20), 0.0).rows if "draft" in row]) == 8


def test_table_is_as_wide_as_the_window() -> None:
    view = Chat().machine.view
    view.resize(40)
    assert view.table([("/short", "text " * 8), ("/a name", "x")]) == [
        "  /short   text text text text text text",
        "           text text",
        "  /a name  x",
    ]
    command = f"Next: engine sessions export {'x' * 40} y"
    assert view.wrapped(["  a  b", f"- {'word ' * 9}", command]) == [
        "  a  b",
        f"- {'word ' * 7}".rstrip(),
        "  word word",
        command,
    ]


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
