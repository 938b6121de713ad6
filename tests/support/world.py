"""A small world for behaviour tests: an engine over a scripted model, on trio's mock clock, watched while it plays.

Whatever a test asserts, `play` also checks what must be true of every turn: the order of its events, the transcript,
and that the fold of what was stored is the session's state.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import attrs
import pytest
import trio

import engine
from engine.core.events import (
    CallDelivered,
    CallSettled,
    ContinueReason,
    Durable,
    EventBase,
    Live,
    LoopContinued,
    StopReason,
    TurnEnded,
    TurnResult,
)
from engine.core.hooks import Hooks
from engine.core.ids import SessionId
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import AssistantMessage, Message, ResultsMessage, Settlement, TextPart, UserMessage
from engine.core.permission_types import Approver, Opinion
from engine.core.protocols import ContextKeeper, Model, WallClock
from engine.core.settings import Settings
from engine.journal.fold import fold
from engine.journal.state import Resync
from engine.nursery.budget import SpendingLimit
from engine.pace.pace_port import Pace
from engine.permission.allow_all import AllowAll
from engine.prompt.layers import PromptLayers
from engine.session.engine_options import ContextOptions, PermissionOptions, Ports
from engine.session.session import Session, live_session
from engine.session.turn import Turn
from engine.testing.fakes import CountingIds, SlowStore, TrioClock
from engine.testing.invariants import check_events, check_transcript
from engine.testing.script import Answer, done, text
from engine.testing.scripted_provider import ScriptedAnswer, ScriptedProvider
from engine.tools.tool import Tool

Seen = Durable | Live | Resync
React = Callable[[Turn, Seen], Awaitable[None]]
E = TypeVar("E", bound=EventBase)

PATIENCE = 5_000.0


@attrs.define(eq=False)
class Played:
    """A turn that was watched from its start to its end."""

    session: Session
    events: list[Seen] = attrs.field(factory=list[Seen])
    result: TurnResult = TurnResult(stop_reason="internal_error")

    @property
    def stop_reason(self) -> StopReason:
        return self.result.stop_reason

    @property
    def own(self) -> list[Seen]:
        """The events of the session itself, without those of its children."""
        return [e for e in self.events if e.session_id == self.session.id]

    @property
    def reasons(self) -> list[ContinueReason]:
        """Why the loop went on, each time."""
        return [e.reason for e in self.own if isinstance(e, LoopContinued)]

    @property
    def settlements(self) -> list[Settlement]:
        """How the calls were settled, in the order of their delivery."""
        settled = {e.call_id: e.settlement for e in self.own if isinstance(e, CallSettled)}
        return [settled[e.call_id] for e in self.own if isinstance(e, CallDelivered)]

    @property
    def statuses(self) -> list[str]:
        """The same, each as its status, or as the reason of its abort."""
        return [s.reason or s.status for s in self.settlements]

    def all(self, kind: type[E]) -> list[E]:
        """All events of that kind of the session itself."""
        return [e for e in self.own if isinstance(e, kind)]

    def one(self, kind: type[E]) -> E:
        """The only event of that kind."""
        (event,) = self.all(kind)
        return event

    def order(self, *kinds: type[EventBase]) -> list[str]:
        """The names of the events of those kinds, in order."""
        return [type(e).__name__ for e in self.own if isinstance(e, kinds)]


@attrs.define(eq=False)
class World:
    """An open engine, one session of it, and its ports."""

    engine: engine.Engine
    session: Session
    model: ScriptedProvider
    store: SlowStore

    @property
    def requests(self) -> list[ModelRequest]:
        return self.model.requests

    async def play(
        self,
        prompt: str = "go",
        *,
        settings: Settings | None = None,
        react: React | None = None,
        session: Session | None = None,
    ) -> Played:
        """Run a turn to its end, react to its events, check what must be true of every turn."""
        played = Played(session or self.session)
        with trio.fail_after(PATIENCE):
            async with played.session.prompt(prompt, settings=settings) as turn:
                async for event in turn:
                    played.events.append(event)
                    if react is not None:
                        await react(turn, event)
            played.result = turn.result
        await self.check(played.session, played.events)
        return played

    async def check(self, session: Session, events: Iterable[Seen]) -> None:
        """Check the promises that every finished turn keeps."""
        failed = session.state.last_result is not None and session.state.last_result.stop_reason == "internal_error"
        # That a turn ended as an internal error is a broken promise, except where a test breaks a port.
        broken = [problem for problem in check_events(list(events)) if not (failed and "the engine failed" in problem)]
        assert broken == []
        assert fold(session.events()) == live_session(session).journal.state
        assert check_transcript(session.state.transcript) == []
        if not self.store.fails and not self.store.hangs:
            stored = await self.store.load(session.id)
            assert fold(stored) == live_session(session).journal.state
        assert self.model.open_streams == 0

    def will_say(self, *answers: ScriptedAnswer) -> None:
        """Script the model's next answers, whatever was asked so far."""
        asked: list[Answer] = [()] * len(self.model.requests)
        self.model.script = [*asked, *answers]
        self.model.repeat = False

    async def goes_on(self, session: Session | None = None) -> None:
        """The session takes the next prompt, without any limits, and completes it."""
        self.will_say([*text("Still here."), *done()])
        played = await self.play("And now?", session=session, settings=Settings())
        assert (played.stop_reason, played.result.text) == ("completed", "Still here.")


@asynccontextmanager
async def world(
    *answers: ScriptedAnswer,
    tools: Iterable[Tool] = (),
    settings: Settings | None = None,
    hooks: Hooks | None = None,
    approver: Approver | None = None,
    opinion: Opinion | None = None,
    keeper: ContextKeeper | None = None,
    store: SlowStore | None = None,
    info: ModelInfo | None = None,
    models: Sequence[Model] = (),
    batch: int = 1,
    repeat: bool = False,
    prompt: PromptLayers | None = None,
    cwd: str = "/opt",
    clock: WallClock | None = None,
    pace: Pace | None = None,
    spending: SpendingLimit | None = None,
) -> AsyncGenerator[World]:
    """Open an engine whose model gives *answers*, and a session in it. *models* come after that model, in a chain."""
    model = ScriptedProvider(list(answers), info=info or ModelInfo(name="scripted/model"), batch=batch, repeat=repeat)
    kept = SlowStore() if store is None else store
    async with engine.open_engine(
        model=[model, *models],
        tools=tools,
        settings=settings,
        hooks=hooks,
        permissions=PermissionOptions(approver=approver or AllowAll(), opinion=opinion),
        context=ContextOptions(keeper=keeper, prompt=prompt),
        store=kept,
        ports=Ports(clock=clock or TrioClock(), ids=CountingIds(), jitter=lambda: 1.0, pace=pace, spending=spending),
    ) as eng:
        session = await eng.create_session(cwd=cwd)
        yield World(eng, session, model, kept)


def said(message: Message) -> str:
    """What the model reads of a message, as one text."""
    match message:
        case UserMessage():
            return "".join(part.text for part in message.parts if isinstance(part, TextPart))
        case ResultsMessage():
            return "\n".join(result.settlement.text for result in message.results)
        case AssistantMessage():
            return message.text


def about(seconds: float) -> float:
    """That many seconds, give or take what adding floats up loses."""
    return cast("float", pytest.approx(seconds))


def is_end_of(event: Seen, session_id: SessionId) -> bool:
    """Whether *event* is the end of a turn of that session."""
    return isinstance(event, TurnEnded) and event.session_id == session_id
