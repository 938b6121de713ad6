"""The HTTP client over real sockets: responses, errors, and nothing left behind."""

from __future__ import annotations

import gzip
import json
import socket
import traceback
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from engine.core.errors import (
    AuthFailed,
    ConfigError,
    ConnectionBroken,
    ContentFiltered,
    ContextOverflow,
    EngineClosed,
    InvalidRequest,
    MediaTooLarge,
    ModelNotFound,
    Overloaded,
    ProviderError,
    ProviderProtocolError,
    QuotaExhausted,
    RateLimited,
    SignatureRejected,
)
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import (
    Finished,
    ModelInfo,
    ModelRequest,
    Ping,
    StreamEvent,
    TextChunk,
    TextStarted,
    UsageReported,
)
from engine.core.messages import ImagePart, TextPart, Transcript, Usage, UserMessage
from engine.providers.anthropic.wire import wire
from engine.providers.auth.auth import KeyAuth
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.http_model import HttpModel
from engine.providers.http.http_stream import HttpStream
from engine.providers.wire.quirks import Quirks
from engine.testing.http_server import Script, ScriptedServer
from engine.testing.script import Break, Fail, HttpFailure, Pause, ScriptItem, call, done, reasoning, text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


NAME = "anthropic/claude-sonnet-4-5"
CANARY = "sk-ant-canary-2718281828459045"
USAGE = Usage(input=3, output=4, cache_read=5, cache_write=6, reasoning=1)
HELLO: list[ScriptItem] = [*text("hello world", id="0", pieces=3), *done(usage=USAGE)]
FOREVER = Pause(3600)
MESSAGES = wire(Quirks())
INFO = ModelInfo(name=NAME)
SMALL = ModelInfo(name=NAME, context=1_000)


def request(words: str = "hi") -> ModelRequest:
    without_pings = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text=words),))
    return ModelRequest(model=NAME, system="", transcript=Transcript([without_pings]))


def endpoint_at(url: str, key: str = CANARY) -> Endpoint:
    return Endpoint(base_url=url, auth=KeyAuth("x-api-key", key))


def model_at(url: str, connect_timeout: float = 30.0, info: ModelInfo = INFO) -> HttpModel:
    return HttpModel(info, MESSAGES, endpoint_at(url), clock=lambda: 1000.0, connect_timeout=connect_timeout)


@asynccontextmanager
async def host(script: Script, **options: int) -> AsyncGenerator[tuple[HttpModel, ScriptedServer]]:
    """Run a scripted host; at the end nothing may be open."""
    server = ScriptedServer(script, **options)
    async with trio.open_nursery() as nursery:
        model = model_at(await nursery.start(server.serve))
        yield model, server
        await model.aclose()
        await closed(server)
        nursery.cancel_scope.cancel(reason="the test is over")


async def closed(server: ScriptedServer) -> None:
    with trio.fail_after(30):
        await server.wait_closed()


async def read(stream: HttpStream, events: list[StreamEvent] | None = None) -> list[StreamEvent]:
    events = [] if events is None else events
    while batch := await stream.receive():
        events += without_pings(batch)
    return events


def without_pings(batch: Sequence[StreamEvent]) -> list[StreamEvent]:
    """Return a batch without its signs of life: bytes that make no event yet are one."""
    return [event for event in batch if not isinstance(event, Ping)]


async def ask(model: HttpModel, words: str = "hi") -> list[StreamEvent]:
    stream = await model.open(request(words))
    try:
        return await read(stream)
    finally:
        await stream.aclose()


def words(events: Sequence[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextChunk))


# -- what arrives ----------------------------------------------------------------------


@pytest.mark.parametrize("largest_piece", [1, 7, 1000])
async def test_an_answer_however_it_is_cut(largest_piece: int) -> None:
    script = [
        *reasoning("hm", id="0", signature="sig"),
        *text("hello é world", id="1", pieces=4),
        *call("read", {"path": "a"}, id="c", pieces=3),
        *done("calls", raw="tool_use", usage=USAGE),
    ]
    async with host([script], largest_piece=largest_piece) as (model, server):
        events = await ask(model)
        assert events == [UsageReported(Usage()), *script]
        (received,) = server.requests
        assert received.headers["x-api-key"] == CANARY
        assert received.headers["anthropic-version"]
        assert received.json["model"] == "claude-sonnet-4-5"


async def test_one_network_chunk_is_one_batch() -> None:
    async with host([HELLO]) as (model, _):
        stream = await model.open(request())
        batch = await stream.receive()
        assert words(batch) == "hello world"
        # The end comes when the bytes have ended, too: see `test_http_stream.py`.
        assert [type(event) for event in await stream.receive()] == [Finished]
        assert await stream.receive() == []
        assert await stream.receive() == []
        await stream.aclose()


async def test_bytes_without_events_are_a_ping() -> None:
    async with host([HELLO], largest_piece=1) as (model, _):
        stream = await model.open(request())
        assert list(await stream.receive()) == [Ping()]
        await read(stream)
        await stream.aclose()


async def test_events_come_as_they_are_sent() -> None:
    async with host([[*text("first", id="0"), FOREVER]]) as (model, _):
        stream = await model.open(request())
        with trio.fail_after(30):
            batch: Sequence[StreamEvent] = []
            while not without_pings(batch):
                batch = await stream.receive()
            assert words(batch) == "first"
        await stream.aclose()


async def test_connection_is_reused_after_a_whole_answer() -> None:
    async with host([HELLO, HELLO, [HttpFailure(529)], HELLO]) as (model, server):
        for _ in range(2):
            assert words(await ask(model)) == "hello world"
            assert server.connections == 1
        with pytest.raises(Overloaded):
            await ask(model)
        assert words(await ask(model)) == "hello world"
        assert server.connections == 1


async def test_many_answers_at_once() -> None:
    answered: list[str] = []

    async def one(model: HttpModel) -> None:
        answered.append(words(await ask(model)))

    async with host(lambda _: HELLO) as (model, _):
        async with trio.open_nursery() as nursery:
            for _ in range(150):  # more than httpx would allow by itself
                nursery.start_soon(one, model)
    assert answered == ["hello world"] * 150


async def test_receive_and_aclose_are_checkpoints() -> None:
    async with host([HELLO]) as (model, _):
        stream = await model.open(request())
        for _ in range(3):
            with trio.testing.assert_checkpoints():
                await stream.receive()
        for _ in range(2):
            with trio.testing.assert_checkpoints():
                await stream.aclose()
        for _ in range(2):
            with trio.testing.assert_checkpoints():
                await model.aclose()


# -- what goes wrong ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        AuthFailed("a"),
        RateLimited("a", retryable=True, retry_after=2.5, reset_at=1002.5),
        RateLimited("a", retryable=False, reset_at=5000.0),
        Overloaded("a", retryable=True),
        Overloaded("a", retryable=False),
        ContextOverflow("a"),
        MediaTooLarge("a"),
        ContentFiltered("a"),
        SignatureRejected("a"),
        QuotaExhausted("a"),
        ModelNotFound("a"),
        InvalidRequest("a"),
        ProviderError("a"),
        ProviderError("a", retryable=True),
    ],
    ids=repr,
)
async def test_an_error_instead_of_an_answer(error: ProviderError) -> None:
    async with host([[Fail(error)]]) as (model, _):
        with pytest.raises(ProviderError) as caught:
            await model.open(request())
    assert type(caught.value) is type(error)
    assert caught.value.retryable == error.retryable
    assert caught.value.retry_after == error.retry_after
    assert caught.value.reset_at == error.reset_at


async def test_rate_limit_has_its_reset() -> None:
    limit = HttpFailure(429, "", (("Retry-After", "Thu, 01 Jan 1970 00:17:40 GMT"),))
    async with host([[limit], [HttpFailure(429, "", (("retry-after-ms", "40"),))]]) as (model, _):
        with pytest.raises(RateLimited) as caught:
            await model.open(request())
        assert (caught.value.retry_after, caught.value.reset_at) == (60.0, 1060.0)
        with pytest.raises(RateLimited) as caught:
            await model.open(request())
        assert caught.value.retry_after == 0.04


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Break(), ConnectionBroken),
        (Fail(ConnectionBroken("x")), ConnectionBroken),
        (Fail(Overloaded("x", retryable=True)), Overloaded),
        (Fail(RateLimited("x", retryable=True)), RateLimited),
        (Fail(ContentFiltered("x")), ContentFiltered),
        (Fail(ProviderProtocolError("x")), ProviderProtocolError),
    ],
    ids=repr,
)
@pytest.mark.parametrize("largest_piece", [1, 1000])
async def test_error_follows_the_events_before_it(
    item: Break | Fail, expected: type[ProviderError], largest_piece: int
) -> None:
    started = text("so far", id="0", pieces=3)[:-1]
    async with host([[*started, item]], largest_piece=largest_piece) as (model, _):
        stream = await model.open(request())
        events: list[StreamEvent] = []
        with pytest.raises(expected) as caught:
            await read(stream, events)
        assert type(caught.value) is expected
        assert [event for event in events if not isinstance(event, UsageReported)] == list(started)
        with pytest.raises(expected):
            await stream.receive()
        await stream.aclose()


@pytest.mark.parametrize("answer", [[Break()], [], [*text("a"), Break()], list(text("a"))])
async def test_answer_without_its_end_is_retryable(answer: list[ScriptItem]) -> None:
    async with host([answer]) as (model, _):
        with pytest.raises(ConnectionBroken) as caught:
            await ask(model)
    assert caught.value.retryable


async def test_a_host_that_is_not_there() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    model = model_at(f"http://127.0.0.1:{port}")
    with pytest.raises(ConnectionBroken, match=r"127\.0\.0\.1") as caught:
        await model.open(request())
    assert caught.value.retryable
    await model.aclose()


async def test_tls_handshake_timeout() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")  # the kernel accepts, nobody answers
    model = model_at(f"https://127.0.0.1:{listener.socket.getsockname()[1]}", connect_timeout=0.05)
    with pytest.raises(ConnectionBroken, match="in time") as caught:
        await model.open(request())
    assert caught.value.retryable
    await model.aclose()
    await listener.aclose()


async def test_invalid_proxy_settings_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://proxy.example")
    model = model_at("https://models.example")
    with pytest.raises(ConfigError, match="proxy"):
        await model.open(request())
    await model.aclose()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1", True),
        ("http://127.0.0.2", True),
        ("http://[::1]:1", True),
        ("http://models.example", False),
        ("http://10.0.0.1", False),
    ],
)
def test_no_proxy_stands_between_us_and_this_machine(url: str, expected: bool) -> None:
    assert endpoint_at(url).is_loopback == expected


async def raw_host(task_status: trio.TaskStatus[str], reply: bytes) -> None:
    """Answer anything with *reply*, then say nothing more."""

    async def handle(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):  # the client need not read it all
            await stream.receive_some()
            await stream.send_all(reply)
            await trio.sleep_forever()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    task_status.started(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
    await trio.serve_listeners(handle, listeners)


async def with_raw_host(reply: bytes, use: Callable[[HttpModel], Awaitable[None]], info: ModelInfo = INFO) -> None:
    async def serve(task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        await raw_host(task_status, reply)

    async with trio.open_nursery() as nursery:
        model = model_at(await nursery.start(serve), info=info)
        await use(model)
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


def reply_of(content_type: str, body: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status, content_type.encode(), len(body))
    return head + body


PAGE = b"<!doctype html><title>Sign in</title>"


@pytest.mark.parametrize(
    ("reply", "expected", "reported"),
    [
        (reply_of("application/json", b"{}"), ProviderProtocolError, "Anthropic sent JSON that is not a message"),
        (reply_of("application/json", b'{"error":{"message":"no luck"}}'), Overloaded, "no luck"),
        (reply_of("text/html; charset=utf-8", PAGE), ProviderProtocolError, "HTTP 200 with text/html"),
        (reply_of("application/octet-stream", b"x"), ProviderProtocolError, "with application/octet-stream"),
        (b"HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", ProviderProtocolError, "HTTP 302"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", ProviderProtocolError, "HTTP 204"),
        (b"this is no HTTP\r\n\r\n", ConnectionBroken, "127.0.0.1"),
        (b"HTTP/1.1 502 Bad\r\ncontent-length: 999999\r\n\r\n" + b"x" * 999_999, Overloaded, "HTTP 502"),
        (b"HTTP/1.1 401 No\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nxyz", AuthFailed, "HTTP 401"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nxyz", ProviderProtocolError, "gzip"),
    ],
)
async def test_invalid_answers(reply: bytes, expected: type[ProviderError], reported: str) -> None:
    async def use(model: HttpModel) -> None:
        with pytest.raises(ProviderError) as caught:
            await ask(model)
        assert type(caught.value) is expected
        assert reported in str(caught.value)
        assert "<" not in str(caught.value)

    await with_raw_host(reply, use)


@pytest.mark.parametrize(
    ("reply", "size", "expected"),
    [
        (reply_of("text/event-stream", b""), 4_000, ContextOverflow),
        (reply_of("text/event-stream", b""), 100, ConnectionBroken),
        (reply_of("text/event-stream", b"data: [DONE]\n\n"), 4_000, ContextOverflow),
        (reply_of("text/event-stream", b": a comment\n\n"), 4_000, ConnectionBroken),
        (reply_of("application/json", b"", b"400 Bad Request"), 4_000, ContextOverflow),
        (reply_of("application/json", b"", b"400 Bad Request"), 100, InvalidRequest),
        (reply_of("text/plain", b"the prompt is over the limit of 9 tokens", b"422 No"), 4_000, ContextOverflow),
        (reply_of("text/plain", b"the prompt is over the limit of 9 tokens", b"422 No"), 100, InvalidRequest),
    ],
)
async def test_a_vague_refusal_of_a_large_request(reply: bytes, size: int, expected: type[ProviderError]) -> None:
    async def use(model: HttpModel) -> None:
        with pytest.raises(ProviderError) as caught:
            stream = await model.open(request("x" * size))
            try:
                await read(stream)
            finally:
                await stream.aclose()
        assert type(caught.value) is expected

    await with_raw_host(reply, use, SMALL)


@pytest.mark.parametrize(
    ("body", "known", "size", "expected"),
    [
        (b"the prompt is over the limit of my tokens", False, 20_000, ContextOverflow),
        (b"the prompt is over the limit of my tokens", False, 2_000, InvalidRequest),
        (b"the prompt is over the limit of my tokens", True, 20_000, InvalidRequest),
        (b"", False, 20_000, InvalidRequest),
    ],
)
async def test_a_vague_refusal_by_an_unknown_window(
    body: bytes, known: bool, size: int, expected: type[ProviderError]
) -> None:
    """A local server's window may be small: what names the length of a request that a small one can't hold is about it."""

    async def use(model: HttpModel) -> None:
        with pytest.raises(ProviderError) as caught:
            await ask(model, "x" * size)
        assert type(caught.value) is expected

    info = ModelInfo(name=NAME, context=128_000, output=8_000, is_known=known)
    await with_raw_host(reply_of("text/plain", body, b"400 No"), use, info)


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("Input is too long for the context window", 128_000),
        ("invalid params, context window exceeds limit (2013)", 128_000),
        ("Prompt contains 410 tokens, too large for model with 32768 maximum context length", 32_768),
        ("Input exceeds the context size (8192).", 8_192),
    ],
)
async def test_window_is_learned_from_the_host_s_words(message: str, window: int) -> None:
    """Not from the status, which stands behind them, and not from a code."""

    async def use(model: HttpModel) -> None:
        with pytest.raises(ContextOverflow):
            await ask(model)
        assert model.info.context == window

    info = ModelInfo(name=NAME, context=128_000, output=8_000, is_known=False)
    await with_raw_host(reply_of("text/plain", message.encode(), b"413 No"), use, info)


async def test_an_image_does_not_make_a_request_large() -> None:
    parts = (ImagePart(media_type="image/png", data="A" * 9_000), TextPart(id=PartId("p"), text="hi"))
    message = UserMessage(id=MessageId("m"), parts=parts)
    asked = ModelRequest(model=NAME, system="", transcript=Transcript([message]))

    async def use(model: HttpModel) -> None:
        with pytest.raises(InvalidRequest):
            await model.open(asked)

    await with_raw_host(reply_of("application/json", b"", b"400 Bad Request"), use, SMALL)


STREAM = b"".join(
    b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n"
    for event in (
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hello"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
)
DOCUMENT = json.dumps({"content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"}).encode()


def compressed_reply(encoding: str, body: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %b\r\ncontent-type: text/event-stream\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n"
    return head % (status, encoding.encode(), len(body)) + body


@pytest.mark.parametrize(
    "reply",
    [
        reply_of("text/plain; charset=utf-8", STREAM),
        reply_of("text/plain", b": a comment\n\n" + STREAM),
        reply_of("text/plain", b" " + DOCUMENT),
        compressed_reply("gzip", gzip.compress(STREAM)),
        compressed_reply("GZIP", gzip.compress(STREAM)),
        compressed_reply("deflate", zlib.compress(STREAM)),
        compressed_reply("deflate", zlib.compress(STREAM)[2:-4]),
    ],
)
async def test_answers_that_proxies_have_changed(reply: bytes) -> None:
    async def use(model: HttpModel) -> None:
        assert words(await ask(model)) == "hello"

    await with_raw_host(reply, use)


async def test_a_compressed_error_is_read() -> None:
    async def use(model: HttpModel) -> None:
        with pytest.raises(Overloaded, match="too busy today"):
            await ask(model)

    error = json.dumps({"error": {"type": "overloaded_error", "message": "too busy today"}}).encode()
    await with_raw_host(compressed_reply("gzip", gzip.compress(error), b"529 Overloaded"), use)


async def test_a_compressed_answer_is_read_in_parts() -> None:
    many = STREAM.replace(b"hello", b"x" * 5_000_000)

    async def use(model: HttpModel) -> None:
        assert len(words(await ask(model))) == 5_000_000

    await with_raw_host(compressed_reply("gzip", gzip.compress(many)), use)


async def test_a_redirect_names_its_target() -> None:
    async def use(model: HttpModel) -> None:
        with pytest.raises(ProviderProtocolError) as caught:
            await ask(model)
        assert "HTTP 307 and redirects to https://new.example/v1/messages" in str(caught.value)

    head = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: https://new.example/v1/messages\r\ncontent-length: 0\r\n\r\n"
    await with_raw_host(head, use)


async def test_a_web_page_questions_the_address() -> None:
    async def use(model: HttpModel) -> None:
        with pytest.raises(ProviderProtocolError) as caught:
            await model.open(request())
        assert str(caught.value) == (
            "127.0.0.1 answered HTTP 200 with text/html, not with an event stream: is its address right, and does it"
            " speak the wire format of Anthropic?"
        )
        assert caught.value.status == 200
        assert not caught.value.retryable

    await with_raw_host(reply_of("text/html", PAGE), use)


async def test_an_answer_that_was_not_streamed() -> None:
    message = b'{"type":"message","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn"}'

    async def use(model: HttpModel) -> None:
        assert words(await ask(model)) == "hello"

    await with_raw_host(reply_of("application/json; charset=utf-8", message), use)


async def test_an_answer_that_comes_byte_by_byte() -> None:
    """The frames of its chunks too."""
    events = b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\ndata: {"type":"message_stop"}\n\n'
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (events[:20], events[20:])) + b"0\r\n\r\n"

    async def handle(stream: trio.SocketStream) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for place in range(len(body)):
            await stream.send_all(body[place : place + 1])
            await trio.testing.wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        model = model_at(f"http://127.0.0.1:{listener.socket.getsockname()[1]}")
        assert await ask(model) == [Finished("stop", "end_turn")]
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


async def test_a_stream_needs_no_content_type() -> None:
    body = b'data: {"type":"message_stop"}\n\n'
    reply = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    async def use(model: HttpModel) -> None:
        assert len(await ask(model)) == 1

    await with_raw_host(reply, use)


async def test_unsendable_transcript_opens_nothing() -> None:
    async with host([HELLO]) as (model, server):
        with pytest.raises(ConfigError):
            await model.open(request(" "))
        assert server.requests == []


async def test_after_the_close() -> None:
    async with host([[*HELLO[:2], FOREVER]]) as (model, server):
        stream = await model.open(request())
        await stream.receive()
        await model.aclose()
        await closed(server)
        with pytest.raises(ConnectionBroken):
            await stream.receive()
        await stream.aclose()
        with pytest.raises(EngineClosed):
            await model.open(request())


# -- the key -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        [HttpFailure(401, f'{{"error": {{"type": "authentication_error", "message": "bad key: {CANARY}"}}}}')],
        [HttpFailure(400, f'{{"error": {{"type": "{CANARY}", "message": "{CANARY}"}}}}')],
        [TextStarted("0"), Fail(Overloaded(f"no more for {CANARY}"))],
        [Fail(AuthFailed(CANARY))],
        [Break()],
    ],
)
async def test_the_key_is_in_no_error(answer: list[ScriptItem]) -> None:
    async with host([answer]) as (model, _):
        with pytest.raises(ProviderError) as caught:
            await ask(model)
        assert CANARY not in "".join(traceback.format_exception(caught.value))
        assert CANARY not in repr(caught.value)
        assert CANARY not in repr(model)


async def test_invalid_key_is_in_no_error() -> None:
    async with host([HELLO]) as (_, server):
        endpoint = endpoint_at(server.url, f"{CANARY}\n")
        model = HttpModel(INFO, MESSAGES, endpoint)
        with pytest.raises(ProviderProtocolError) as caught:
            await model.open(request())
        assert CANARY not in "".join(traceback.format_exception(caught.value))
        assert CANARY not in repr(endpoint)
        await model.aclose()
