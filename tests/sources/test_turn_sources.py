"""Sources that look for changes at the border of turns: asked before each turn, and told of each end, whatever is cancelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import trio

from engine.core.events import CallSettled
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.fake_source import FakeSource
from engine.testing.harness import Scenario
from engine.testing.script import call, done
from engine.testing.scripted_provider import ScriptedProvider
from engine.testing.turn_points import WAYS
from engine.tools import SourceScope
from tests.support.sourced import DONE, calls, names, notices, opened, results, run


@attrs.define(eq=False)
class BorderSource(FakeSource):
    """A fake that takes what it will have at the next border, and notes the borders."""

    coming: Sequence[str] = ()
    look: Callable[[], None] = lambda: None
    borders: list[str] = attrs.field(factory=list[str], init=False)

    def is_empty(self, scope: SourceScope) -> bool:
        return not self.offers

    async def begin_turn(self, scope: SourceScope) -> None:
        self.borders.append("begin")
        await trio.lowlevel.checkpoint()
        self.look()
        self.offer(*self.coming)
        await trio.lowlevel.checkpoint()

    def end_turn(self, scope: SourceScope) -> None:
        self.borders.append("end")


async def test_tools_come_at_the_next_border() -> None:
    source = BorderSource()
    model = ScriptedProvider([DONE, calls("fake_find"), DONE, calls("fake_find"), DONE])
    async with opened(model, source) as eng:
        session = await eng.create_session()
        await run(session)
        assert names(model) == []
        source.coming = ("find",)
        assert [status for status, _ in results(await run(session))] == ["completed"]
        source.coming = ()
        ((status, text),) = results(await run(session))
        assert (status, "There is no tool fake_find any more" in text) == ("error", True)
        # What requests begin with stays, once there was a tool.
        assert "tool_search" in names(model)
    assert source.borders == ["begin", "end"] * 3


async def test_source_that_fails_to_look_is_reported() -> None:
    def fail() -> None:
        raise ValueError("the disk is gone")

    source = BorderSource(look=fail)
    source.offer("find")
    model = ScriptedProvider([calls("fake_find"), DONE])
    async with opened(model, source) as eng:
        events = await run(await eng.create_session())
    assert [status for status, _ in results(events)] == ["completed"]
    assert notices(events) == ["fake: ValueError: the disk is gone"]


async def test_cancelled_turn_has_ended_for_the_source() -> None:
    source = BorderSource(coming=("find",))
    model = ScriptedProvider([calls("fake_find"), DONE])
    async with opened(model, source) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            turn.cancel()
            async for event in turn:
                assert not isinstance(event, CallSettled)
    assert source.borders in (["end"], ["begin", "end"])


def test_cancel_everywhere_at_the_border_of_turns(*, is_full: bool) -> None:
    made: list[BorderSource] = []

    def sources() -> Sequence[BorderSource]:
        made.append(BorderSource(coming=("find",)))
        return made[-1:]

    scenario = Scenario(script=[[*call("fake_find", {"query": "x"}, id="1"), *done("calls")]], sources=sources)
    report = cancel_everywhere(scenario, ways=WAYS if is_full else ("user",), every=1 if is_full else 6)
    assert report.runs > 10
    for source in made:
        assert source.borders.count("end") >= source.borders.count("begin") > 0 or source.borders in ([], ["end"])
