"""Sources of tools: theirs are the turn's, taken at its start; a call to one that is gone or has changed never runs."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.errors import ConfigError
from engine.core.events import CallJudged, CallQueued, PermissionAsked
from engine.options import Ports
from engine.testing.fake_source import FakeSource
from engine.testing.script import Answer
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools import SourceScope, Tool, foreign_tool
from tests.support.sourced import DONE, calls, names, notices, opened, results, run


@attrs.frozen
class Nothing:
    """No arguments."""


async def test_foreign_tool_is_called() -> None:
    source = FakeSource()
    source.offer("find")
    model = ScriptedProvider([calls("fake_find", {"query": "x"}), DONE])
    async with opened(model, source) as eng:
        session = await eng.create_session()
        events = await run(session)
    assert results(events) == [("completed", 'echo {"query": "x"}')]


async def test_source_runs_with_its_engine() -> None:
    source = FakeSource()
    async with opened(ScriptedProvider([]), source):
        await trio.testing.wait_all_tasks_blocked()
        assert source.running
    assert not source.running


async def test_source_of_a_session_ends_with_it() -> None:
    source, other = FakeSource(), FakeSource()
    source.offer("find")
    model = ScriptedProvider([DONE, DONE])
    async with opened(model, other) as eng:
        session = await eng.create_session(sources=[source])
        await run(session)
        assert "fake_find" in names(model)
        await run(await eng.create_session())
        assert "fake_find" not in names(model)
        assert await eng.close_session(session.id)
        assert (source.running, other.running) == (False, True)


async def test_failed_source_ends_nothing_else() -> None:
    broken, source = FakeSource(name="broken"), FakeSource()

    async def fail() -> None:
        raise RuntimeError("no such program")

    broken.work = fail
    broken.offer("lost", server="broken")
    source.offer("find")
    model = ScriptedProvider([calls("fake_find"), DONE, DONE])
    async with opened(model, broken, source) as eng:
        session = await eng.create_session()
        await trio.testing.wait_all_tasks_blocked()
        first, second = await run(session), await run(session)
    assert notices(first) == ["broken has failed, and its tools are gone: RuntimeError: no such program"]
    assert notices(second) == []
    assert results(first) == [("completed", "echo {}")]
    assert "broken_lost" not in names(model)


async def test_source_that_raises_costs_only_its_tools() -> None:
    class Raising(FakeSource):
        def tools(self, scope: SourceScope) -> Sequence[Tool]:
            raise RuntimeError("it is confused")

    source = FakeSource()
    source.offer("find")
    model = ScriptedProvider([DONE])
    async with opened(model, Raising(name="bad"), source) as eng:
        events = await run(await eng.create_session())
    assert notices(events) == ["`tools` of bad failed: RuntimeError: it is confused"]
    assert "fake_find" in names(model)


async def test_tool_that_went_is_stale() -> None:
    source = FakeSource()
    source.offer("find")

    def gone(_: object) -> Answer:
        source.offer()
        return calls("fake_find")

    model = ScriptedProvider([gone, DONE])
    async with opened(model, source) as eng:
        events = await run(await eng.create_session())
    [(status, said)] = results(events)
    assert status == "error"
    assert "There is no tool fake_find any more" in said
    assert source.calls == []


async def test_tool_that_changed_is_stale() -> None:
    source = FakeSource()
    source.offer("find")

    def changed(_: object) -> Answer:
        source.offer("find", schema='{"type":"object","properties":{"path":{"type":"string"}}}')
        return calls("fake_find", {"query": "x"})

    model = ScriptedProvider([changed, DONE])
    async with opened(model, source) as eng:
        events = await run(await eng.create_session())
    [(status, said)] = results(events)
    assert status == "error"
    assert said == "Not executed: fake_find has changed since you saw it. It can be called again in the next turn."
    assert source.calls == []


async def test_equal_tools_are_not_stale() -> None:
    source = FakeSource()
    source.offer("find")

    def again(_: object) -> Answer:
        source.offer("find")
        return calls("fake_find")

    model = ScriptedProvider([again, DONE])
    async with opened(model, source) as eng:
        events = await run(await eng.create_session())
    assert results(events) == [("completed", "echo {}")]


async def test_names_of_foreign_tools_are_exact() -> None:
    source = FakeSource()
    source.offer("getUser", "getuser")
    model = ScriptedProvider([calls("fake_getUser", {"query": "a"}), calls("FAKE_GETUSER"), DONE])
    async with opened(model, source) as eng:
        events = await run(await eng.create_session())
    assert results(events)[0] == ("completed", 'echo {"query": "a"}')
    assert "There is no tool named 'FAKE_GETUSER'" in results(events)[1][1]


async def test_each_foreign_call_asks() -> None:
    source = FakeSource()
    source.offers = [
        foreign_tool(source.echo, server="fake", name="look", schema="{}", description="Look.", claims_read_only=True)
    ]
    model = ScriptedProvider([calls("fake_look"), DONE])
    async with opened(model, source, profile="ask") as eng:
        events = await run(await eng.create_session())
    [asked] = [event for event in events if isinstance(event, PermissionAsked)]
    assert (asked.permission, asked.tool) == ("mcp:fake/look", "fake_look")
    assert "it says of itself that it changes nothing" in asked.detail
    assert results(events)[0][0] == "denied"


@pytest.mark.parametrize(("rule", "status"), [("allow mcp:fake/* *", "completed"), ("deny mcp:fake/find *", "denied")])
async def test_rules_name_server_and_tool(rule: str, status: str) -> None:
    source = FakeSource()
    source.offer("find")
    model = ScriptedProvider([calls("fake_find"), DONE])
    async with opened(model, source, profile="ask", rules=[rule]) as eng:
        events = await run(await eng.create_session())
    assert [s for s, _ in results(events)] == [status]
    assert not any(isinstance(event, PermissionAsked) for event in events)
    assert [event.verdict for event in events if isinstance(event, CallJudged)] == [rule.split(maxsplit=1)[0]]


async def test_own_tool_keeps_its_name() -> None:
    @engine.tool(name="fake_find", read_only=True)
    async def own(args: Nothing, ctx: engine.ToolContext) -> str:
        """Find."""
        return "own"

    source = FakeSource()
    source.offer("find")
    model = ScriptedProvider([calls("fake_find"), DONE])
    async with opened(model, source, tools=[own]) as eng:
        events = await run(await eng.create_session())
    assert results(events) == [("completed", "own")]
    assert len([name for name in names(model) if name.startswith("fake_find_")]) == 1


async def test_first_turn_waits_for_readiness() -> None:
    source = FakeSource()

    async def wait(_: SourceScope) -> None:
        source.offer("find")

    source.wait = wait
    model = ScriptedProvider([DONE, DONE])
    async with opened(model, source) as eng:
        await run(await eng.create_session())
    assert "fake_find" in names(model)


async def test_failed_readiness_is_reported() -> None:
    async def wait(_: SourceScope) -> None:
        raise RuntimeError("no answer")

    model = ScriptedProvider([DONE])
    async with opened(model, FakeSource(wait=wait)) as eng:
        events = await run(await eng.create_session())
    assert notices(events) == ["fake: RuntimeError: no answer"]


async def test_readiness_has_a_limit(autojump_clock: trio.testing.MockClock) -> None:
    async def wait(_: SourceScope) -> None:
        await trio.sleep_forever()

    model = ScriptedProvider([DONE])
    async with opened(model, FakeSource(wait=wait)) as eng:
        await run(await eng.create_session())
    assert trio.current_time() == pytest.approx(30.0, abs=1.0)


async def test_repairs_are_in_the_record() -> None:
    source = FakeSource()
    source.offer("find", schema='{"type":"object","properties":{"n":{"type":"integer"}}}')
    model = ScriptedProvider([calls("fake_find", {"n": "5"}), calls("fake_find", {"n": "five"}), DONE])
    async with opened(model, source) as eng:
        events = await run(await eng.create_session())
    assert [event.mended for event in events if isinstance(event, CallQueued)] == [
        ('n: the text "5" was taken for 5',),
        (),
    ]
    assert results(events)[0] == ("completed", 'echo {"n": 5}')
    assert "n must be of type integer" in results(events)[1][1]


def test_sources_are_checked() -> None:
    with pytest.raises(ConfigError, match="a source of tools must be an object with name, run"):
        engine.open_engine(model=ScriptedProvider([]), ports=Ports(sources=[object()]))  # type: ignore[list-item]
