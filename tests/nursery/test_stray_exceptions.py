"""Foreign code that raises what only Trio or Python may raise: at each border it is an error, and no cancel of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import trio

from engine.core.events import CallSettled
from engine.core.hooks import Hooks
from tests.support.borders import BORDERS, IN_THREADS, Border, Misbehaviour, answered, opened

pytestmark = pytest.mark.usefixtures("autojump_clock")


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


async def ordinary() -> BaseException:
    return ValueError("broken")


def raising(error: BaseException) -> Misbehaviour:
    def act() -> None:
        raise error

    return Misbehaviour(act)


@pytest.mark.parametrize("kind", [kept_cancelled, generator_exit, in_a_group, ordinary])
@pytest.mark.parametrize("name", [*BORDERS, *IN_THREADS])
async def test_stray_exception_is_an_error_at_its_border(name: str, kind: Callable[[], Any]) -> None:
    bad = raising(await kind())
    try:
        await visit(name, bad)
    except trio.Cancelled as error:
        # The plugin that runs this test would take it for a cancel, too, and the test for passed.
        raise AssertionError("it came out as a cancel") from error  # noqa: ASYNC104  # the point
    assert bad.reached


async def visit(name: str, bad: Misbehaviour) -> None:
    border = {**BORDERS, **IN_THREADS}[name]
    async with opened(border, bad) as eng:
        session = await eng.create_session(cwd="/")
        result: Any = None
        if border.is_call:
            with pytest.raises(Exception, match=r"Cancelled|GeneratorExit|broken"):
                await border.visit(eng, session, bad)
        else:
            result = await border.visit(eng, session, bad)
        if result is not None:
            # No border takes it for a cancel.
            assert result.stop_reason != "aborted"
            if not name.startswith(("model", "keeper", "summariser")):
                assert result.stop_reason == "completed"
            if name.startswith("tool"):
                assert "provider" not in result.detail
        settled = [event.settlement for event in session.events() if isinstance(event, CallSettled)]
        assert not any(settlement.outcome_unknown for settlement in settled)
        bad.armed = name == "hook session_end"
        assert (await answered(session, "again")).stop_reason == "completed"


async def test_real_cancel_still_passes() -> None:
    """A cancel of the host, while such code runs, is a cancel."""

    async def forever(*_: object) -> NoReturn:
        await trio.sleep_forever()
        raise AssertionError

    border = Border(options=lambda _: {"hooks": Hooks(request=(forever,))})
    async with opened(border, raising(ValueError())) as eng:
        session = await eng.create_session(cwd="/")
        with trio.move_on_after(1) as scope:
            await session.run("go")
        assert scope.cancelled_caught
        assert session.state.last_result is not None
        assert session.state.last_result.stop_reason == "aborted"
