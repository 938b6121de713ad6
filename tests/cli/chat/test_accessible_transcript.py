"""A whole conversation of the accessible chat, as a screen reader gets it: equal to a stored file (cli A15, C23)."""

from pathlib import Path

from engine.testing.fake_tools import FakeTools
from engine.testing.script import call, done, reasoning, spread, text
from tests.cli.chat.driven_chat import ChatScript, play_chat

STORED = Path(__file__).with_name("accessible_transcript.txt")

TABLE = "# Result\n\n| file | lines |\n|---|---|\n| a.py | 10 |\n| b.py | 200 |\n\nDone with *care*:\n\n```python\nx = 1\n```\n"
CONVERSATION = ChatScript(
    in_lines=True,
    tools=FakeTools().tools(),
    acts=[
        *("look around", 3.0),
        *("change it", 2.0, "1", 2.0),
        *("change it again", 2.0, "no such answer", 1.0, "4", 2.0),
        *("say more", 0.3, "be quick", "/later and then rest", 0.5, "/cancel", 1.0, "", 4.0),
        *("/nonsense", "/status", 1.0, "/redraw 2", 1.0),
    ],
    answers=[
        [*reasoning("hm"), *text("I look."), *call("look", {"key": "a.py"}, id="c1"), *done("calls")],
        [*text(TABLE, pieces=9), *done()],
        [*call("work", {"key": "b.py"}, id="c2"), *done("calls")],
        [*text("It is changed."), *done()],
        [*call("work", {"key": "c.py"}, id="c3"), *done("calls")],
        [*text("As you like."), *done()],
        [*spread(text("one two three four five six\nseven eight nine ten", pieces=10), 0.3), *done()],
        [*text("Resting."), *done()],
    ],
    signals=((200.0, 15),),
)


def test_transcript_equals_the_stored_one() -> None:
    played = play_chat(CONVERSATION)
    assert "\x1b" not in played.output
    assert played.output == STORED.read_text()


def test_progress_is_a_line_every_15_seconds() -> None:
    slow = [*spread(text("one two", pieces=2), 22.0), *done()]
    played = play_chat(ChatScript(in_lines=True, acts=["go", 50.0, "/quit"], answers=[slow]))
    assert played.output.count("Working, ") == 3
