"""The program that is killed: an engine on a file, a model's host on the loopback, real tools.

It tells through a pipe what it was promised: which events were flushed, how much text it
was shown. It may be told to kill itself as soon as a certain function of the engine is
called, or returns, for the nth time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType

import attrs
import trio

import engine
from engine.core.errors import SessionNotFound
from engine.core.events import Durable, PermissionAsked, QuestionAsked, StepStarted
from engine.core.ids import SessionId
from engine.core.permission_types import Allowance, Judgement, PermissionQuery
from engine.core.protocols import Model, Store
from engine.providers.registry import resolve
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.session.session import live_session
from engine.store.sqlite.store import SqliteStore, open_sqlite_store
from engine.testing.invariants import Seen
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.builtin.task import Agent, task_tool
from engine.tools.external import external_tool
from engine.tools.tool import Tool

# Who is asked takes so long: a turn that is killed meanwhile only waits.
THOUGHT = 0.08
NAME = "anthropic/claude-sonnet-4-5"
SOURCES = str(Path(engine.__file__).parent)
ANYWHERE = "anywhere"


@attrs.frozen(kw_only=True)
class Place:
    """Where it all happens.

    Attributes:
        folder: the session's working directory; its file `effects` holds a key for each side effect.
        store: the file of the sessions.
        url: of the model's host.
    """

    folder: Path
    store: Path
    url: str

    @property
    def effects(self) -> list[str]:
        """The keys, in the order in which they came."""
        path = self.folder / "effects"
        return path.read_text().split() if path.exists() else []

    @property
    def model(self) -> Model:
        """A model at that host."""
        return resolve(NAME, {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": self.url})

    def engine(self, store: Store | None = None) -> engine.Engine:
        """An engine on that file, which may be open already."""
        return engine.open_engine(
            model=self.model,
            tools=(
                *builtin_tools({}),
                *(effect_tool(self.folder, name) for name in ("effect", "careful")),
                external_tool("office", Effect, read_only=True),
                task_tool([Agent(name="helper")]),
            ),
            permissions=PermissionOptions(approver=Careful()),
            store=store or self.store,
            files=FileOptions(spill=self.folder / "spill"),
        )


@attrs.define(eq=False)
class LazyStore:
    """Writes nothing before somebody wants it flushed: what was not flushed is lost by a kill, however quick the disk."""

    disk: SqliteStore
    waiting: list[Durable] = attrs.field(factory=list[Durable], init=False)

    @property
    def epoch(self) -> str:
        return self.disk.epoch

    def put(self, event: Durable) -> None:
        self.waiting.append(event)

    async def flushed(self, session_id: SessionId, seq: int) -> None:
        self._write()
        await self.disk.flushed(session_id, seq)

    async def load(self, session_id: SessionId) -> Sequence[Durable]:
        self._write()
        return await self.disk.load(session_id)

    async def claim(self, session_id: SessionId) -> None:
        await self.disk.claim(session_id)

    def release(self, session_id: SessionId) -> None:
        self._write()
        self.disk.release(session_id)

    async def aclose(self) -> None:
        self._write()
        await self.disk.aclose()

    def _write(self) -> None:
        for event in self.waiting:
            self.disk.put(event)
        self.waiting.clear()


@attrs.frozen
class Effect:
    """Do something that must not be done twice."""

    key: str


@attrs.frozen
class Careful:
    """Everything is allowed, but what is to be done carefully is asked about."""

    def judge(self, query: PermissionQuery) -> Judgement:
        return Judgement(verdict="ask" if query.tool == "careful" else "allow", source="the rules of this test")

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        """Nobody says "always" here."""


def effect_tool(folder: Path, name: str) -> Tool:
    """Return a tool that does something, and leaves its key."""

    @engine.tool(name=name)
    async def effect(args: Effect, ctx: engine.ToolContext) -> str:
        with (folder / "effects").open("a") as file:
            file.write(f"{args.key}\n")
        await trio.sleep(0.005)
        return "done"

    return effect


@attrs.frozen
class Point:
    """The nth time that a function is called, or returns; `where` is `call module.function`, say, or anywhere."""

    where: str
    n: int


@attrs.define(eq=False)
class Killer:
    """Counts the calls and returns of the engine's functions; kills this process at a point."""

    point: Point | None
    seen: Counter[str] = attrs.field(factory=Counter[str])
    total: int = 0
    _names: dict[CodeType, str] = attrs.field(factory=dict[CodeType, str], init=False)

    def arm(self) -> None:
        """Count from now on, in all threads."""
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def _see(self, frame: FrameType, kind: str, _: object) -> None:
        name = self._names.get(frame.f_code)
        if name is None:
            name = self._names[frame.f_code] = self._name(frame.f_code)
        if not name or kind not in {"call", "return"}:
            return
        where = f"{kind} {name}"
        self.seen[where] += 1
        self.total += 1
        if self.point is None:
            return
        if (
            self.total if self.point.where == ANYWHERE else self.seen[where] * (where == self.point.where)
        ) >= self.point.n:
            os.kill(os.getpid(), signal.SIGKILL)

    def _name(self, code: CodeType) -> str:
        """Return what a function is called; empty if it is none of the engine's."""
        if not code.co_filename.startswith(SOURCES):
            return ""
        return f"{code.co_filename[len(SOURCES) + 1 : -3]}:{code.co_qualname}"


@attrs.frozen(kw_only=True)
class Manner:
    """How the program behaves.

    Attributes:
        cancels: it cancels the turn while its last command runs.
        lazy: nothing is written but what the engine itself wants to be flushed.
        dies: it is killed as soon as it has been told that the turn has ended.
    """

    cancels: bool = False
    lazy: bool = False
    dies: bool = False


@attrs.frozen
class Told:
    """What the program tells, into the pipe *to*."""

    to: int

    def tell(self, **facts: object) -> None:
        os.write(self.to, f"{json.dumps(facts)}\n".encode())

    def tell_durable(self, event: Durable) -> None:
        self.tell(flushed=event.seq, time=event.time)

    async def go_on(self, session: engine.Session) -> None:
        """Flush, and tell it, again and again."""
        while True:
            newest = next(live_session(session).journal.newest_first())
            assert newest.seq is not None
            await live_session(session).journal._store.flushed(session.id, newest.seq)
            self.tell_durable(newest)
            await trio.sleep(0.003)


async def work(place: Place, told: Told, key: str, session_id: str, manner: Manner) -> None:
    """Go through a turn, and tell what was promised."""
    store = LazyStore(await open_sqlite_store(place.store)) if manner.lazy else None
    async with place.engine(store) as eng:
        session = await (eng.open_session(session_id) if session_id else eng.create_session(cwd=place.folder))
        told.tell(session=session.id)
        async with trio.open_nursery() as nursery:
            if not manner.lazy:
                nursery.start_soon(told.go_on, session)
            # One that was parked before is gone on with.
            async with session.prompt(key) if session.state.turn is None else session.resume() as turn:
                async for event in turn:
                    told.tell(seen=1)
                    await _heed(session, turn, event, told, manner)
            if key.startswith("sum "):
                await look_back(session)
            nursery.cancel_scope.cancel(reason="the turn is over")
    told.tell(done=True)


async def _heed(session: engine.Session, turn: engine.Turn, event: Seen, told: Told, manner: Manner) -> None:
    """Do what the program does when it sees an event."""
    if waits(session, event):
        told.tell(asked=1)
        await trio.sleep(THOUGHT)
        await answer(session, turn, event)
    if event.session_id != session.id:
        return
    steps = 0 if session.state.turn is None else session.state.turn.steps
    match event:
        case engine.TextDelta():
            told.tell(part=event.part_id, length=event.offset + len(event.text), at=time.monotonic())
        case engine.TurnEnded():
            told.tell_durable(event)
            if manner.dies:
                os.kill(os.getpid(), signal.SIGKILL)
        case StepStarted() if event.step == 2:
            turn.steer("Mind the gap.")
        case engine.CallStarted() if manner.cancels and steps == 4:
            turn.cancel()
        case _:
            pass


def waits(session: engine.Session, event: Seen) -> bool:
    """Tell whether somebody has to do something about an event, or nothing goes on."""
    if isinstance(event, engine.CallStarted):
        turn = session.state.turn
        calls = () if turn is None or turn.step is None else turn.step.calls
        return any(call.call_id == event.call_id and call.tool == "office" for call in calls)
    return isinstance(event, (QuestionAsked, PermissionAsked))


async def answer(session: engine.Session, turn: engine.Turn, event: Seen) -> None:
    """Do what is waited for, if anything is."""
    match event:
        case QuestionAsked():
            await turn.answer(event.request_id, "this")
        case PermissionAsked():
            await turn.reply(event.request_id, engine.Once())
        case engine.CallStarted() if waits(session, event):
            # It has to get to where it waits.
            await trio.sleep(0.001)
            await session.settle(event.call_id, "done")
        case _:
            pass


async def look_back(session: engine.Session) -> None:
    """Do what changes the history, and change it back."""
    await session.files.undo()
    await session.files.redo()
    if (await session.context.compact()).stop_reason == "completed":
        await session.context.undo_compaction()


async def reopen(place: Place, session_id: str) -> None:
    """Open a session, if it is there, and do no more."""
    async with place.engine() as eng:
        with contextlib.suppress(SessionNotFound):
            await eng.open_session(session_id)
