"""A key appears only in its header: not in events, logs, errors, the store, or any repr."""

from __future__ import annotations

import json
import logging
import re
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterable
from itertools import pairwise
from urllib.parse import quote, urlsplit

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.core.errors import ProviderError
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import (
    Cited,
    Finished,
    ModelRequest,
    ProviderItem,
    StreamEvent,
    TextChunk,
    TextDone,
    ToolCallDone,
)
from engine.core.messages import Citation, TextPart, Transcript, UserMessage
from engine.core.settings import Limits, RetryPolicy, Settings
from engine.journal.codec import encode_event
from engine.providers.auth.auth import BasicAuth, ExtraHeadersAuth, KeyAuth, NoAuth, split_password
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.key_mask import KeyMask
from engine.providers.registry import resolve
from engine.store.memory import MemoryStore
from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import Answer, Fail, HttpFailure, call, done, reasoning, text
from tests.support.bench import Bench

KEY = "sk-ant-canary/2718+281828459045=="
PASSWORD = "pass-canary@31415:926535"
TOKEN = b64encode(f"me:{PASSWORD}".encode()).decode()
# As it is, as in a URL, as in JSON, and the beginning of what may be cut.
FORMS = (KEY, KEY[:14], quote(KEY, safe=""), json.dumps(KEY)[1:-1], PASSWORD, quote(PASSWORD, safe=""), TOKEN)
SETTINGS = Settings(retry=RetryPolicy(attempts=1, base=0.0), headless="deny")
NAME = "anthropic/claude-sonnet-4-5"

HELLO = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text="hello"),))

Echo = Callable[[ReceivedRequest], Answer]


def echoed(request: ReceivedRequest) -> str:
    """Every header, as a host might quote it."""
    return "; ".join(f"{name}: {value}" for name, value in request.headers.items())


def refusal(status: int, body: str, *headers: tuple[str, str]) -> Answer:
    return [HttpFailure(status, body, headers)]


def error(message: str, **more: object) -> str:
    return json.dumps({"type": "error", "error": {"message": message, **more}})


ECHOES: dict[str, Echo] = {
    "message": lambda r: refusal(401, error(f"bad key in {echoed(r)}", type="authentication_error")),
    "after a retry": lambda r: refusal(529, error(f"busy: {echoed(r)}", type="overloaded_error")),
    "type and code": lambda r: refusal(400, error("no", type=r.headers["x-api-key"], code=r.headers["x-api-key"])),
    "objects": lambda r: refusal(400, json.dumps({"error": {"details": [{"message": echoed(r)}, dict(r.headers)]}})),
    "a string in a string": lambda r: refusal(502, error(error(echoed(r)))),
    "validation": lambda r: refusal(422, json.dumps({"detail": [{"loc": ["header", KEY], "msg": echoed(r)}]})),
    "text": lambda r: refusal(500, echoed(r)),
    "a page": lambda r: refusal(403, f"<html><title>{echoed(r)}</title>{echoed(r)}</html>"),
    "as in a URL": lambda r: refusal(400, error(f"GET /?key={quote(r.headers['x-api-key'], safe='')}")),
    "where it is cut": lambda r: refusal(400, error("y " * 290 + r.headers["x-api-key"] + " and so on")),
    "a header": lambda r: refusal(429, "{}", ("retry-after", r.headers["x-api-key"]), ("x-echo", echoed(r))),
    "no stream": lambda r: refusal(200, echoed(r), ("content-type", "text/plain")),
    "another type": lambda r: refusal(200, "{}", ("content-type", r.headers["x-api-key"])),
    "in the middle": lambda r: [*text("so far")[:-1], Fail(ProviderError(echoed(r)))],
    "after a call": lambda r: [*call("read", "{}", id="c"), Fail(ProviderError(echoed(r), retryable=True))],
}


def about_everything(things: Iterable[object]) -> str:
    return "\n".join(f"{thing!s}\n{thing!r}" for thing in things)


def assert_clean(where: str, actual: str) -> None:
    for form in FORMS:
        assert form not in actual, f"a secret is in {where}: …{actual[max(0, actual.find(form) - 200) :][:400]}"


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
async def test_a_host_that_quotes_what_it_was_sent(echo: Echo, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # as an application that logs has it
    server = ScriptedServer(echo)
    store = MemoryStore()
    seen: list[object] = []
    async with trio.open_nursery() as nursery:
        url = urlsplit(await nursery.start(server.serve))
        address = url._replace(netloc=f"me:{quote(PASSWORD, safe='')}@{url.netloc}").geturl()
        model = resolve(NAME, {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": address})
        async with engine.open_engine(model=model, store=store, settings=SETTINGS, tools=Bench().tools()) as eng:
            session = await eng.create_session()
            turn: engine.Turn
            async with session.prompt("hello") as turn:
                seen += [event async for event in turn]
            seen += [turn, turn.result, session, session.state, eng, model]
            journal = "\n".join(encode_event(event) for event in session.events())
            stored = await store.load(session.id)
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")
    assert server.requests
    assert server.requests[0].headers["x-api-key"] == KEY
    assert server.requests[0].headers["authorization"] == f"Basic {TOKEN}"
    assert turn.result.stop_reason != "completed"
    assert_clean("what is seen", about_everything(seen))
    assert_clean("the journal", journal)
    assert_clean("the store", about_everything(stored))
    assert_clean("a log", "\n".join(f"{record.getMessage()} {record.args!r}" for record in caplog.records))
    assert_clean("a request's repr", about_everything(server.requests))


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
async def test_an_error_and_its_causes(echo: Echo) -> None:
    server = ScriptedServer(echo)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        model = resolve(NAME, {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url})
        with pytest.raises(ProviderError) as caught:
            stream = await model.open(ModelRequest(model=NAME, system="", transcript=Transcript([HELLO])))
            while await stream.receive():
                pass
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")
    assert_clean("the traceback", "".join(traceback.format_exception(caught.value)))
    assert_clean("the error", f"{caught.value!r} {caught.value.args} {vars(caught.value)}")


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 200])
async def test_an_answer_that_quotes_the_key(pieces: int) -> None:
    def answer(_: ReceivedRequest) -> Answer:
        quoted = f"sk- it is {KEY}, {quote(KEY, safe='')} and {KEY[:9]} sk-"
        return [
            *reasoning(quoted, pieces=pieces),
            *text(quoted, pieces=pieces),
            *call("read", {"path": quoted}, id="c", pieces=pieces),
            *done("calls"),
        ]

    server = ScriptedServer(answer)
    store = MemoryStore()
    seen: list[object] = []
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        model = resolve(NAME, {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url})
        settings = Settings(limits=Limits(steps=1), headless="deny")
        async with engine.open_engine(model=model, store=store, settings=settings, tools=Bench().tools()) as eng:
            session = await eng.create_session()
            async with session.prompt("hello") as turn:
                seen += [event async for event in turn]
            journal = "\n".join(encode_event(event) for event in session.events())
            stored = await store.load(session.id)
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")
    shown = "".join(event.text for event in seen if isinstance(event, engine.TextDelta))
    assert re.search(r"\[key\], (sk-)?\[key\] and sk-ant-ca sk-", shown)
    for where in (journal, about_everything(seen), about_everything(stored)):
        assert KEY not in where
        assert KEY[12:] not in where
        assert quote(KEY, safe="") not in where


@given(
    st.lists(st.sampled_from(["sk-", "s", "k-canary-0123456789", "sk-canary-0123456789", "-9", " "]), max_size=9),
    st.data(),
)
def test_where_chunks_end_makes_no_difference_to_a_key(words: list[str], data: st.DataObject) -> None:
    key, whole = "sk-canary-0123456789", "".join(words)
    ends = sorted({0, len(whole), *data.draw(st.lists(st.integers(0, len(whole)), max_size=9))})
    mask = KeyMask.of([key])
    assert mask is not None
    events: list[StreamEvent] = []
    for start, end in pairwise(ends):
        events += mask.apply([TextChunk("1", whole[start:end])])
    events += mask.finish()
    shown = "".join(event.text for event in events if isinstance(event, TextChunk))
    assert key not in shown
    assert shown.count("[key]") == whole.count(key)
    if key not in whole:
        assert shown == whole


def test_a_key_in_what_is_not_streamed() -> None:
    mask = KeyMask.of([KEY])
    assert mask is not None
    citation = Citation(url=f"https://x/{KEY}", title=KEY, quote=KEY, raw=KEY)
    item = ProviderItem("1", "search", json.dumps({"header": KEY}))
    masked = mask.apply(
        [Cited("1", citation), item, TextDone("1", KEY), Finished("stop", KEY, KEY), ToolCallDone("2", KEY)]
    )
    assert len(masked) == 5
    assert KEY not in repr(masked)


# -- what hides them -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "auth",
    [
        KeyAuth("x-api-key", KEY),
        KeyAuth("authorization", KEY, "Bearer"),
        ExtraHeadersAuth(KeyAuth("x-api-key", KEY), {"x-proxy": PASSWORD}),
        BasicAuth(NoAuth(), "me", PASSWORD),
        BasicAuth(NoAuth(), KEY, ""),
    ],
    ids=lambda auth: type(auth).__name__,
)
def test_secret_holders_never_show_them(auth: KeyAuth | ExtraHeadersAuth | BasicAuth) -> None:
    endpoint = Endpoint(base_url=f"https://me:{quote(PASSWORD)}@models.example", auth=auth, headers={"x-own": KEY})
    assert_clean("a repr", about_everything([auth, endpoint]))
    for secret in auth.secrets:
        assert secret not in endpoint.redact(f"it was {secret} or {quote(secret, safe='')}.")


def test_the_longest_secret_is_hidden_first() -> None:
    auth = ExtraHeadersAuth(KeyAuth("x-api-key", "abc"), {"x-own": "abcdef"})
    endpoint = Endpoint(base_url="https://models.example", auth=auth)
    assert endpoint.redact("abcdef, abc") == "[key], [key]"


def test_short_key_is_hidden_as_a_word_only() -> None:
    endpoint = Endpoint(base_url="http://localhost", auth=KeyAuth("x-api-key", "k"))
    assert endpoint.redact("8192 tokens; the key is k, or x-api-key=k.") == (
        "8192 tokens; the key is [key], or x-api-key=[key]."
    )


def test_masking_by_the_host_stays() -> None:
    endpoint = Endpoint(base_url="https://models.example", auth=KeyAuth("authorization", "sk-abcdefghijklm", "Bearer"))
    reported = "Incorrect API key provided: sk-ab*******klm."
    assert endpoint.redact(reported) == reported


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:pa%40ss@models.example:8443/v1", "https://models.example:8443/v1"),
        ("https://me@models.example", "https://models.example"),
        ("https://models.example/a@b", "https://models.example/a@b"),
    ],
)
def test_an_address_without_its_password(address: str, shown: str) -> None:
    url, auth = split_password(address, NoAuth())
    assert url == shown
    if "me" in address.partition("models")[0]:
        password = "pa@ss" if ":pa" in address else ""
        assert auth == BasicAuth(NoAuth(), "me", password)
    else:
        assert auth == NoAuth()
