"""A dialogue over a real terminal, on a virtual clock: what is typed while questions appear."""

from __future__ import annotations

import os
import pty
import random
import select
import sys
import termios
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.cli.terminal.keyboard import Keyboard, restore_terminals
from engine.cli.terminal.output import Output
from engine.cli.turn.interactive import Dialogue
from engine.cli.turn.screen import Screen
from engine.core.errors import RequestNotFound
from engine.core.events import Notice, PermissionAnswered, PermissionAsked, QuestionAsked
from engine.core.ids import CallId, RequestId
from engine.session.answer_types import Always, Answer, Once, Recovery, Reject
from tests.cli.questions.questions import offers, permission_asked
from tests.support.cancel_at import CancelAt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the terminals of Linux")

SECONDS = 20.0
LATER = 0.75


@attrs.define(eq=False, kw_only=True)
class Recording(Dialogue):
    """A dialogue whose messages go into a list."""

    messages: list[str] = attrs.field(factory=list[str])

    async def handle_line(self, line: str) -> None:
        self.messages.append(line)
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class Answers:
    """What gets the answers."""

    dialogue: Recording | None = None
    given: list[tuple[str, Answer | tuple[str, ...]]] = attrs.field(factory=list[Any])
    refuse: bool = False

    async def reply(self, request_id: str, answer: Answer, /) -> None:
        if self.refuse:
            raise RequestNotFound("it was answered elsewhere")
        self.given.append((request_id, answer))
        kind: Any = {Once: "once", Always: "always", Reject: "reject"}[type(answer)]
        assert self.dialogue is not None
        self.dialogue.feed(PermissionAnswered(request_id=RequestId(request_id), answer=kind))
        await trio.lowlevel.checkpoint()

    async def answer(self, request_id: str, /, *answers: str) -> None:
        await trio.lowlevel.checkpoint()
        self.given.append((request_id, answers))

    async def recover(self, request_id: str, how: Recovery, /, *, model: str | None = None) -> None:
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class Terminal:
    """A terminal, the dialogue that reads it, and the user who types at it."""

    master: int
    slave: int
    keyboard: Keyboard
    dialogue: Recording
    answers: Answers
    output: Output
    shown: bytes = b""
    expected: int = 0

    @property
    def text(self) -> str:
        """What the dialogue has written."""
        return "".join(self.output._pending)

    def type(self, text: str) -> None:
        """Type, and wait until the terminal has it: it shows what was typed."""
        os.write(self.master, text.encode())
        echo = text.replace("\n", "\r\n").replace("\x1b", "^[").replace("\x7f", "^?")
        self.expected += len(echo.encode())
        while len(self.shown) < self.expected:
            ready, _, _ = select.select([self.master], [], [], SECONDS)
            assert ready, f"{text!r} is not shown"
            data = self.shown + os.read(self.master, 65_536)
            # These are for the emulator.
            self.shown = data.replace(b"\x1b[?2004h", b"").replace(b"\x1b[?2004l", b"")

    def ask(self, *requests: PermissionAsked | QuestionAsked) -> None:
        for request in requests:
            self.dialogue.feed(request)

    def answer_elsewhere(self, request_id: str) -> None:
        event = PermissionAnswered(request_id=RequestId(request_id), answer="once", by="panel")
        self.dialogue.screen.show(event)
        self.dialogue.feed(event)

    def settle(self, request_id: str, by: str = "") -> None:
        self.dialogue.feed(PermissionAnswered(request_id=RequestId(request_id), answer="withdrawn", by=by))


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with ExitStack() as stack:
        yield open_terminal(stack)


def open_terminal(stack: ExitStack, *, has_status: bool = True) -> Terminal:
    master, slave = pty.openpty()
    stack.callback(os.close, master)
    stack.callback(os.close, slave)
    reading = os.open(os.ttyname(slave), os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
    keyboard = Keyboard(reading)
    stack.callback(keyboard.close)
    output = Output(None, "utf-8", True, has_status, 100)
    answers = Answers()
    dialogue = Recording(answerable=answers, keyboard=keyboard, screen=Screen.on(output))
    answers.dialogue = dialogue
    return Terminal(master, slave, keyboard, dialogue, answers, output)


@asynccontextmanager
async def reading(terminal: Terminal) -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(terminal.dialogue.read_lines)
        await wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel(reason="the test is over")


async def after(clock: MockClock, seconds: float) -> None:
    """Let what happens happen, then let time pass, and let happen what that brings."""
    await wait_all_tasks_blocked()
    clock.jump(seconds)
    await wait_all_tasks_blocked()


async def test_answer_of_a_quiet_user(terminal: Terminal, mock_clock: MockClock) -> None:
    async with reading(terminal):
        terminal.ask(permission_asked("r1"))
        terminal.type("y\n")
        await after(mock_clock, 0)
        assert terminal.answers.given == [("r1", Once())]
        assert terminal.text.endswith("  [d] Details\n  Answer: ")
        terminal.ask(permission_asked("r2", offers=offers("a", "b")))
        await after(mock_clock, LATER)
        terminal.type("P2\n")
        await after(mock_clock, 0)
        assert terminal.answers.given[1:] == [("r2", Always(offer=1, scope="project"))]
        assert terminal.dialogue.messages == []


async def test_answer_too_soon_is_a_message(terminal: Terminal, mock_clock: MockClock) -> None:
    """A second Enter, while the next question appears, allows nothing."""
    async with reading(terminal):
        terminal.ask(permission_asked("r1"))
        terminal.type("y\n")
        await after(mock_clock, 0.1)
        terminal.ask(permission_asked("r2"))
        terminal.type("y\n")
        await after(mock_clock, LATER)
        assert (len(terminal.answers.given), terminal.dialogue.messages) == (1, ["y"])
        terminal.type("y\n")
        await after(mock_clock, 0)
        assert len(terminal.answers.given) == 2


async def test_question_right_after_a_message(terminal: Terminal, mock_clock: MockClock) -> None:
    """Who has just sent a message may go on with the next one."""
    async with reading(terminal):
        terminal.type("look at it\n")
        await after(mock_clock, 0.1)
        terminal.ask(permission_asked())
        terminal.type("y\n")
        await after(mock_clock, LATER)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([], ["look at it", "y"])


async def test_line_before_a_question_is_a_message(terminal: Terminal, mock_clock: MockClock) -> None:
    """Also if nobody has read it from the terminal yet."""
    async with reading(terminal):
        terminal.type("y\n")
        terminal.ask(permission_asked())
        await after(mock_clock, LATER)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([], ["y"])


async def test_draft_stays_a_message(terminal: Terminal, mock_clock: MockClock) -> None:
    async with reading(terminal):
        terminal.type("ye")
        terminal.ask(permission_asked())
        await after(mock_clock, 100)
        assert terminal.text.endswith("\n  Your message (Tab, then an answer, answers the question): ye")
        terminal.type("s\n")
        await after(mock_clock, LATER)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([], ["yes"])
        terminal.type("yes\n")
        await after(mock_clock, 0)
        assert terminal.answers.given == [("r", Once())]


def canonical(terminal: Terminal) -> bool:
    """Whether the terminal edits lines itself."""
    return bool(termios.tcgetattr(terminal.slave)[3] & termios.ICANON)


async def test_draft_can_be_edited(terminal: Terminal, mock_clock: MockClock) -> None:
    """The terminal's own keys no longer reach what was taken from it."""
    async with reading(terminal):
        terminal.type("yee")
        terminal.ask(permission_asked())
        await after(mock_clock, LATER)
        terminal.type("\x7f\x7f")
        await after(mock_clock, 0)
        assert terminal.text.endswith("\r\x1b[K  Your message: y")
        terminal.type("es\x1b[D\x1b[Dx\n")
        await after(mock_clock, LATER)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([], ["yxes"])
        assert canonical(terminal)


async def test_erased_draft_lets_a_line_answer_after_a_while(terminal: Terminal, mock_clock: MockClock) -> None:
    async with reading(terminal):
        terminal.type("ab")
        terminal.ask(permission_asked())
        await after(mock_clock, 0)
        assert not canonical(terminal)
        terminal.type("\x7f\x7f")
        await after(mock_clock, 0)
        assert terminal.text.endswith("  Answer: ")
        assert canonical(terminal)
        terminal.type("y\n")
        await after(mock_clock, LATER)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([], ["y"])
        terminal.type("y\n")
        await after(mock_clock, 0)
        assert terminal.answers.given == [("r", Once())]


async def test_lines_pasted_behind_a_draft_answer_nothing(terminal: Terminal, mock_clock: MockClock) -> None:
    async with reading(terminal):
        terminal.type("a")
        terminal.ask(permission_asked())
        await after(mock_clock, LATER)
        terminal.type("b\n\ty\n")
        await after(mock_clock, LATER)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([], ["ab", "\ty"])


def test_terminal_is_restored_by_an_exit_at_once() -> None:
    with ExitStack() as stack:
        terminal = open_terminal(stack)
        before = termios.tcgetattr(terminal.slave)
        terminal.type("draft")
        assert terminal.keyboard.look() == "draft"
        assert not canonical(terminal)
        restore_terminals()
        assert termios.tcgetattr(terminal.slave) == before


async def test_tab_answers_beside_a_draft(terminal: Terminal, mock_clock: MockClock) -> None:
    async with reading(terminal):
        terminal.type("my mes")
        terminal.ask(permission_asked())
        terminal.type("sa\tn\n")
        await after(mock_clock, 0)
        assert terminal.answers.given == [("r", Reject())]
        assert terminal.text.endswith("  Your message: my messa")
        terminal.type("ge\n")
        await after(mock_clock, 0)
        assert terminal.dialogue.messages == ["my message"]


@pytest.mark.parametrize(
    ("paste", "messages"),
    [
        ("y\ny\n", ["y", "y"]),
        ("\x1b[200~y\n\x1b[201~", ["y"]),
        ("\x1b[200~y\x1b[201~\n", ["y"]),
        ("\x1b[200~a\ty\ny\x1b[201~\n", ["a\ty", "y"]),
        ("\x1b[200~a\x1b[201~b\x1b[200~c\nyes\n\x1b[201~", ["abc", "yes"]),
    ],
)
async def test_paste_answers_nothing(
    terminal: Terminal, mock_clock: MockClock, paste: str, messages: list[str]
) -> None:
    async with reading(terminal):
        terminal.ask(permission_asked())
        await after(mock_clock, 10)
        terminal.type(paste)
        await after(mock_clock, LATER)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([], messages)
        terminal.type("y\n")
        await after(mock_clock, 0)
        assert terminal.answers.given == [("r", Once())]


async def test_answer_with_text_right_behind_it_is_a_paste(terminal: Terminal, mock_clock: MockClock) -> None:
    async with reading(terminal):
        terminal.ask(permission_asked())
        terminal.type("y\nand more")
        await after(mock_clock, LATER)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([], ["y"])
        assert terminal.keyboard.look() == "and more"


async def test_counter_and_one_answer_for_all(terminal: Terminal, mock_clock: MockClock) -> None:
    push = offers("git push *")
    async with reading(terminal):
        terminal.ask(*(permission_asked(f"r{number}", offers=push) for number in range(2)))
        terminal.ask(permission_asked("r2", offers=offers("ls")), permission_asked("r3", offers=push))
        assert "(1 of" not in terminal.text
        terminal.settle("r0")
        assert "Allow bash to run this command? (2 of 4)\n" in terminal.text
        assert "  [A] Yes, once, for all 2 that ask for this: bash git push *\n" in terminal.text
        await after(mock_clock, LATER)
        terminal.type("A\n")
        await after(mock_clock, 0)
        assert terminal.answers.given == [("r1", Once()), ("r3", Once())]
        assert terminal.text.count("Allow bash") == 3


async def test_question_answered_elsewhere_is_closed(terminal: Terminal, mock_clock: MockClock) -> None:
    async with reading(terminal):
        terminal.answers.refuse = True
        terminal.ask(permission_asked("r1"), permission_asked("r2"))
        terminal.type("y\n")
        await after(mock_clock, LATER)
        terminal.settle("r1")
        terminal.settle("r2")
        terminal.type("y\n")
        await after(mock_clock, 0)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([], ["y"])


async def test_feedback_follows_e(terminal: Terminal, mock_clock: MockClock) -> None:
    async with reading(terminal):
        terminal.ask(permission_asked())
        for line, end in (
            ("e", "  What to do instead (Enter: back): "),
            ("", "  [d] Details\n  Answer: "),
            ("what", "  [d] Details\n  Answer: "),
            ("e", "  What to do instead (Enter: back): "),
            ("y", "  What to do instead (Enter: back): "),
        ):
            await after(mock_clock, LATER)
            terminal.type(f"{line}\n")
            await after(mock_clock, 0)
            assert terminal.text.endswith(end), line
        assert terminal.answers.given == [("r", Reject(feedback="y"))]


async def test_same_question_is_answered_at_once(terminal: Terminal, mock_clock: MockClock) -> None:
    """Only another question has to be read first."""
    async with reading(terminal):
        terminal.ask(permission_asked())
        for line in ("oops", "d", "e", "use head"):
            terminal.type(f"{line}\n")
            await after(mock_clock, 0)
        assert (terminal.answers.given, terminal.dialogue.messages) == ([("r", Reject(feedback="use head"))], [])


async def test_prompt_comes_again_below_other_lines(terminal: Terminal, mock_clock: MockClock) -> None:
    screen = terminal.dialogue.screen
    async with reading(terminal):
        terminal.ask(permission_asked("r1"), permission_asked("r2"))
        screen.show(Notice(level="warning", text="disk full", code="x"))
        assert terminal.text.endswith("  Answer: \n· disk full\n  Answer: ")
        terminal.answer_elsewhere("r2")
        assert terminal.text.endswith("  Answer: \n· Allowed once; by panel\n  Answer: ")
        terminal.answer_elsewhere("r1")
        assert terminal.text.endswith("  Answer: \n· Allowed once; by panel\n")
        screen.show(Notice(level="warning", text="again", code="x"))
        assert terminal.text.endswith("\n· again\n")
        await after(mock_clock, 0)


async def test_draft_is_no_answer_to_a_tool(terminal: Terminal, mock_clock: MockClock) -> None:
    async with reading(terminal):
        terminal.type("half")
        terminal.ask(QuestionAsked(request_id=RequestId("q"), call_id=CallId("c"), question="Why?"))
        terminal.type(" a message\n")
        await after(mock_clock, LATER)
        terminal.type("because\n")
        await after(mock_clock, 0)
        assert terminal.dialogue.messages == ["half a message"]
        assert terminal.answers.given == [("q", ("because",))]


async def test_end_of_input_ends_the_reading(terminal: Terminal) -> None:
    os.write(terminal.master, b"last\n\x04")
    with trio.fail_after(SECONDS):
        await terminal.dialogue.read_lines()
    assert terminal.dialogue.messages == ["last"]


KEYS = "y", "yes", "a", "p", "1", "ok", "n", "A", "", " ", "look at it", "d", "e", "all of that please"


@pytest.mark.parametrize("seed", range(3))
async def test_continuous_typing_answers_no_question(terminal: Terminal, mock_clock: MockClock, seed: int) -> None:
    """Fifty questions appear while a bot types: it answers none, and loses no character."""
    rng = random.Random(seed)
    typed, number = "", 0
    async with reading(terminal):
        while number < 50:
            for key in f"{rng.choice(KEYS)}\n":
                if rng.random() < 0.3:
                    number += 1
                    terminal.ask(permission_asked(f"r{number}"))
                if rng.random() < 0.3:
                    terminal.settle(f"r{rng.randint(1, max(1, number))}", by="panel")
                terminal.type(key)
                typed += key
                await after(mock_clock, rng.uniform(0.01, 0.65))
        draft = terminal.keyboard.look()
    assert terminal.answers.given == []
    assert [line for line in terminal.dialogue.messages if line.strip()] == [
        line for line in typed.split("\n") if line.strip()
    ]
    assert draft == ""


def test_cancel_everywhere_loses_no_line() -> None:
    """Wherever a cancel strikes, each line is answered, a message, or still there to be read."""

    def run(step: int) -> CancelAt:
        cancel = CancelAt(step)
        with ExitStack() as stack:
            terminal = open_terminal(stack)
            trio.run(play, terminal, cancel, instruments=[cancel], clock=MockClock(autojump_threshold=0))
        return cancel

    async def play(terminal: Terminal, cancel: CancelAt) -> None:
        terminal.ask(permission_asked())
        terminal.type("y\nhello\n")
        terminal.type("later\n")
        with cancel.scope():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(terminal.dialogue.read_lines)
                while len(terminal.dialogue.messages) < 3:
                    await trio.lowlevel.checkpoint()
                terminal.type("\ty\n")
                while not terminal.answers.given:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel(reason="the end")
        terminal.type("end\n")
        rest = [""]
        while rest[-1] != "end":
            line = await terminal.keyboard.read_line()
            assert line is not None
            rest.append(line.text)
        found = [*terminal.dialogue.messages, *rest[1:]]
        assert found[:3] == ["y", "hello", "later"]
        assert found[3:] == ["end"] if terminal.answers.given else found[3:] in (["end"], ["\ty", "end"])

    # How many steps there are depends on when the terminal is readable: until one run gets to its end.
    step = next(step for step in count() if not run(step).has_fired)
    assert step > 10
