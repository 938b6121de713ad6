"""A server as a process: messages as lines on its standard streams, as the SDK's client takes them.

`run_tree` owns the process and all that descend from it. At the end its standard input is closed; what has not exited a
quarter of a second later gets SIGTERM, then SIGKILL. All servers of an engine are cancelled at the same moment, so the
quarter is shared. An engine that was killed leaves processes with the marker in their environment: the next engine ends
them (`engine.process.crash_cleanup`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import attrs
import mcp_types as types
import trio
from mcp.shared.message import SessionMessage

from engine.core.threads import to_thread
from engine.jsonrpc.message_stream import LineSplitter
from engine.jsonrpc.strict_json import FrameTooLarge
from engine.mcp.message_gate import MOST_TOOLS, Message, MessageGate
from engine.mcp.repair_json import is_suspect, prune_json, take_tools
from engine.process.crash_cleanup import owned
from engine.process.run_tree import FinishedProcess, run_tree

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

EXIT_GRACE: Final = 0.25
# The longest message.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024


@attrs.frozen(kw_only=True)
class Launched:
    """How to start a server.

    Attributes:
        argv: the program and its arguments.
        cwd: its working directory.
        env: its environment.
        marker: identifies its processes.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    marker: str


@attrs.define(eq=False)
class StdioTransport:
    """The streams of a server's process.

    Attributes:
        launched: how it is started.
        gate: what judges its messages.
        ended: set when the process has ended; `reason` says why then.
    """

    launched: Launched
    gate: MessageGate
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    reason: str = attrs.field(default="", init=False)
    _lines: deque[bytes] = attrs.field(factory=deque[bytes], init=False)
    _splitter: LineSplitter = attrs.field(factory=lambda: LineSplitter(MAX_LINE_BYTES), init=False)

    @property
    def needs_login(self) -> bool:
        """Whether the user must log in: never, for a process."""
        return False

    @asynccontextmanager
    async def open(
        self,
    ) -> AsyncGenerator[
        tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
    ]:
        """Start the process and return its streams; end it with the block. Always a checkpoint.

        If cancelled, no process is left. Raises `OSError` if it can't be started.
        """
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        started = trio.Event()
        failure: list[Exception] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._own, to_client, from_client, started, failure)
            try:
                await started.wait()
                if failure:
                    raise failure[0]
                yield from_server, to_server
            finally:
                # The client may still be writing; without a reader it learns at once that nobody listens.
                from_client.close()
                from_server.close()
                to_server.close()
                nursery.cancel_scope.cancel(reason="the connection is closed")

    async def _own(
        self,
        to_client: MemoryObjectSendStream[SessionMessage | Exception],
        from_client: MemoryObjectReceiveStream[SessionMessage],
        started: trio.Event,
        failure: list[Exception],
    ) -> None:
        """Run the process to its end. Always a checkpoint."""
        try:
            await run_tree(
                self.launched.argv,
                cwd=self.launched.cwd,
                env=self.launched.env,
                marker=owned(self.launched.marker),
                on_output=self._take,
                on_errors=self.gate.report.add_errors,
                talk=partial(self._write_all, from_client),
                exit_grace=EXIT_GRACE,
                room=partial(self._pass_on, to_client),
                on_start=lambda _: started.set(),
                on_finish=self._finish,
            )
        except FrameTooLarge:
            self.reason = f"it was ended because it wrote a line of more than {MAX_LINE_BYTES:,} bytes"
        except (OSError, ValueError) as error:
            failure.append(error)
            self.reason = str(error)
        finally:
            from_client.close()
            to_client.close()
            started.set()
            self.ended.set()

    def _finish(self, finished: FinishedProcess) -> None:
        if finished.cause == "exit":
            code = finished.exit_code
            how = f"exit code {code}" if code is not None else f"signal {finished.signal}"
            self.reason = f"its process ended with {how}"

    def _take(self, chunk: bytes) -> None:
        self._lines.extend(self._splitter.feed(chunk))

    async def _pass_on(self, to_client: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on the messages that have arrived; meanwhile the server waits. A checkpoint for each."""
        while self._lines:
            line, tools, size = self._lines.popleft(), None, 0
            if is_suspect(line):
                line, tools, size = await to_thread(take_tools, line, MOST_TOOLS)
            message = self._parse(line)
            if message is None or not self.gate.receive(message, tools, size):
                # A flood of lines must not keep the loop from other tasks.
                await trio.lowlevel.checkpoint()
                continue
            try:
                await to_client.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._lines.clear()  # the client has gone; the rest is read and dropped until the process ends

    def _parse(self, line: bytes) -> Message | None:
        """Return the message in a line, or count the line."""
        if not line.strip():
            return None
        message = _message_in(line)
        if message is None and (pruned := prune_json(line)) != line:
            message = _message_in(pruned)
        if message is None:
            self.gate.report.invalid_lines += 1
        return message

    async def _write_all(
        self, from_client: MemoryObjectReceiveStream[SessionMessage], stdin: trio.lowlevel.FdStream
    ) -> None:
        """Write the client's messages until it closes. A checkpoint for each."""
        with from_client:
            async for item in from_client:
                self.gate.send(item.message)
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send_all(line.encode() + b"\n")
        await trio.sleep(math.inf)  # it ends with the process, or when the streams are closed


def _message_in(line: bytes) -> Message | None:
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None
