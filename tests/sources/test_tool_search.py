"""Many foreign tools: the model searches for them, and a request's beginning never changes, whatever comes, changes or goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.compaction.token_estimate import request_tokens, tool_tokens
from engine.config.agent_config import AgentConfig
from engine.config.config import Config
from engine.config.host_values import WireName
from engine.core.events import CallQueued, Notice, PermissionAsked
from engine.core.hooks import Hooks, ToolDecision, ToolUse
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import Usage
from engine.providers.hosts.host_table import HOSTS
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.registry import wire_format
from engine.testing.fake_source import FakeSource
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools import ToolContext, foreign_tool
from tests.properties.bodies import turns_of
from tests.support.sourced import DONE, calls, names, opened, remarks, results, run, uses

SEARCHING = engine.Settings(eager_tokens=0)
WIRES: tuple[WireName, ...] = get_args(WireName)
SPOKEN = [wire for wire in WIRES if find_spec(f"engine.providers.{wire}.wire") is not None]


def many(count: int) -> FakeSource:
    """A source with that many tools, each with a schema of some size."""
    source = FakeSource()
    schema = json.dumps(
        {
            "type": "object",
            "properties": {
                name: {"type": "string", "description": f"The {name} of what it is about, as the server knows it."}
                for name in ("owner", "repository", "title", "body", "labels")
            },
        }
    )
    source.offer(*(f"do_thing_{number}" for number in range(count)), schema=schema)
    return source


def body(request: ModelRequest, wire: str) -> tuple[bytes, ...]:
    """Return a request as a host of that wire format gets it; the first piece is what comes before the messages."""
    host = next(host for host in HOSTS if host.wire == wire)
    encoder = wire_format(host, quirks_of(host, host.example)).encoder()
    return tuple(encoder.encode(attrs.evolve(request, model=f"{host.name}/{host.example}")).pieces)


def sent(request: ModelRequest, wire: str) -> str:
    return b"".join(body(request, wire)).decode()


async def test_many_tools_cost_little() -> None:
    source, bare = many(250), ScriptedProvider([DONE])
    model = ScriptedProvider([DONE])
    async with opened(bare) as eng:
        await run(await eng.create_session())
    async with opened(model, source) as eng:
        await run(await eng.create_session())
    assert names(model) == ["tool_search", "tool_use"]
    assert sum(tool_tokens(tool.schema) for tool in source.offers) > 20_000
    assert request_tokens(model.requests[0]) - request_tokens(bare.requests[0]) < 1_500


async def test_few_tools_are_listed() -> None:
    model = ScriptedProvider([DONE])
    async with opened(model, many(3)) as eng:
        await run(await eng.create_session())
    assert names(model) == ["tool_search", "tool_use", "fake_do_thing_0", "fake_do_thing_1", "fake_do_thing_2"]
    assert remarks(model) == []


async def test_eager_tool_is_always_listed() -> None:
    source = many(3)
    source.offers = [
        *source.offers,
        foreign_tool(source.echo, server="fake", name="first", schema="{}", is_eager=True),
    ]
    model = ScriptedProvider([DONE])
    async with opened(model, source, settings=SEARCHING) as eng:
        await run(await eng.create_session())
    assert names(model) == ["tool_search", "tool_use", "fake_first"]


async def test_model_learns_which_servers_there_are() -> None:
    source, late = many(2), FakeSource(name="late")
    model = ScriptedProvider([DONE, DONE, DONE, DONE])
    async with opened(model, source, late, settings=SEARCHING) as eng:
        session = await eng.create_session()
        await run(session)
        await run(session)
        late.offer("find", server="late")
        await run(session)
        source.offer()
        late.offer()
        await run(session)
    first = "There are tools of: fake (2). Find them with tool_search."
    assert remarks(model, 0) == remarks(model, 1) == [first]
    assert remarks(model, 2) == [first, "There are tools of: fake (2), late (1). Find them with tool_search."]
    assert remarks(model, 3)[2:] == ["There are no such tools now."]


async def test_found_tool_is_used() -> None:
    source = many(30)
    model = ScriptedProvider(
        [
            calls("tool_search", {"query": "thing 7"}),
            uses("fake_do_thing_7", {"title": "x"}),
            calls("fake_do_thing_7", {"title": "y"}),
            DONE,
        ]
    )
    async with opened(model, source, settings=SEARCHING) as eng:
        events = await run(await eng.create_session())
    assert [text for _, text in results(events)][1:] == ['echo {"title": "x"}', 'echo {"title": "y"}']
    assert "fake_do_thing_7 (fake says): Do do_thing_7 at fake." in results(events)[0][1]
    assert [(e.tool, e.arguments) for e in events if isinstance(e, CallQueued)][1:] == [
        ("fake_do_thing_7", '{"title": "x"}'),
        ("fake_do_thing_7", '{"title": "y"}'),
    ]


async def test_vetting_sees_the_real_tool() -> None:
    seen: list[tuple[str, str]] = []

    async def look(use: ToolUse) -> ToolDecision | None:
        seen.append((use.tool, use.arguments))
        return None

    model = ScriptedProvider([uses("fake_find", {"query": "x"}), DONE])
    source = FakeSource()
    source.offer("find")
    async with opened(model, source, profile="ask", settings=SEARCHING, hooks=Hooks(before_tool=(look,))) as eng:
        events = await run(await eng.create_session())
    [asked] = [event for event in events if isinstance(event, PermissionAsked)]
    assert (asked.tool, asked.permission) == ("fake_find", "mcp:fake/find")
    assert seen == [("fake_find", '{"query": "x"}')]
    assert source.calls == []


async def test_hook_may_change_what_is_used() -> None:
    async def change(use: ToolUse) -> ToolDecision:
        return ToolDecision(arguments='{"query": "changed"}')

    source = FakeSource()
    source.offer("find")
    model = ScriptedProvider([uses("fake_find", {"query": "x"}), DONE])
    async with opened(model, source, settings=SEARCHING, hooks=Hooks(before_tool=(change,))) as eng:
        await run(await eng.create_session())
    assert source.calls == ['{"query": "changed"}']


async def test_deny_holds_through_tool_use() -> None:
    source = FakeSource()
    source.offer("find", "drop")
    model = ScriptedProvider([calls("tool_search", {"query": "drop"}), uses("fake_drop"), uses("fake_find"), DONE])
    async with opened(model, source, settings=SEARCHING, rules=["deny mcp:fake/drop *"]) as eng:
        events = await run(await eng.create_session())
    assert [status for status, _ in results(events)] == ["completed", "denied", "completed"]
    assert "fake_drop" not in results(events)[0][1]
    assert source.calls == ["{}"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": "fake_fnid", "arguments": {}}, "There is no tool named 'fake_fnid'"),
        ({"name": "fake_find", "arguments": {"query": 5}}, "query must be of type string"),
        ({"name": "fake_find", "arguments": "no json"}, "not valid JSON"),
        ({"name": "tool_use", "arguments": {"name": "fake_find"}}, "tool_use can't call itself"),
        ({"arguments": {}}, "tool_use takes the name of a tool"),
        ({"name": 5}, "tool_use takes the name of a tool"),
    ],
)
async def test_wrong_use_is_explained(arguments: dict[str, object], text: str) -> None:
    source = FakeSource()
    source.offer("find")
    model = ScriptedProvider([calls("tool_use", arguments), DONE])
    async with opened(model, source, settings=SEARCHING) as eng:
        events = await run(await eng.create_session())
    [(status, said)] = results(events)
    assert status == "error"
    assert text in said
    assert source.calls == []


@pytest.mark.parametrize(
    "arguments", [{"name": "fake_find", "query": "x"}, {"name": "fake_find", "arguments": '{"query": "x"}'}]
)
async def test_use_is_read_kindly(arguments: dict[str, object]) -> None:
    source = FakeSource()
    source.offer("find")
    model = ScriptedProvider([calls("tool_use", arguments), DONE])
    async with opened(model, source, settings=SEARCHING) as eng:
        await run(await eng.create_session())
    assert source.calls == ['{"query": "x"}']


async def test_search_without_a_query_lists_servers() -> None:
    source, other = many(3), FakeSource(name="other")
    other.offer("find", server="other")
    model = ScriptedProvider([calls("tool_search"), calls("tool_search", {"query": "xyzzy"}), DONE])
    async with opened(model, source, other, settings=SEARCHING) as eng:
        events = await run(await eng.create_session())
    assert results(events)[0] == ("completed", "There are tools of: fake (3), other (1).")
    assert results(events)[1][1].startswith("No tool fits 'xyzzy'. There are tools of: fake (3)")


async def test_denied_servers_are_not_shown() -> None:
    source, other = many(300), FakeSource(name="other")
    other.offer("do_thing", server="other")
    model = ScriptedProvider([calls("tool_search", {"query": "do thing"}), calls("tool_search"), DONE])
    async with opened(model, source, other, rules=["deny mcp:fake/* *"], settings=SEARCHING) as eng:
        events = await run(await eng.create_session())
    assert "fake" not in results(events)[0][1]
    assert results(events)[1][1] == "There are tools of: other (1)."
    assert remarks(model) == ["There are tools of: other (1). Find them with tool_search."]


async def test_denied_tools_take_no_room() -> None:
    source, other = many(300), FakeSource(name="other")
    other.offer("find", server="other")
    model = ScriptedProvider([DONE])
    async with opened(model, source, other, rules=["deny mcp:fake/* *"]) as eng:
        await run(await eng.create_session())
    assert names(model) == ["tool_search", "tool_use", "other_find"]


# -- what requests begin with ------------------------------------------------------------------------


@pytest.mark.parametrize("wire", SPOKEN)
@pytest.mark.parametrize("defers", [False, True], ids=["", "deferring"])
@pytest.mark.parametrize("settings", [SEARCHING, engine.Settings()], ids=["searching", "listing"])
async def test_prefix_survives_every_change(wire: str, defers: bool, settings: engine.Settings) -> None:
    source, late = many(3), FakeSource(name="late")
    death = trio.Event()
    dying = FakeSource(name="dying", work=partial(die, death))
    dying.offer("find_nothing", server="dying")
    model = ScriptedProvider(
        [
            [*call("fake_do_thing_1", {"title": "x"}, id="1"), *done("calls")],
            DONE,
            calls("tool_search", {"query": "find"}),
            uses("late_find", {"query": "x"}),
            DONE,
            calls("fake_do_thing_1", {"title": "x"}),
            calls("tool_search", {"query": "do thing"}),
            calls("dying_find_nothing"),
            DONE,
        ],
        info=ModelInfo(name="host/model", defers_tools=defers),
    )
    async with opened(model, source, late, dying, settings=settings) as eng:
        session = await eng.create_session()
        await run(session)
        late.offer("find", server="late")  # comes late
        await run(session)
        source.offer("do_thing_1", "do_thing_9")  # changes, goes and comes
        death.set()
        await trio.testing.wait_all_tasks_blocked()
        events = await run(session)
    assert "fake_do_thing_1 has changed" in results(events)[0][1]
    assert "There is no tool" in results(events)[2][1]
    assert len({body(request, wire)[0] for request in model.requests}) == 1
    histories = [leaves(request, wire) for request in model.requests]
    assert all(after[: len(before)] == before for before, after in pairwise(histories))


async def die(when: trio.Event) -> None:
    await when.wait()
    raise OSError("the server is gone")


def leaves(request: ModelRequest, wire: str) -> list[object]:
    """Return the texts and numbers in the messages of a request, in order, without the markers of caches."""
    document = json.loads(sent(request, wire))
    [messages] = [document[name] for name in ("messages", "input", "contents") if name in document]
    return list(walk(messages))


def walk(node: object) -> Iterator[object]:
    if isinstance(node, dict):
        for name, member in node.items():
            if name not in {"cache_control", "cachePoint"}:
                yield from walk(member)
    elif isinstance(node, list):
        for item in node:
            yield from walk(item)
    else:
        yield node


async def test_late_tool_is_used_in_the_next_turn() -> None:
    source = FakeSource()
    model = ScriptedProvider([DONE, uses("fake_find"), DONE])
    async with opened(model, source) as eng:
        session = await eng.create_session()
        await run(session)
        source.offer("find")
        events = await run(session)
    assert results(events) == [("completed", "echo {}")]
    assert names(model, 0) == names(model, 2) == ["tool_search", "tool_use"]


async def test_changed_tool_is_shown_before_it_runs() -> None:
    source = FakeSource()
    source.offer("find")
    model = ScriptedProvider([DONE, calls("fake_find", {"query": "x"}), uses("fake_find", {"path": "y"}), DONE])
    async with opened(model, source) as eng:
        session = await eng.create_session()
        await run(session)
        source.offer("find", schema='{"type":"object","properties":{"path":{"type":"string"}}}')
        events = await run(session)
    assert [status for status, _ in results(events)] == ["error", "completed"]
    assert '"path":{"type":"string"}' in results(events)[0][1]
    assert source.calls == ['{"path": "y"}']


async def test_listed_tool_that_went_is_stale() -> None:
    source = FakeSource()
    source.offer("find")
    model = ScriptedProvider([DONE, calls("fake_find"), DONE])
    async with opened(model, source) as eng:
        session = await eng.create_session()
        await run(session)
        source.offer()
        events = await run(session)
    assert "fake_find" in names(model)
    assert results(events) == [("error", "Not executed: There is no tool fake_find any more. Go on without it.")]


# -- what stays revealed ---------------------------------------------------------------------------------


async def test_revealed_tool_survives_a_summary() -> None:
    source = many(30)
    model = ScriptedProvider(
        [
            calls("tool_search", {"query": "fake_do_thing_7", "limit": 1}),
            DONE,
            [*text("A summary of all that was said so far."), *done()],
            DONE,
        ],
    )
    async with opened(model, source, settings=SEARCHING) as eng:
        session = await eng.create_session()
        await run(session)
        await session.context.compact()
        await run(session)
    assert names(model) == ["tool_search", "tool_use", "fake_do_thing_7"]


async def test_revealed_tool_is_known_to_the_next_engine(tmp_path: Path) -> None:
    source = many(30)
    answers = [
        calls("tool_search", {"query": "fake_do_thing_7", "limit": 1}),
        DONE,
        [*text("A summary of all that was said so far."), *done()],
    ]
    async with opened(ScriptedProvider(answers), source, settings=SEARCHING, store=tmp_path / "s.db") as eng:
        session = await eng.create_session()
        await run(session)
        await session.context.compact()
    model = ScriptedProvider([DONE])
    async with opened(model, source, settings=SEARCHING, store=tmp_path / "s.db") as eng:
        await run(await eng.open_session(session.id))
    assert names(model) == ["tool_search", "tool_use", "fake_do_thing_7"]


async def test_revealed_tool_is_a_sub_agents_too() -> None:
    @engine.tool(name="delegate", read_only=True)
    async def delegate(args: Nothing, ctx: ToolContext) -> str:
        """Delegate."""
        return (await ctx.run_agent("do it")).text

    source = many(30)
    model = ScriptedProvider(
        [calls("tool_search", {"query": "fake_do_thing_7", "limit": 1}), calls("delegate"), DONE, DONE]
    )
    async with opened(model, source, settings=SEARCHING, tools=[delegate]) as eng:
        await run(await eng.create_session())
    assert names(model, 2) == ["delegate", "tool_search", "tool_use", "fake_do_thing_7"]


@attrs.frozen
class Nothing:
    """No arguments."""


async def test_agent_has_the_foreign_tools_it_names() -> None:
    source, other = FakeSource(), FakeSource(name="other")
    source.offer("find", "drop")
    other.offer("find", server="other")
    config = Config(agents={"narrow": AgentConfig(tools=("mcp:fake/f*",))})
    model = ScriptedProvider([calls("other_find"), DONE])
    async with opened(model, source, other, config=config) as eng:
        events = await run(await eng.create_session(agent="narrow"))
    assert [name for name in names(model) if not name.startswith("tool_")] == ["fake_find"]
    assert results(events)[0][0] == "error"


# -- hosts that take deferred tools -----------------------------------------------------------------------


DEFERS = ModelInfo(name="anthropic/claude-sonnet-4-5", host="anthropic", defers_tools=True)


async def test_deferred_tools_are_marked_for_their_host() -> None:
    source = many(30)
    found = calls("tool_search", {"query": "fake_do_thing_7", "limit": 1})
    model = ScriptedProvider([found, calls("fake_do_thing_7"), DONE], info=DEFERS)
    async with opened(model, source, settings=SEARCHING) as eng:
        events = await run(await eng.create_session())
    assert [status for status, _ in results(events)] == ["completed", "completed"]
    document = json.loads(sent(model.requests[-1], "anthropic"))
    deferred = [tool["name"] for tool in document["tools"] if tool.get("defer_loading")]
    assert len(deferred) == 30
    assert not any("cache_control" in tool for tool in document["tools"] if tool.get("defer_loading"))
    assert [tool["name"] for tool in document["tools"] if "cache_control" in tool] == ["tool_use"]
    answers = [block for turn in document["messages"] if turn["role"] == "user" for block in turn["content"]]
    assert {"type": "tool_reference", "tool_name": "fake_do_thing_7"} in [
        item
        for block in answers
        if block["type"] == "tool_result"
        for item in block["content"]
        if isinstance(item, dict)
    ]
    made = [
        b["name"]
        for turn in document["messages"]
        if turn["role"] == "assistant"
        for b in turn["content"]
        if b["type"] == "tool_use"
    ]
    assert made == ["tool_search", "fake_do_thing_7"]


async def test_only_deferred_tools_are_referred_to() -> None:
    found = calls("tool_search", {"query": "fake_do_thing_7", "limit": 1})
    model = ScriptedProvider([found, DONE])
    async with opened(model, many(30), settings=SEARCHING) as eng:
        await run(await eng.create_session())
    assert "tool_reference" not in sent(model.requests[-1], "anthropic")
    assert "fake_do_thing_7 (fake says)" in sent(model.requests[-1], "anthropic")


@pytest.mark.parametrize("wire", SPOKEN)
async def test_calls_are_sent_as_they_were_made(wire: str) -> None:
    source = many(30)
    model = ScriptedProvider([uses("fake_do_thing_7", {"title": "x"}), DONE])
    async with opened(model, source, settings=SEARCHING) as eng:
        await run(await eng.create_session())
    made = [call for turn in turns_of(wire, json.loads(sent(model.requests[-1], wire))) for call in turn.calls]
    assert [(one.name, one.arguments) for one in made] == [
        ("tool_use", {"name": "fake_do_thing_7", "arguments": {"title": "x"}})
    ]


@pytest.mark.parametrize(
    ("info", "counted", "is_refused"),
    # A host whose requests hold no deferred tools can't show any, whatever it counts.
    [(DEFERS, 1_500, False), (DEFERS, 30_000, True), (attrs.evolve(DEFERS, sends_deferred=False), 30_000, False)],
    ids=["hides them", "shows them", "gets none"],
)
async def test_host_that_shows_deferred_tools_is_noticed(info: ModelInfo, counted: int, is_refused: bool) -> None:
    def counting(_: ModelRequest) -> Answer:
        return [*text("Done."), *done(usage=Usage(input=counted))]

    model = ScriptedProvider([counting, counting], info=info)
    async with opened(model, many(250), settings=SEARCHING) as eng:
        session = await eng.create_session()
        first, second = await run(session), await run(session)
    said = [
        event.text for event in (*first, *second) if isinstance(event, Notice) and event.code == "tools_not_deferred"
    ]
    assert len(said) == is_refused
    assert len(names(model, 0)) == 252
    assert len(names(model, 1)) == (2 if is_refused else 252)


@pytest.mark.parametrize("wire", ["anthropic", "vertex_anthropic", "openai_responses"])
async def test_refusing_host_is_searched_in_words(wire: str) -> None:
    found = calls("tool_search", {"query": "fake_do_thing_7", "limit": 1})
    counted: Answer = [*call("tool_search", {"query": "xyzzy"}, id="0"), *done("calls", usage=Usage(input=30_000))]
    model = ScriptedProvider([counted, found, uses("fake_do_thing_7", {"title": "x"}), DONE], info=DEFERS)
    async with opened(model, many(250), settings=SEARCHING) as eng:
        events = await run(await eng.create_session())
    assert [status for status, _ in results(events)] == ["completed"] * 3
    assert len([event for event in events if isinstance(event, Notice) and event.code == "tools_not_deferred"]) == 1
    assert [len(request.tools) for request in model.requests] == [252, 2, 2, 2]
    later = model.requests[1:]
    assert len({body(request, wire)[0] for request in later}) == 1
    assert not any(word in sent(request, wire) for request in later for word in ("tool_reference", "tool_search_call"))
    histories = [leaves(request, wire) for request in model.requests]
    assert all(after[: len(before)] == before for before, after in pairwise(histories))


# -- OpenAI: the result of a search defines tools ------------------------------------------------------------


NAMESPACED = ModelInfo(name="openai/gpt-5.6", host="openai", defers_tools=True, sends_deferred=False)


def items(request: ModelRequest, kind: str) -> list[dict[str, Any]]:
    return [item for item in json.loads(sent(request, "openai_responses"))["input"] if item["type"] == kind]


async def test_found_tools_are_defined_by_server() -> None:
    source, other = many(30), FakeSource(name="other")
    other.offer("do_thing_7", server="an other")
    found = calls("tool_search", {"query": "do thing 7", "limit": 2}, id="s")
    made = calls("fake_do_thing_7", {"title": "x"}, id="c")
    model = ScriptedProvider([found, made, DONE], info=NAMESPACED)
    async with opened(model, source, other, settings=SEARCHING) as eng:
        events = await run(await eng.create_session())
    assert [status for status, _ in results(events)] == ["completed", "completed"]
    first, _, last = model.requests
    tools = json.loads(sent(first, "openai_responses"))["tools"]
    assert [(tool["type"], tool.get("name")) for tool in tools] == [("tool_search", None), ("function", "tool_use")]
    assert set(tools[0]["parameters"]["properties"]) == {"query", "limit"}
    [search] = items(last, "tool_search_call")
    [answer] = items(last, "tool_search_output")
    call_id = search["call_id"]
    assert search == {
        "type": "tool_search_call",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "arguments": {"query": "do thing 7", "limit": 2},
    }
    groups = {group["name"]: [tool["name"] for tool in group["tools"]] for group in answer.pop("tools")}
    assert answer == {"type": "tool_search_output", "call_id": call_id, "execution": "client", "status": "completed"}
    assert groups["fake"] == ["fake_do_thing_7"]
    assert [name.rpartition("_")[0] for name in groups["an_other"]] == ["an_other_do_thing_7"]
    [made_call] = items(last, "function_call")
    assert (made_call["name"], made_call["namespace"]) == ("fake_do_thing_7", "fake")
    assert len({body(request, "openai_responses")[0] for request in model.requests}) == 1


async def test_what_defines_no_tool_is_said() -> None:
    late = FakeSource(name="late")
    model = ScriptedProvider(
        [
            DONE,
            calls("tool_search", {"query": "xyzzy"}, id="1"),
            calls("tool_search", {"limit": 99}, id="2"),
            calls("tool_search", {"query": "seek"}, id="3"),
            uses("late_seek", {"query": "x"}),
            DONE,
        ],
        info=NAMESPACED,
    )
    async with opened(model, many(30), late, settings=SEARCHING) as eng:
        session = await eng.create_session()
        await run(session)
        late.offer("seek", server="late")
        events = await run(session)
    assert results(events)[-1] == ("completed", 'echo {"query": "x"}')
    request = model.requests[-1]
    assert [item["tools"] for item in items(request, "tool_search_output")] == [[], [], []]
    said = [item["content"][0]["text"] for item in items(request, "message") if item["role"] == "user"]
    words = [text for text in said if text.startswith("(tool_search: ")]
    expected = ("No tool fits", "must be from 1", "late_seek (late")
    assert all(part in text for part, text in zip(expected, words, strict=True))


async def test_other_responses_hosts_search_in_words() -> None:
    found = calls("tool_search", {"query": "fake_do_thing_7", "limit": 1})
    model = ScriptedProvider([found, DONE], info=NAMESPACED)
    async with opened(model, many(30), settings=SEARCHING) as eng:
        await run(await eng.create_session())
    for host in (host for host in HOSTS if host.wire == "openai_responses" and host.name != "openai"):
        encoder = wire_format(host, quirks_of(host, "gpt-5.6")).encoder()
        document = json.loads(bytes(encoder.encode(attrs.evolve(model.requests[-1], model=f"{host.name}/gpt-5.6"))))
        assert {tool["type"] for tool in document["tools"]} == {"function"}
        assert not any("tool_search" in item["type"] for item in document["input"])
        assert "fake_do_thing_7 (fake says)" in json.dumps(document["input"])
