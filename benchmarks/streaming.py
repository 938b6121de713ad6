"""Figure `streaming`: an answer's deltas over the loopback, versus bare httpx and the official SDKs."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import attrs
import httpx
import trio

from benchmarks.report import Figure, Row, interleaved, rate
from benchmarks.stream_server import pieces_of, stream_server
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import ModelRequest, TextChunk
from engine.core.messages import TextPart, Transcript, UserMessage
from engine.providers.registry import resolve

COUNT = 50_000
ROUNDS = 3
MESSAGES: list[dict[str, str]] = [{"role": "user", "content": "go"}]
# Reads one answer from a URL, and returns its deltas of text.
Reader = Callable[[str], Awaitable[list[str]]]


def seconds_of(read: Reader, url: str, count: int = COUNT) -> float:
    """Return the CPU seconds that *read* takes for an answer of so many deltas."""

    async def main() -> float:
        began = time.process_time()
        pieces = await read(url)
        took = time.process_time() - began
        assert pieces == pieces_of(count), f"{len(pieces)} of {count} deltas came as they were sent"
        return took

    return trio.run(main)


# -- ours ----------------------------------------------------------------------------


async def ours(url: str, *, model: str, key: str, base: str, path: str = "") -> list[str]:
    """Read with the engine's own model, from the request to its end."""
    connected = resolve(model, {key: "k", base: url + path})
    said = UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("p"), text="go"),))
    stream = await connected.open(ModelRequest(model=model, system="", transcript=Transcript([said])))
    pieces: list[str] = []
    while batch := await stream.receive():
        pieces += [event.text for event in batch if type(event) is TextChunk]
    await stream.aclose()
    await connected.aclose()
    return pieces


# -- the baselines ----------------------------------------------------------------------


async def bare(url: str, *, path: str, text: Callable[[dict[str, Any]], str | None]) -> list[str]:
    """Read with httpx line by line, and parse each."""
    async with (
        httpx.AsyncClient(timeout=60, trust_env=False) as client,
        client.stream("POST", url + path, json={"messages": MESSAGES}) as response,
    ):
        return [
            piece
            async for line in response.aiter_lines()
            if line.startswith("data: ") and line != "data: [DONE]" and (piece := text(json.loads(line[6:])))
        ]


def anthropic_text(event: dict[str, Any]) -> str | None:
    return event["delta"]["text"] if event["type"] == "content_block_delta" else None


def openai_text(event: dict[str, Any]) -> str | None:
    return event["choices"][0]["delta"].get("content") if event["choices"] else None


async def anthropic_events(url: str) -> list[str]:
    """Read with Anthropic's SDK: its stream of events."""
    client = import_module("anthropic").AsyncAnthropic(api_key="k", base_url=url, max_retries=0)
    stream = await client.messages.create(model="m", max_tokens=1, messages=MESSAGES, stream=True)
    pieces = [event.delta.text async for event in stream if event.type == "content_block_delta"]
    await client.close()
    return pieces


async def anthropic_messages(url: str) -> list[str]:
    """Read with Anthropic's SDK: its helper, which gathers the message too."""
    client = import_module("anthropic").AsyncAnthropic(api_key="k", base_url=url, max_retries=0)
    async with client.messages.stream(model="m", max_tokens=1, messages=MESSAGES) as stream:
        pieces = [text async for text in stream.text_stream]
    await client.close()
    return pieces


async def openai_chunks(url: str) -> list[str]:
    """Read with OpenAI's SDK: its stream of chunks."""
    client = import_module("openai").AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
    stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
    found = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
    await client.close()
    return [piece for piece in found if piece]


# -- the figure --------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Provider:
    """Whose format it is, and who else can read it.

    Attributes:
        package: its official SDK.
        sdk: ways to read with that, by name.
    """

    name: str
    package: str
    ours: Reader
    bare: Reader
    sdk: dict[str, Reader]


PROVIDERS = (
    Provider(
        name="Anthropic",
        package="anthropic",
        ours=partial(ours, model="anthropic/claude-sonnet-4-5", key="ANTHROPIC_API_KEY", base="ANTHROPIC_BASE_URL"),
        bare=partial(bare, path="/v1/messages", text=anthropic_text),
        sdk={"messages.stream": anthropic_messages, "messages.create": anthropic_events},
    ),
    Provider(
        name="OpenAI chat",
        package="openai",
        ours=partial(ours, model="openai-chat/m", key="OPENAI_API_KEY", base="OPENAI_BASE_URL", path="/v1"),
        bare=partial(bare, path="/v1/chat/completions", text=openai_text),
        sdk={"chat.completions.create": openai_chunks},
    ),
)


def measure() -> list[Row]:
    with stream_server(COUNT) as url:
        return [row for provider in PROVIDERS for row in rows_of(provider, url)]


def rows_of(provider: Provider, url: str) -> list[Row]:
    sdk = provider.sdk if find_spec(provider.package) else {}
    readers = (provider.ours, provider.bare, *sdk.values())
    for read in readers:
        seconds_of(read, url)
    taken = interleaved(ROUNDS, *(partial(seconds_of, read, url) for read in readers))
    # The best of each: the rest is how long others kept the cores (`docs/benchmarks.md`).
    mine, httpx_alone, *of_sdk = (COUNT / min(samples) for samples in taken)
    rows = [
        Row(
            name=f"streaming: {provider.name} deltas, versus bare httpx + json.loads",
            measured=rate(mine),
            baseline=rate(httpx_alone),
            ratio=mine / httpx_alone,
            target="≥ 0.60",
            ok=mine >= 0.6 * httpx_alone,
        )
    ]
    if not sdk:
        name = "streaming: the same, versus the SDK: not installed, see `make bench`"
        return [*rows, Row(name=name, measured=rate(mine), target="≥ 5")]
    return rows + [
        Row(
            name=f"streaming: the same, versus {provider.package} {release(provider.package)}, {way}",
            measured=rate(mine),
            baseline=rate(theirs),
            ratio=mine / theirs,
            target="≥ 5",
            ok=mine >= 5 * theirs,
        )
        for way, theirs in zip(sdk, of_sdk, strict=True)
    ]


def release(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(?)"


def workload() -> object:
    """Read an answer of each format."""
    with stream_server(COUNT) as url:
        return [seconds_of(provider.ours, url) for provider in PROVIDERS]


FIGURE = Figure(
    name="streaming",
    about="deltas of a real stream per CPU second, versus bare httpx and the official SDKs",
    measure=measure,
    workload=workload,
)
