"""A turn that waits for an answer, parked by one engine and gone on with by another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated

import attrs
import trio
import trio.testing

import engine
from engine.core.events import Durable, Live
from engine.core.ids import SessionId
from engine.core.permission_types import Allowance, Approver, Judgement, PermissionQuery
from engine.core.protocols import NoTrace, Store, Trace
from engine.core.settings import Settings
from engine.journal.state import Resync
from engine.permission.policy import Policy
from engine.session.engine_options import FileOptions, PermissionOptions, Ports
from engine.store.memory import MemoryStore
from engine.testing.fakes import CountingIds, TrioClock
from engine.testing.invariants import Evidence, Seen, check
from engine.testing.script import Answer, ScriptItem, call, done, text
from engine.testing.scripted_provider import ScriptedAnswer, ScriptedProvider
from engine.tools.builtin.question import QUESTION
from engine.tools.external import external_tool
from engine.tools.tool import Tool


@attrs.frozen
class Approve:
    """Have a person in the office approve something."""

    what: Annotated[str, engine.doc("what is to be approved")]


@attrs.frozen
class Do:
    """Do something that must not be done twice."""

    key: str
    seconds: float = 0.0


@attrs.frozen
class Asking:
    """The usual rules, without what they do in threads."""

    _policy: Policy = attrs.field(factory=Policy)

    def judge(self, query: PermissionQuery) -> Judgement:
        return self._policy.judge(query)

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        self._policy.grant(query, allowance)


OFFICE = external_tool("office", Approve, read_only=True)


@attrs.define(eq=False)
class Home:
    """A store that outlives its engines, and what their tools have done.

    Attributes:
        script: what the model says, over all engines.
        said: how many answers were given.
        done: the keys of what was done.
    """

    script: Sequence[ScriptedAnswer]
    settings: Settings = attrs.field(factory=Settings)
    store: Store = attrs.field(factory=MemoryStore)
    approver: Approver = attrs.field(factory=Asking)
    done: list[str] = attrs.field(factory=list[str])
    models: list[ScriptedProvider] = attrs.field(factory=list[ScriptedProvider])
    ids: CountingIds = attrs.field(factory=CountingIds)
    trace: Trace = attrs.field(factory=NoTrace)

    def tools(self) -> tuple[Tool, ...]:
        """`do`, which is asked about; `look`, which is not; `question`; `office`, which is settled elsewhere."""

        @engine.tool(name="do")
        async def do(args: Do, ctx: engine.ToolContext) -> str:
            self.done.append(args.key)
            await trio.sleep(args.seconds)
            return f"did {args.key}"

        @engine.tool(name="look", read_only=True)
        async def look(args: Do, ctx: engine.ToolContext) -> engine.ToolOutput:
            await trio.sleep(args.seconds)
            return engine.ToolOutput(
                text=f"saw {args.key}", modify=lambda c: c.with_value("seen", json.dumps(args.key))
            )

        return do, look, QUESTION, OFFICE

    def open(self, *, tools: Iterable[Tool] | None = None, settings: Settings | None = None) -> engine.Engine:
        """Return an engine on the store, whose model goes on with the script."""
        said = sum(len(model.requests) for model in self.models)
        model = ScriptedProvider(self.script[said:], trace=self.trace)
        self.models.append(model)
        return engine.open_engine(
            model=model,
            tools=self.tools() if tools is None else tools,
            settings=self.settings if settings is None else settings,
            permissions=PermissionOptions(approver=self.approver),
            store=self.store,
            files=FileOptions(spill="/dev/null"),
            ports=Ports(clock=TrioClock(), ids=self.ids, trace=self.trace, jitter=lambda: 0.5),
        )

    async def parked(self, until: type[Durable], *, times: int = 1) -> SessionId:
        """Start a turn, wait until that event has come so often, close the engine; return the session."""
        async with self.open() as eng:
            session = await eng.create_session(cwd="/opt")
            turn = eng.start_turn(session, "go")
            await seen(turn, until, times=times)
        return session.id

    async def kill(self, session_id: str) -> None:
        """Go on with what a kill would leave now; what the engine still does goes elsewhere."""
        copied = MemoryStore(epoch=self.store.epoch)
        for event in await self.store.load(SessionId(session_id)):
            copied.put(event)
        self.store = copied


async def seen(turn: engine.Turn, kind: type[Durable], *, times: int = 1) -> list[Durable | Live | Resync]:
    """Follow a turn until an event of that class has come so often."""
    found: list[Durable | Live | Resync] = []
    async for event in turn:
        found.append(event)
        times -= isinstance(event, kind)
        if times <= 0:
            break
    # Whoever appended it goes on to where it waits.
    await trio.testing.wait_all_tasks_blocked()
    return found


async def problems(home: Home, session: engine.Session) -> list[str]:
    """Return what is wrong with the record of a session, by the promises about it."""
    cursor = session.subscribe(after=0)
    events: list[Seen] = list(iter(cursor.try_next, None))
    stored = await home.store.load(session.id)
    found = check(Evidence(events=events, transcript=session.state.transcript, stored=stored, state=session.state))
    twice = [key for key in set(home.done) if home.done.count(key) > 1]
    return found + [f"{key} was done twice" for key in twice]


def asks(*items: ScriptItem) -> Answer:
    """An answer of some calls."""
    return [*text("Let me see."), *items, *done("calls")]


def do(key: str, seconds: float = 0.0) -> Answer:
    return call("do", {"key": key, "seconds": seconds}, id=key)


def look(key: str, seconds: float = 0.0) -> Answer:
    return call("look", {"key": key, "seconds": seconds}, id=key)


def question(*texts: str) -> Answer:
    return call("question", {"questions": [{"question": one} for one in texts]}, id="q")


def office(what: str, id: str = "o") -> Answer:  # noqa: A002  # an id is called `id` wherever a script is written
    return call("office", {"what": what}, id=id)


FINE: Answer = [*text("All done."), *done()]
