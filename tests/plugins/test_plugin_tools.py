"""Tools of plugins in turns: asked about, loaded at the border of turns, and never a reason for another one to fail."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.config.plugin_config import PluginOptions
from engine.core.events import CallSettled, CallStarted, PermissionAsked
from engine.core.ids import SessionId
from engine.plugins.plugin_packages import load_packages
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.tool_source import SourceScope
from tests.plugins.installed_site import installed_site
from tests.plugins.tool_file_world import DONE, World, calls, code, run
from tests.support.cancel_at import CancelAt

pytestmark = pytest.mark.os  # files are read in threads


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def names(model: ScriptedProvider, request: int = -1) -> list[str]:
    return [tool.name for tool in model.requests[request].tools]


async def test_each_call_asks_also_if_read_only(world: World) -> None:
    world.own("greet.py", code(options="(read_only=True)"))
    model = ScriptedProvider([calls("greet_hello", name="Ada"), DONE, calls("greet_hello", name="Bo"), DONE])
    async with world.opened(model, world.source()) as eng:
        session = await world.session(eng)
        results, asked, notices = await run(session)
        assert (results, notices) == (["Hello, Ada!"], [])
        assert asked == ['greet: hello {"name": "Ada"}; it says of itself that it changes nothing']
        results, _, _ = await run(session, allow=False)
        assert "no" in results[0]
    assert "greet_hello" in names(model, 0)


async def test_rule_allows_a_plugins_tool(world: World) -> None:
    world.own("greet.py", code())
    model = ScriptedProvider([calls("greet_hello", name="Ada"), DONE])
    async with world.opened(model, world.source(), "allow plugin:greet/hello *") as eng:
        assert await run(await world.session(eng)) == (["Hello, Ada!"], [], [])


async def test_deny_holds_however_the_tool_is_called(world: World) -> None:
    world.own("greet.py", code())
    hidden = calls("tool_use", name="greet_hello", arguments={"name": "Ada"})
    model = ScriptedProvider([calls("greet_hello", name="Ada"), hidden, DONE])
    async with world.opened(model, world.source(), "deny plugin:greet/* *", profile="full") as eng:
        results, asked, _ = await run(await world.session(eng))
    assert asked == []
    assert [result.startswith("Denied by the rule 'deny plugin:greet/* *'") for result in results] == [True, True], (
        results
    )
    assert "greet_hello" not in names(model, 0)


async def test_invalid_arguments_are_explained(world: World) -> None:
    world.own("greet.py", code())
    model = ScriptedProvider([calls("greet_hello", nme="Ada"), DONE])
    async with world.opened(model, world.source(), profile="full") as eng:
        results, _, _ = await run(await world.session(eng))
    assert "nme: no such field; did you mean name?" in results[0]


async def test_broken_files_are_notices_of_the_first_turn(world: World) -> None:
    world.own("greet.py", code())
    world.own("syntax.py", "\ndef (:\n")
    world.own("exits.py", "import sys\nsys.exit(3)\n")
    world.own("empty.py", "x = 1\n")
    world.own("no good.py", code())
    world.own("hangs.py", "while True:\n    pass\n")
    os.mkfifo(world.user / "pipe.py")
    model = ScriptedProvider([calls("greet_hello", name="Ada"), DONE, DONE])
    async with world.opened(model, world.source(seconds=2.0), profile="full") as eng:
        session = await world.session(eng)
        results, _, notices = await run(session)
        assert results == ["Hello, Ada!"]
        assert (await run(session))[2] == []
    problems = {text.partition(".py")[0].rpartition("/")[2]: text.partition(": ")[2] for text in notices}
    assert problems.pop("no good").startswith("a plugin's name must be")
    assert problems.pop("pipe") == "it is no regular file"
    assert problems.pop("hangs").startswith(f"it did not return within 2 s ({world.user}/hangs.py, line ")
    assert problems == {
        "syntax": f"SyntaxError: invalid syntax ({world.user}/syntax.py, line 2)",
        "exits": f"it called sys.exit(3) ({world.user}/exits.py, line 2)",
        "empty": "it has no tools: define an async function with @engine.tool",
    }


async def test_raising_and_hanging_tools_settle(world: World) -> None:
    world.own("raises.py", code(body="raise RuntimeError('oh')"))
    world.own("exits.py", code(body="raise SystemExit(3)"))
    world.own(
        "hangs.py", code(body="import trio; await trio.sleep_forever()", options="(timeout=0.05, grace=1_000_000)")
    )
    world.own("wrong.py", code(body="return 3"))
    tools = ["raises_hello", "exits_hello", "hangs_hello", "wrong_hello"]
    model = ScriptedProvider([*(calls(name, name="x") for name in tools), DONE])
    async with world.opened(model, world.source(), profile="full") as eng:
        (raises, exits, hangs, wrong), _, _ = await run(await world.session(eng))
    assert "oh" in raises
    assert exits == "The tool failed: it called sys.exit(3)."
    assert "0.05 s" in hangs
    assert "int" in wrong


async def test_changed_file_of_the_user_waits_for_approval(world: World) -> None:
    path = world.own("greet.py", code())
    model = ScriptedProvider([calls("greet_hello", name="Ada"), DONE] * 3)
    async with world.opened(model, world.source(), profile="full") as eng:
        session = await world.session(eng)
        assert (await run(session))[0] == ["Hello, Ada!"]
        # The model may have written it.
        path.write_text(code("Bye"))
        results, _, notices = await run(session)
        assert "There is no tool greet_hello any more" in results[0]
        assert notices == [
            f"the tool file {path} was not loaded: it has changed since the engine was started. "
            f"Next: engine plugins approve {path}"
        ]
        world.approvals.approve(str(path), path.read_bytes())
        assert (await run(session))[0] == ["Bye, Ada!"]


async def test_change_during_a_turn_waits_for_the_next_one(world: World) -> None:
    path = world.own("greet.py", code(body="args.name == 'gone' and __import__('os').unlink(__file__)"))
    first = [calls("greet_hello", name="gone"), calls("greet_hello", name="Ada"), DONE]
    model = ScriptedProvider([*first, calls("greet_hello", name="Bo"), DONE])
    source = world.source()
    async with world.opened(model, source, profile="full") as eng:
        session = await world.session(eng)
        seen, _, _ = await run(session)
        assert seen == ["Hello, gone!", "Hello, Ada!"]
        assert not path.exists()
        results, _, _ = await run(session)
        assert "There is no tool greet_hello any more" in results[0]


async def test_turn_of_another_session_keeps_its_tools(world: World) -> None:
    path = world.own("greet.py", code())
    model = ScriptedProvider([calls("greet_hello", name="Ada"), calls("greet_hello", name="Bo"), DONE, DONE])
    async with world.opened(model, world.source()) as eng:
        session, other = await world.session(eng), await world.session(eng)
        others: list[str] = []
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, PermissionAsked):
                    # While the question is open, the file goes, and another session looks for changes.
                    path.unlink()
                    others, _, _ = await run(other)
                    await turn.reply(event.request_id, engine.Once())
                if isinstance(event, CallSettled):
                    assert event.settlement.text == "Hello, Ada!"
        assert others[0].startswith("There is no tool named 'greet_hello'")


async def test_no_plugin_leaves_requests_as_they_are(world: World) -> None:
    plain, empty = ScriptedProvider([DONE]), ScriptedProvider([DONE])
    async with engine.open_engine(model=plain) as eng:
        await run(await world.session(eng))
    async with world.opened(empty, world.source()) as eng:
        await run(await world.session(eng))
    assert names(plain) == names(empty)


async def test_first_file_comes_into_use_while_the_engine_runs(world: World) -> None:
    model = ScriptedProvider([DONE, calls("greet_hello", name="Ada"), DONE])
    async with world.opened(model, world.source(), profile="full") as eng:
        session = await world.session(eng)
        await run(session)
        path = world.own("greet.py", code())
        world.approvals.approve(str(path), path.read_bytes())
        assert (await run(session))[0] == ["Hello, Ada!"]


@attrs.frozen
class Nothing:
    """Do nothing."""


@engine.tool(name="greet_hello")
async def built_in(args: Nothing, ctx: engine.ToolContext) -> str:
    return "the host's"


async def test_name_of_another_tool_needs_override(world: World) -> None:
    world.own("greet.py", code())
    model = ScriptedProvider([calls("greet_hello"), DONE, calls("greet_hello", name="Ada"), DONE])
    async with world.opened(model, world.source(), profile="full", tools=[built_in]) as eng:
        results, _, notices = await run(await world.session(eng))
    assert results == ["the host's"]
    assert notices == [
        "the tool hello of the plugin greet is left out: there is another tool called greet_hello. "
        "Next: engine config set plugins.override '[\"greet_hello\"]'"
    ]
    source = world.source(PluginOptions(override=("greet_hello",)))
    async with world.opened(model, source, profile="full", tools=[built_in]) as eng:
        results, _, notices = await run(await world.session(eng))
    assert (results, notices) == (["Hello, Ada!"], [])
    assert names(model).count("greet_hello") == 1


async def test_override_gives_a_tool_its_own_name(world: World) -> None:
    world.own("greet.py", code())
    world.own("other.py", code("Bye"))
    model = ScriptedProvider([calls("hello", name="Ada"), DONE] * 2)
    source = world.source(PluginOptions(override=("hello",)))
    async with world.opened(model, source, profile="full") as eng:
        results, _, notices = await run(await world.session(eng))
        assert "There is no tool named 'hello'" in results[0]
        assert notices == ["several plugins have a tool called hello: none is used"]
    (world.user / "other.py").unlink()
    async with world.opened(model, world.source(PluginOptions(override=("hello",))), profile="full") as eng:
        assert (await run(await world.session(eng)))[0] == ["Hello, Ada!"]


@pytest.fixture
def site(tmp_path: Path) -> Generator[None]:
    with installed_site(tmp_path / "site") as site:
        site.install("pack")
        site.install("broken", "raise ValueError('no')\n")
        yield


@pytest.mark.usefixtures("site")
async def test_tools_of_packages_are_used(world: World) -> None:
    packages = load_packages(PluginOptions(), world.folder / "data")
    model = ScriptedProvider([calls("pack_hello", name="Ada"), DONE])
    async with world.opened(model, world.source(packages=packages)) as eng:
        results, asked, notices = await run(await world.session(eng))
    assert (results, len(asked)) == (["Hello, Ada!"], 1)
    (notice,) = notices
    assert notice.startswith("the plugin broken, of the package plugin_broken 1.0, was not loaded: ValueError: no (")


async def test_cancel_everywhere_while_files_are_loaded(world: World, *, is_full: bool) -> None:
    """Whatever step a cancel comes at, the next turn has all tools, and no turn holds the other one up."""
    world.own("greet.py", code())
    world.own("other.py", code("Bye"))
    scope = SourceScope(session_id=SessionId("ses_1"), root_id=SessionId("ses_1"), cwd=str(world.project))
    step = 0
    while True:
        source, instrument = world.source(), CancelAt(step)
        trio.lowlevel.add_instrument(instrument)
        with instrument.scope():
            await source.begin_turn(scope)
        trio.lowlevel.remove_instrument(instrument)
        source.end_turn(scope)
        with trio.fail_after(60):
            await source.begin_turn(scope)
        assert [tool.name for tool in source.tools(scope)] == ["greet_hello", "other_hello"]
        assert source.notices(scope) == []
        if not instrument.has_fired:
            break
        step += 1 if is_full else 2
    assert step > 4


async def test_turn_that_is_cancelled_leaves_the_tools(world: World) -> None:
    world.own("greet.py", code(body="import trio; await trio.sleep_forever()"))
    world.own("other.py", code("Bye"))
    model = ScriptedProvider([calls("greet_hello", name="Ada"), calls("other_hello", name="Bo"), DONE])
    async with world.opened(model, world.source(), profile="full") as eng:
        session = await world.session(eng)
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    turn.cancel()
                if isinstance(event, CallSettled):
                    assert event.settlement.status == "aborted"
        assert (await run(session))[0] == ["Bye, Bo!"]
