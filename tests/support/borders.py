"""Each border of the engine: where it calls foreign code, with an engine in which that code does what it should not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import trio
import trio.testing

import engine
from engine.compaction.compaction_policy import Keeper
from engine.core.errors import SessionNotFound
from engine.core.events import PermissionAsked
from engine.core.hooks import Hooks
from engine.core.messages import Message
from engine.core.permission_types import Judgement
from engine.core.protocols import ContextView
from engine.permission.allow_all import AllowAll
from engine.prompt.layers import PromptLayers
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions
from engine.testing import ScriptedKeeper, ScriptedProvider, SlowStore, call, done, text
from engine.testing.fakes import ScriptedSnapshots
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, assessed_by, tool
from engine.tools.tool_context import ToolContext
from tests.support.bench import Nothing


@attrs.define(eq=False)
class Misbehaviour:
    """Does *act* at whichever border it stands, as long as it is armed.

    Attributes:
        reached: how often it began to.
        passed: how often *act* returned.
    """

    act: Callable[[], None]
    armed: bool = False
    reached: int = 0
    passed: int = 0

    def __call__(self, *_: object, **__: object) -> None:
        if self.armed:
            self.reached += 1
            self.act()
            self.passed += 1

    async def wait(self, *_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()
        self()


Options = dict[str, Any]
Visit = Callable[["engine.Engine", "engine.Session", Misbehaviour], Awaitable[Any]]


# -- what happens at the border ---------------------------------------------------------------------------------


async def run(eng: engine.Engine, session: engine.Session, bad: Misbehaviour) -> Any:
    """Run a turn with a call."""
    bad.armed = True
    result = await session.run("go")
    # Hooks that run when the session is idle.
    await trio.testing.wait_all_tasks_blocked()
    return result


async def run_and_reply(eng: engine.Engine, session: engine.Session, bad: Misbehaviour) -> Any:
    """Run a turn with a call that needs an answer."""
    bad.armed = True
    return await answered(session, "go")


async def answered(session: engine.Session, prompt: str) -> Any:
    """Run a turn, and allow everything."""
    async with session.prompt(prompt) as turn:
        async for event in turn:
            if isinstance(event, PermissionAsked):
                await trio.testing.wait_all_tasks_blocked()
                await session.reply(event.request_id, engine.Once())
    return turn.result


async def compact(eng: engine.Engine, session: engine.Session, bad: Misbehaviour) -> Any:
    """Summarise a history."""
    for _ in range(3):
        await session.run("tell me more")
    bad.armed = True
    return await session.context.compact()


async def create(eng: engine.Engine, session: engine.Session, bad: Misbehaviour) -> Any:
    """Begin another session."""
    bad.armed = True
    await eng.create_session(cwd="/")


async def reopen(eng: engine.Engine, session: engine.Session, bad: Misbehaviour) -> Any:
    """Open a session that is not open."""
    bad.armed = True
    with suppress(SessionNotFound):
        await eng.open_session("ses_another")


async def rename(eng: engine.Engine, session: engine.Session, bad: Misbehaviour) -> Any:
    """Write something outside of a turn."""
    bad.armed = True
    await session.rename("another")


@attrs.frozen(kw_only=True)
class Border:
    """A place where foreign code is called.

    Attributes:
        options: of an engine in which that code misbehaves.
        visit: gets there.
        is_call: its errors are raised by *visit*; else they are a matter of the turn.
    """

    options: Callable[[Misbehaviour], Options]
    visit: Visit = run
    is_call: bool = False


# -- the foreign code --------------------------------------------------------------------------------------------


def working(
    bad: Misbehaviour | None = None,
    *,
    needs: bool = False,
    safe: bool = False,
    assesses: bool = False,
    modifies: bool = False,
    works: bool = False,
) -> Tool:
    """A tool, one of whose functions misbehaves."""

    def act(is_bad: bool) -> None:
        if is_bad and bad is not None:
            bad()

    async def need(args: Nothing, ctx: ToolContext) -> Need:
        await trio.lowlevel.checkpoint()
        act(needs)
        return Need(permission="work")

    def is_safe(args: Nothing) -> bool:
        act(safe)
        return True

    async def assess(args: Nothing, cwd: str) -> bool:
        await trio.lowlevel.checkpoint()
        act(assesses)
        return True

    async def work(args: Nothing, ctx: ToolContext) -> ToolOutput:
        """Work."""
        await ctx.about_to_change("/nowhere/a")
        act(works)

        def modify(shared: Any) -> Any:
            act(modifies)
            return shared

        return ToolOutput(text="worked", modify=modify)

    made = tool(name="work", need=need, safe=is_safe)(work)
    return assessed_by(made, assess) if assesses else made


def failing() -> Tool:
    """A tool that fails."""

    async def work(args: Nothing, ctx: ToolContext) -> ToolOutput:
        """Work."""
        return ToolOutput(text="it can't be done", failed=True)

    return tool(name="work")(work)


@attrs.define(eq=False)
class BadStream:
    """A stream, one of whose methods misbehaves."""

    inner: Any
    bad: Misbehaviour
    method: str

    async def receive(self) -> Any:
        if self.method == "receive":
            await self.bad.wait()
        return await self.inner.receive()

    async def aclose(self) -> None:
        await self.inner.aclose()
        if self.method == "aclose":
            await self.bad.wait()


@attrs.define(eq=False)
class BadModel:
    """A model, one of whose methods misbehaves."""

    inner: ScriptedProvider
    bad: Misbehaviour
    method: str

    @property
    def info(self) -> Any:
        return self.inner.info

    async def open(self, request: Any) -> BadStream:
        if self.method == "open":
            await self.bad.wait()
        return BadStream(await self.inner.open(request), self.bad, self.method)


@attrs.define(eq=False, kw_only=True)
class BadStore(SlowStore):
    """A store, one of whose methods misbehaves."""

    bad: Misbehaviour
    method: str

    async def flushed(self, session_id: Any, seq: int) -> None:
        await super().flushed(session_id, seq)
        self._act("flushed")

    async def load(self, session_id: Any) -> Any:
        self._act("load")
        return await super().load(session_id)

    async def aclose(self) -> None:
        await super().aclose()
        self._act("aclose")

    def _act(self, method: str) -> None:
        if self.method == method:
            self.bad()


@attrs.define(eq=False, kw_only=True)
class BadLeasingStore(BadStore):
    """A store with leases."""

    async def claim(self, session_id: Any) -> None:
        await trio.lowlevel.checkpoint()
        self._act("claim")

    def release(self, session_id: Any) -> None:
        pass


@attrs.define(eq=False, kw_only=True)
class BadCachingStore(BadStore):
    """A store that keeps states."""

    async def open_session(self, session_id: Any) -> None:
        await trio.lowlevel.checkpoint()
        self._act("open_session")

    def save_state(self, state: Any) -> None:
        pass


@attrs.define(eq=False, kw_only=True)
class BadSnapshots(ScriptedSnapshots):
    """Snapshots, one of whose methods misbehaves."""

    bad: Misbehaviour
    method: str

    async def take(self, cwd: str, **options: Any) -> Any:
        if self.method == "take":
            await self.bad.wait()
        return await super().take(cwd, **options)

    async def about_to_change(self, cwd: str, paths: Sequence[str]) -> None:
        if self.method == "about_to_change":
            await self.bad.wait()


@attrs.frozen(eq=False)
class BadApprover(AllowAll):
    """An approver whose judgement misbehaves."""

    bad: Misbehaviour | None = None

    def judge(self, query: Any) -> Judgement:
        if self.bad is not None:
            self.bad()
        return super().judge(query)


@attrs.frozen(eq=False)
class Asking(AllowAll):
    """An approver that leaves each call to the user."""

    def judge(self, query: Any) -> Judgement:
        return Judgement(verdict="ask", source="test")


@attrs.frozen(eq=False)
class Persistent(Asking):
    """An approver with a file, one of whose methods misbehaves."""

    bad: Misbehaviour
    method: str

    async def prepare(self, cwd: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.method == "prepare":
            self.bad()

    async def save(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.method == "save":
            self.bad()


def hook(bad: Misbehaviour, name: str) -> Options:
    options: Options = {"hooks": Hooks(**{name: (bad.wait,)})}
    if name in {"permission_request", "notification"}:
        options["permissions"] = PermissionOptions(approver=Asking())
    if name == "tool_failed":
        options["tools"] = [failing()]
    if "compaction" in name:
        options |= summarised(bad, is_bad=False)
    return options


def summarised(bad: Misbehaviour, *, is_bad: bool = True) -> Options:
    async def summarise(head: Sequence[Message], previous: str) -> str:
        await trio.lowlevel.checkpoint()
        if is_bad:
            bad()
        return "much was said"

    return {"context": ContextOptions(keeper=Keeper(summarise=summarise, tail=0))}


def keeper(bad: Misbehaviour, method: str) -> Options:
    def shrink(view: ContextView) -> Sequence[Message] | None:
        bad()
        return None

    scripts: Options = {method: [shrink] * 4}
    return {"context": ContextOptions(keeper=ScriptedKeeper(**scripts))}


def opinion(bad: Misbehaviour) -> Options:
    async def decide(query: Any, judgement: Any) -> Any:
        await bad.wait()
        return "allow"

    return {"permissions": PermissionOptions(approver=Asking(), opinion=decide)}


def source(bad: Misbehaviour) -> Options:
    def read(cwd: str) -> str | None:
        bad()
        return None

    return {"context": ContextOptions(prompt=PromptLayers(sources={"own": read}))}


def stored(bad: Misbehaviour, method: str, kind: type[BadStore] = BadStore) -> Options:
    return {"store": kind(bad=bad, method=method)}


def snapshots(bad: Misbehaviour, method: str) -> Options:
    return {"files": FileOptions(snapshots=BadSnapshots(bad=bad, method=method))}


def approver(bad: Misbehaviour, method: str) -> Options:
    return {"permissions": PermissionOptions(approver=Persistent(bad, method))}


def tool_with(bad: Misbehaviour, function: str) -> Options:
    return {"tools": [working(bad, **{function: True})]}


def _hooks() -> dict[str, Border]:
    visits: dict[str, Visit] = {
        "permission_request": run_and_reply,
        "notification": run_and_reply,
        "session_start": create,
        "before_compaction": compact,
        "after_compaction": compact,
    }
    names = (
        "session_start user_prompt request before_tool permission_request after_tool tool_failed stop task_completed "
        "before_compaction after_compaction notification idle session_end"
    )
    return {
        f"hook {name}": Border(options=partial(hook, name=name), visit=visits.get(name, run)) for name in names.split()
    }


BORDERS: Mapping[str, Border] = {
    **_hooks(),
    **{
        f"keeper {method}": Border(options=partial(keeper, method=method))
        for method in ("prunes", "collapses", "compacts")
    },
    **{
        f"model {method}": Border(options=partial(lambda bad, method: {"model": method}, method=method))
        for method in ("open", "receive", "aclose")
    },
    "summariser": Border(options=summarised, visit=compact),
    "store flush": Border(options=partial(stored, method="flushed")),
    "store flush outside of a turn": Border(options=partial(stored, method="flushed"), visit=rename, is_call=True),
    "store load": Border(options=partial(stored, method="load"), visit=reopen, is_call=True),
    "store claim": Border(options=partial(stored, method="claim", kind=BadLeasingStore), visit=reopen, is_call=True),
    "store open": Border(
        options=partial(stored, method="open_session", kind=BadCachingStore), visit=reopen, is_call=True
    ),
    "snapshots take": Border(options=partial(snapshots, method="take")),
    "snapshots change": Border(options=partial(snapshots, method="about_to_change")),
    "approver judge": Border(options=lambda bad: {"permissions": PermissionOptions(approver=BadApprover(bad))}),
    "approver prepare": Border(options=partial(approver, method="prepare"), visit=create, is_call=True),
    "approver save": Border(options=partial(approver, method="save"), visit=run_and_reply, is_call=True),
    "opinion": Border(options=opinion),
    "tool body": Border(options=partial(tool_with, function="works")),
    "tool need": Border(options=partial(tool_with, function="needs")),
    "tool safe": Border(options=partial(tool_with, function="safe")),
    "tool assess": Border(options=partial(tool_with, function="assesses")),
    "tool modifier": Border(options=partial(tool_with, function="modifies")),
}

# In a thread, where no interrupt and no cancel of Trio gets.
IN_THREADS: Mapping[str, Border] = {"prompt source": Border(options=source)}


def opened(border: Border, bad: Misbehaviour, store: SlowStore | None = None) -> engine.Engine:
    """An engine in which the code at that border misbehaves."""
    options = border.options(bad)
    answers = [[*call("work", {}, id="1"), *done("calls")], [*text("Fine."), *done()]]
    model: Any = ScriptedProvider([*answers, [*text("Again."), *done()]], repeat=True)
    if isinstance(options.get("model"), str):
        model = BadModel(model, bad, options["model"])
    defaults: Options = {
        "tools": [working()],
        "permissions": PermissionOptions(approver=AllowAll()),
        "store": store or SlowStore(),
    }
    return engine.open_engine(**{**defaults, **options, "model": model})
