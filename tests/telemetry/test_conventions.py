"""The names of spans, attributes and metrics: those of the convention that is named, and no others."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import attrs
import pytest
from opentelemetry.semconv.schemas import Schemas

import engine
from engine.core.llm_types import Finished, ModelOptions, UsageReported
from engine.core.messages import Usage
from engine.options import ContextOptions, Ports
from engine.telemetry.conventions import FROZEN, LATEST, convention
from engine.testing import HttpFailure, ScriptedKeeper, ScriptedProvider, call, done, text
from tests.support.recorded_spans import RecordedSpans


@attrs.frozen
class Nothing:
    """No arguments."""


def published() -> set[str]:
    """All names of the conventions that the SDK's package lists."""
    found: set[str] = set()
    for name in ("attributes", "metrics"):
        package = import_module(f"opentelemetry.semconv._incubating.{name}")
        for module in pkgutil.iter_modules(package.__path__):
            values = vars(import_module(f"{package.__name__}.{module.name}")).values()
            found |= {value for value in values if isinstance(value, str)}
    return found


async def recorded() -> RecordedSpans:
    spans = RecordedSpans()
    usage = Usage(input=10, output=5, cache_read=90, cache_write=7, reasoning=2)
    model = ScriptedProvider([[*text("Yes."), *done(usage=usage)]])
    async with engine.open_engine(model=model, ports=Ports(telemetry=spans.telemetry())) as eng:
        await (await eng.create_session()).run("Begin.")
    return spans


async def test_frozen_names_are_published() -> None:
    spans, known = await recorded(), published()
    names = {name for span in spans.ended for name in span.attributes or {}} | set(spans.metrics())
    # In the conventions' own repository since August 2026; it replaces none.
    assert {name for name in names if not name.startswith("engine.")} - known == set()
    assert FROZEN.schema_url in {schema.value for schema in Schemas}


async def test_environment_selects_the_newest_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, gen_ai_latest_experimental")
    spans = await recorded()
    (chat,) = spans.named("chat model")
    assert (chat.attributes or {})[LATEST.cache_write] == 7
    assert FROZEN.cache_write not in (chat.attributes or {})
    assert LATEST.chat_seconds in spans.metrics()


COMMON = {"gen_ai.conversation.id", "session.id", "user.id", "engine.turn_id"}
SPENT = {
    *(f"gen_ai.usage.{name}" for name in ("input_tokens", "output_tokens", "cache_read.input_tokens")),
    *("gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.reasoning.output_tokens", "engine.cost"),
}
OF_MODEL = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"}
ATTRIBUTES = {
    "invoke_agent": {"gen_ai.agent.id", "engine.path", "engine.steps", "engine.stop_reason", *OF_MODEL, *SPENT},
    "chat model": {
        *("gen_ai.request.max_tokens", "gen_ai.request.reasoning.level"),
        *(f"gen_ai.response.{name}" for name in ("id", "model", "finish_reasons", "time_to_first_chunk")),
        *OF_MODEL,
        *SPENT,
    },
    "execute_tool look": {
        "gen_ai.operation.name",
        *(f"gen_ai.tool.{name}" for name in ("name", "call.id", "type")),
    },
    "engine.store.flush": set[str](),
}
METRICS = {
    *("gen_ai.client.inference.duration", "gen_ai.client.inference.time_to_first_chunk", "gen_ai.client.token.usage"),
    *("gen_ai.execute_tool.duration", "engine.retries", "engine.cache.share", "engine.sessions.open"),
    "engine.store.flush.duration",
}


async def test_everything_is_named(monkeypatch: pytest.MonkeyPatch, autojump_clock: object) -> None:
    """The other metrics need a wait, a cancel or a crash: `test_span_tree`, `test_recovered_turns`."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")

    @engine.tool(read_only=True)
    async def look(args: Nothing, ctx: engine.ToolContext) -> str:
        """Look."""
        return "seen"

    spans, usage = RecordedSpans(), UsageReported(Usage(input=10, output=5, cache_read=90, cache_write=7, reasoning=2))
    calls = [*call("look", {}, id="1"), usage, Finished("calls", response_id="r1", response_model="m")]
    model = ScriptedProvider([[HttpFailure(529)], calls, [*text("Yes."), usage, Finished("stop", None, "", "r2", "m")]])
    settings = engine.Settings(options=ModelOptions(effort="high"))
    async with engine.open_engine(
        model=model, tools=[look], settings=settings, ports=Ports(telemetry=spans.telemetry(user="u1"))
    ) as eng:
        await (await eng.create_session()).run("Begin.")
    for name, own in ATTRIBUTES.items():
        assert {attribute for span in spans.named(name) for attribute in span.attributes or {}} == {*COMMON, *own}, name
    assert set(spans.metrics()) == METRICS


async def test_summarised_conversation_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    spans, keeper = RecordedSpans(), ScriptedKeeper()
    model = ScriptedProvider([[*text("Yes."), *done()]], repeat=True)
    async with engine.open_engine(
        model=model, context=ContextOptions(keeper=keeper), ports=Ports(telemetry=spans.telemetry())
    ) as eng:
        session = await eng.create_session()
        await session.run("Begin.")
        keeper.compacts.append(lambda view: view.transcript[-1:])
        await session.run("Go on.")
    marks = [(span.attributes or {}).get("gen_ai.conversation.compacted") for span in spans.named("invoke_agent")]
    assert marks == [None, True]


def test_convention_is_frozen_by_default() -> None:
    assert convention({}) is convention({"OTEL_SEMCONV_STABILITY_OPT_IN": "http/dup"}) is FROZEN


async def test_usage_counts_cached_tokens_as_input() -> None:
    spans = await recorded()
    (chat,) = spans.named("chat model")
    facts = chat.attributes or {}
    assert facts["gen_ai.usage.input_tokens"] == 107
    assert facts["gen_ai.usage.cache_read.input_tokens"] == 90
    assert facts["gen_ai.response.finish_reasons"] == ("stop",)


async def test_span_names_the_hosts_answer() -> None:
    spans = RecordedSpans()
    finished = Finished("stop", response_id="r1", response_model="model-2026")
    model = ScriptedProvider([[*text("Yes."), finished], [*text("Yes."), *done()]])
    async with engine.open_engine(model=model, ports=Ports(telemetry=spans.telemetry())) as eng:
        session = await eng.create_session()
        for _ in range(2):
            await session.run("Begin.")
    first, second = (span.attributes or {} for span in spans.named("chat model"))
    assert (first["gen_ai.response.id"], first["gen_ai.response.model"]) == ("r1", "model-2026")
    assert not [name for name in second if name.startswith("gen_ai.response.") and name.endswith((".id", ".model"))]
