"""`web_search`: services on the loopback that speak as the real ones do. Real sockets, in real time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence

import attrs
import pytest
import trio

from engine.core.arguments import parse
from engine.core.errors import ConfigError, InvalidArguments, ToolError
from engine.tools.builtin.web_search import (
    MAX_COUNT,
    MAX_QUERY_CHARS,
    TIMEOUT,
    WebSearch,
    configured_web_search,
    web_search_tool,
)
from engine.tools.builtin.web_search_hosts import (
    SearchProvider,
    SearchResult,
    brave,
    exa,
    provider_from,
    searxng,
    tavily,
)
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_of
from tests.support.pages import Pages, hang, page, web

pytestmark = pytest.mark.os

KEY = "tvly-secret/+key"
Maker = Callable[[str], SearchProvider]
FIRST_PARTY: dict[str, Maker] = {
    "brave": lambda url: brave(KEY, base_url=url),
    "tavily": lambda url: tavily(KEY, base_url=url),
    "exa": lambda url: exa(KEY, base_url=url),
    "searxng": searxng,
}
FOUND: list[dict[str, object]] = [
    {"title": "One <strong>&amp; only</strong>", "url": "https://one.example/", "description": "It\n is <b>it</b>."},
    {"title": None, "url": "https://two.example/x?y"},
]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def answer(document: object, status: str = "200 OK") -> bytes:
    return page(json.dumps(document), "application/json", status=status)


async def run(ctx: ToolContext, provider: SearchProvider, query: str = "a & b", count: int = 5) -> ToolOutput:
    with trio.fail_after(30):
        output = await web_search_tool(provider).body(WebSearch(query, count), ctx)
    assert isinstance(output, ToolOutput)
    return output


def header(pages: Pages, name: str) -> str | None:
    found = re.search(rf"^{name}: (.*)\r$", pages.heads[-1], re.IGNORECASE | re.MULTILINE)
    return found[1] if found else None


@pytest.mark.parametrize(
    ("name", "path", "document", "headers"),
    [
        (
            "brave",
            "/res/v1/web/search?q=a+%26+b&count=5",
            {"web": {"results": FOUND}},
            {"X-Subscription-Token": KEY},
        ),
        (
            "tavily",
            "/search",
            {"results": [{**found, "content": found.get("description")} for found in FOUND]},
            {"Authorization": f"Bearer {KEY}", "content-type": "application/json"},
        ),
        (
            "exa",
            "/search",
            {"results": [{**FOUND[0], "highlights": ["It", "is it."]}, {**FOUND[1], "highlights": []}]},
            {"x-api-key": KEY, "content-type": "application/json"},
        ),
        (
            "searxng",
            "/search?q=a+%26+b&format=json",
            {"results": [{**found, "content": found.get("description")} for found in FOUND]},
            {"authorization": None},
        ),
    ],
)
async def test_request_format_of_each_service(
    ctx: ToolContext, name: str, path: str, document: object, headers: dict[str, str | None]
) -> None:
    async with web({path: answer(document)}) as pages:
        output = await run(ctx, FIRST_PARTY[name](pages.url("")))
    words = "It … is it." if name == "exa" else "It is it."
    assert output.text == (
        f"1. One & only\n   https://one.example/\n   {words}\n\n2. https://two.example/x?y\n   https://two.example/x?y"
    )
    assert json.loads(output.metadata) == {"summary": "2 results", "host": "127.0.0.1"}
    assert {name: header(pages, name) for name in headers} == headers


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("tavily", {"query": "ä", "max_results": 3}),
        ("exa", {"query": "ä", "numResults": 3, "contents": {"highlights": True}}),
    ],
)
async def test_request_content(ctx: ToolContext, name: str, sent: object) -> None:
    bodies: list[bytes] = []

    async def take(stream: trio.SocketStream) -> None:
        # The body may have come with the head, or after it.
        body = pages.heads[-1].partition("\r\n\r\n")[2].encode("latin-1")
        while len(body) < int(header(pages, "content-length") or 0):
            body += await stream.receive_some()
        bodies.append(body)
        await stream.send_all(answer({"results": []}))

    async with web({"/search": take}) as pages:
        output = await run(ctx, FIRST_PARTY[name](pages.url("/")), "ä", 3)
    assert [json.loads(body) for body in bodies] == [sent]
    assert output.text == "(nothing was found)"


async def test_result_count_is_bounded(ctx: ToolContext) -> None:
    many = {"results": [{"title": f"t{n}", "url": f"https://h/{n}"} for n in range(30)]}
    async with web({"/search?q=x&format=json": answer(many)}) as pages:
        output = await run(ctx, searxng(pages.url("")), "x", 2)
    assert output.text == "1. t0\n   https://h/0\n\n2. t1\n   https://h/1"


@pytest.mark.parametrize(
    "document",
    [
        [],
        5,
        {},
        {"results": 5},
        {"results": [5, {}, {"url": 5}, {"url": "ftp://x/"}, {"url": "javascript:x"}, {"url": "https://x/\n"}]},
        {"results": [{"url": "https://x/" + "y" * 3_000}]},
    ],
)
async def test_answers_of_the_wrong_shape(ctx: ToolContext, document: object) -> None:
    async with web({"/search": answer(document)}) as pages:
        assert (await run(ctx, FIRST_PARTY["tavily"](pages.url("")))).text == "(nothing was found)"


async def test_long_and_odd_texts(ctx: ToolContext) -> None:
    odd = {"title": "x" * 5_000, "url": "https://x/", "content": "a\x1b[1m\u202e" + "y " * 50_000}
    async with web({"/search": answer({"results": [odd]})}) as pages:
        text = (await run(ctx, FIRST_PARTY["tavily"](pages.url("")))).text
    assert len(text) < 1_000
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("name", "status", "document", "said"),
    [
        (
            "tavily",
            "401 No",
            {"detail": {"error": f"bad key {KEY}"}},
            r"TAVILY_API_KEY.*\(HTTP 401\).*bad key \[key\]$",
        ),
        ("exa", "403 No", {"error": "not tvly-secret%2F%2Bkey"}, r"EXA_API_KEY.*not \[key\]$"),
        ("brave", "422 No", {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}, "BRAVE_API_KEY"),
        ("brave", "422 No", {"error": {"detail": "Unable to validate"}}, "refuses this query.*Unable to validate"),
        ("searxng", "403 No", "", "do its settings allow the format json"),
        ("exa", "402 Pay", {"error": "no credits"}, "plan or money is used up.*no credits"),
        ("tavily", "432 No", {"detail": {"error": "plan"}}, "plan or money is used up"),
        ("tavily", "433 No", {}, r"plan or money is used up. Tell the user \(HTTP 433\)\.$"),
        ("brave", "429 No", [], "too many questions"),
        ("tavily", "400 No", {"detail": {"error": "Query is too long."}}, "refuses this query.*Query is too long"),
        ("tavily", "500 No", {"error": "x" * 1_000}, "out of order at the moment .HTTP 500.. It says: x{199}…$"),
        ("tavily", "404 No", {"detail": 5}, "is its URL right"),
        ("tavily", "302 No", {}, "is its URL right"),
    ],
)
async def test_errors(ctx: ToolContext, name: str, status: str, document: object, said: str) -> None:
    paths = ["/search", "/res/v1/web/search?q=a+%26+b&count=5", "/search?q=a+%26+b&format=json"]
    async with web(dict.fromkeys(paths, answer(document, status))) as pages:
        with pytest.raises(ToolError, match=said) as raised:
            await run(ctx, FIRST_PARTY[name](pages.url("")))
    assert str(raised.value).startswith("The search failed: 127.0.0.1 ")
    assert "secret" not in f"{raised.value!r} {raised.value.__cause__!r}"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (page("<html>", "text/html"), "answered with what is no JSON"),
        (page("[" * 100_000, "application/json"), "answered with what is no JSON"),
        (page(b"\xff", "application/json"), "answered with what is no JSON"),
        (page(b"x", content_length=str(10**9)), "larger than the limit of 4 MiB"),
        (b"nonsense\r\n\r\n", "The connection to 127.0.0.1 failed"),
        (b"", "The connection to 127.0.0.1 failed"),
    ],
)
async def test_answers_that_are_none(ctx: ToolContext, reply: bytes, said: str) -> None:
    async with web({"/search": reply}) as pages:
        with pytest.raises(ToolError, match=f"^The search failed: .*{said}"):
            await run(ctx, FIRST_PARTY["tavily"](pages.url("")))


async def test_no_server(ctx: ToolContext) -> None:
    async with web({}) as pages:
        url = pages.url("")
    with pytest.raises(ToolError, match=r"The search failed: 127\.0\.0\.1 can't be reached"):
        await run(ctx, searxng(url))


async def test_a_cancel_leaves_no_socket(ctx: ToolContext) -> None:
    async with web({"/search": hang}) as pages:
        with trio.move_on_after(0.2) as scope:
            await run(ctx, FIRST_PARTY["tavily"](pages.url("")))
        assert scope.cancelled_caught
        with trio.fail_after(30):
            await pages.wait_left()


@attrs.define
class Mine:
    """A provider of an embedder's own."""

    host: str = "my.index"
    seconds: float = 0.0

    async def __call__(self, query: str, count: int) -> Sequence[SearchResult]:
        await trio.sleep(self.seconds)
        return [SearchResult(title=query, url="https://x/", snippet=str(count))] * (count + 5)


async def test_a_provider_of_ones_own(ctx: ToolContext) -> None:
    assert (await run(ctx, Mine(), "q", 1)).text == "1. q\n   https://x/\n   1"


async def test_slow_service(ctx: ToolContext, autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(ToolError, match=r"my\.index did not answer within 30 s"):
        await web_search_tool(Mine(seconds=10 * TIMEOUT)).body(WebSearch("q"), ctx)


# -- configuration -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "host"),
    [
        ({}, None),
        ({"BRAVE_API_KEY": " "}, None),
        ({"BRAVE_API_KEY": "k"}, "api.search.brave.com"),
        ({"TAVILY_API_KEY": "k"}, "api.tavily.com"),
        ({"EXA_API_KEY": "k"}, "api.exa.ai"),
        ({"SEARXNG_URL": "http://localhost:8888/"}, "localhost"),
        ({"TAVILY_API_KEY": "k", "BRAVE_API_KEY": "k"}, "api.search.brave.com"),
        ({"TAVILY_API_KEY": "k", "BRAVE_API_KEY": "k", "ENGINE_WEB_SEARCH": "Tavily"}, "api.tavily.com"),
        ({"TAVILY_API_KEY": "k", "TAVILY_BASE_URL": "https://proxy.example/tavily"}, "proxy.example"),
    ],
)
def test_service_from_the_environment(environment: dict[str, str], host: str | None) -> None:
    found = configured_web_search(environment)
    if host is None:
        assert found is None
    else:
        assert found is not None
        need = Need(permission="web", patterns=(host,), detail="x")
        assert need_of(found, WebSearch("x")) == need
        assert not found.read_only
        assert found.safe(WebSearch("x"))


@pytest.mark.parametrize(
    "environment",
    [
        {"BRAVE_API_KEY": "secret\nkey"},
        {"BRAVE_API_KEY": "secrét"},
        {"SEARXNG_URL": "localhost:8888"},
        {"SEARXNG_URL": "http://user:secret@host/"},
        {"SEARXNG_URL": "http://host/?secret"},
        {"TAVILY_API_KEY": "k", "TAVILY_BASE_URL": "ftp://secret/"},
        {"ENGINE_WEB_SEARCH": "google"},
        {"ENGINE_WEB_SEARCH": "exa", "BRAVE_API_KEY": "secret"},
    ],
)
def test_invalid_configuration(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as raised:
        provider_from(environment)
    assert "secr" not in str(raised.value)


def test_a_key_is_not_shown() -> None:
    for make in FIRST_PARTY.values():
        assert "secret" not in repr(make("https://host"))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": " "},
        {"query": 5},
        {"query": "x" * (MAX_QUERY_CHARS + 1)},
        {"query": "x", "count": 0},
        {"query": "x", "count": MAX_COUNT + 1},
        {"query": "x", "site": "y"},
    ],
)
def test_arguments_that_do_not_fit(arguments: object) -> None:
    with pytest.raises(InvalidArguments):
        parse(WebSearch, json.dumps(arguments))
