"""Foreign code that raises what only Trio or Python may raise: at each border it is an error, and no cancel of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.events import CallSettled
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

pytestmark = pytest.mark.usefixtures("autojump_clock")


@attrs.define(eq=False)
class Stray:
    """Raises an exception at whichever border it stands, as long as it is armed."""

    error: BaseException
    armed: bool = False
    raised: int = 0

    def __call__(self, *_: object, **__: object) -> None:
        if self.armed:
            self.raised += 1
            raise self.error

    async def wait(self, *_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()
        self()


async def kept_cancelled() -> BaseException:
    """A `Cancelled` of a scope that is left."""
    kept: list[BaseException] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            kept.append(error)
            raise
    return kept[0]


async def generator_exit() -> BaseException:
    return GeneratorExit()


async def in_a_group() -> BaseException:
    return BaseExceptionGroup("from a nursery", [await kept_cancelled(), ValueError("and this")])


Options = dict[str, Any]


def working(
    stray: Stray | None = None,
    *,
    needs: bool = False,
    safe: bool = False,
    assesses: bool = False,
    modifies: bool = False,
    raises: bool = False,
) -> Tool:
    """A tool, one of whose functions is the stray's."""

    def act(is_bad: bool) -> None:
        if is_bad and stray is not None:
            stray()

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
        act(raises)

        def modify(shared: Any) -> Any:
            act(modifies)
            return shared

        return ToolOutput(text="worked", modify=modify)

    made = tool(name="work", need=need, safe=is_safe)(work)
    return assessed_by(made, assess) if assesses else made


def hooks(stray: Stray, name: str) -> Options:
    return {"hooks": Hooks(**{name: (stray.wait,)})}


@attrs.define(eq=False)
class BadStream:
    """A stream, one of whose methods is the stray's."""

    inner: Any
    stray: Stray
    method: str

    async def receive(self) -> Any:
        if self.method == "receive":
            await self.stray.wait()
        return await self.inner.receive()

    async def aclose(self) -> None:
        await self.inner.aclose()
        if self.method == "aclose":
            await self.stray.wait()


@attrs.define(eq=False)
class BadModel:
    """A model, one of whose methods is the stray's."""

    inner: ScriptedProvider
    stray: Stray
    method: str

    @property
    def info(self) -> Any:
        return self.inner.info

    async def open(self, request: Any) -> BadStream:
        if self.method == "open":
            await self.stray.wait()
        return BadStream(await self.inner.open(request), self.stray, self.method)


@attrs.define(eq=False)
class BadStore(SlowStore):
    """A store whose flush is the stray's."""

    stray: Stray | None = None

    async def flushed(self, session_id: Any, seq: int) -> None:
        await super().flushed(session_id, seq)
        if self.stray is not None:
            self.stray()


@attrs.define(eq=False, kw_only=True)
class BadSnapshots(ScriptedSnapshots):
    """Snapshots, one of whose methods is the stray's."""

    stray: Stray
    method: str

    async def take(self, cwd: str, **options: Any) -> Any:
        if self.method == "take":
            await self.stray.wait()
        return await super().take(cwd, **options)

    async def about_to_change(self, cwd: str, paths: Sequence[str]) -> None:
        if self.method == "about_to_change":
            await self.stray.wait()


@attrs.frozen(eq=False)
class BadApprover(AllowAll):
    """An approver whose judgement is the stray's."""

    stray: Stray | None = None

    def judge(self, query: Any) -> Judgement:
        if self.stray is not None:
            self.stray()
        return super().judge(query)


@attrs.frozen(eq=False)
class Asking(AllowAll):
    """An approver that leaves each call to the second opinion."""

    def judge(self, query: Any) -> Judgement:
        return Judgement(verdict="ask", source="test")


def bad_keeper(stray: Stray, method: str) -> Options:
    def shrink(view: ContextView) -> Sequence[Message] | None:
        stray()
        return None

    scripts: Options = {method: [shrink] * 4}
    return {"context": ContextOptions(keeper=ScriptedKeeper(**scripts))}


def opinion(stray: Stray) -> Options:
    async def decide(query: Any, judgement: Any) -> Any:
        await stray.wait()
        return "allow"

    return {"permissions": PermissionOptions(approver=Asking(), opinion=decide)}


def source(stray: Stray) -> Options:
    def read(cwd: str) -> str | None:
        stray()
        return None

    return {"context": ContextOptions(prompt=PromptLayers(sources={"own": read}))}


BORDERS: Mapping[str, Callable[[Stray], Options]] = {
    **{
        f"hook {name}": partial(hooks, name=name)
        for name in ("before_tool", "after_tool", "user_prompt", "request", "stop", "session_end", "idle")
    },
    **{f"keeper {method}": partial(bad_keeper, method=method) for method in ("prunes", "collapses", "compacts")},
    "model open": lambda stray: {"model": "open"},
    "model receive": lambda stray: {"model": "receive"},
    "model aclose": lambda stray: {"model": "aclose"},
    "store flush": lambda stray: {"store": BadStore(stray=stray)},
    "snapshots take": lambda stray: {"files": FileOptions(snapshots=BadSnapshots(stray=stray, method="take"))},
    "snapshots change": lambda stray: {
        "files": FileOptions(snapshots=BadSnapshots(stray=stray, method="about_to_change"))
    },
    "approver": lambda stray: {"permissions": PermissionOptions(approver=BadApprover(stray=stray))},
    "opinion": opinion,
    "prompt source": source,
    "tool body": lambda stray: {"tools": [working(stray, raises=True)]},
    "tool need": lambda stray: {"tools": [working(stray, needs=True)]},
    "tool safe": lambda stray: {"tools": [working(stray, safe=True)]},
    "tool assess": lambda stray: {"tools": [working(stray, assesses=True)]},
    "tool modifier": lambda stray: {"tools": [working(stray, modifies=True)]},
}


def opened(options: Options, stray: Stray) -> engine.Engine:
    answers = [[*call("work", {}, id="1"), *done("calls")], [*text("Fine."), *done()]]
    model: Any = ScriptedProvider([*answers, [*text("Again."), *done()]], repeat=True)
    if isinstance(options.get("model"), str):
        model = BadModel(model, stray, options["model"])
    rest = {name: value for name, value in options.items() if name != "model"}
    defaults: Options = {"tools": [working()], "permissions": PermissionOptions(approver=AllowAll())}
    merged: Options = {**defaults, **rest}
    return engine.open_engine(model=model, **merged)


@pytest.mark.parametrize("kind", [kept_cancelled, generator_exit, in_a_group])
@pytest.mark.parametrize("border", BORDERS)
async def test_stray_exception_is_an_error_at_its_border(border: str, kind: Callable[[], Any]) -> None:
    stray = Stray(await kind())
    reached = False
    async with opened(BORDERS[border](stray), stray) as eng:
        session = await eng.create_session(cwd="/")
        stray.armed = True
        result = await session.run("go")
        await trio.testing.wait_all_tasks_blocked()
        reached = True
        # No border takes it for a cancel.
        assert result.stop_reason != "aborted"
        settled = [event.settlement for event in session.events() if isinstance(event, CallSettled)]
        assert not any(settlement.outcome_unknown for settlement in settled)
        if not border.startswith(("model", "keeper")):
            assert result.stop_reason == "completed"
        if border.startswith("tool"):
            assert "provider" not in result.detail
        stray.armed = border == "hook session_end"
        assert (await session.run("again")).stop_reason == "completed"
    assert reached
    assert stray.raised


async def test_real_cancel_still_passes() -> None:
    """A cancel of the host, while such code runs, is a cancel."""

    async def forever(*_: object) -> NoReturn:
        await trio.sleep_forever()
        raise AssertionError

    async with opened({"hooks": Hooks(request=(forever,))}, Stray(ValueError())) as eng:
        session = await eng.create_session(cwd="/")
        with trio.move_on_after(1) as scope:
            await session.run("go")
        assert scope.cancelled_caught
        assert session.state.last_result is not None
        assert session.state.last_result.stop_reason == "aborted"
