"""T22 over every wire format and every host: any transcript, by whatever models, is a request that the host takes."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from typing import Any, get_args

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from engine.config.host_values import WireName
from engine.core.errors import ConfigError
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import Effort, ModelOptions, ModelRequest, ToolChoice, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    Transcript,
    UserMessage,
)
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_table import HOSTS
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.registry import wire_format
from engine.providers.wire.normalize_transcript import safe_tool
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireEncoder
from engine.testing.transcript_strategies import Items, asks, hosted_work, item_of, signature_of, transcripts
from tests.properties.bodies import MARKS, Turn, messages_of, turns_of

pytestmark = pytest.mark.slow

WIRES: tuple[WireName, ...] = get_args(WireName)
SPOKEN = [wire for wire in WIRES if find_spec(f"engine.providers.{wire}.wire") is not None]
READ = ToolSchema(
    name="read",
    description="Read a file.",
    schema='{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}',
)
SCHEMA = '{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}'
CHOICES: st.SearchStrategy[ToolChoice] = st.sampled_from(["auto", "none", "required"])
MARK_NAMES = {"cache_control", "cachePoint", "prompt_cache_breakpoint"}
EFFORTS: tuple[Effort, ...] = get_args(Effort)
# Who has spoken before: models of six wire formats, and two of each host that is asked.
STRANGERS = (
    "anthropic/claude-sonnet-4-5",
    "openai/gpt-5",
    "google/gemini-2.5-pro",
    "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "mistral/mistral-large-latest",
    "deepseek/deepseek-reasoner",
    "cohere/command-a-03-2025",
)


# What a host's own items look like to the wire format that sends them back.
OWN_ITEMS: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [],
    "openai_responses": [{"type": "web_search_call", "id": "ws_1", "status": "completed"}],
    "gemini": [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    ],
    "bedrock": [
        {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}},
        {"toolResult": {"toolUseId": "s1", "content": [{"text": "found"}]}},
    ],
    "cohere": [{"tool_plan": "I will look."}],
}


def items_of(wire: str, provider: str) -> Items:
    """Return what makes the items of models: those of *provider* as *wire* has them."""

    def items(model: str) -> st.SearchStrategy[ProviderPart]:
        if model.partition("/")[0] != provider or wire not in OWN_ITEMS:
            return hosted_work(model)
        own = [
            ProviderPart(id=PartId("h"), kind=str(item.get("type") or next(iter(item))), data=data, model=model)
            for item in OWN_ITEMS[wire]
            for data in (json.dumps(item), json.dumps(item), "{")
        ]
        nothing = ProviderPart(id=PartId("h"), kind="x", data="[]", model=model)
        return st.sampled_from(own or [nothing])

    return items


def hosts_of(wire: str) -> list[Host]:
    return [host for host in HOSTS if host.wire == wire]


def model_of(host: Host) -> str:
    return f"{host.name}/{host.example}"


@st.composite
def requests(draw: st.DrawFn, *, wire: str, wild: bool = False) -> tuple[Host, Quirks, ModelRequest]:
    """A request to one of the hosts that speak *wire*."""
    host = draw(st.sampled_from(hosts_of(wire)))
    model = model_of(host)
    speakers = (model, *draw(st.lists(st.sampled_from(STRANGERS), max_size=2)), f"{host.name}/another")
    messages = draw(transcripts(models=speakers, wild=wild, items=items_of(wire, host.name)))
    options = ModelOptions(
        effort=draw(st.none() | st.sampled_from(EFFORTS)),
        temperature=draw(st.none() | st.just(0.3)),
        cache=draw(st.sampled_from([None, "off", "5m", "1h"])),
    )
    request = ModelRequest(
        model=model,
        system=draw(st.sampled_from(["be brief", "", " ", "naïve \ud83d"])),
        transcript=Transcript(messages),
        tools=draw(st.sampled_from([(), (READ,)])),
        tool_choice=draw(CHOICES),
        max_output=draw(st.sampled_from([1_000, 60_000])),
        output_schema=draw(st.sampled_from([None, None, SCHEMA])),
        reasoning_from=draw(st.sampled_from([0, 0, 3])),
        session_id=draw(st.sampled_from(["", "s1"])),
        options=options,
    )
    return host, quirks_of(host, host.example), request


def encoder_of(host: Host, quirks: Quirks) -> WireEncoder:
    return wire_format(host, quirks).encoder()


def encode(host: Host, quirks: Quirks, request: ModelRequest) -> bytes:
    return bytes(encoder_of(host, quirks).encode(request))


def calls_in(messages: Transcript) -> list[CallPart]:
    return [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]


def check(wire: str, data: bytes, quirks: Quirks, request: ModelRequest) -> list[Turn]:
    """Assert what T22 promises of every request."""
    body: dict[str, Any] = json.loads(data.decode())
    turns = turns_of(wire, body)
    assert turns[0].role == "user"
    ids: list[str] = []
    for place, turn in enumerate(turns):
        if turn.calls:
            answers = turns[place + 1]
            assert answers.role == "results"
            assert answers.answers == [call.id for call in turn.calls]
            ids += answers.answers
        if turn.role == "results":
            assert turns[place - 1].calls
        if turn.role == "user" and place and quirks.assistant_after_results:
            assert turns[place - 1].role != "results"
    assert len(ids) == len(set(ids))
    if quirks.call_ids == "nine":
        assert all(re.fullmatch(r"[A-Za-z0-9]{9}", each) for each in ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call.name) for turn in turns for call in turn.calls)
    assert sum(data.count(mark) for mark in MARKS) <= 4
    check_nothing_foreign(data, request)
    return turns


def check_nothing_foreign(data: bytes, request: ModelRequest) -> None:
    provider = request.model.partition("/")[0]
    for message in request.transcript:
        for part in message.parts if isinstance(message, AssistantMessage) else ():
            if isinstance(part, ReasoningPart) and part.model != request.model:
                assert signature_of(part.model).encode() not in data
            if isinstance(part, ProviderPart) and part.model.partition("/")[0] != provider:
                assert item_of(part.model).encode() not in data


# -- any transcript -------------------------------------------------------------------


@pytest.mark.parametrize("wire", SPOKEN)
@hypothesis.settings(max_examples=3 * hypothesis.settings().max_examples // 2)
@hypothesis.given(data=st.data())
def test_a_transcript_continues_at_any_other_host(wire: str, data: st.DataObject) -> None:
    host, quirks, request = data.draw(requests(wire=wire))
    turns = check(wire, encode(host, quirks, request), quirks, request)
    sent = [call for turn in turns for call in turn.calls]
    # None is lost, each under an id of its own, in their order.
    assert [call.name for call in sent] == [safe_tool(call.tool) for call in calls_in(request.transcript)]
    assert turns[-1].role != "assistant"


@pytest.mark.parametrize("wire", SPOKEN)
@hypothesis.given(data=st.data())
def test_any_transcript_is_request_or_typed_error(wire: str, data: st.DataObject) -> None:
    host, quirks, request = data.draw(requests(wire=wire, wild=True))
    try:
        encoded = encode(host, quirks, request)
    except ConfigError:
        return
    check(wire, encoded, quirks, request)


# -- a session ------------------------------------------------------------------------


@pytest.mark.parametrize("wire", SPOKEN)
@hypothesis.settings(max_examples=3 * hypothesis.settings().max_examples // 5)
@hypothesis.given(data=st.data())
def test_each_request_extends_the_one_before(wire: str, data: st.DataObject) -> None:
    host, quirks, request = data.draw(requests(wire=wire))
    request = attrs.evolve(request, session_id="s1", options=attrs.evolve(request.options, cache="off"))
    encoder = encoder_of(host, quirks)
    before = b""
    transcript = Transcript()
    for message in request.transcript:
        transcript = transcript.append(message)
        if not asks(message):
            continue
        step = attrs.evolve(request, transcript=transcript, tool_choice=data.draw(CHOICES))
        body = encoder.encode(step)
        assert body.broken_at == ""
        assert bytes(body) == encode(host, quirks, step)
        start = messages_of(wire, bytes(body))
        assert start.startswith(before)
        before = start


WRITE = attrs.evolve(READ, name="write")


@pytest.mark.parametrize("wire", SPOKEN)
@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"max_output": 1_000, "tool_choice": "none"}, ""),
        ({"system": "be long"}, "system"),
        ({"tools": (READ, attrs.evolve(WRITE, description="Other."))}, "tool write"),
        ({"tools": (READ,)}, "tool write"),
        ({"reasoning_from": 1}, "history"),
    ],
)
def test_broken_prefix_is_named(wire: str, changes: dict[str, Any], at: str) -> None:
    for host in hosts_of(wire):
        words = UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("t"), text="go"),))
        request = ModelRequest(
            model=model_of(host),
            system="be brief",
            transcript=Transcript([words]),
            tools=(READ, WRITE),
            session_id="s1",
        )
        encoder = encoder_of(host, quirks_of(host, host.example))
        assert encoder.encode(request).broken_at == ""
        longer = attrs.evolve(request, transcript=request.transcript.append(words), **changes)
        assert encoder.encode(longer).broken_at == at, host.name


@pytest.mark.parametrize("wire", SPOKEN)
@hypothesis.settings(max_examples=2 * hypothesis.settings().max_examples // 5)
@hypothesis.given(data=st.data())
def test_markers_change_nothing_but_themselves(wire: str, data: st.DataObject) -> None:
    host, quirks, request = data.draw(requests(wire=wire))
    marked, bare = (
        json.loads(encode(host, quirks, attrs.evolve(request, options=attrs.evolve(request.options, cache=cache))))
        for cache in ("5m", "off")
    )
    assert without_marks(marked) == without_marks(bare)


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: without_marks(each) for name, each in value.items() if name not in MARK_NAMES}
        return kept or None
    if isinstance(value, list):
        return [kept for each in value if (kept := without_marks(each)) is not None]
    return value
