"""The permission profile of a session: selected by any of its clients, seen by all, and never more than rules allow."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError
from engine.core.events import Notice, PermissionAnswered, PermissionAsked, SessionConfigured
from engine.core.permission_types import Rule
from engine.permission.policy import Policy
from engine.testing.script import done
from tests.session.test_sub_agents import DONE, WRITING, Script, agent_tools, by_prompt, task
from tests.support.bench import Bench
from tests.support.parked import FINE, Home, asks, do, seen
from tests.support.world import world


def configured(session: engine.Session) -> list[tuple[str, str]]:
    return [(event.profile, event.by) for event in session.events() if isinstance(event, SessionConfigured)]


def asked(session: engine.Session) -> int:
    return sum(isinstance(event, PermissionAsked) for event in session.events())


async def test_profile_applies_until_it_is_undone(autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a")), FINE, asks(*do("b")), FINE, asks(*do("c")), FINE], approver=Policy())
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        other = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go")
        await seen(turn, PermissionAsked)
        await eng.use_profile(session, "full", by="ada")
        assert (await turn.wait()).stop_reason == "completed"
        assert (session.state.profile, session.state.profile_by) == ("full", "ada")
        (answered,) = [event for event in session.events() if isinstance(event, PermissionAnswered)]
        assert (answered.answer, answered.by) == ("once", "")
        await eng.start_turn(session, "again").wait()
        assert (home.done, asked(session)) == (["a", "b"], 1)
        await eng.use_profile(session, "full", by="bob")
        await eng.use_profile(session, None, by="bob")
        assert (session.state.profile, session.state.profile_by) == ("", "")
        assert configured(session) == [("full", "ada"), ("", "bob")]
        await seen(eng.start_turn(session, "and again"), PermissionAsked)
        assert (other.state.profile, configured(other)) == ("", [])


async def test_profile_lifts_no_deny(autojump_clock: MockClock) -> None:
    rules = (Rule(action="deny", permission="do", pattern="*"),)
    home = Home([asks(*do("a")), FINE], approver=Policy(host=rules))
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        await eng.use_profile(session, "full")
        await eng.start_turn(session, "go").wait()
    assert (home.done, asked(session)) == ([], 0)


async def test_profile_is_refused(autojump_clock: MockClock) -> None:
    async with Home([], approver=Policy(profile="read-only")).open() as eng:
        session = await eng.create_session(cwd="/opt")
        for profile in ("full", "ask"):
            with pytest.raises(ConfigError, match="denies"):
                await eng.use_profile(session, profile)
        await eng.use_profile(session, None)
        assert configured(session) == []
    async with Home([], approver=Policy()).open() as eng:
        session = await eng.create_session(cwd="/opt")
        for wrong in ("none", 3):
            with pytest.raises(ConfigError, match="profile"):
                await eng.use_profile(session, wrong)  # type: ignore[arg-type]  # the point of it
    async with Home([]).open() as eng:
        session = await eng.create_session(cwd="/opt")
        with pytest.raises(ConfigError, match="host"):
            await eng.use_profile(session, "full")
        assert configured(session) == []


async def test_profile_is_kept_in_the_record(autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a")), FINE, asks(*do("b")), FINE], approver=Policy())
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        await eng.use_profile(session, "full", by="ada")
    home.approver = Policy()
    async with home.open() as eng:
        session = await eng.open_session(session.id)
        await eng.start_turn(session, "go").wait()
        assert (home.done, asked(session), session.state.profile_by) == (["a"], 0, "ada")
        fork = await eng.fork_session(session.id)
        assert fork.state.profile == ""
        assert await eng.close_session(session.id)
        session = await eng.open_session(session.id)
        assert (session.state.profile, configured(session)) == ("full", [("full", "ada")])
    # Where it may not be used any more, the record says that it has ended.
    home.approver = Policy(profile="read-only")
    async with home.open() as eng:
        session = await eng.open_session(session.id)
        assert (session.state.profile, configured(session)[-1]) == ("", ("", ""))
        assert "profile_not_used" in {event.code for event in session.events() if isinstance(event, Notice)}


async def test_profile_applies_to_sub_agents(autojump_clock: MockClock) -> None:
    bench = Bench()
    script: Script = {"go": [[*task("look"), *done("calls")], DONE], "look": [WRITING, DONE]}
    async with world(by_prompt(script), repeat=True, tools=[*agent_tools(), *bench.tools()], approver=Policy()) as w:
        await w.engine.use_profile(w.session, "full")
        played = await w.play()
        assert played.all(PermissionAsked) == []
    assert bench.log == ["+a", "-a"]
