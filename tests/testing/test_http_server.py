"""The pretended host, as any HTTP client sees it (the engine's own is tested in tests/providers/http/test_model.py)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, cast

import httpx
import pytest
import trio

from engine.core.errors import ConfigError, StreamTimeout
from engine.core.llm_types import StreamEvent, TextChunk, ToolCallChunk, ToolCallDone, ToolCallStarted
from engine.providers.anthropic.decode import AnthropicReader
from engine.providers.wire.decoding import StreamDecoder
from engine.providers.wire.sse import SseParser
from engine.testing.anthropic_writer import AnthropicWriter
from engine.testing.http_server import Script, ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import Answer, Fail, HttpFailure, Pause, done, text

HELLO = [*text("hello world", id="0", pieces=3), *done()]
PATH = "/v1/messages"


def user(*content: object) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if len(content) == 1 else list(content)}


async def post(script: Script, *bodies: Any, path: str = PATH, **options: Any) -> list[httpx.Response]:
    """Send *bodies* one after another, and return the answers, read to their ends."""
    server = ScriptedServer(script, **options)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        assert url == server.url
        async with httpx.AsyncClient(trust_env=False) as client:
            answers = [await client.post(url + path, json=body) for body in bodies]
        with trio.fail_after(30):
            await server.wait_closed()
        nursery.cancel_scope.cancel(reason="the test is over")
    return answers


REQUEST = b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"


async def raw(sent: bytes, script: Script = (HELLO,), *, delay: float = 0) -> bytes:
    """Send just these bytes; only a whole request is worth waiting for."""
    server = ScriptedServer(script, delay=delay)
    received = b""
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        async with await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2])) as stream:
            # A host which has heard enough does not read the rest.
            with suppress(trio.BrokenResourceError), trio.fail_after(30):
                await stream.send_all(sent)
                if sent != REQUEST:
                    await stream.send_eof()
                while not received.endswith(b"\r\n0\r\n\r\n") and (data := await stream.receive_some()):
                    received += data
        nursery.cancel_scope.cancel(reason="the test is over")
    return received


async def test_server_speaks_the_wire_format() -> None:
    (answer,) = await post([HELLO], {"model": "m", "messages": [user("hi")]})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    kinds = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert kinds == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    first = json.loads(answer.text.splitlines()[1].removeprefix("data: "))
    assert first["message"]["model"] == "m"


async def test_any_cut_gives_the_same_bytes() -> None:
    whole, cut_small, cut_again = [
        (await post([HELLO], {}, largest_piece=piece, seed=seed))[0].text for piece, seed in [(None, 0), (3, 1), (3, 2)]
    ]
    assert whole == cut_small == cut_again


async def test_an_answer_may_depend_on_the_request() -> None:
    def respond(request: ReceivedRequest) -> Answer:
        return [*text(f"{request.method} {request.text} {request.results}"), *done()]

    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": "one"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "two"}, {"type": "image"}]},
        {"type": "text", "text": "and?"},
    ]
    bodies = [
        {"messages": [user("hi")]},
        {"messages": [user("hi"), user(*results)]},
        {"messages": []},
        ["no object"],
        {},
    ]
    for script in (respond, [respond] * 5):
        answers = await post(script, *bodies)
        said = [answer.text.split('"text_delta","text":"')[1].split('"}')[0] for answer in answers]
        assert said == ["POST hi ()", "POST and? ('one', 'two')", "POST  ()", "POST  ()", "POST  ()"]


async def test_requests_are_recorded_without_the_key() -> None:
    server = ScriptedServer([HELLO])
    with pytest.raises(ConfigError, match="serve"):
        _ = server.url
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.post(f"{server.url}/base{PATH}?beta=true", json={"a": 1}, headers={"x-api-key": "canary"})
            assert server.connections == 1
        nursery.cancel_scope.cancel(reason="the test is over")
    assert server.connections == 0
    (received,) = server.requests
    assert (received.method, received.target, received.json) == ("POST", f"/base{PATH}?beta=true", {"a": 1})
    assert received.headers["x-api-key"] == "canary"
    assert "canary" not in repr(received)


async def test_request_outside_the_script() -> None:
    missing, elsewhere = await post([], {}), await post([HELLO], {}, path="/v1/models")
    assert (missing[0].status_code, elsewhere[0].status_code) == (400, 404)
    assert "no answer number 1" in missing[0].json()["error"]["message"]


async def test_a_failure_with_its_headers() -> None:
    (answer,) = await post(
        [[Pause(0), HttpFailure(429, "slow down", (("retry-after", "7"), ("Content-Type", "text/plain")))]], {}
    )
    assert (answer.status_code, answer.text) == (429, "slow down")
    assert (answer.headers["retry-after"], answer.headers["content-type"]) == ("7", "text/plain")


async def test_a_silent_host_stays_silent() -> None:
    server = ScriptedServer([[*text("a"), Fail(StreamTimeout("idle", 1))]])
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        async with httpx.AsyncClient(trust_env=False) as client, client.stream("POST", url + PATH, json={}) as answer:
            async with aclosing(cast("AsyncGenerator[bytes]", answer.aiter_raw())) as chunks:
                assert await anext(chunks)
                with trio.move_on_after(0.05) as scope:
                    await anext(chunks)
        nursery.cancel_scope.cancel(reason="the test is over")
    assert scope.cancelled_caught


async def test_script_cannot_refuse_a_started_answer() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await raw(REQUEST, script=[[*text("a"), HttpFailure(500)]])
    assert caught.group_contains(ConfigError, match="after the answer has started")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b""),
        (b"POST /v1/mess", b""),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 5\r\n\r\nab", b""),
        (b"x" * 100_000, b""),
        (b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b"HTTP/1.1 411"),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: many\r\n\r\n", b"HTTP/1.1 411"),
        (b"nonsense\r\n\r\n", b"HTTP/1.1 404"),
    ],
)
async def test_a_client_that_is_none(sent: bytes, status: bytes) -> None:
    assert (await raw(sent))[:12] == status


@pytest.mark.parametrize(("delay", "chunks"), [(0, 1), (0.001, 4)])
async def test_a_delay_lets_each_piece_go_by_itself(delay: float, chunks: int) -> None:
    answer = await raw(REQUEST, delay=delay)
    sizes = [line for line in answer.partition(b"\r\n\r\n")[2].split(b"\r\n") if re.fullmatch(rb"[0-9a-f]+", line)]
    assert len(sizes) == chunks + 1  # and the empty one which ends it
    assert sizes[-1] == b"0"


def test_protocol_violations_are_written_as_scripted() -> None:
    writer = AnthropicWriter("m")
    assert b'"index":9999' in writer.write(TextChunk("never opened", "x"))
    assert b'"index":9999' in writer.write(ToolCallDone("never opened"))


def test_late_arguments_are_sent_if_none_were_streamed() -> None:
    writer = AnthropicWriter("m")
    script: list[StreamEvent] = [ToolCallStarted("c", "read"), ToolCallDone("c", '{"a":1}')]
    decoder = StreamDecoder(AnthropicReader(), SseParser())
    decoded = decoder.feed(b"".join(writer.write(event) for event in script))
    assert decoded[1:] == [ToolCallStarted("c", "read"), ToolCallChunk("c", '{"a":1}'), ToolCallDone("c")]
