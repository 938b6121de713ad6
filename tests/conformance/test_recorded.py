"""Every recorded response, replayed over HTTP, reads the same as in the official SDK."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from engine.core.errors import ProviderError
from engine.core.llm_types import Finished, UsageReported
from tests.conformance.answers import Answer, Part, play
from tests.conformance.cases import Case, parameters
from tests.conformance.glued import answers_in, as_one
from tests.conformance.meaning import (
    as_far_as_it_goes,
    check_meaning,
    reasons_of,
    strings_of,
    usage_of,
)
from tests.conformance.rows import WIRES, model_at, row_of

pytestmark = pytest.mark.conformance

# Blocks for which there is a neutral form.
ORDINARY = {
    "anthropic-messages": {"text", "thinking", "redacted_thinking", "tool_use"},
    "openai-responses": {"message", "reasoning", "function_call", "custom_tool_call"},
}


@pytest.mark.parametrize("path", parameters())
async def test_a_recorded_answer(path: Path) -> None:
    case = Case.read(path)
    exchange = case.exchange
    at = partial(model_at, row=row_of(exchange.host, *WIRES[exchange.protocol]), model=case.model)
    seed = crc32(path.name.encode())
    one_by_one: list[Answer] = []
    for single in answers_in(exchange):
        answers = await play(single, at, seed)
        # However the bytes were cut.
        assert [answer.events for answer in answers[1:]] == [answers[0].events] * (len(answers) - 1)
        assert {str(answer.error) for answer in answers} == {str(answers[0].error)}
        assert answers[0].slips.keys() <= slips_of(case)
        one_by_one.append(answers[0])
    if len(one_by_one) > 1:
        check_glued(one_by_one, case)
    else:
        check(one_by_one[0], case)


def slips_of(case: Case) -> set[str]:
    """Return how a host may break its protocol: it does not, but where an editor has shortened a recording's deltas."""
    return {"text_replaced"} if case.extra.get("delta_text_differs_from_final") else set()


def check(answer: Answer, case: Case) -> None:
    """Compare all that a case tells."""
    check_error(answer.error, case)
    assert answer.text("text") == case.expected["text"]
    assert answer.text("reasoning") == case.expected["reasoning"]
    check_calls(answer.of("call"), case)
    check_usage(answer, case)
    check_end(answer, case)
    check_thoughts(answer, case)
    check_extra(answer, case.extra)
    check_items(answer, case)


def check_error(error: ProviderError | None, case: Case) -> None:
    expected = case.expected["error"]
    if expected is None:
        assert error is None
        return
    check_meaning(error, expected["meaning"])
    assert not expected["message"] or " ".join(expected["message"].split())[:500] in str(error)
    assert case.exchange.status == 200 or (error is not None and error.status == case.exchange.status)


def check_calls(ours: list[Part], case: Case) -> None:
    expected: list[dict[str, Any]] = case.expected["tool_calls"]
    # A call of nothing can't be run: a host that always sends the field means none by it.
    named = [call for call in expected if call["name"]]
    assert [part.tool for part in ours] == [call["name"] for call in named]
    assert len({part.provider_id for part in ours}) == len(ours)
    for part, call in zip(ours, named, strict=True):
        assert part.provider_id
        assert call["id"] in {None, part.provider_id}
        if case.exchange.protocol == "gemini" and not call["id"]:
            assert part.provider_id.startswith("#")  # an id of the engine's own
        check_arguments(part, call)


def check_arguments(part: Part, call: dict[str, Any]) -> None:
    if call["arguments"] is None:  # no JSON: cut by the token limit, or a tool of free form
        raw = call["arguments_raw"]
        assert part.complete is (call.get("kind") == "custom")
        assert strings_of(json.loads(part.text)) == [raw] if part.complete else part.text == raw
    elif part.complete:
        assert json.loads(part.text or "{}") == call["arguments"]
    else:
        assert as_far_as_it_goes(part.text) == call["arguments"]


def check_usage(answer: Answer, case: Case) -> None:
    reports = sum(isinstance(event, UsageReported) for event in answer.events)
    # An SDK raises before it reads the usage that came with an error: ours may know more.
    assert answer.usage == usage_of(case) or (answer.error is not None and case.expected["usage_raw"] is None)
    if answer.error is None and case.exchange.protocol in {"bedrock-converse", "cohere-v2"}:
        assert reports == 1
    if case.exchange.protocol == "openai-responses" and not case.expected["usage_raw"]:
        assert not reports


def check_end(answer: Answer, case: Case) -> None:
    if case.expected["error"] is not None:
        assert answer.finished is None
        return
    assert answer.finished is not None
    assert [event for event in answer.events if isinstance(event, Finished)] == [answer.events[-1]]
    assert (answer.finished.raw or None) == (case.expected["finish_reason_raw"] or None)
    reasons = reasons_of(case)
    assert not reasons or answer.finished.reason in reasons
    is_openai = "chat" in case.exchange.protocol or case.exchange.protocol == "openai-responses"
    if is_openai or case.extra.get("refusal"):
        assert answer.finished.detail == case.extra.get("refusal", "")
    if case.exchange.protocol == "gemini" or "chat" in case.exchange.protocol:
        assert (answer.finished.reason == "calls") is any(part.complete for part in answer.of("call"))
    if case.extra.get("stop_sequence"):
        assert answer.finished.detail == case.extra["stop_sequence"]


def check_thoughts(answer: Answer, case: Case) -> None:
    thoughts = answer.of("reasoning")
    signatures = [part.signature for part in thoughts if part.signature]
    if case.exchange.protocol == "openai-responses":
        # One that holds nothing encrypted only says which item the thinking was.
        signatures = [signature for signature in signatures if "encrypted_content" in json.loads(signature)]
    got = (len(signatures), sum(bool(part.redacted) for part in thoughts))
    assert got == (case.extra.get("signatures", 0), case.extra.get("redacted", 0))


def check_extra(answer: Answer, extra: dict[str, Any]) -> None:
    assert sum(len(part.citations) for part in answer.of("text")) == extra.get("citations", 0)
    items = [json.loads(part.text) for part in answer.of("provider")]
    for call in extra.get("server_tool_calls", ()):
        names = {folded(value) for name, value in call.items() if name in {"id", "name"}}
        assert any(
            names <= {folded(word) for word in (part.item, *strings_of(item))}
            for part, item in zip(answer.of("provider"), items, strict=True)
        )
    plans = [item["tool_plan"] for item in items if "tool_plan" in item]
    assert "".join(plans) == extra.get("tool_plan", "")
    if "images" in extra:
        assert sum(len(text) > 1_000 for item in items for text in strings_of(item)) >= extra["images"]


def folded(name: str) -> str:
    """Return a name as it is compared: SDKs write Google's in other ways than the wire (`ToolType.FILE_SEARCH`)."""
    return name.rpartition(".")[2].replace("_", "").lower()


def check_items(answer: Answer, case: Case) -> None:
    """Compare what only its host understands, in order, where a recording tells it."""
    items = answer.of("provider")
    # Of a message that we keep as text, it is an item of its own.
    phases = [part for part in items if part.item == "phase"]
    assert [json.loads(part.text)["phase"] for part in phases] == [
        name for name in case.extra.get("phases", ()) if name
    ]
    ordinary = ORDINARY.get(case.exchange.protocol)
    if ordinary is not None and "blocks" in case.extra:
        special = [kind for kind in case.extra["blocks"] if kind not in ordinary]
        assert [part.item for part in items if part not in phases] == special


def check_glued(answers: list[Answer], case: Case) -> None:
    """Compare what is the same however an SDK mixes answers up."""
    assert [answer.error for answer in answers] == [None] * len(answers)
    parts = [part for answer in answers for part in answer.parts]
    views = [as_one(answers), answers[0].parts, answers[-1].parts, parts]
    assert case.expected["text"] in ["".join(p.text for p in view if p.kind == "text") for view in views]
    called = [(call["id"], call["name"]) for call in case.expected["tool_calls"]]
    assert called in [[(p.provider_id, p.tool) for p in view if p.kind == "call"] for view in views]
    assert case.expected["finish_reason_raw"] in [answer.finished.raw for answer in answers if answer.finished]
