"""`RunningServer`: one life of a language server: its process, and the bytes to and from it.

`run_tree` owns the process. When the task is cancelled, standard input is closed; what has not exited a quarter of a second
later gets SIGTERM, then SIGKILL. The next engine ends what a killed one has left, by the marker in its environment.

What a server sends is read with a rest: for each moment that takes, the server waits for four, so that a storm of messages
takes a fifth of the engine's time at most.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs
import trio

from engine.config.language_server_config import LanguageServer
from engine.core.errors import ToolError
from engine.core.exception_groups import ErrorBoundary, describe, first_of
from engine.core.threads import to_thread
from engine.jsonrpc.message_stream import BadFraming, HeaderSplitter
from engine.jsonrpc.rpc_messages import RpcFrame, parse_frame
from engine.jsonrpc.strict_json import BadJson, FrameTooLarge, RpcLimits
from engine.language_servers.conversation import ServerConversation, ServerFailed
from engine.mcp.server_text import one_line
from engine.process.resource_limits import ResourceLimits
from engine.process.run_tree import FinishedProcess, run_tree
from engine.process.start import Launch
from engine.sandbox.backends import choose_backend
from engine.sandbox.sandbox import SandboxLauncher

# Seconds for the answer to `initialize`.
START_SECONDS: Final = 60.0
_EXIT_GRACE: Final = 0.25
_STOP_SECONDS: Final = 1.0
_MEMORY_INTERVAL: Final = 1.0
_PROCESSES: Final = 200
_LIMITS: Final = RpcLimits(bytes=4 * 1024 * 1024, id_chars=256)
# Larger messages are parsed in a thread.
_SMALL_BYTES: Final = 65_536
_MOST_UNSENT: Final = 256
# After so long with a server's messages, others have the engine for so many times as long.
_BUSY_SECONDS: Final = 0.002
_REST: Final = 4
_ERROR_BYTES: Final = 2_000
_SHOWN_CHARS: Final = 400


@attrs.define(eq=False)
class RunningServer:
    """A server at work.

    Attributes:
        name: its name in the configuration.
        server: its configuration.
        root: the folder it works in.
        variables: the environment, without secrets.
        marker: identifies its processes.
        launcher: the sandbox that it runs in, if that works here, and where it can change nothing; None: none.
        on_end: called with it when it has ended.
        reason: why it has ended.
        has_started: whether its process was started.
        is_stopping: whether it was asked to end.
        ended: set when nothing is left of it.
    """

    name: str
    server: LanguageServer
    root: str
    variables: Mapping[str, str]
    marker: str
    launcher: SandboxLauncher | None
    on_end: Callable[[RunningServer], None]
    reason: str = attrs.field(default="", init=False)
    has_started: bool = attrs.field(default=False, init=False)
    is_stopping: bool = attrs.field(default=False, init=False)
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    conversation: ServerConversation = attrs.field(init=False)
    _outbox: trio.MemorySendChannel[bytes] = attrs.field(init=False)
    _unsent: trio.MemoryReceiveChannel[bytes] = attrs.field(init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _splitter: HeaderSplitter = attrs.field(factory=lambda: HeaderSplitter(_LIMITS.bytes), init=False)
    _frames: deque[bytes] = attrs.field(factory=deque[bytes], init=False)
    _errors: bytearray = attrs.field(factory=bytearray, init=False)

    def __attrs_post_init__(self) -> None:
        self._outbox, self._unsent = trio.open_memory_channel[bytes](_MOST_UNSENT)
        self.conversation = ServerConversation(self.server, self.root, self._send)

    async def run(self) -> None:
        """Run it to its end. Always a checkpoint. If cancelled, no process is left. Raises nothing ordinary."""
        try:
            with self._scope, ErrorBoundary() as boundary:
                async with trio.open_nursery() as nursery:
                    launch = await self._launch()
                    nursery.start_soon(self._begin)
                    self._note_end(await self._run_process(launch))
                    nursery.cancel_scope.cancel(reason="the server has ended")
            if boundary.error is not None:
                self.reason = _reason_of(boundary.error)
        finally:
            self.conversation.end()
            self._outbox.close()
            self._unsent.close()
            if self._errors:
                words = one_line(bytes(self._errors).decode("utf-8", "replace")[-_SHOWN_CHARS:], _SHOWN_CHARS)
                self.reason += f"; the end of its standard error: {words}"
            self.on_end(self)
            self.ended.set()

    async def stop(self) -> None:
        """End it in the protocol's way, and then in any case. Always a checkpoint."""
        self.is_stopping = True
        try:
            with trio.move_on_after(_STOP_SECONDS), suppress(ServerFailed):
                await self.conversation.request("shutdown", None)
            self.conversation.notify("exit", None)
            self._outbox.close()
            with trio.move_on_after(_STOP_SECONDS):
                await self.ended.wait()
        finally:
            self._scope.cancel(reason="the language server is not needed")

    # -- the process ---------------------------------------------------------------------------

    async def _launch(self) -> Launch:
        """Return how to start it. Always a checkpoint. Raises `FileNotFoundError`."""
        command = await to_thread(_resolved, self.server.command, self.variables.get("PATH", os.defpath))
        if self.launcher is not None and (await choose_backend("bwrap")).backend is not None:
            with suppress(ToolError):  # the folder is no project, for example
                return await self.launcher.launch(command, cwd=self.root, is_reader=True)
        # In a box it has a process table of its own, and would take us for dead.
        self.conversation.pid = os.getpid()
        return Launch(argv=command)

    async def _run_process(self, launch: Launch) -> FinishedProcess:
        """Run the process. Always a checkpoint. Raises `OSError`, `BadFraming`, `FrameTooLarge`."""
        return await run_tree(
            launch.argv,
            cwd=self.root,
            env={**self.variables, **self.server.env, **launch.environment},
            marker=self.marker,
            on_output=lambda chunk: self._frames.extend(self._splitter.feed(chunk)),
            on_errors=self._take_errors,
            talk=self._write_all,
            exit_grace=_EXIT_GRACE,
            room=self._read_frames,
            on_start=self._note_start,
            confine=launch.confine,
            limits=ResourceLimits(
                processes=_PROCESSES + launch.keepers, memory=self.server.memory, interval=_MEMORY_INTERVAL
            ),
        )

    async def _begin(self) -> None:
        """Introduce the client. Always a checkpoint. Raises `ServerFailed`, and `trio.TooSlowError` if it says nothing."""
        with trio.fail_after(START_SECONDS):
            await self.conversation.begin()

    def _note_start(self, _: object) -> None:
        self.has_started = True

    def _note_end(self, finished: FinishedProcess) -> None:
        if finished.exceeded:
            self.reason = f"it used more than {finished.exceeded}"
        elif finished.exit_code is not None:
            self.reason = f"its process ended with exit code {finished.exit_code}"
        else:
            self.reason = f"its process ended with signal {finished.signal}"

    # -- the bytes -----------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        try:
            self._outbox.send_nowait(data)
        except trio.WouldBlock:
            self.reason = "it does not read what it is sent"
            self._scope.cancel(reason="the language server does not read what it is sent")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # those that wait for an answer learn that it has ended

    async def _write_all(self, stdin: trio.lowlevel.FdStream) -> None:
        """Write what is sent until there will be no more. A checkpoint for each."""
        async for data in self._unsent:
            await stdin.send_all(data)

    def _take_errors(self, chunk: bytes) -> None:
        self._errors += chunk
        del self._errors[:-_ERROR_BYTES]

    async def _read_frames(self) -> None:
        """Take the messages that have come; meanwhile the server waits. A checkpoint for each."""
        busy = 0.0
        while self._frames:
            data = self._frames.popleft()
            began = time.perf_counter()
            frame = _parse(data) if len(data) <= _SMALL_BYTES else await to_thread(_parse, data)
            if frame is None:
                self.conversation.invalid += 1
            else:
                for message in frame.messages:
                    self.conversation.receive(message)
            busy += time.perf_counter() - began
            # A pause takes a millisecond at least, so not after each of thousands of messages.
            if busy < _BUSY_SECONDS:
                await trio.lowlevel.checkpoint()
            else:
                await trio.sleep(_REST * busy)
                busy = 0.0


def _parse(data: bytes) -> RpcFrame | None:
    try:
        return parse_frame(data, _LIMITS)
    except BadJson:
        return None


def _resolved(command: Sequence[str], search: str) -> list[str]:
    """Return a command with the path of its program. It blocks. Raises `FileNotFoundError`."""
    program = shutil.which(command[0], path=search)
    # A relative folder in PATH would lead into the project.
    if program is None or not program.startswith("/"):
        raise FileNotFoundError(f"there is no program {command[0]}")
    return [program, *command[1:]]


def _reason_of(error: BaseException) -> str:
    if first_of(error, trio.TooSlowError) is not None:
        return f"it did not answer initialize within {START_SECONDS:g} s"
    if (framing := first_of(error, BadFraming) or first_of(error, FrameTooLarge)) is not None:
        return f"it was ended because of what it wrote: {framing}"
    if (missing := first_of(error, FileNotFoundError)) is not None:
        return str(missing)
    if (failed := first_of(error, ServerFailed) or first_of(error, OSError)) is not None:
        return str(failed)
    return describe(error)
