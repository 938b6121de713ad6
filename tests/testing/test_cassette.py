"""Recorded exchanges: as files, played again, and made without a secret in them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import attrs
import httpx
import pytest
import trio

import engine
from engine.config.host_values import WireName
from engine.core.errors import ConfigError, ConnectionBroken, ProviderError, RateLimited
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import ModelRequest, Ping, StreamEvent
from engine.core.messages import TextPart, Transcript, Usage, UserMessage
from engine.core.protocols import Model
from engine.providers.auth.auth import Auth, KeyAuth
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.http_model import HttpModel
from engine.providers.models.catalog import info_of
from engine.providers.registry import resolve, wire_format
from engine.testing import ScriptedProvider, cassette
from engine.testing.cassette import Exchange
from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import LoopbackServer
from engine.testing.record import PROTOCOLS, Recorder
from engine.testing.redact_recording import Scrubber
from engine.testing.replay import ReplayServer
from engine.testing.script import Answer, Break, HttpFailure, Pause, call, done, reasoning, text

NAME = "anthropic/claude-haiku-4-5"
CANARY = "sk-ant-canary/31415926+53=58"
HELLO: Answer = [
    *reasoning("hm", id="0", signature="sig"),
    *text("hello é world", id="1", pieces=4),
    *call("read", {"path": "a"}, id="c", pieces=3),
    *done("calls", raw="tool_use", usage=Usage(input=3, output=4)),
]
EXCHANGE = Exchange(
    provider="anthropic",
    host="anthropic",
    protocol="anthropic-messages",
    url="https://api.anthropic.com/v1/messages",
    sent=b'{"model": "m", "text": "\xc3\xa9"}',
    headers={"content-type": "text/event-stream; charset=utf-8", "retry-after": "1"},
    body=b"event: ping\ndata: {}\n\n" + "é".encode() * 50,
)


def request(words: str = "hi") -> ModelRequest:
    said = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text=words),))
    return ModelRequest(model=NAME, system="", transcript=Transcript([said]))


def model_at(url: str, auth: Auth | None = None, **endpoint: Any) -> HttpModel:
    host = BY_NAME["anthropic"]
    wire = wire_format(host, host.quirks)
    return HttpModel(info_of(NAME), wire, Endpoint(base_url=url, auth=auth or KeyAuth("x-api-key", CANARY), **endpoint))


async def ask(model: Model, words: str = "hi") -> list[StreamEvent]:
    stream = await model.open(request(words))
    events: list[StreamEvent] = []
    try:
        while batch := await stream.receive():
            events += [event for event in batch if not isinstance(event, Ping)]
    finally:
        await stream.aclose()
    return events


# -- files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content_type", "suffix"),
    [
        ("text/event-stream; charset=utf-8", "sse"),
        ("Application/JSON", "json"),
        ("application/vnd.amazon.eventstream", "bin"),
        ("text/html", "txt"),
        ("", "txt"),
    ],
)
def test_an_exchange_comes_back_from_its_files(tmp_path: Path, content_type: str, suffix: str) -> None:
    exchange = attrs.evolve(EXCHANGE, headers={"content-type": content_type}, body=bytes(range(256)), is_whole=False)
    path = cassette.write(exchange, tmp_path / "new", "one")
    assert path.name == "one.request.json"
    assert sorted(file.name for file in path.parent.iterdir()) == ["one.request.json", f"one.response.{suffix}"]
    assert cassette.read(path) == exchange
    assert json.loads(path.read_text())["stream"] is (suffix in {"sse", "bin"})


def test_cassette_replaces_only_its_predecessor(tmp_path: Path) -> None:
    many = tuple(attrs.evolve(EXCHANGE, status=200 + number) for number in range(12))
    cassette.write_all(many, tmp_path, "a")
    cassette.write_all(many[:1], tmp_path, "a-b")
    cassette.write_all(many[:2], tmp_path, "a-1")
    assert cassette.read_all(tmp_path, "a") == many
    cassette.write_all(many[3:5], tmp_path, "a")
    assert cassette.read_all(tmp_path, "a") == many[3:5]
    assert cassette.read_all(tmp_path, "a-b") == many[:1]
    assert cassette.read_all(tmp_path, "a-1") == many[:2]
    with pytest.raises(ConfigError, match="no cassette 'b'"):
        cassette.read_all(tmp_path, "b")


def test_another_content_type_leaves_no_old_body(tmp_path: Path) -> None:
    cassette.write(EXCHANGE, tmp_path, "one")
    cassette.write(attrs.evolve(EXCHANGE, headers={}), tmp_path, "one")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one.request.json", "one.response.txt"]


@pytest.mark.parametrize(
    "record",
    [
        "[]",
        "{",
        "{}",
        '{"request": {}, "response": {"status": "200", "headers": {}, "body_file": "b"}}',
        '{"request": {}, "response": {"status": 200, "headers": {}, "body_file": "missing"}}',
        '{"request": {}, "response": {"status": 200, "headers": [], "body_file": "b"}}',
        '{"request": {}, "response": {"status": 200, "headers": {}, "body_file": "../../../../../../etc/passwd"}}',
    ],
)
def test_a_file_that_is_no_exchange(tmp_path: Path, record: str) -> None:
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "x.request.json").write_text(record)
    with pytest.raises(ConfigError, match=r"x\.request\.json is not a recorded exchange"):
        cassette.read(tmp_path / "x.request.json")


def test_headers_left_out_of_recordings(tmp_path: Path) -> None:
    record = {"request": {"body": None}, "response": {"status": 200, "headers": {"A": "b"}, "body_file": "b"}}
    (tmp_path / "b").write_bytes(b"x")
    (tmp_path / "x.request.json").write_text(json.dumps(record))
    assert cassette.read(tmp_path / "x.request.json") == Exchange(headers={"a": "b"}, body=b"x")


# -- replay ----------------------------------------------------------------------------


async def fetch(server: LoopbackServer, count: int = 1) -> list[tuple[httpx.Response, list[bytes]]]:
    answers: list[tuple[httpx.Response, list[bytes]]] = []
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        async with httpx.AsyncClient(trust_env=False) as client:
            for number in range(count):
                async with client.stream("POST", f"{url}/any/where?n={number}", json={"n": number}) as response:
                    answers.append((response, [chunk async for chunk in response.aiter_raw()]))
        await server.wait_closed()
        nursery.cancel_scope.cancel(reason="the test is over")
    return answers


async def test_replay_keeps_status_and_headers() -> None:
    server = ReplayServer([attrs.evolve(EXCHANGE, status=429)])
    ((response, chunks),) = await fetch(server)
    assert response.status_code == 429
    assert {name: response.headers[name] for name in EXCHANGE.headers} == EXCHANGE.headers
    assert chunks == [EXCHANGE.body]
    assert [(r.method, r.target, r.json) for r in server.requests] == [("POST", "/any/where?n=0", {"n": 0})]


async def test_connection_headers_are_not_replayed() -> None:
    headers = {"content-type": "a/b", "transfer-encoding": "chunked", "content-length": "9", "content-encoding": "br"}
    ((response, chunks),) = await fetch(ReplayServer([Exchange(headers=headers, body=b"xyz")]))
    assert chunks == [b"xyz"]
    assert dict(response.headers) == {"content-type": "a/b", "transfer-encoding": "chunked"}


async def test_cuts_are_random_but_seeded() -> None:
    cuts = [(await fetch(ReplayServer([EXCHANGE], largest_piece=5, seed=seed)))[0][1] for seed in (1, 1, 2)]
    assert {b"".join(cut) for cut in cuts} == {EXCHANGE.body}
    assert cuts[0] == cuts[1] != cuts[2]
    assert {len(chunk) for cut in cuts for chunk in cut} == {1, 2, 3, 4, 5}


async def test_answers_in_order_or_as_a_function_chooses() -> None:
    numbered = [Exchange(body=str(number).encode()) for number in range(2)]
    in_order = await fetch(ReplayServer(numbered), 3)
    assert [chunks for _, chunks in in_order[:2]] == [[b"0"], [b"1"]]
    assert in_order[2][0].status_code == 400
    assert b"no answer number 3" in in_order[2][1][0]
    chosen = await fetch(ReplayServer(lambda received: numbered[1 - int(str(received.json["n"]))]), 2)
    assert [chunks for _, chunks in chosen] == [[b"1"], [b"0"]]


# -- recording -------------------------------------------------------------------------


async def record(server: LoopbackServer, folder: Path, times: int = 1) -> list[list[StreamEvent] | ProviderError]:
    """Ask a host some times, recording it as the cassette `c`."""
    heard: list[list[StreamEvent] | ProviderError] = []
    async with trio.open_nursery() as nursery:
        model = model_at(await nursery.start(server.serve))
        async with aclosing(model):
            with Recorder(folder, "c") as recorder:
                recorder.watch(model)
                for number in range(times):
                    try:
                        heard.append(await ask(model, str(number)))
                    except ProviderError as error:
                        heard.append(error)
        await server.wait_closed()
        nursery.cancel_scope.cancel(reason="the test is over")
    return heard


async def replay(folder: Path, times: int = 1, **options: int) -> list[list[StreamEvent] | ProviderError]:
    server = ReplayServer(cassette.read_all(folder, "c"), **options)
    return await record(server, folder / "again", times)


async def test_recording_replays_the_same_events(tmp_path: Path) -> None:
    script: Sequence[Answer] = [HELLO, [HttpFailure(429, "{}", (("retry-after", "7"),))], [*text("bye"), *done()]]
    first, refusal, last = await record(ScriptedServer(script, largest_piece=9), tmp_path, 3)
    for options in ({}, {"largest_piece": 1}, {"largest_piece": 30, "seed": 7}):
        again = await replay(tmp_path, 3, **options)
        assert [again[0], again[2]] == [first, last]
        assert isinstance(refusal, RateLimited)
        assert isinstance(again[1], RateLimited)
        assert (str(again[1]), again[1].status, again[1].retry_after) == (str(refusal), 429, 7)
    # A recording of the replay is the recording.
    assert [attrs.evolve(e, url="") for e in cassette.read_all(tmp_path / "again", "c")] == [
        attrs.evolve(e, url="") for e in cassette.read_all(tmp_path, "c")
    ]


async def test_exchange_holds_request_and_host(tmp_path: Path) -> None:
    await record(ScriptedServer([HELLO]), tmp_path)
    (exchange,) = cassette.read_all(tmp_path, "c")
    assert (exchange.provider, exchange.host, exchange.protocol) == ("anthropic", "anthropic", "anthropic-messages")
    assert (exchange.method, exchange.url.rpartition(":")[2].partition("/")[2]) == ("POST", "v1/messages")
    (said,) = json.loads(exchange.sent)["messages"]
    assert (said["role"], said["content"][0]["text"]) == ("user", "0")
    assert (exchange.status, exchange.content_type, exchange.is_whole) == (200, "text/event-stream", True)
    assert set(exchange.headers) == {"content-type"}


def test_every_wire_format_has_a_name_on_cassettes() -> None:
    assert set(PROTOCOLS) == set(get_args(WireName))


async def test_broken_answer_is_kept_as_received(tmp_path: Path) -> None:
    (heard,) = await record(ScriptedServer([[*text("well"), Break()]]), tmp_path)
    assert isinstance(heard, ConnectionBroken)
    (exchange,) = cassette.read_all(tmp_path, "c")
    assert b"well" in exchange.body
    assert not exchange.is_whole
    (again,) = await replay(tmp_path)
    assert isinstance(again, ConnectionBroken)


async def test_cancelled_answer_is_kept_and_closed(tmp_path: Path) -> None:
    server = ScriptedServer([[*text("well"), Pause(3600)]])
    async with trio.open_nursery() as nursery:
        model = model_at(await nursery.start(server.serve))
        with Recorder(tmp_path, "c") as recorder:
            recorder.watch(model)
            stream = await model.open(request())
            await stream.receive()
            assert recorder.exchanges == ()
            with trio.CancelScope() as scope:
                scope.cancel(reason="the test cancels")
                await stream.receive()
        assert [kept.is_whole for kept in cassette.read_all(tmp_path, "c")] == [False]
        with trio.fail_after(30):
            await server.wait_closed()
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")
    assert b"well" in cassette.read_all(tmp_path, "c")[0].body


async def test_a_whole_engine_is_recorded(tmp_path: Path) -> None:
    server = ScriptedServer([[*text("Hello."), *done()], [*text("Bye."), *done()]])
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        model = resolve(NAME, {"ANTHROPIC_API_KEY": CANARY, "ANTHROPIC_BASE_URL": url})
        with Recorder(tmp_path, "c") as recorder:
            recorder.watch(model)
            async with engine.open_engine(model=model) as eng:
                session = await eng.create_session()
                assert [(await session.run(words)).text for words in ("hi", "bye")] == ["Hello.", "Bye."]
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")
    assert [b"Hello." in e.body for e in cassette.read_all(tmp_path, "c")] == [True, False]


def test_a_model_without_http_can_t_be_recorded(tmp_path: Path) -> None:
    with Recorder(tmp_path, "c") as recorder, pytest.raises(ConfigError, match="does not use HTTP"):
        recorder.watch(ScriptedProvider([]))
    assert recorded_in(tmp_path) == []


def recorded_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


async def test_unreachable_host_keeps_the_old_cassette(tmp_path: Path) -> None:
    cassette.write_all((EXCHANGE,), tmp_path, "c")
    async with aclosing(model_at("http://127.0.0.1:1")) as model:
        for folder in (tmp_path, tmp_path / "new"):
            with pytest.raises(ConnectionBroken), Recorder(folder, "c") as recorder:
                recorder.watch(model)
                await ask(model)
    assert cassette.read_all(tmp_path, "c") == (EXCHANGE,)
    with pytest.raises(ConfigError):
        cassette.read_all(tmp_path / "new", "c")


# -- secrets ---------------------------------------------------------------------------

# What a stream of text looks like that spells the key.
PIECES = "\n\n".join(
    f'data: {{"n":{n},"text":{json.dumps(piece)}}}' for n, piece in enumerate(CANARY.partition("3141"))
)
OTHERS = {
    "x-gateway-authorization": "Bearer canary-of-a-gateway",
    "x-my-token": "canary-of-my-own",
    "cookie": "a=b; session=canary-of-a-cookie",
}


def leaks(folder: Path) -> list[str]:
    """The places of canaries in the files of a folder, whatever form they have there."""
    everything = b"\n".join(path.name.encode() + path.read_bytes() for path in sorted(folder.rglob("*")))
    forms = {CANARY, quote(CANARY, safe=""), json.dumps(CANARY)[1:-1].replace("/", "\\/"), "canary"}
    coded = {base64.b64encode(CANARY.encode()).decode().rstrip("=")}
    return [form for form in forms | coded if form.encode() in everything]


async def test_no_secret_is_in_the_files(tmp_path: Path) -> None:
    echo = f"{CANARY} {quote(CANARY, safe='')} {json.dumps(CANARY)[1:-1].replace('/', chr(92) + '/')}"
    echo += " " + "canary-of-a-gateway canary-of-my-own canary-of-a-cookie" + " canary-of-a-query"
    headers = {
        "content-type": "application/json",
        "set-cookie": "canary-of-a-cookie-set",
        "openai-organization": "canary-inc",
        "x-request-id": f"req-{CANARY}",
        "retry-after": "3",
    }
    body = json.dumps({"error": {"type": "rate_limit_error", "message": echo}}).encode()
    server = ReplayServer([Exchange(status=429, headers=headers, body=body), attrs.evolve(EXCHANGE, body=body)])
    async with trio.open_nursery() as nursery:
        url = (await nursery.start(server.serve)).replace("http://", "http://user:canary-password@")
        model = model_at(url, headers=OTHERS, path="/v1/messages?alt=sse&id=canary-of-a-query")
        async with aclosing(model):
            with Recorder(tmp_path, "c", secrets=["canary-project"]) as recorder:
                recorder.watch(model)
                for _ in range(2):
                    with pytest.raises(ProviderError):
                        await ask(model, f"I am {CANARY} of canary-project")
        assert "canary" not in repr(recorder.exchanges)
        nursery.cancel_scope.cancel(reason="the test is over")
    assert server.requests[0].headers["x-api-key"] == CANARY
    assert CANARY.encode() in server.requests[0].body
    assert leaks(tmp_path) == []
    first, second = cassette.read_all(tmp_path, "c")
    assert first.headers == {"content-type": "application/json", "x-request-id": "req-[secret]", "retry-after": "3"}
    assert json.loads(second.sent)["messages"][0]["content"][0]["text"] == "I am [secret] of [secret]"


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        ({"content-type": "application/vnd.amazon.eventstream"}, CANARY, "binary frames"),
        ({"content-type": "text/event-stream", "content-encoding": "gzip"}, CANARY, "compressed"),
        ({"content-type": "text/event-stream"}, PIECES, "several pieces"),
        ({"content-type": "application/vnd.amazon.eventstream"}, "\0\1\2".join(PIECES.split()), "several pieces"),
    ],
)
async def test_unredactable_exchange_is_not_recorded(
    tmp_path: Path, headers: dict[str, str], body: str, words: str
) -> None:
    class Host(LoopbackServer):
        async def _answer(self, request: object, connection: object) -> bool:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            await connection.send(f"HTTP/1.1 200 OK\r\n{lines}content-length: {len(body)}\r\n\r\n{body}".encode())  # type: ignore[attr-defined]
            return True

    server = Host(largest_piece=None, seed=0)
    with pytest.raises(ExceptionGroup) as caught:
        await record(server, tmp_path)
    assert caught.group_contains(ConfigError, match=words)
    assert recorded_in(tmp_path) == []


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://h/v1/m?alt=sse", "https://h/v1/m?alt=sse"),
        ("https://h/v1/m?key=AIzaABCDEFGH&alt=sse", "https://h/v1/m?key=[secret]&alt=sse"),
        ("https://u:p@h:8443/v1/m?api-version=2024-10-21", "https://h:8443/v1/m?api-version=2024-10-21"),
        ("https://h/v1/long-secret/m#top", "https://h/v1/[secret]/m"),
        ("https://h/m?sig=%2Fa%2F", "https://h/m?sig=[secret]"),
    ],
)
def test_urls_are_cleaned(url: str, clean: str) -> None:
    assert Scrubber.of(["long-secret"], url, []).url(url) == clean


def test_short_text_is_secret_only_if_declared() -> None:
    guessed = Scrubber.of([], "https://h/?q=word", [("x-token-count", "12"), ("authorization", "Basic dXNlcjpwYXNz")])
    assert guessed.text("a word, 12, dXNlcjpwYXNz") == "a word, 12, [secret]"
    assert Scrubber.of(["12", ""], "https://h/", []).text("a word, 12") == "a word, [secret]"


def test_non_json_body_is_searched_too(tmp_path: Path) -> None:
    odd = b'{"text": "\\x", "text": "long-sec"} {"text": "ret"} \xff'
    with pytest.raises(ConfigError, match="several pieces"):
        Scrubber.of(["long-secret"], "https://h/", []).answer(odd, is_binary=False)
    path = cassette.write(attrs.evolve(EXCHANGE, sent=b"no json", body=odd), tmp_path, "one")
    assert cassette.read(path) == attrs.evolve(EXCHANGE, sent=b"", body=odd)


def test_short_secret_is_not_searched_in_pieces() -> None:
    body = b'{"text":"m"}{"text":"an"}{"text":"y any"}'
    clean = b'{"text":"m"}{"text":"an"}{"text":"y [secret]"}'
    assert Scrubber.of(["any"], "https://h/", []).answer(body, is_binary=False) == clean


def test_the_longer_secret_goes_first() -> None:
    assert Scrubber.of(["abc", "abc-def"], "https://h/", []).text("abc-def abc") == "[secret] [secret]"
