"""Chromium, driven over its DevTools protocol: pages, input, the accessibility tree, the network log. See docs/design/0039."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from tests.support.checked_traffic import CheckedTraffic

EXECUTABLE: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS: Final = (
    "--headless",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-port=0",
)
# A machine may stand still for seconds; what is waited for here comes, or the test has failed.
_PATIENCE: Final = 30.0
_CHARS: Final[Mapping[str, tuple[str, int, str]]] = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "PageUp": ("PageUp", 33, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    " ": ("Space", 32, " "),
    ".": ("Period", 190, "."),
    "/": ("Slash", 191, "/"),
    "+": ("NumpadAdd", 107, "+"),
    "-": ("Minus", 189, "-"),
    "?": ("Slash", 191, "?"),
}
_MODIFIERS: Final = {"Alt": 1, "Control": 2, "Shift": 8}


@contextmanager
def chromium(folder: Path) -> Generator[str]:
    """Run a browser with its files in *folder*; yield the address of its protocol. It is gone when the block ends."""
    assert EXECUTABLE is not None
    profile = folder / "profile"
    # As root it has no sandbox of its own; it shows nothing but what the tests serve.
    flags = [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else []), f"--user-data-dir={profile}"]
    environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    quiet = subprocess.DEVNULL
    with subprocess.Popen([EXECUTABLE, *flags], env=environment, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        try:
            yield _address(profile / "DevToolsActivePort", process)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(file: Path, process: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + 2 * _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        lines = file.read_text().split("\n") if file.exists() else []
        if len(lines) == 2:
            return f"127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    raise AssertionError("chromium has not begun to listen")


class ProtocolError(Exception):
    """The browser refused a command."""


class Browser:
    """A connection to the browser's protocol."""

    def __init__(self, websocket: WebSocketConnection) -> None:
        self._websocket = websocket
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._waiting: dict[int, trio.Event] = {}
        self.pages: dict[str, Page] = {}

    async def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        event = self._waiting[number] = trio.Event()
        await self._websocket.send_message(json.dumps(message))
        with trio.fail_after(_PATIENCE):
            await event.wait()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise ProtocolError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    async def read(self) -> None:
        """Read until the connection ends."""
        while True:
            try:
                message: dict[str, Any] = json.loads(await self._websocket.get_message())
            except ConnectionClosed:
                return
            if "id" in message:
                self._answers[message["id"]] = message
                self._waiting.pop(message["id"]).set()
            elif (page := self.pages.get(message.get("sessionId", ""))) is not None:
                page.note(message["method"], message["params"])

    @asynccontextmanager
    async def page(
        self, *, width: int = 1280, height: int = 800, touch: bool = False, context: str | None = None
    ) -> AsyncGenerator[Page]:
        """Open a page: in a *context* of its own (cookies, storage), unless one is given; it is closed with the block."""
        own = context or (await self.send("Target.createBrowserContext"))["browserContextId"]
        target = (await self.send("Target.createTarget", url="about:blank", browserContextId=own))["targetId"]
        session = (await self.send("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        page = self.pages[session] = Page(self, session, own)
        for domain in ("Page", "Runtime", "Network", "Log"):
            await page.send(f"{domain}.enable")
        await page.resize(width, height, touch=touch)
        await page.send("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        try:
            yield page
        finally:
            del self.pages[session]
            with trio.CancelScope(shield=True), trio.move_on_after(10):
                await self.send("Target.closeTarget", targetId=target)
                if context is None:
                    await self.send("Target.disposeBrowserContext", browserContextId=own)


# What a page did that it must not: it is read at the end of a test.
_WATCH: Final = """
  globalThis.violations = [];
  document.addEventListener("securitypolicyviolation", (event) =>
    violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


@attrs.define(eq=False)
class Page:
    """A page: what it shows, and what it did."""

    _browser: Browser
    _session: str
    context: str
    requests: list[str] = attrs.field(factory=list[str])
    sockets: list[str] = attrs.field(factory=list[str])
    errors: list[str] = attrs.field(factory=list[str])
    traffic: dict[str, CheckedTraffic] = attrs.field(factory=dict[str, CheckedTraffic])

    def note(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Network.webSocketCreated":
                self.sockets.append(params["url"])
                self.traffic[params["requestId"]] = CheckedTraffic()
            case "Network.webSocketFrameSent" if params["response"]["opcode"] == 1:
                self.traffic[params["requestId"]].send(params["response"]["payloadData"])
            case "Network.webSocketFrameReceived" if params["response"]["opcode"] == 1:
                self.traffic[params["requestId"]].receive(params["response"]["payloadData"])
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Runtime.consoleAPICalled" if params["type"] == "error":
                self.errors.append(" ".join(str(each.get("value", each.get("description"))) for each in params["args"]))
            case _:
                pass

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.send(method, self._session, **params)

    async def resize(self, width: int, height: int, *, touch: bool = False, scale: float = 1) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": touch}
        await self.send("Emulation.setDeviceMetricsOverride", **metrics)
        await self.send("Emulation.setTouchEmulationEnabled", enabled=touch)

    async def media(self, **features: str) -> None:
        """Emulate media features: `prefers_color_scheme="dark"`, say."""
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        await self.send("Emulation.setEmulatedMedia", features=listed)

    async def goto(self, url: str) -> None:
        # `Page.navigate` answers when the page has begun to load; what is waited for afterwards says when it is ready.
        await self.send("Page.navigate", url=url)

    async def js(self, expression: str) -> Any:
        """Return the value of an expression; a promise is waited for."""
        result = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if details := result.get("exceptionDetails"):
            raise ProtocolError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    async def wait(self, expression: str, *, seconds: float = _PATIENCE) -> Any:
        """Wait until an expression is true; return its value. It fails with what the page shows."""
        end = trio.current_time() + seconds
        while True:
            try:
                # A node has no value of its own.
                value = await self.js(f"Promise.resolve({expression}).then((found) => found instanceof Node || found)")
            except ProtocolError:
                value = None  # it may look at what is not there yet
            if value:
                return value
            if trio.current_time() > end:
                shown = await self.js("document.body?.innerText")
                raise AssertionError(f"never true: {expression}\n{shown}\n{self.errors}")
            await trio.sleep(0.03)

    async def text(self, words: str) -> None:
        """Wait until the page shows *words*."""
        await self.wait(f"document.body.innerText.includes({json.dumps(words)})")

    async def gone(self, words: str) -> None:
        """Wait until the page no longer shows *words*."""
        await self.wait(f"!document.body.innerText.includes({json.dumps(words)})")

    async def click(self, selector: str, words: str = "") -> None:
        """Click the first element in view that matches *selector* and has *words* in it, once there is one."""
        # It must not move while it is clicked: a view may still scroll to its end.
        find = (
            f"(async () => {{ const node = [...document.querySelectorAll({json.dumps(selector)})].find((each) =>"
            f" (each.innerText + (each.ariaLabel ?? '')).includes({json.dumps(words)})"
            " && each.checkVisibility() && !each.disabled); if (!node) return null;"
            " node.scrollIntoView({block: 'nearest'});"
            " const place = () => { const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; };"
            " const before = place();"
            " await new Promise((resolve) => setTimeout(resolve, 60));"
            " const after = place();"
            " const top = document.elementFromPoint(...after);"
            " return node.isConnected && before.join() === after.join() && node.contains(top) ? after : null; })()"
        )
        x, y = await self.wait(find)
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def scroll(self, selector: str, distance: int) -> None:
        """Turn the wheel over an element."""
        box = f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        x, y = await self.js(box)
        await self.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=distance)

    async def type(self, text: str) -> None:
        """Insert text where the focus is."""
        await self.send("Input.insertText", text=text)

    async def key(self, keys: str) -> None:
        """Press a key, with modifiers: `Control+.`."""
        *held, name = [keys] if keys == "+" else keys.split("+")
        modifiers = sum(_MODIFIERS[each] for each in held)
        code, number, char = _CHARS.get(name) or (f"Key{name.upper()}", ord(name.upper()), name)
        text = {} if modifiers & 3 or not char else {"text": char}
        common = {"key": name, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    async def names(self, role: str) -> list[str]:
        """Return the names of what has a role in the accessibility tree, in their order."""
        nodes = (await self.send("Accessibility.getFullAXTree"))["nodes"]
        return [
            node.get("name", {}).get("value", "")
            for node in nodes
            if not node["ignored"] and node.get("role", {}).get("value") == role
        ]

    async def screenshot(self, path: Path) -> None:
        data = (await self.send("Page.captureScreenshot", format="png"))["data"]
        await trio.to_thread.run_sync(path.write_bytes, base64.b64decode(data))

    async def violations(self) -> list[str]:
        """What the page's policy has refused."""
        found: list[str] = await self.js("globalThis.violations")
        return found


@asynccontextmanager
async def connect_browser(address: str) -> AsyncGenerator[Browser]:
    """Connect to a running browser."""
    host, _, resource = address.partition("/")
    name, _, port = host.partition(":")
    async with trio.open_nursery() as nursery, await trio.open_tcp_stream(name, int(port)) as stream:
        websocket = await wrap_client_stream(
            nursery, stream, host, f"/{resource}", message_queue_size=1000, max_message_size=64 << 20
        )
        browser = Browser(websocket)
        nursery.start_soon(browser.read)
        yield browser
        nursery.cancel_scope.cancel()
