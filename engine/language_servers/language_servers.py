"""`LanguageServers`: asks language servers for the errors in the files that an edit has changed.

A server is started by the first edit of one of its files, for the project that the file is in, and stopped after ten
minutes without an edit, and with the engine. An edit never waits for it longer than three seconds: what is not known by then
is reported as not ready. One that has failed is started again by the next edit, and after the third time not any more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from engine.config.language_server_config import LanguageServer
from engine.config.sandbox_config import Sandbox
from engine.core.errors import ToolError
from engine.core.foreign_calls import report_notice
from engine.core.threads import to_thread
from engine.files.real_path import is_within
from engine.files.text_files import decoded, read_data, renamed_errors
from engine.language_servers.conversation import OpenDocument, ServerFailed, Stamp
from engine.language_servers.error_report import MOST_FILES, FileReport, report_text
from engine.language_servers.running_server import RunningServer
from engine.mcp.server_text import bounded
from engine.permission.project_root import find_project_root
from engine.process.crash_cleanup import owned
from engine.sandbox.sandbox import SandboxLauncher
from engine.tools.search.search_paths import shown_path

if TYPE_CHECKING:
    from engine.tools.tool_context import ToolContext

WAIT_SECONDS: Final = 3.0
IDLE_SECONDS: Final = 600.0
_MOST_SERVERS: Final = 4
_MOST_CRASHES: Final = 3
_MOST_TEXT_BYTES: Final = 1_000_000


@attrs.define(eq=False)
class _ServerLives:
    """A server for a folder, over all its lives.

    Attributes:
        running: its present life; None: it does not run.
        checks: how many wait for it.
        last_used: when the last check ended.
        crashes: how often it has ended by itself.
        off: why it is not started any more; empty: it is.
        reported_to: the sessions that have heard of that.
    """

    running: RunningServer | None = attrs.field(default=None, init=False)
    checks: int = attrs.field(default=0, init=False)
    last_used: float = attrs.field(default=0.0, init=False)
    crashes: int = attrs.field(default=0, init=False)
    off: str = attrs.field(default="", init=False)
    reported_to: set[str] = attrs.field(factory=set[str], init=False)


@attrs.frozen
class _Read:
    """A changed file as it was read."""

    path: str
    root: str
    text: str
    stamp: Stamp


@final
class LanguageServers:
    """Language servers, for `engine.options.FileOptions(diagnostics=…)`.

    They work while the engine is open. One that fails or is slow costs an edit three seconds at most.
    """

    def __init__(
        self,
        servers: Mapping[str, LanguageServer],
        *,
        sandbox: Sandbox | None = None,
        wait_seconds: float = WAIT_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """Prepare *servers*, by name; nothing is started yet.

        Args:
            servers: by the names under which people know them.
            sandbox: where bubblewrap works, they run in it and can't change the project, unless its backend is "off" or
                "landlock".
            wait_seconds: an edit waits no longer than that.
            idle_seconds: after so long without an edit, a server is stopped.
        """
        self._servers = dict(servers)
        box = sandbox or Sandbox(backend="auto")
        self._launcher = SandboxLauncher(box) if box.backend in {"auto", "bwrap"} else None
        self._wait, self._idle = wait_seconds, idle_seconds
        # By name and folder.
        self._managed: dict[tuple[str, str], _ServerLives] = {}
        self._starts = 0
        self._nursery: trio.Nursery | None = None

    def has_checks(self, name: str) -> bool:
        """Return whether a file of that name is checked."""
        return any(server.is_for(name) for server in self._servers.values())

    async def run(self) -> None:
        """Keep the servers until cancelled; then none of their processes is left. Always a checkpoint."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def check(self, paths: Sequence[Path], ctx: ToolContext) -> str:
        """Return the errors in changed files as text for the model; empty if there is nothing to say. Always a checkpoint.

        If cancelled, the servers go on.
        """
        every = [path for path in paths if self.has_checks(path.name)]
        late = f"there is no answer after {self._wait:g} s; the next edit asks again"
        reports = {
            (path, name): FileReport(server=name, path=shown_path(ctx.cwd, path), problem=late)
            for path in every[:MOST_FILES]
            for name, server in self._servers.items()
            if server.is_for(path.name)
        }
        with trio.move_on_after(self._wait):
            await trio.lowlevel.checkpoint()
            async with trio.open_nursery() as nursery:
                for path, name in tuple(reports):
                    nursery.start_soon(self._check_one, name, path, ctx, reports, every)
        self._report_off(ctx)
        return report_text(list(reports.values()), left_out=max(0, len(every) - MOST_FILES))

    # -- one file --------------------------------------------------------------------------------

    async def _check_one(
        self,
        name: str,
        path: Path,
        ctx: ToolContext,
        reports: dict[tuple[Path, str], FileReport],
        every: Sequence[Path],
    ) -> None:
        """Ask a server about a file, and write the report. Always a checkpoint."""
        key = (path, name)
        try:
            read = await to_thread(_read, path, ctx.cwd, self._servers[name].root_files)
            document = await self._ask(name, read, ctx, every)
        except (ServerFailed, ToolError) as error:
            reports[key] = attrs.evolve(reports[key], problem=bounded(str(error), 500))
        else:
            reports[key] = attrs.evolve(reports[key], errors=document.errors, before=document.before, problem="")

    async def _ask(self, name: str, read: _Read, ctx: ToolContext, every: Sequence[Path]) -> OpenDocument:
        """Return a file's document, with its errors. A checkpoint. Raises `ServerFailed`."""
        managed = self._managed.setdefault((name, read.root), _ServerLives())
        running = managed.running or self._start(name, read.root, managed, ctx)
        if running.is_stopping:
            raise ServerFailed("the server is being stopped; the next edit starts it again")
        managed.checks += 1
        try:
            conversation = running.conversation
            changed = await to_thread(_changed_files, conversation.stamps, frozenset(map(str, every)))
            conversation.close(changed)
            return await conversation.check(read.path, read.text, read.stamp)
        except ServerFailed as error:
            if not running.conversation.is_over:
                raise
            failure = error
        finally:
            managed.checks -= 1
            managed.last_used = trio.current_time()
        # Its task notes the reason a moment later.
        await running.ended.wait()
        raise ServerFailed(f"the server has ended: {running.reason}") from failure

    # -- their lives -------------------------------------------------------------------------------

    def _start(self, name: str, root: str, managed: _ServerLives, ctx: ToolContext) -> RunningServer:
        """Start a server. Not a checkpoint. Raises `ServerFailed` if it must not be started now."""
        if self._nursery is None:
            raise ServerFailed("the engine is not open")
        if managed.off:
            raise ServerFailed(managed.off)
        at_work = [each for each in self._managed.values() if each.running is not None]
        if len(at_work) >= _MOST_SERVERS:
            if idle := [each for each in at_work if not each.checks]:
                self._nursery.start_soon(_stop, min(idle, key=lambda each: each.last_used))
            raise ServerFailed(f"{_MOST_SERVERS} language servers run already; one that is idle is stopped for it")
        self._starts += 1
        running = managed.running = RunningServer(
            name=name,
            server=self._servers[name],
            root=root,
            variables=ctx.secrets.without(os.environ),
            marker=owned(f"lsp.{name}.{os.getpid()}.{id(self):x}.{self._starts}".replace(":", "_")),
            launcher=self._launcher,
            on_end=partial(_note_end, managed),
        )
        self._nursery.start_soon(self._serve, managed, running, name=f"language server {name}")
        return running

    async def _serve(self, managed: _ServerLives, running: RunningServer) -> None:
        """See a server's life through. Always a checkpoint. Raises nothing ordinary."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_when_idle, managed)
            await running.run()
            nursery.cancel_scope.cancel(reason="the language server has ended")

    async def _stop_when_idle(self, managed: _ServerLives) -> None:
        """Stop a server that is not used any more. A checkpoint."""
        managed.last_used = trio.current_time()
        while True:
            await trio.sleep_until(managed.last_used + self._idle)
            if managed.checks:
                managed.last_used = trio.current_time()
            if trio.current_time() >= managed.last_used + self._idle:
                await _stop(managed)
                return

    def _report_off(self, ctx: ToolContext) -> None:
        """Let the user know which servers are off, once in each session. Not a checkpoint."""
        for (name, root), managed in self._managed.items():
            if managed.off and ctx.session_id not in managed.reported_to:
                managed.reported_to.add(ctx.session_id)
                report_notice("warning", "language_server", f"The language server {name} for {root}: {managed.off}")


def _note_end(managed: _ServerLives, running: RunningServer) -> None:
    """Take note that a server has ended; one that fails again and again is off. Not a checkpoint."""
    managed.running = None
    if running.is_stopping:
        return
    managed.crashes += 1
    if managed.crashes >= _MOST_CRASHES or not running.has_started:
        how = f"it has failed {managed.crashes} times" if running.has_started else "it can't be started"
        managed.off = bounded(f"{how}, and is off until the engine is opened again: {running.reason}", 1_000)


async def _stop(managed: _ServerLives) -> None:
    """Stop a server. A checkpoint if it runs."""
    if managed.running is not None and not managed.running.is_stopping:
        await managed.running.stop()


def _read(path: Path, cwd: str, root_files: Sequence[str]) -> _Read:
    """Read a changed file. It blocks. Raises `ToolError` for one that can't be checked."""
    data = read_data(path.name, path)
    if len(data) > _MOST_TEXT_BYTES:
        raise ToolError(f"the file has more than {_MOST_TEXT_BYTES:,} bytes")
    with renamed_errors(path.name, path):
        return _Read(str(path), _root_of(path, cwd, root_files), decoded(path.name, data).text, _stamp(path))


def _root_of(path: Path, cwd: str, root_files: Sequence[str]) -> str:
    """Return the folder that a file's server works in: the project's, or one inside it that has one of the root files."""
    home = str(Path.home())
    project = find_project_root(cwd, home=home)
    if not is_within(str(path), project):
        project = find_project_root(str(path.parent), home=home) or str(path.parent)
    inside = [folder for folder in path.parents if is_within(str(folder), project)]
    return next((str(each) for each in inside if any((each / name).exists() for name in root_files)), project)


def _stamp(path: Path) -> Stamp:
    state = path.stat()
    return state.st_mtime_ns, state.st_size


def _changed_files(stamps: Mapping[str, Stamp], checked: frozenset[str]) -> list[str]:
    """Return the files that others have changed since. It blocks."""

    def is_changed(path: str, stamp: Stamp) -> bool:
        try:
            return _stamp(Path(path)) != stamp
        except OSError:
            return True

    return [path for path, stamp in stamps.items() if path not in checked and is_changed(path, stamp)]
