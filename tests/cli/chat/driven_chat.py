"""A whole chat in this process, without a terminal: the real drivers and client, a scripted model, and a virtual clock."""

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import attrs
import trio
import trio.testing

from engine.cli.chat.chat_drafts import ChatDrafts
from engine.cli.chat.chat_driver import ChatParts
from engine.cli.chat.command_result import CommandResult
from engine.cli.chat.display.terminal_mode import RawTerminal
from engine.cli.chat.line_driver import LineDriver
from engine.cli.chat.line_input import LineInput
from engine.cli.chat.local_client import LocalClient
from engine.cli.chat.machine.picker import PickerItem
from engine.cli.chat.screen_driver import ScreenDriver
from engine.cli.chat.user_shell import UserShell
from engine.cli.terminal.output import Output
from engine.config.chat_keys import bind_keys
from engine.config.config import Config
from engine.core.messages import UserMessage
from engine.core.permission_types import Allowance, Judgement, PermissionQuery
from engine.permission.policy import Policy
from engine.process.crash_cleanup import look_once
from engine.session.engine import open_engine
from engine.session.engine_options import FileOptions, PermissionOptions, Ports
from engine.session.session import Session
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.fakes import CountingIds, SlowStore, TrioClock
from engine.testing.script import Answer as ScriptedItems
from engine.testing.script import done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.tool import Tool
from tests.cli.chat.chat_machine import new_machine
from tests.support.cancel_at import CancelAt

TEXT = re.compile(r"text\d+")
# What a user does: keys, and pauses in seconds.
Acts = Sequence[str | float]


class TypedTerminal(RawTerminal):
    """A terminal at which a user acts. `is_armed`: its mode is changed."""

    def __init__(self, acts: "TypedActs") -> None:
        super().__init__(-1)
        self.is_armed = False
        self._acts = acts

    @property
    def size(self) -> tuple[int, int]:
        return 80, 24

    def arm(self) -> None:
        self.is_armed = True

    def restore(self) -> None:
        self.is_armed = False

    async def read(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return (await self._acts.next()).encode()


class TypedLines(LineInput):
    """Lines that a user types."""

    def __init__(self, acts: "TypedActs") -> None:
        super().__init__(-1)
        self._acts = acts

    async def read_line(self) -> str | None:
        await trio.lowlevel.checkpoint()
        return (await self._acts.next()).removesuffix("\r")


@attrs.define(eq=False)
class TypedActs:
    """A user who types. `typed` is what has been typed so far."""

    _acts: list[str | float]
    typed: list[str]

    async def next(self) -> str:
        """What is typed next. In the end, nothing is."""
        while self._acts:
            act = self._acts[0]
            if isinstance(act, str):
                self.typed.append(act)
                del self._acts[0]
                return act
            await trio.sleep(act)
            del self._acts[0]
        await trio.sleep_forever()
        raise AssertionError


class NoCommands:
    """Commands that do nothing."""

    async def run(self, name: str, argument: str) -> CommandResult:
        await trio.lowlevel.checkpoint()
        return CommandResult(lines=(f"/{name} {argument}",))

    async def arguments(self, name: str) -> Sequence[PickerItem]:
        del name
        await trio.lowlevel.checkpoint()
        return ()


class Written(Output):
    """What a driver writes, kept."""

    def __init__(self) -> None:
        super().__init__(None, "utf-8", is_terminal=True, has_status=False, width=80)
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text
        super().write(text)


class DraftsInMemory(ChatDrafts):
    """Drafts in memory: a file would be written by a thread, for which a virtual clock does not wait."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"), "/opt")
        self.kept = ""

    def save(self, text: str) -> None:
        self.kept = text

    def add_entry(self, text: str) -> None:
        pass


@attrs.define(eq=False)
class Signals:
    """Signals that come after so many seconds each; then a fault in the program, if it has one."""

    _numbers: list[tuple[float, int]]
    _has_fault: bool = attrs.field(default=False, alias="has_fault")

    def __aiter__(self) -> "Signals":
        return self

    async def __anext__(self) -> int:
        if self._has_fault:
            await trio.sleep(0.5)
            raise ZeroDivisionError
        if not self._numbers:
            await trio.sleep_forever()
        seconds, number = self._numbers.pop(0)
        await trio.sleep(seconds)
        return number


@attrs.frozen(kw_only=True)
class ChatScript:
    """A user and a model.

    Attributes:
        acts: what the user types.
        answers: what the model says.
        in_lines: the accessible chat.
        signals: the signals that come, each after so many seconds.
        has_fault: the program has a fault, which shows after half a second.
        tools: what the model may call; each call needs a permission.
        other_client: what another client of the session does meanwhile.
    """

    acts: Acts
    answers: Sequence[ScriptedItems]
    in_lines: bool = False
    signals: tuple[tuple[float, int], ...] = ()
    has_fault: bool = False
    tools: tuple[Tool, ...] = ()
    other_client: Callable[[Session], Awaitable[None]] | None = None


@attrs.define(eq=False)
class PlayedChat:
    """A chat that is over. `code` is None if it did not end by itself."""

    code: int | None = None
    typed: list[str] = attrs.field(factory=list[str])
    places: list[str] = attrs.field(factory=list[str])
    kept: str = ""
    output: str = ""
    is_armed: bool = False

    def check(self) -> None:
        """Each text is in one place, and the terminal is as it was."""
        assert sorted(self.places) == sorted(TEXT.findall("".join(self.typed)))
        assert not self.is_armed


def play_chat(script: ChatScript, injector: CancelAt | None = None) -> PlayedChat:
    """Play a chat to its end, or until *injector* cancels it."""
    seed_scheduler(0)
    look_once()
    played = PlayedChat()
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(_play, script, injector or CancelAt(), played, clock=clock, instruments=[injector] if injector else [])
    return played


class Asking:
    """The usual policy, without its work in threads."""

    def __init__(self) -> None:
        self._policy = Policy()

    def judge(self, query: PermissionQuery) -> Judgement:
        return self._policy.judge(query)

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        self._policy.grant(query, allowance)


async def _play(script: ChatScript, injector: CancelAt, played: PlayedChat) -> None:
    # No time limit: the clock jumps to it while a thread saves the draft.
    async with open_engine(
        model=ScriptedProvider(script=[*script.answers, *([[*text("That is all."), *done()]] * 50)]),
        tools=script.tools,
        permissions=PermissionOptions(approver=Asking() if script.tools else None),
        store=SlowStore(),
        files=FileOptions(spill=os.devnull),
        ports=Ports(clock=TrioClock(), ids=CountingIds(), jitter=lambda: 0.5),
    ) as engine:
        session = await engine.create_session(cwd="/opt")
        acts = TypedActs(list(script.acts), played.typed)
        terminal = TypedTerminal(acts)
        output, drafts = Written(), DraftsInMemory()
        parts = ChatParts(
            machine=new_machine(bind_keys({}), is_accessible=script.in_lines),
            client=LocalClient(engine, session, Config()),
            output=output,
            commands=NoCommands(),
            drafts=drafts,
            shell=UserShell(lambda: "/opt", session.id),
            leave_at_once=leave_at_once,
        )
        driver = LineDriver(parts, TypedLines(acts)) if script.in_lines else ScreenDriver(parts, terminal)
        with injector.scope(), suppress(BaseExceptionGroup):
            async with trio.open_nursery() as nursery:
                if script.other_client is not None:
                    nursery.start_soon(script.other_client, session)
                played.code = await driver.run(Signals(list(script.signals), has_fault=script.has_fault))
        played.is_armed, played.output = terminal.is_armed, output.text
        state = session.state
        said = [message.text for message in state.transcript if isinstance(message, UserMessage)]
        everything = [*said, *(item.message.text for item in state.inbox), drafts.kept]
        played.kept = "\n".join(everything)
        played.places = TEXT.findall(played.kept)


async def leave_at_once(number: int) -> None:
    """The process would be gone."""
    del number
    await trio.sleep_forever()
