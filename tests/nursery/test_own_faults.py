"""Faults of the engine itself: they end one turn, blame no provider, and leave nothing waiting."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.events import CallSettled
from engine.core.exception_groups import describe
from engine.core.llm_types import ModelInfo, ModelRequest, StreamEvent, ToolCallChunk, ToolCallStarted
from engine.core.protocols import ModelStream
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions, Ports
from engine.testing.fake_tools import FakeTools
from engine.testing.fakes import CountingIds, TrioClock
from engine.testing.script import Pause, done, text
from engine.testing.scripted_provider import ScriptedAnswer, ScriptedProvider

LAST: ScriptedAnswer = [*text("That is all."), *done()]


@attrs.define(eq=False)
class FailingIds(CountingIds):
    """Identifiers that run out: from a moment on there is none for a part."""

    fails: bool = False

    def new(self, kind: str) -> str:
        if self.fails and kind == "part":
            raise LookupError("no more ids")
        return super().new(kind)


@attrs.define(eq=False)
class FailingClock(TrioClock):
    """A clock that stops: from a moment on it raises."""

    fails: bool = False

    def now(self) -> float:
        if self.fails:
            raise OSError("no clock")
        return super().now()


def opened(*script: ScriptedAnswer, ports: Ports) -> engine.Engine:
    return engine.open_engine(
        model=ScriptedProvider([*script, LAST]),
        tools=FakeTools().tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        ports=ports,
    )


async def test_a_fault_while_receiving_blames_no_provider(autojump_clock: trio.testing.MockClock) -> None:
    ids = FailingIds()
    async with opened(LAST, ports=Ports(ids=ids)) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            ids.fails = True
            result = await turn.wait()
        assert (result.stop_reason, result.detail) == ("internal_error", "LookupError: no more ids")
        ids.fails = False
        assert (await session.run("again")).text == "That is all."


async def test_a_failed_end_leaves_no_waiter(autojump_clock: trio.testing.MockClock) -> None:
    clock = FailingClock()
    async with opened(LAST, ports=Ports(clock=clock)) as eng:
        session = await eng.create_session()
        with pytest.raises((OSError, BaseExceptionGroup)) as raised, trio.fail_after(60):
            async with session.prompt("go") as turn:
                clock.fails = True
                result = await turn.wait()
                assert (result.stop_reason, result.durable) == ("internal_error", False)
        assert "no clock" in describe(raised.value)
        clock.fails = False
        assert (await session.run("again")).text == "That is all."


@attrs.define(eq=False)
class QuickToClose:
    """A model whose streams close without a checkpoint, so that the reader may be the first to end."""

    model: ScriptedProvider

    @property
    def info(self) -> ModelInfo:
        return self.model.info

    async def open(self, request: ModelRequest) -> QuickStream:
        return QuickStream(await self.model.open(request))


@attrs.define(eq=False)
class QuickStream:
    """A stream that closes without a checkpoint."""

    inner: ModelStream

    async def receive(self) -> Sequence[StreamEvent]:
        return await self.inner.receive()

    async def aclose(self) -> None:
        pass


async def test_a_host_cancel_is_no_cut_off_call(autojump_clock: trio.testing.MockClock) -> None:
    """Of a call that a host's cancel interrupts while its arguments arrive, the model must not read that it was too long."""
    half: ScriptedAnswer = [ToolCallStarted("c", "write"), ToolCallChunk("c", '{"path": "a"'), Pause(60)]
    for _ in range(16):  # trio wakes the cancelled tasks in one of two orders, by chance
        async with engine.open_engine(
            model=QuickToClose(ScriptedProvider([half])), permissions=PermissionOptions(approver=AllowAll())
        ) as eng:
            session = await eng.create_session()
            with trio.move_on_after(5):
                async with session.prompt("go") as turn:
                    await turn.wait()
            (settled,) = [event for event in session.events() if isinstance(event, CallSettled)]
            assert (settled.settlement.status, settled.settlement.reason) == ("aborted", "not_executed")
