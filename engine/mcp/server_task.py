"""The life of a server: one task starts it, connects, lists its tools, serves requests, and starts it again.

The task is the only one that enters and leaves what belongs to the connection. No failure in it cancels anything else.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs
import trio

from engine.config.mcp_config import McpServer
from engine.core.errors import ConfigError
from engine.core.exception_groups import ErrorBoundary, describe, first_of
from engine.core.threads import to_thread
from engine.mcp.server_memory import Era, Remembered, ServerMemory
from engine.mcp.server_requests import ConnectionLost, LoginNeeded, ServerRequest
from engine.mcp.server_state import ServerPhase, ServerState
from engine.mcp.transport_report import TransportReport

if TYPE_CHECKING:
    from types import ModuleType

    from mcp_types import ElicitRequestParams, ElicitResult

    from engine.mcp.connect import Connected, ConnectPlan
    from engine.mcp.mcp_connection import McpConnection

T = TypeVar("T")

_importing = threading.Lock()
_imported: dict[str, ModuleType] = {}

# After a failure; then the user decides.
RETRIES: Final = (1.0, 4.0, 15.0, 60.0)
# For everything until the first list of tools.
START_SECONDS: Final = 30.0
LIST_SECONDS: Final = 30.0
# Between two lists.
_RELIST_PAUSE: Final = 2.0
# A new start that comes so soon is worth waiting for.
_SOON: Final = 4.0
# A server that worked for so long has not failed to start.
_STABLE_SECONDS: Final = 60.0


class NotReady(Exception):
    """The server did not get ready in time; nothing was sent."""


@attrs.define(eq=False, kw_only=True)
class ServerTask:
    """A server.

    Attributes:
        name: its name.
        server: its configuration.
        folder: the folder it runs in.
        memory: what is known of servers from the last time.
        on_change: called when its state has changed.
        variables: the engine's environment.
        roots: the URIs of the folders that it may know.
        retries: seconds before each new start after a failure.
        start_pause: seconds before the first start: loading the SDK must not slow down a request that is sent at once.
        idle_timeout: seconds without a call and without a turn after which it is ended; the next call starts it again.
    """

    name: str
    server: McpServer
    folder: str
    memory: ServerMemory
    on_change: Callable[[], None] = lambda: None
    variables: Mapping[str, str] = attrs.field(factory=lambda: dict(os.environ))
    roots: Callable[[], tuple[str, ...]] = tuple
    retries: Sequence[float] = RETRIES
    start_pause: float = 0.1
    idle_timeout: float = float("inf")
    state: ServerState = attrs.field(default=ServerState(), init=False)
    report: TransportReport = attrs.field(factory=TransportReport, init=False)
    _settled: trio.Event = attrs.field(factory=trio.Event, init=False)
    _again: trio.Event = attrs.field(factory=trio.Event, init=False)
    _dirty: trio.Event = attrs.field(factory=trio.Event, init=False)
    _live: _Live | None = attrs.field(default=None, init=False)
    _remembered: Remembered = attrs.field(default=Remembered(), init=False)
    # Whether it starts, or will do so in a moment.
    _is_coming: bool = attrs.field(default=True, init=False)
    # Set, and replaced, when its state changes.
    _moved: trio.Event = attrs.field(factory=trio.Event, init=False)
    _starts: int = attrs.field(default=0, init=False)
    # When it was used last, and whether it has ended because that is long ago.
    _used: float = attrs.field(default=0.0, init=False)
    _is_asleep: bool = attrs.field(default=False, init=False)

    # -- for other tasks -----------------------------------------------------------------------

    async def wait_settled(self) -> None:
        """Wait until it is ready, or has failed for the first time. Always a checkpoint."""
        await self._settled.wait()

    async def wait_ready(self, seconds: float) -> None:
        """Wait until it is ready, also for a new start that comes soon. Always a checkpoint. Raises `NotReady`."""
        self.touch()
        if self._is_asleep:
            self._is_asleep = False
            self._note_pause(0.0)
            self._again.set()
        with trio.move_on_after(seconds):
            await trio.lowlevel.checkpoint()
            while self._live is None and self._is_coming:
                await self._moved.wait()
        if self._live is None:
            reason = self.state.reason or f"it did not start within {seconds:g} s"
            raise NotReady(f"the MCP server {self.name} is not ready: {reason}")

    def touch(self) -> None:
        """Note that it is in use. Not a checkpoint."""
        self._used = trio.current_time()

    def start_again(self) -> None:
        """Start it again, if it has failed, or waits for a login or an approval. Not a checkpoint."""
        if self.state.phase in {"failed", "needs_auth", "needs_approval"}:
            self._settled = trio.Event()
            self._again.set()

    def start_request(self, request: ServerRequest[T]) -> None:
        """Send a request. Not a checkpoint. Raises `NotReady` if there is no connection now."""
        if self._live is None:
            raise NotReady(f"the MCP server {self.name} is not ready: {self.state.reason or self.state.phase}")
        self._live.start(cast("ServerRequest[object]", request))

    def report_roots(self) -> None:
        """Tell the server that the folders it may know have changed, if it is connected. Not a checkpoint."""

        async def work(connection: McpConnection, _: ServerRequest[None]) -> None:
            await connection.report_roots()

        if self._live is not None:
            self.start_request(ServerRequest(work=work, timeout=LIST_SECONDS, limit=LIST_SECONDS))

    def note_change(self) -> None:
        """Ask for the list of tools again. Not a checkpoint."""
        self._dirty.set()

    # -- the task ------------------------------------------------------------------------------

    async def run(self, held: str = "") -> None:
        """Keep the server running, until cancelled. A checkpoint. *held*: why it does not start before `start_again`."""
        failures = 0
        try:
            self._remembered = await to_thread(self.memory.load, self.server.fingerprint)
            self._replace(attrs.evolve(self.state, listed=self._remembered.listed))
            await trio.sleep(self.start_pause)
            if held:
                self._set("needs_approval", held)
                self._settled.set()
                self._note_pause(float("inf"))
                await self._again.wait()
            while True:
                begin = trio.current_time()
                self._again = trio.Event()
                await self._serve_once()
                failures = 0 if trio.current_time() - begin > _STABLE_SECONDS else failures
                pause = self.retries[failures] if failures < len(self.retries) else float("inf")
                if self.state.phase != "failed":
                    pause = float("inf")
                self._note_pause(pause)
                with trio.move_on_after(pause) as waited:
                    await self._again.wait()
                failures = failures + 1 if waited.cancelled_caught else 0
        finally:
            self._note_pause(float("inf"))
            self._set("stopped")

    async def _serve_once(self) -> None:
        """Start it, and serve requests until the connection ends. Always a checkpoint. Raises nothing ordinary."""
        self.report = TransportReport()
        if self._settled.is_set():
            self._settled = trio.Event()
        self._note_pause(0.0)
        self._set("starting")
        with ErrorBoundary() as boundary:
            sdk = await load_sdk()
            if await self._connect(sdk, self._remembered.era):
                # The server speaks another era than the last time: it was updated.
                await self._connect(sdk, None)
        error = boundary.error
        if self._is_asleep:
            self._set("stopped", "it was not used for long, and starts again with the next call")
            return
        if error is None:
            reason = "the connection ended"
        elif first_of(error, LoginNeeded) is not None:
            self._set("needs_auth", f"log in with: engine mcp login {self.name}")
            self._settled.set()
            return
        else:
            reason = describe_failure(error)
        if self.report.error_text:
            reason += f"\nThe end of its standard error:\n{self.report.error_text}"
        self._set("failed", reason)
        self._settled.set()

    async def _connect(self, sdk: ModuleType, era: Era | None) -> bool:
        """Connect and serve; return whether to try again with the other era, at once. Always a checkpoint."""
        self._starts += 1
        plan: ConnectPlan = sdk.ConnectPlan(
            name=self.name,
            server=self.server,
            folder=self.folder,
            variables=self.variables,
            marker=f"mcp.{self.name}.{os.getpid()}.{id(self):x}.{self._starts}",
            report=self.report,
            on_list_changed=self.note_change,
            elicit=self._elicit,
            roots=self.roots,
        )
        is_ready = False
        boundary = ErrorBoundary()
        with boundary, trio.fail_after(START_SECONDS) as limit:
            async with sdk.connect(plan, era) as connected:
                await self._relist(connected)
                limit.deadline = float("inf")
                is_ready = True
                await self._serve(connected)
        if boundary.error is None:
            return False
        if era is not None and not is_ready:
            self._remembered = attrs.evolve(self._remembered, era=None)
            # A program that is gone, or ends, would only do so again.
            if first_of(boundary.error, OSError) is None:
                return True
        raise boundary.error

    async def _serve(self, connected: Connected) -> None:
        """Serve requests until the server ends the connection. Always a checkpoint. Raises `ConnectionError`."""
        async with trio.open_nursery() as nursery:
            self._live = _Live(connected, nursery)
            self._set("ready")
            self._settled.set()
            try:
                nursery.start_soon(connected.connection.watch, self.note_change)
                nursery.start_soon(self._keep_list, connected)
                nursery.start_soon(self._check_era, connected)
                nursery.start_soon(self._end_when_idle, self._live, nursery.cancel_scope)
                await connected.ended.wait()
                # Those that wait learn the reason from the SDK first.
                await trio.lowlevel.checkpoint()
            finally:
                live, self._live = self._live, None
                live.lose_all()
                nursery.cancel_scope.cancel(reason="the connection has ended")
        if not self._is_asleep:
            raise ConnectionError(connected.why() or "the connection ended")

    async def _end_when_idle(self, live: _Live, serving: trio.CancelScope) -> None:
        """End the connection once it was not used for long. A checkpoint; until cancelled."""
        self.touch()
        while True:
            await trio.sleep_until(self._used + self.idle_timeout)
            if live.is_busy:
                self.touch()
            elif trio.current_time() >= self._used + self.idle_timeout:
                self._is_asleep = True
                serving.cancel(reason="it was not used for long")
                await trio.lowlevel.checkpoint()

    async def _check_era(self, connected: Connected) -> None:
        """Find out whether the server still is what it was the last time, as far as that was not asked now. A checkpoint."""
        with ErrorBoundary(), trio.move_on_after(START_SECONDS):
            if await connected.connection.has_changed():
                self.note_change()

    def _note_pause(self, seconds: float) -> None:
        """Tell those who wait whether it will start soon. Not a checkpoint."""
        self._is_coming = seconds <= _SOON
        moved, self._moved = self._moved, trio.Event()
        moved.set()

    async def _keep_list(self, connected: Connected) -> None:
        """Fetch the list again when the server says that it has changed, or that it may have. A checkpoint."""
        while True:
            fresh = max(self._remembered.fresh_until - time.time(), _RELIST_PAUSE)
            with trio.move_on_after(fresh if self._remembered.fresh_until else float("inf")):
                await self._dirty.wait()
            self._dirty = trio.Event()
            with ErrorBoundary() as boundary, trio.fail_after(LIST_SECONDS):
                await self._relist(connected)
            if boundary.error is not None:
                # The old list stays; it is asked for again with the next change.
                self._remembered = attrs.evolve(self._remembered, fresh_until=0.0)
            await trio.sleep(_RELIST_PAUSE)

    async def _relist(self, connected: Connected) -> None:
        """Fetch the list of tools and remember it. A checkpoint. Raises what the connection does."""
        connection = connected.connection
        listing = await connection.list_tools()
        fresh_until = time.time() + listing.seconds if listing.seconds else 0.0
        remembered = Remembered(era=connection.era, listed=listing.listed, fresh_until=fresh_until)
        is_news = (remembered.era, remembered.listed) != (self._remembered.era, self._remembered.listed)
        self._remembered = remembered
        self._replace(
            attrs.evolve(
                self.state,
                listed=listing.listed,
                protocol=connection.protocol,
                title=connection.title,
                has_resources=connection.has_resources,
            )
        )
        if is_news:
            await to_thread(self.memory.save, self.server.fingerprint, remembered)

    async def _elicit(self, params: ElicitRequestParams) -> ElicitResult:
        """Answer a question that names no request: the session whose calls are the only ones is asked. A checkpoint."""
        from mcp_types import ElicitResult

        await trio.lowlevel.checkpoint()
        requests = () if self._live is None else self._live.open_calls()
        if requests and len({request.owner for request in requests}) == 1:
            return await requests[-1].ask(params)
        return ElicitResult(action="decline")

    def _set(self, phase: ServerPhase, reason: str = "") -> None:
        """Change what it is doing, and say so. Not a checkpoint."""
        self._replace(attrs.evolve(self.state, phase=phase, reason=reason))

    def _replace(self, state: ServerState) -> None:
        state = attrs.evolve(state, notes=self.report.notes)
        if state != self.state:
            self.state = state
            moved, self._moved = self._moved, trio.Event()
            moved.set()
            self.on_change()


@attrs.define(eq=False)
class _Live:
    """An open connection and its requests."""

    connected: Connected
    nursery: trio.Nursery
    _open: dict[ServerRequest[object], None] = attrs.field(factory=dict["ServerRequest[object]", None], init=False)

    def start(self, request: ServerRequest[object]) -> None:
        self._open[request] = None
        self.nursery.start_soon(self._run, request)

    async def _run(self, request: ServerRequest[object]) -> None:
        try:
            await request.run(self.connected.connection)
        finally:
            self._open.pop(request, None)

    @property
    def is_busy(self) -> bool:
        return bool(self._open)

    def open_calls(self) -> tuple[ServerRequest[object], ...]:
        return tuple(request for request in self._open if request.owner)

    def lose_all(self) -> None:
        """Settle what is open: also requests whose task has not begun yet."""
        for request in tuple(self._open):
            request.lose()


async def load_sdk() -> ModuleType:
    """Import what needs the SDK. A checkpoint the first time. Raises `ImportError` with advice."""
    try:
        return await imported("engine.mcp.connect")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("engine."):
            raise
        raise ImportError("MCP servers need the extra 'mcp': pip install 'nursery-engine[mcp]'") from error


async def imported(name: str) -> ModuleType:
    """Return a module that needs the SDK, imported in a thread. A checkpoint the first time."""
    # Each call asks for one: a thread would cost it a millisecond, and several on a busy machine.
    known = _imported.get(name)
    return await to_thread(_import_alone, name) if known is None else known


def _import_alone(name: str) -> ModuleType:
    """Import a module that needs the SDK. It blocks.

    One thread at a time: two that import different parts of the SDK, whose modules import each other, would each wait for the
    other, and Python then gives one of them a module that is half initialised.
    """
    with _importing:
        module = _imported[name] = importlib.import_module(name)
        return module


def describe_failure(error: BaseException) -> str:
    """Return why a server failed, in a line or two."""
    if first_of(error, trio.TooSlowError) is not None:
        return f"timeout: it did not answer within {START_SECONDS:g} s"
    if (lost := first_of(error, ConnectionLost)) is not None:
        return str(lost) or "the connection ended"
    if (ended := first_of(error, ConnectionError)) is not None:
        return str(ended)
    if (missing := first_of(error, ConfigError) or first_of(error, ImportError)) is not None:
        return str(missing)
    for kind in (FileNotFoundError, PermissionError, NotADirectoryError):
        if (found := first_of(error, kind)) is not None:
            return f"its program can't be started: {found}"
    return describe(error)
