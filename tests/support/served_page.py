"""A served engine with real tools, a scripted model, and a browser that has opened its page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from engine.config.config import Config
from engine.control.listen import ServedAt, ServeOptions, serve
from engine.control.service.private_files import private_folder, write_private
from engine.permission.user_policy import UserFiles, user_policy
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.testing.script import Answer
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.support.browser import Browser, Page, connect_browser
from tests.support.served_engine import Server, served

# A command that runs until a test makes the file `go` in the project.
UNTIL_GO = "until [ -e go ]; do sleep 0.05; done"


@attrs.define(eq=False)
class Line:
    """What is between the browser and the server, and can be cut.

    Attributes:
        is_cut: new connections end at once.
    """

    port: int
    is_cut: bool = False
    _open: set[trio.CancelScope] = attrs.field(factory=set[trio.CancelScope], init=False)
    _silent: set[trio.CancelScope] = attrs.field(factory=set[trio.CancelScope], init=False)

    def fall_silent(self) -> None:
        """Lose what open connections carry from now on, as while a machine sleeps; new ones are carried."""
        self._silent |= self._open

    def cut(self) -> None:
        """End all connections, and refuse new ones until `is_cut` is false again."""
        self.is_cut = True
        for scope in self._open:
            scope.cancel()

    async def carry(self, stream: trio.SocketStream) -> None:
        """Carry one connection."""
        with trio.CancelScope() as scope:
            self._open.add(scope)
            try:
                async with stream, await trio.open_tcp_stream("127.0.0.1", self.port) as server:
                    if not self.is_cut:
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(self._copy, stream, server, scope)
                            nursery.start_soon(self._copy, server, stream, scope)
            finally:
                self._open.discard(scope)
                self._silent.discard(scope)

    async def _copy(self, source: trio.SocketStream, target: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            async for data in source:
                if scope not in self._silent:
                    await target.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()


@attrs.frozen
class ServedPage:
    """A page of a served engine.

    Attributes:
        server: the engine's server.
        browser: the connection to the browser, for further pages.
        page: the signed-in page, at its list of sessions.
        project: the folder that sessions work in.
        url: the page's address.
        line: between the browser and the server.
    """

    server: Server
    browser: Browser
    page: Page
    project: Path
    url: str
    line: Line

    async def new_session(self, key: str = "s") -> str:
        """Make a session, as another program would."""
        async with self.server.unix() as client:
            await client.hello("program")
            return await client.new_session(self.project, key=key)

    async def open_session(self, page: Page | None = None) -> str:
        """Make a session and show it; return its id."""
        session_id = await self.new_session()
        await self.show(session_id, page)
        return session_id

    async def show(self, session_id: str, page: Page | None = None) -> None:
        """Show a session."""
        page = page or self.page
        await page.js(f"location.hash = '#/s/{session_id}'")
        await page.wait("document.querySelector('.session-place')?.textContent.includes('project')")

    @asynccontextmanager
    async def successor(self, folder: Path) -> AsyncGenerator[ServedAt]:
        """Serve the engine anew, with the same token, at the page's address; the connections to the other end."""
        text = f"{self.server.at.token}\n"
        await trio.to_thread.run_sync(partial(write_private, private_folder(folder) / "token", text, replace=False))
        async with trio.open_nursery() as nursery:
            at = await nursery.start(serve, self.server.engine, ServeOptions(folder=folder, public_url=self.url))
            self.line.cut()
            self.line.port = int(at.url.rpartition(":")[2])
            self.line.is_cut = False
            yield at
            nursery.cancel_scope.cancel()

    async def prompt(self, text: str) -> None:
        """Type a prompt into the page, and send it."""
        await self.page.click(".composer-field")
        await self.page.type(text)
        await self.page.key("Enter")

    async def sign_in(self, page: Page) -> None:
        """Open the page with a new link."""
        link = self.server.at.link()
        assert link is not None
        await page.goto(link.replace(self.server.at.url, self.url))
        await page.wait("document.querySelector('.connection')?.textContent === 'Connected'")


@asynccontextmanager
async def served_page(
    tmp_path: Path, address: str, *script: Answer, width: int = 1280, touch: bool = False, **opening: Any
) -> AsyncGenerator[ServedPage]:
    """Serve an engine that asks before it changes anything, and open its page. The page must have done nothing wrong."""
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    usual: dict[str, Any] = {
        "tools": builtin_tools({}),
        "permissions": PermissionOptions(approver=user_policy(Config(), UserFiles(tmp_path / "state", tmp_path))),
        "files": FileOptions(snapshots=ProjectSnapshots(folder=tmp_path / "snapshots")),
    }
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    options = ServeOptions(folder=tmp_path / "run", public_url=url)
    async with (
        listener,
        served(tmp_path, *script, seconds=110, options=options, **{**usual, **opening}) as server,
        connect_browser(address) as browser,
        browser.page(width=width, touch=touch) as page,
        trio.open_nursery() as nursery,
    ):
        line = Line(server.port)
        nursery.start_soon(trio.serve_listeners, line.carry, [listener])  # noqa: ASYNC113  # it listens already
        shown = ServedPage(server, browser, page, project, url, line)
        await shown.sign_in(page)
        yield shown
        assert await page.violations() == []
        assert page.errors == []
        # Nothing was asked of anybody else.
        assert [each for each in page.requests if not each.removeprefix("blob:").startswith(f"{url}/")] == []
        nursery.cancel_scope.cancel()
