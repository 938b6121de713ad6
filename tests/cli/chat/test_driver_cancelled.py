"""The drivers of the chat, cancelled at every step of Trio's scheduler: each text stays in one place (cli A10, C11)."""

import signal
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.testing.script import done, spread, text
from tests.cli.chat.driven_chat import ChatScript, play_chat
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt

pytestmark = pytest.mark.slow

SLOW = [*spread(text("one two three\nfour", pieces=6), 0.1), *done()]
CHATS = {
    "steer-queue-cancel": ChatScript(
        acts=[
            "text1\r",
            0.15,
            "text2\r",
            0.1,
            "text3",
            "\x1b\r",
            0.1,
            "text4\r",
            0.05,
            "\x1b",
            0.3,
            "\r",
            0.3,
            "text5",
        ],
        answers=[SLOW, SLOW],
        signals=((2.5, signal.SIGTERM),),
    ),
    "take-back": ChatScript(
        acts=[
            "text1\r",
            0.12,
            "text2",
            "\x1b\r",
            0.05,
            "\x1b[A",
            0.05,
            " text3\r",
            0.1,
            "text4\r",
            "\x03",
            0.2,
            "text5",
            0.1,
        ],
        answers=[SLOW, SLOW],
        signals=((0.9, signal.SIGTERM),),
    ),
    "sent-and-left": ChatScript(acts=["text1\r", 0.2, "text2\r", 0.011, "\x04"], answers=[SLOW]),
    "lines": ChatScript(
        acts=["text1", 0.15, "text2", "/later text3", 0.1, "/cancel", 0.2, "", 0.1, "text4", 1.5],
        answers=[SLOW, SLOW],
        in_lines=True,
        signals=((3.0, signal.SIGHUP),),
    ),
    "fault": ChatScript(acts=["text1\r", 0.15, "text2\r", 0.1, "text3"], answers=[SLOW, SLOW], has_fault=True),
}


@pytest.mark.parametrize("name", CHATS)
def test_texts_stay_in_one_place(name: str, is_full: bool, count_runs: CountRuns) -> None:
    counter = CancelAt()
    play_chat(CHATS[name], counter).check()
    runs = 0
    for step in range(0, counter.steps, 1 if is_full else 8):
        injector = CancelAt(step)
        play_chat(CHATS[name], injector).check()
        runs += injector.has_fired
    count_runs(runs)
    assert runs > 10


# What a user does, as keys and as lines; the text is another one each time. After Enter the decoder waits for a paste.
KEYS: Mapping[str, Sequence[str | float]] = {
    "send": ["{}", "\r", 0.011],
    "queue": ["{}", "\x1b\r", 0.011],
    "write": ["{} "],
    "cancel": ["\x1b", 0.03],
}
LINES: Mapping[str, Sequence[str | float]] = {
    "send": ["{}"],
    "queue": ["/later {}"],
    "write": [""],
    "cancel": ["/cancel"],
}
ACTS = st.lists(st.tuples(st.sampled_from(sorted(KEYS)), st.sampled_from([0.0, 0.02, 0.15, 0.7])), max_size=9)


@settings(max_examples=40)
@given(acts=ACTS, end=st.floats(0.1, 4), step=st.integers(0, 9_999), in_lines=st.booleans())
def test_any_conversation_keeps_its_texts(acts: list[tuple[str, float]], end: float, step: int, in_lines: bool) -> None:
    """It ends by a signal, and in a second run by a cancel."""
    typed: list[str | float] = []
    for number, (act, pause) in enumerate(acts):
        keys = (LINES if in_lines else KEYS)[act]
        typed += [key.format(f"text{number}") if isinstance(key, str) else key for key in keys]
        typed.append(pause)
    script = ChatScript(acts=typed, answers=[SLOW] * 3, in_lines=in_lines, signals=((end, signal.SIGTERM),))
    counter = CancelAt()
    play_chat(script, counter).check()
    play_chat(script, CancelAt(step % counter.steps)).check()
