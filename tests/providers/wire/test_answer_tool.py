"""Structured answers through a tool, for hosts without schemas for answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

import engine
from engine.config.config import Config, HostConfig
from engine.core.errors import ConfigError
from engine.core.llm_types import (
    Finished,
    ModelRequest,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    ToolSchema,
)
from engine.core.messages import AssistantMessage, Transcript
from engine.permission.allow_all import AllowAll
from engine.providers.wire.answer_tool import ANSWER_TOOL, offer_answer, with_answer_tool
from engine.session.engine_options import PermissionOptions
from engine.session.session import Session
from engine.testing.http_server import ScriptedServer
from engine.testing.script import Answer, call, done, text
from tests.support.bench import Bench


@attrs.frozen
class Report:
    """What was found."""

    title: str
    count: int


GOOD = {"title": "All well", "count": 3}
CONFIG = Config(
    hosts={
        "odd": HostConfig(like="anthropic", title="Odd", key="", auth="none", quirks={"output": "tool"}, base_url="x")
    }
)


@asynccontextmanager
async def session_with(*script: Answer, bench: Bench | None = None) -> AsyncGenerator[tuple[Session, ScriptedServer]]:
    server = ScriptedServer(list(script))
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        config = attrs.evolve(CONFIG, hosts={"odd": attrs.evolve(CONFIG.hosts["odd"], base_url=url)})
        tools = () if bench is None else bench.tools()
        async with engine.open_engine(
            model="odd/model", config=config, tools=tools, permissions=PermissionOptions(approver=AllowAll())
        ) as eng:
            yield await eng.create_session(), server
        nursery.cancel_scope.cancel(reason="the test is over")


async def test_a_tool_s_arguments_become_the_answer() -> None:
    async with session_with([*text("Here it is."), *call(ANSWER_TOOL, GOOD, id="1", pieces=4), *done("calls")]) as (
        s,
        server,
    ):
        result = await s.run("report", output=Report)
    assert (result.stop_reason, result.value) == ("completed", Report("All well", 3))
    body = server.requests[0].json
    assert body["tool_choice"] == {"type": "any"}
    assert [tool["name"] for tool in body["tools"]] == [ANSWER_TOOL]  # type: ignore[attr-defined]
    assert "output_config" not in body
    (_, message) = s.state.transcript
    assert isinstance(message, AssistantMessage)
    assert not message.calls, "in the transcript it is what the model said"


async def test_other_tools_run_first() -> None:
    bench = Bench()
    work = [*call("read", {"name": "a"}, id="1"), *done("calls")]
    async with session_with(work, [*call(ANSWER_TOOL, GOOD, id="2"), *done("calls")], bench=bench) as (s, server):
        result = await s.run("report", output=Report)
    assert result.value == Report("All well", 3)
    assert bench.log == ["+a", "-a"]
    assert server.requests[0].json["tools"] == server.requests[1].json["tools"], "the same beginning for the cache"


async def test_mismatched_answer_is_repaired_once() -> None:
    bad = [*call(ANSWER_TOOL, {"title": "x"}, id="1"), *done("calls")]
    async with session_with(bad, [*call(ANSWER_TOOL, GOOD, id="1"), *done("calls")]) as (s, server):
        result = await s.run("report", output=Report)
    assert result.value == Report("All well", 3)
    assert "count: is required" in server.requests[1].text
    async with session_with(bad, bad) as (s, server):
        result = await s.run("report", output=Report)
    assert (result.stop_reason, result.value, len(server.requests)) == ("incomplete", None, 2)


async def test_text_instead_of_the_answer_tool() -> None:
    async with session_with([*text('{"title": "Plain", "count": 1}'), *done()]) as (s, _):
        result = await s.run("report", output=Report)
    assert result.value == Report("Plain", 1)


async def test_without_a_schema_nothing_is_different() -> None:
    async with session_with([*text("Hello."), *done()]) as (s, server):
        result = await s.run("hello")
    assert (result.text, "tools" in server.requests[0].json) == ("Hello.", False)


def test_a_tool_of_that_name_is_refused() -> None:
    request = ModelRequest(
        model="odd/model",
        system="",
        transcript=Transcript(),
        tools=(ToolSchema(name=ANSWER_TOOL, description="mine", schema="{}"),),
        output_schema="{}",
    )
    with pytest.raises(ConfigError, match=ANSWER_TOOL):
        offer_answer(request)
    assert offer_answer(attrs.evolve(request, output_schema=None)).tools == request.tools


@attrs.define(eq=False)
class EventDecoder:
    """Stands for a decoder: *events* come at once."""

    events: list[StreamEvent]
    is_over: bool = True

    def feed(self, data: bytes) -> list[StreamEvent]:
        return self.events if data else []

    def close(self) -> list[StreamEvent]:
        return []


@pytest.mark.parametrize("pieces", [["{", "}"], []], ids=["streamed", "at once"])
def test_repeated_arguments_are_one_answer(pieces: list[str]) -> None:
    """Some hosts stream them, and say the whole at the end."""
    from engine.providers.anthropic.wire import wire
    from engine.providers.wire.quirks import Quirks

    events: list[StreamEvent] = [ToolCallStarted("1", ANSWER_TOOL)]
    events += [*(ToolCallChunk("1", piece) for piece in pieces), ToolCallDone("1", "{}")]
    plain = attrs.evolve(wire(Quirks()), decoder=lambda *_: EventDecoder(events))
    decoder = with_answer_tool(plain).decoder("")
    assert decoder is not None
    out = decoder.feed(b"x")
    assert "".join(event.text for event in out if isinstance(event, TextChunk)) == "{}"


def test_the_events_of_a_stream_in_any_cut() -> None:
    from engine.providers.anthropic.wire import wire
    from engine.providers.wire.quirks import Quirks
    from engine.testing.anthropic_writer import AnthropicWriter

    writer = AnthropicWriter("m")
    body = b"".join(writer.write(e) for e in (*call(ANSWER_TOOL, GOOD, id="1", pieces=3), *done("calls")))
    for size in (1, 7, len(body)):
        decoder = with_answer_tool(wire(Quirks())).decoder("text/event-stream")
        assert decoder is not None
        events = [e for n in range(0, len(body), size) for e in decoder.feed(body[n : n + size])] + decoder.close()
        kinds = [event for event in events if isinstance(event, (TextStarted, TextChunk, TextDone, Finished))]
        assert "".join(e.text for e in kinds if isinstance(e, TextChunk)) == '{"title": "All well", "count": 3}'
        assert (type(kinds[0]), type(kinds[-2])) == (TextStarted, TextDone)
        assert kinds[-1] == Finished("stop", "tool_use")
