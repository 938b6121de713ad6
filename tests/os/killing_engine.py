"""The program that is killed: an engine on a file, a model's host on the loopback, real tools.

It tells through a pipe what it was promised: which events were flushed, how much text it
was shown. It may be told to kill itself as soon as a certain function of the engine is
called, or returns, for the nth time.
"""

from __future__ import annotations

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
from engine.events import Durable, QuestionAsked
from engine.ids import SessionId
from engine.permission.simple import AllowAll
from engine.ports import Model, Store
from engine.providers.registry import resolve
from engine.store.sqlite import SqliteStore, open_store
from engine.tools.builtin.all import builtin_tools
from engine.tools.builtin.task import Agent, task_tool
from engine.tools.spec import Tool

# Who is asked takes so long: a turn that is killed meanwhile only waits.
THOUGHT = 0.08
NAME = "anthropic/claude-sonnet-4-5"
SOURCES = str(Path(engine.__file__).parent)


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
            tools=(*builtin_tools({}), effect_tool(self.folder), task_tool([Agent(name="helper")])),
            approver=AllowAll(),
            store=store or self.store,
            spill=self.folder / "spill",
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


def effect_tool(folder: Path) -> Tool:
    """Return a tool that does something, and leaves its key."""

    @engine.tool
    async def effect(args: Effect, ctx: engine.ToolContext) -> str:
        with (folder / "effects").open("a") as file:
            file.write(f"{args.key}\n")
        await trio.sleep(0.005)
        return "done"

    return effect


@attrs.frozen
class Point:
    """The nth time that a function is called, or returns; `where` is `call module.function`, say."""

    where: str
    n: int


@attrs.define(eq=False)
class Killer:
    """Counts the calls and returns of the engine's functions; kills this process at a point."""

    point: Point | None
    seen: Counter[str] = attrs.field(factory=Counter[str])
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
        if self.point is not None and where == self.point.where and self.seen[where] >= self.point.n:
            os.kill(os.getpid(), signal.SIGKILL)

    def _name(self, code: CodeType) -> str:
        """Return what a function is called; empty if it is none of the engine's."""
        if not code.co_filename.startswith(SOURCES):
            return ""
        return f"{code.co_filename[len(SOURCES) + 1 : -3]}:{code.co_qualname}"


async def work(place: Place, told: int, key: str, session_id: str, *, cancel: bool, lazy: bool = False) -> None:
    """Go through a turn, and tell what was promised; with *cancel*, cancel it while its last command runs.

    With *lazy*, nothing is written but what the engine itself wants to be flushed.
    """

    def tell(**facts: object) -> None:
        os.write(told, f"{json.dumps(facts)}\n".encode())

    async def tell_flushed(session: engine.Session) -> None:
        store = session.journal.store
        while True:
            seq = session.journal.seq
            await store.flushed(session.id, seq)
            tell(flushed=seq)
            await trio.sleep(0.003)

    store = LazyStore(await open_store(place.store)) if lazy else None
    async with place.engine(store) as eng:
        session = await (eng.open_session(session_id) if session_id else eng.create_session(cwd=place.folder))
        tell(session=session.id)
        async with trio.open_nursery() as nursery:
            if not lazy:
                nursery.start_soon(tell_flushed, session)
            # One that was parked before is gone on with.
            async with session.prompt(key) if session.state.turn is None else session.resume() as turn:
                async for event in turn:
                    if isinstance(event, QuestionAsked):
                        await trio.sleep(THOUGHT)
                        await turn.answer(event.request_id, "this")
                    if isinstance(event, engine.TextDelta) and event.session_id == session.id:
                        tell(part=event.part_id, length=event.offset + len(event.text), at=time.monotonic())
                    if isinstance(event, engine.TurnEnded):
                        tell(flushed=event.seq)
                    if cancel and isinstance(event, engine.CallStarted) and session.state.turn is not None:
                        steps = session.state.turn.steps
                        if steps == 4:
                            turn.cancel()
            nursery.cancel_scope.cancel(reason="the turn is over")
    tell(done=True)
