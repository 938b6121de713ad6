"""The process of `engine serve`: its signals, what it tells its service manager, and the order in which it ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, final

import attrs
import trio

from engine.cli.flags.model_flags import ModelChoice
from engine.cli.folder_settings import FolderSettings
from engine.cli.page_link import open_in_browser, running_link
from engine.cli.served_engine import open_served_engine
from engine.cli.stdio_server import serve_stdio
from engine.cli.terminal.exit_codes import DONE
from engine.cli.terminal.own_streams import take_standard_streams
from engine.cli.terminal.signals import leave_at_once, termination_signals
from engine.cli.terminal.standard_streams import is_journal, print_error, print_text
from engine.control.listen import ServedAt, ServeOptions, serve
from engine.control.service.full_collections import collect_between_turns
from engine.control.service.server_discovery import ServerRunning
from engine.control.service.service_manager import ServiceManager
from engine.control.service.tls_files import TlsFiles
from engine.core.errors import ConfigError
from engine.core.exception_groups import public
from engine.core.threads import to_thread
from engine.prompt.layers import PromptLayers
from engine.session.engine import Engine, engine_runtime
from engine.tools.shell_environment import marker
from engine.tools.tool import Tool

ALREADY_RUNNING: Final = 11
_REASON: Final = "a signal has ended it"
_NO_BROWSER: Final = "engine serve: there is no browser to open the page in; run `engine serve` again for another link"


@attrs.frozen(kw_only=True)
class ServeCommand:
    """The parsed command line.

    Attributes:
        folders: the settings of each session's folder.
        place: the store's location.
        serving: how it is reached; None: over its standard streams.
        drain: how long turns may go on when it ends.
        requires_new: a server that runs already is an error.
        opens: the page is opened in a browser.
        manager: what the service manager has passed.
    """

    model: ModelChoice
    cwd: Path
    folders: FolderSettings
    layers: PromptLayers
    place: str
    serving: ServeOptions | None
    drain: float
    requires_new: bool
    opens: bool
    manager: ServiceManager


def run_server(command: ServeCommand, tools: Sequence[Tool]) -> int:
    """Serve until a signal, a client or idleness ends it; return the exit code. Raises `ConfigError`, `StoreError`."""
    stream = take_standard_streams() if command.serving is None else None
    try:
        return trio.run(_serve, command, tools, stream)
    except ServerRunning as running:
        # A service manager would start it again and again for the connection that waits.
        if running.record is None or command.manager.sockets:
            raise
        text = f"a server of this store runs at {running.record.url} (process {running.record.pid})"
        if command.requires_new:
            print_error(f"engine serve: {text}\nNext: engine attach\nor: engine serve --takeover")
            return ALREADY_RUNNING
        assert command.serving is not None
        assert command.serving.folder is not None
        folder = Path(command.serving.folder)
        link = running_link(running.record, folder)
        if link is not None and command.opens and not open_in_browser(folder, link):
            print_error(_NO_BROWSER)
        return print_text(f"{text}\n" if link is None or command.opens else f"{text}\n{_link_line(link)}\n")


async def _serve(command: ServeCommand, tools: Sequence[Tool], streams: tuple[int, int] | None) -> int:
    """Serve. Always a checkpoint. Raises `ConfigError`, `StoreError`."""
    ended = trio.Event()
    try:
        with trio.open_signal_receiver(*termination_signals()) as signals:
            # The server outlives the engine, so that clients get what that says when it is closed.
            async with trio.open_nursery() as nursery:
                async with open_served_engine(
                    command.model, command.folders, command.layers, tools, place=command.place
                ) as eng:
                    served = await nursery.start(_run, eng, command, streams, ended)
                    process = _ServerProcess(command, eng, served)
                    process.announce(nursery)
                    nursery.start_soon(command.manager.keep_alive)
                    nursery.start_soon(process.watch_signals, signals)
                    nursery.start_soon(collect_between_turns, process.is_working)
                    await served.drained.wait()
                    command.manager.notify("STOPPING=1")
                await ended.wait()
                nursery.cancel_scope.cancel(reason="the server has ended")
    except BaseExceptionGroup as group:
        raise public(group) from None
    return DONE


async def _run(
    eng: Engine,
    command: ServeCommand,
    streams: tuple[int, int] | None,
    ended: trio.Event,
    *,
    task_status: trio.TaskStatus[ServedAt],
) -> None:
    """Serve, and set *ended* after that. A checkpoint. Raises `ConfigError`."""
    if command.serving is not None:
        await serve(eng, command.serving, task_status=task_status)
    else:
        assert streams is not None
        reading, writing = streams
        stream = trio.StapledStream(trio.lowlevel.FdStream(writing), trio.lowlevel.FdStream(reading))
        await serve_stdio(eng, stream, drain_seconds=command.drain, task_status=task_status)
    ended.set()


@final
class _ServerProcess:
    """What a server's process does besides serving."""

    def __init__(self, command: ServeCommand, eng: Engine, served: ServedAt) -> None:
        self._command = command
        self._sessions = engine_runtime(eng).sessions.by_id
        self._served = served
        self._has_terminal = _has_terminal()

    def announce(self, nursery: trio.Nursery) -> None:
        """Say that it serves, and where; open the page in a task of *nursery*, where that is wanted."""
        if self._command.serving is not None:
            print_text(_where(self._served, self._command.serving))
        if self._command.opens:
            nursery.start_soon(self._open_page)
        self._command.manager.notify("READY=1", f"STATUS=serves at {self._served.url or 'standard input'}")

    async def _open_page(self) -> None:
        """Open the page in a browser, with a link of its own. A checkpoint; the thread of a browser that hangs is left."""
        link = self._served.link()
        assert self._command.serving is not None
        assert self._command.serving.folder is not None
        folder = Path(self._command.serving.folder)
        if link is None or not await to_thread(open_in_browser, folder, link):
            print_error(_NO_BROWSER)

    async def watch_signals(self, signals: AsyncIterator[int]) -> None:
        """End the server at a signal: slowly, at once, without saving. Runs until cancelled. A checkpoint."""
        first: int | None = None
        is_hurried = False
        async for number in signals:
            if number == signal.SIGHUP and not (self._has_terminal and not _has_terminal()):
                await self._reload()
            elif first is None:
                first = number
                self._drain(self._command.drain)
            # A closing terminal and service managers send two different signals for a single request.
            elif number not in {first, signal.SIGINT}:
                continue
            elif not is_hurried:
                is_hurried = True
                self._drain(0)
            else:
                await leave_at_once(number, self._is_ours)

    def is_working(self) -> bool:
        """Return whether a turn runs. Not a checkpoint."""
        return self._running > 0

    @property
    def _running(self) -> int:
        return sum(live.active is not None for live in self._sessions.values())

    def _drain(self, seconds: float) -> None:
        running = self._running
        if running and seconds:
            what = "a turn has" if running == 1 else f"{running} turns have"
            print_error(f"{what} {seconds:g} s to end; the same signal again stops and saves what runs")
        self._served.drain(seconds, _REASON)

    async def _reload(self) -> None:
        """Read the certificate again. A checkpoint; a useless one is reported, and the old one stays."""
        manager, options = self._command.manager, self._command.serving
        manager.notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        if options is not None and isinstance(options.tls, TlsFiles):
            try:
                await trio.to_thread.run_sync(options.tls.reload)
            except ConfigError as error:
                print_error(
                    f"engine serve: {error}\nThe old certificate stays in use. Next: mend the file, then send SIGHUP"
                )
        manager.notify("READY=1")

    def _is_ours(self, mark: str) -> bool:
        return any(mark.startswith(marker(session)) for session in self._sessions)


def _has_terminal() -> bool:
    """Return whether the process has a controlling terminal: without one, SIGHUP is a request to reload."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def _link_line(link: str) -> str:
    return f"Open the page, once, within ten minutes: {link}"


def _where(served: ServedAt, options: ServeOptions) -> str:
    """Return how to connect, for a person."""
    assert options.folder is not None
    token = Path(options.folder) / "token"
    url = (options.public_url or served.url).rstrip("/")
    link = None if is_journal() else served.link()
    lines = [
        f"engine serves at {url} and at {served.socket}",
        *([] if link is None else [_link_line(f"{url}{link.removeprefix(served.url)}")]),
        f"The token is in {token}. Try it:",
        f'  curl -H "Authorization: Bearer $(cat {token})" {url}/v1/sessions',
        "Ctrl-C ends it.",
    ]
    return "\n".join(lines) + "\n"
