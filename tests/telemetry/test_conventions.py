"""The names of spans, attributes and metrics: those of the convention that is named, and no others."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest
from opentelemetry.semconv.schemas import Schemas

import engine
from engine.core.llm_types import Finished
from engine.core.messages import Usage
from engine.options import Ports
from engine.telemetry.conventions import FROZEN, LATEST, convention
from engine.testing import ScriptedProvider, done, text
from tests.support.recorded_spans import RecordedSpans


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
