"""Faults of the engine itself: they end one turn, blame no provider, and leave nothing waiting."""

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.exception_groups import describe
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions, Ports
from engine.testing.fake_tools import FakeTools
from engine.testing.fakes import CountingIds, TrioClock
from engine.testing.script import done, text
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
