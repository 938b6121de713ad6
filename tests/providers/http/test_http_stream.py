"""The end of a response: whether another message follows is known only when its bytes have ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs
import httpx
import pytest
import trio

from engine.core.llm_types import Finished, StreamEvent, TextChunk
from engine.providers.anthropic.wire import wire
from engine.providers.auth.auth import KeyAuth
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.http_stream import HttpStream, ResponseBody
from engine.providers.wire.quirks import Quirks

pytestmark = pytest.mark.usefixtures("autojump_clock")

ENDPOINT = Endpoint(base_url="http://127.0.0.1:1", auth=KeyAuth("x-api-key", "key"))


def message(text: str, *, is_whole: bool = True) -> list[bytes]:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}},
        {"type": "content_block_stop", "index": 0},
    ]
    if is_whole:
        events += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]


@attrs.define(eq=False)
class Bytes(httpx.AsyncByteStream):
    """The body of a response: each piece is one read of the network."""

    pieces: Sequence[bytes]
    ends: bool = True
    is_closed: bool = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                await trio.lowlevel.checkpoint()
                yield piece
            if not self.ends:
                await trio.sleep_forever()
        finally:
            # As httpcore's: there the connection is closed.
            self.is_closed = True


async def read(body: Bytes) -> list[list[StreamEvent]]:
    """The batches of a response."""
    decoder = wire(Quirks()).decoder("text/event-stream")
    assert decoder is not None
    stream = HttpStream(ResponseBody(httpx.Response(200, stream=body), "host"), decoder, ENDPOINT)
    batches: list[list[StreamEvent]] = []
    while batch := await stream.receive():
        batches.append(list(batch))
    await stream.aclose()
    return batches


def text_of(batches: Sequence[Sequence[StreamEvent]]) -> str:
    return "".join(event.text for batch in batches for event in batch if isinstance(event, TextChunk))


def ends_of(batches: Sequence[Sequence[StreamEvent]]) -> list[int]:
    return [n for n, batch in enumerate(batches) for event in batch if isinstance(event, Finished)]


@pytest.mark.parametrize("gap", [b"", b"event: ping\ndata: {}\n\n"])
@pytest.mark.parametrize("whole", [True, False])
async def test_second_message_in_a_later_read_is_kept(whole: bool, gap: bytes) -> None:
    one, two = message("one "), message("two")
    body = Bytes([b"".join(one), gap, b"".join(two)] if whole else [*one, gap, *two])
    batches = await read(body)
    assert text_of(batches) == "one two"
    assert ends_of(batches) == [len(batches) - 1], "there is one end, and it is the last"
    assert body.is_closed


async def test_text_does_not_wait_for_the_end_of_the_bytes() -> None:
    batches = await read(Bytes([b"".join(message("hello"))], ends=False))
    assert text_of(batches[:1]) == "hello"
    assert ends_of(batches) == [1]


async def test_bytes_that_never_end_hold_nothing_up_for_long() -> None:
    body = Bytes([b"".join(message("hello"))], ends=False)
    began = trio.current_time()
    await read(body)
    assert trio.current_time() - began < 1.0  # by the mock clock
    assert body.is_closed
