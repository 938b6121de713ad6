"""`web_fetch`: pages as markdown, other kinds as what they are, and where it does not go. Real sockets, in real time."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from engine.core.arguments import parse
from engine.core.errors import ConfigError, InvalidArguments, ToolError
from engine.core.messages import FilePart
from engine.tools.builtin.web_fetch import MAX_BYTES, WebFetch, web_fetch_tool
from engine.tools.builtin.web_fetch_media import media_output
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool_context import ToolContext
from engine.web.address_guard import MAX_REDIRECTS
from tests.support.needs import need_of
from tests.support.network import OPENSSL, Certificates, make_certificates, proxy_to, tls_before
from tests.support.pages import CLOSED, OPEN, Pages, hang, names, page, redirect, web

pytestmark = pytest.mark.os

TOOL = web_fetch_tool(allow_private=[OPEN])
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


async def run(ctx: ToolContext, url: str, seconds: float = 20) -> ToolOutput:
    with trio.fail_after(30):
        output = await TOOL.body(WebFetch(url, seconds), ctx)
    assert isinstance(output, ToolOutput)
    return output


async def fetched(ctx: ToolContext, answer: bytes) -> ToolOutput:
    async with web({"/": answer}) as pages:
        return await run(ctx, pages.url())


async def refusal(ctx: ToolContext, answer: bytes) -> str:
    with pytest.raises(ToolError) as raised:
        await fetched(ctx, answer)
    return str(raised.value)


# -- what comes back ---------------------------------------------------------------------------------


async def test_page_is_markdown_with_full_links(ctx: ToolContext) -> None:
    html = "<title>A page</title><script>x()</script><h1>Hello</h1><p>See <a href='/there'>there</a>.</p>"
    async with web({"/dir/": page(html)}) as pages:
        output = await run(ctx, pages.url("/dir/"))
    assert output.text == f"Title: A page\n\n# Hello\n\nSee [there]({pages.url('/there')})."
    assert json.loads(output.metadata) == {
        "summary": f"{len(html)} bytes of text/html",
        "status": 200,
        "url": pages.url("/dir/"),
    }
    assert not output.failed


async def test_title_is_not_repeated(ctx: ToolContext) -> None:
    assert (await fetched(ctx, page("<title>A</title><h1>A</h1>b"))).text == "# A\n\nb"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ('{"a": "<b>"}', "application/json", '{"a": "<b>"}'),
        ("a <b> c", "text/plain", "a <b> c"),
        ("<a/>", "application/atom+xml", "<a/>"),
        ("x = 1", "application/x-python", "x = 1"),
        ("<svg/>", "image/svg+xml", "<svg/>"),
        (b"\xe9t\xe9", "text/plain; charset=ISO-8859-1", "été"),
        (b"\xe9t\xe9", "text/plain", "été"),
        (b"\xc3\xa9t\xc3\xa9", 'text/plain; charset="utf-8"', "été"),
        (b"\xff\xfea\x00", "text/plain", "a"),
        (b"<meta charset=koi8-r>\xc1", "text/html", "а"),  # noqa: RUF001  # Cyrillic
        (b"text", None, "text"),
        (b"<!DOCTYPE html><p>x", "application/octet-stream", "x"),
        ("", "text/html", "(it is empty)"),
        (b"bad \xff utf-8", "text/plain; charset=utf-8", "bad � utf-8"),
    ],
)
async def test_texts(ctx: ToolContext, body: str | bytes, content_type: str | None, text: str) -> None:
    assert (await fetched(ctx, page(body, content_type))).text == text


@pytest.mark.parametrize(
    ("pack", "encoding"),
    [
        (gzip.compress, "gzip"),
        (lambda data: gzip.compress(data[:3]) + gzip.compress(data[3:]), "GZIP"),
        (zlib.compress, "deflate"),
        (lambda data: zlib.compress(data, wbits=-15), "deflate"),
        (lambda data: data, "identity"),
    ],
)
async def test_compressed(ctx: ToolContext, pack: Callable[[bytes], bytes], encoding: str) -> None:
    packed = pack(b"hello there")
    assert (await fetched(ctx, page(packed, "text/plain", content_encoding=encoding))).text == "hello there"


async def test_an_image_is_seen(ctx: ToolContext) -> None:
    output = await fetched(ctx, page(PIXEL, "application/octet-stream"))
    assert [(image.media_type, base64.b64decode(image.data)) for image in output.images] == [("image/png", PIXEL)]


async def test_a_pdf_is_attached(ctx: ToolContext) -> None:
    data = b"%PDF-1.4\nno pages"
    async with web({"/a%20b.pdf?x": page(data, "application/pdf")}) as pages:
        output = await run(ctx, pages.url("/a%20b.pdf?x"))
    assert output.files == (
        FilePart(media_type="application/pdf", data=base64.b64encode(data).decode(), name="a b.pdf"),
    )
    assert f"is a PDF of {len(data)} bytes, attached" in output.text


async def test_http_error_quotes_its_body(ctx: ToolContext) -> None:
    output = await fetched(ctx, page("<h1>No</h1>" + "x" * 9_000, status="403 Go away"))
    assert output.failed
    assert re.match(
        r"HTTP 403 Go away, from http://127.0.0.1:\d+/\n\n# No\n\nx+\n\[the rest is not shown\]\Z", output.text
    )
    assert len(output.text) < 4_200


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (page(b"PK\3\4", "application/zip"), "is application/zip, 4 bytes, which this tool can't show"),
        (page(b"\0\1", None), "is unknown type, 2 bytes"),
        (page(b"x", "image/tiff"), "is image/tiff"),
        (page(b"\x89PNG\r\n\x1a\nxxxx", "image/png"), "begins like an image, but is damaged"),
        (page(b"%PDF-1.4 /Encrypt", "application/pdf"), "can't be shown: it is encrypted"),
        (page("x", content_length=str(MAX_BYTES + 1)), "larger than the limit of 5 MiB"),
        (page("x", content_length="9" * 100), "failed|larger"),
        (page("x" * (MAX_BYTES + 1)), "larger than the limit of 5 MiB"),
        (page(gzip.compress(bytes(200_000_000)), content_encoding="gzip"), "larger than the limit of 5 MiB"),
        (page(b"\x1f\x8b" + bytes(20), content_encoding="gzip"), "compressed, and broken"),
        (page(gzip.compress(b"hello")[:-4], content_encoding="gzip"), "compressed, and its end is missing"),
        (page(gzip.compress(b"") * 101, content_encoding="gzip"), "too many parts"),
        (page("x", content_encoding="br"), "compressed by 'br'"),
        (page("x", content_encoding="gzip, gzip"), "compressed by 'gzip, gzip'"),
        (b"hello\r\n\r\n", "The connection to 127.0.0.1 failed: "),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000 + b"\r\n\r\n", "The connection to 127.0.0.1 failed: "),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "The connection to 127.0.0.1 failed: "),
        (b"", "The connection to 127.0.0.1 failed: "),
        (redirect("/"), f"redirects more than {MAX_REDIRECTS} times"),
        (redirect("ftp://x/"), "redirects to what can't be fetched: it must begin with"),
        (redirect("http://user:secret@127.0.0.1/"), "redirects to what can't be fetched: it holds a user's name"),
        (redirect("http://["), "redirects to what can't be fetched"),
        (redirect(f"http://{CLOSED}/"), rf"Refused: {CLOSED} is a loopback address"),
        (redirect("http://169.254.169.254/latest/"), "Refused: 169.254.169.254 is a link-local address"),
        (redirect("http://[::ffff:10.0.0.1]/"), "Refused: 10.0.0.1 is a private address"),
        (redirect("//0x7f.2/"), r"Refused: 127\.0\.0\.2 is a loopback address"),
    ],
)
async def test_unreachable_pages(ctx: ToolContext, answer: bytes, reason: str) -> None:
    said = await refusal(ctx, answer)
    assert re.search(reason, said)
    assert "secret" not in said


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "http://",
        "http://a b/",
        "http://user:secret@example.com/",
        "http://example.com\\@evil.example/",
        "http://a..b/",
        "http://1.2.3.4.5/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://x:0/",
        "http://x:70000/",
        "http://127.0.0.1\u2028/",
        "https://" + "x" * 9_000,
        5,
        None,
    ],
)
def test_urls_that_are_none(url: object) -> None:
    with pytest.raises(InvalidArguments) as raised:
        parse(WebFetch, json.dumps({"url": url}))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "arguments", ["{}", '{"url": "http://x/", "timeout": 0}', '{"url": "http://x/", "timeout": 121}']
)
def test_arguments_that_do_not_fit(arguments: str) -> None:
    with pytest.raises(InvalidArguments):
        parse(WebFetch, arguments)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://017700000001/",
        "http://127.1/",
        "http://0/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://10.1.2.3/",
        "http://172.31.0.1/",
        "http://192.168.1.1/",
        "http://100.100.100.200/",
        "http://169.254.169.254/",
        "http://168.63.129.16/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://224.0.0.1/",
        "http://[ff02::1]/",
        "http://255.255.255.255/",
        "http://192.0.2.1/",
    ],
)
async def test_private_addresses_are_refused(ctx: ToolContext, url: str) -> None:
    with trio.fail_after(30), pytest.raises(ToolError, match=r"^Refused: .*Only what is on the public internet"):
        await web_fetch_tool().body(WebFetch(url), ctx)


async def test_name_is_judged_by_all_its_addresses(ctx: ToolContext) -> None:
    async with names(two_example=[["8.8.8.8", "10.0.0.1"]], one_example="::1"):
        with pytest.raises(ToolError, match=r"Refused: two\.example \(10\.0\.0\.1\) is a private address"):
            await run(ctx, "http://two.example/")
        with pytest.raises(ToolError, match=r"Refused: one\.example \(::1\) is a loopback address"):
            await run(ctx, "http://one.example/")
        with pytest.raises(ToolError, match=r"The host nowhere\.example can't be found"):
            await run(ctx, "http://nowhere.example/")


async def test_name_is_resolved_only_once(ctx: ToolContext) -> None:
    async with web({"/": page("good")}) as good, web({"/": page("secret")}, host=CLOSED, port=good.port) as other:
        async with names(rebinding_example=[[OPEN], [CLOSED]]) as resolver:
            output = await run(ctx, good.url(host="rebinding.example"))
    assert output.text == "good"
    assert resolver.asked["rebinding.example"] == 1
    assert f"host: rebinding.example:{good.port}\r\n" in good.heads[0].lower()
    assert other.heads == []


async def test_the_next_address_is_tried(ctx: ToolContext) -> None:
    async with web({"/": page("here")}) as pages, names(two_example=[["127.0.0.3", OPEN]]):
        tool = web_fetch_tool(allow_private=["127.0.0.0/8"])
        output = await tool.body(WebFetch(pages.url(host="two.example")), ctx)
    assert isinstance(output, ToolOutput)
    assert output.text == "here"


async def test_refused_connection(ctx: ToolContext) -> None:
    async with web({}) as pages:
        url = pages.url()
    with pytest.raises(ToolError, match=r"127\.0\.0\.1 can't be reached: "):
        await run(ctx, url)


def test_non_network_schemes_are_refused() -> None:
    for wrong in (["localhost"], ["10.0.0.1/8"], "127.0.0.1"):
        with pytest.raises(ConfigError):
            web_fetch_tool(allow_private=wrong)


# -- redirects -----------------------------------------------------------------------------------------


async def test_redirects_on_the_same_host_are_followed(ctx: ToolContext) -> None:
    routes = {
        "/": redirect("/a", "301 Moved"),
        "/a": redirect("b?x#frag", "303 See Other"),
        "/b?x": redirect("/c d", "307 Temporary"),
        "/c%20d": page("there"),
    }
    async with web(routes) as pages:
        output = await run(ctx, pages.url())
    assert output.text == f"(from {pages.url('/c%20d')})\n\nthere"
    assert pages.paths == ["/", "/a", "/b?x", "/c%20d"]


async def test_redirect_to_another_host_is_only_reported(ctx: ToolContext) -> None:
    async with names(other_example=OPEN), web({"/": redirect("http://other.example/x")}) as pages:
        output = await run(ctx, pages.url())
    assert "\nhttp://other.example/x\n" in output.text
    assert not output.failed
    assert len(pages.heads) == 1


async def test_redirect_to_a_private_name(ctx: ToolContext) -> None:
    async with names(inner_example=CLOSED), web({"/": redirect("http://inner.example/x")}) as pages:
        with pytest.raises(ToolError, match=r"Refused: inner\.example \(127\.0\.0\.2\)"):
            await run(ctx, pages.url())


async def test_each_redirect_is_judged_again(ctx: ToolContext) -> None:
    async with web({"/": redirect("/next"), "/next": page("secret")}) as pages:
        async with names(rebinding_example=[[OPEN], [CLOSED]]):
            with pytest.raises(ToolError, match=r"Refused: rebinding\.example \(127\.0\.0\.2\)"):
                await run(ctx, pages.url(host="rebinding.example"))
    assert pages.paths == ["/"]


# -- TLS and proxies ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if OPENSSL is None:
        pytest.skip("there is no openssl")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


async def test_tls_uses_name_at_the_judged_address(
    ctx: ToolContext, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    async with (
        names(models_example=[[OPEN], [CLOSED]], wrong_example=OPEN) as resolver,
        web({"/": page("private talk")}) as pages,
        tls_before(pages.port, certificates) as port,
    ):
        output = await run(ctx, f"https://models.example:{port}/")
        assert output.text == "private talk"
        assert resolver.asked["models.example"] == 1
        assert f"host: models.example:{port}\r\n" in pages.heads[0].lower()
        with pytest.raises(ToolError, match=r"wrong\.example can't be reached: .*certificate"):
            await run(ctx, f"https://wrong.example:{port}/")
        await left(pages)


async def test_untrusted_certificate(ctx: ToolContext, certificates: Certificates) -> None:
    async with web({"/": page("x")}) as pages, tls_before(pages.port, certificates) as port:
        with pytest.raises(ToolError, match=r"127\.0\.0\.1 can't be reached: .*certificate"):
            await run(ctx, f"https://127.0.0.1:{port}/")


async def test_cancelled_handshake_leaves_no_socket(ctx: ToolContext) -> None:
    async with web({}) as pages:  # it never speaks TLS
        with trio.move_on_after(0.3) as scope:
            await run(ctx, f"https://127.0.0.1:{pages.port}/")
        assert scope.cancelled_caught
        await left(pages)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_looks_names_up_itself(
    ctx: ToolContext, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    async with (
        names(private_example="10.0.0.1") as resolver,
        web({"/": page("by proxy"), "http://models.example/": page("by proxy")}) as pages,
        tls_before(pages.port, certificates) as tls_port,
        proxy_to(pages.port if scheme == "http" else tls_port) as (proxy, port),
    ):
        monkeypatch.setenv(f"{scheme}_proxy", f"127.0.0.1:{port}")
        output = await run(ctx, f"{scheme}://models.example/")
        assert output.text == "by proxy"
        assert proxy.asked == [
            "GET http://models.example/ HTTP/1.1" if scheme == "http" else "CONNECT models.example:443 HTTP/1.1"
        ]
        for closed in ("private.example", "10.0.0.1", "0x7f.2"):
            with pytest.raises(ToolError, match="Refused"):
                await run(ctx, f"{scheme}://{closed}/")
        assert len(proxy.asked) == 1
        assert resolver.asked["models.example"] == 0


async def test_a_proxy_that_can_not_be_used(ctx: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy_to(9, refuses=True) as (_, port):
        monkeypatch.setenv("https_proxy", f"http://user:secret@127.0.0.1:{port}")
        with pytest.raises(ToolError, match="failed: 407") as raised:
            await run(ctx, "https://8.8.8.8/")
    assert "secret" not in str(raised.value)
    monkeypatch.setenv("https_proxy", "gopher://user:secret@x")
    with pytest.raises(ToolError, match="proxy that the environment names can't be used") as raised:
        await run(ctx, "https://8.8.8.8/")
    assert "secret" not in str(raised.value)


async def test_no_proxy_is_heeded(ctx: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    async with web({"/": page("direct")}) as pages:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert (await run(ctx, pages.url())).text == "direct"


# -- what is sent, and when it ends ----------------------------------------------------------------------


async def test_request_reveals_no_identity(ctx: ToolContext) -> None:
    routes = {"/": page("x", set_cookie="a=b", status="302 Found", location="/next"), "/next": page("y")}
    async with web(routes) as pages:
        await run(ctx, pages.url())
    sent = {line.partition(":")[0].lower() for head in pages.heads for line in head.split("\r\n")[1:] if line}
    assert sent == {"host", "user-agent", "accept", "accept-encoding", "connection"}
    assert "user-agent: nursery-engine/" in pages.heads[0].lower()


async def trickle(stream: trio.SocketStream) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
    while True:
        await stream.send_all(b"x")
        await trio.sleep(0.01)


async def flood(stream: trio.SocketStream) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
    while True:
        await stream.send_all(bytes(65_536))


async def left(pages: Pages) -> None:
    with trio.fail_after(30):
        await pages.wait_left()


@pytest.mark.parametrize("answer", [hang, trickle])
async def test_a_host_that_takes_too_long(ctx: ToolContext, answer: object) -> None:
    routes = {"/": hang} if answer is hang else {"/": trickle}
    async with web(routes) as pages:
        with pytest.raises(ToolError, match=r"It took longer than 0\.3 s and was stopped\."):
            await run(ctx, pages.url(), 0.3)
        await left(pages)


async def test_endless_answer_is_abandoned(ctx: ToolContext) -> None:
    async with web({"/": flood}) as pages:
        with pytest.raises(ToolError, match="larger than the limit"):
            await run(ctx, pages.url())
        await left(pages)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("answer", ["hang", "trickle", "flood"])
async def test_a_cancel_leaves_no_socket(ctx: ToolContext, answer: str, seconds: float) -> None:
    routes = {"/hang": hang, "/trickle": trickle, "/flood": flood}
    async with web(routes) as pages:
        start = trio.current_time()
        with trio.move_on_after(seconds) as scope:
            try:
                await run(ctx, pages.url(f"/{answer}"))
            except ToolError:  # the flood may have been too much before
                assert answer == "flood"
        assert scope.cancelled_caught or answer == "flood"
        assert trio.current_time() - start < 20
        await left(pages)


async def test_cancel_while_storing_a_file(ctx: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = PIXEL + bytes(2_000_000)

    async def show() -> None:
        with suppress(ToolError):  # a picture it is not
            await media_output("https://example.com/a.png", data, ctx, is_pdf=False)

    for number in range(400):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(show)
            for _ in range(number % 4):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel(reason="test")
    await trio.sleep(0.1)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a folder of our own


def test_the_right_it_needs() -> None:
    need = Need(permission="web", patterns=("xn--bcher-kva.example",))
    url = "HTTPS://Bücher.Example.:8443/x"
    assert need_of(TOOL, WebFetch(url)) == Need(permission=need.permission, patterns=need.patterns, detail=url)
    assert need_of(TOOL, WebFetch("http://0x8.8.8.8/")).patterns == ("8.8.8.8",)
    assert not TOOL.read_only
    assert TOOL.safe(WebFetch(url))
