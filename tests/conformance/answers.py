"""Plays a recorded response over HTTP, and collects what the engine makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import aclosing

import attrs
import trio

from engine.core.errors import ProviderError
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import Finished, ModelRequest, Ping, StreamEvent, UsageReported
from engine.core.messages import Citation, TextPart, Transcript, Usage, UserMessage
from engine.nursery.stream_parser import (
    CloseBlock,
    CloseCall,
    CloseItem,
    Command,
    Grow,
    OpenBlock,
    Restart,
    StreamParser,
)
from engine.providers.http.http_model import HttpModel
from engine.testing.cassette import Exchange
from engine.testing.fakes import CountingIds
from engine.testing.replay import ReplayServer

# HTTP chunks of one byte are slow to read: only short bodies are cut so fine.
_SHORT = 3_000
_CHUNKS = 120


@attrs.define(eq=False)
class Part:
    """A part of the answer: a block of text or thinking, a call, or an item of the host's own."""

    kind: str
    text: str = ""
    tool: str = ""
    provider_id: str = ""
    complete: bool = True
    signature: str | None = None
    redacted: str | None = None
    citations: tuple[Citation, ...] = ()
    item: str = ""


@attrs.frozen(kw_only=True)
class Answer:
    """All that came of one request."""

    events: Sequence[StreamEvent] = ()
    parts: Sequence[Part] = ()
    slips: dict[str, int]
    error: ProviderError | None = None

    @property
    def finished(self) -> Finished | None:
        ends = [event for event in self.events if isinstance(event, Finished)]
        return ends[-1] if ends else None

    @property
    def usage(self) -> Usage:
        usages = [event.usage for event in self.events if isinstance(event, UsageReported)]
        return usages[-1] if usages else Usage()

    def of(self, kind: str) -> list[Part]:
        return [part for part in self.parts if part.kind == kind]

    def text(self, kind: str) -> str:
        return "".join(part.text for part in self.of(kind))


async def play(exchange: Exchange, model_at: Callable[[str], HttpModel], seed: int) -> list[Answer]:
    """Return what is read from *exchange*: in one HTTP chunk, in many, and byte by byte if it is short."""
    sizes = [None, max(1, 2 * len(exchange.body) // _CHUNKS), random.Random(seed).randint(2, 3_000)]
    if len(exchange.body) <= _SHORT:
        sizes.append(1)
    return [await _ask(ReplayServer([exchange], largest_piece=size, seed=seed), model_at) for size in sizes]


async def _ask(server: ReplayServer, model_at: Callable[[str], HttpModel]) -> Answer:
    async with trio.open_nursery() as nursery:
        model = model_at(await nursery.start(server.serve))
        async with aclosing(model):
            with trio.fail_after(60):
                events, error = await _events(model)
        nursery.cancel_scope.cancel(reason="the answer was read")
    return sort_events(events, error)


async def _events(model: HttpModel) -> tuple[list[StreamEvent], ProviderError | None]:
    message = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text="hi"),))
    events: list[StreamEvent] = []
    try:
        stream = await model.open(ModelRequest(model=model.info.name, system="", transcript=Transcript([message])))
        try:
            while batch := await stream.receive():
                events += [event for event in batch if not isinstance(event, Ping)]
        finally:
            await stream.aclose()
    except ProviderError as failure:
        return events, failure
    return events, None


def sort_events(events: Sequence[StreamEvent], error: ProviderError | None = None) -> Answer:
    """Return *events* as the parts that a turn would make of them."""
    parser = StreamParser(CountingIds().new)
    parts: dict[str, Part] = {}
    for command in [*parser.feed(events), *parser.end()]:
        _obey(command, parts)
    return Answer(events=events, parts=list(parts.values()), slips=parser.slips, error=error)


def _obey(command: Command, parts: dict[str, Part]) -> None:
    match command:
        case OpenBlock():
            parts[command.part_id] = Part(command.kind, tool=command.tool)
        case Grow():
            parts[command.part_id].text += command.text
        case Restart():
            parts[command.part_id].text = ""
        case CloseBlock():
            part = parts[command.part_id]
            part.signature, part.redacted, part.citations = command.signature, command.redacted, command.citations
        case CloseCall():
            part = parts[command.part_id]
            part.tool, part.provider_id, part.complete = command.tool, command.provider_id, command.complete
        case CloseItem():
            part = parts[command.part_id]
            part.item, part.text = command.kind, command.data
