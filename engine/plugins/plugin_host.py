"""The host process of a tool file: `python -P -m engine.plugins.plugin_host FILE SHA256`. It speaks MCP on its standard streams.

The engine starts it like any MCP server, and so everything that holds for those holds for tool files: their environment, the
limits of messages and calls, their end with the engine. It ends at once when its input ends, also while a tool does not let
anything else run. It runs the file only if its content is the one with that hash.

It speaks the old era of the protocol, whose handshake needs nothing that a server of tools does not have anyway.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from engine.core.errors import ConfigError
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.named_locks import Locks
from engine.core.version import __version__
from engine.jsonrpc.message_stream import LineSplitter
from engine.jsonrpc.rpc_connection import RpcConnection
from engine.jsonrpc.rpc_messages import RpcError, RpcId, RpcNotification, RpcRequest
from engine.plugins.guarded_call import call_guarded
from engine.plugins.host_calls import HostCall, host_context
from engine.plugins.tool_files import read_tool_file
from engine.plugins.tool_module import run_tool_file
from engine.tools.call_values import ToolOutput, find_output_problem
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIBE: Final = "--describe"
PROTOCOL: Final = "2025-06-18"
_LINE_BYTES: Final = 16 << 20
_CANCELLED: Final = -32_800
_NO_METHOD: Final = -32_601


def main(arguments: Sequence[str]) -> int:
    """Serve a tool file, or describe it; return the exit code. It blocks."""
    path, digest, *flags = arguments
    own_input, own_output = _take_streams()
    file = read_tool_file(path, "user")
    if file.digest != digest:
        return _fail(file.problem or "its content is not what was approved")
    called = call_guarded(partial(run_tool_file, path, file.name, file.code), files=path)
    for note in called.notes:
        sys.stderr.write(f"{path}: {note}\n")
    if called.value is None:
        return _fail(called.problem)
    host = _Host({tool.name: tool for tool in called.value}, own_output)
    if DESCRIBE in flags:
        os.write(own_output, json.dumps({"tools": host.listing(), "notes": called.notes}).encode())
        return 0
    trio.run(host.serve, own_input)
    return 0


def _fail(problem: str) -> int:
    sys.stderr.write(f"{problem}\n")
    sys.stderr.flush()
    # Not by returning: a file that hangs would keep the interpreter from ending.
    os._exit(1)


def _take_streams() -> tuple[int, int]:
    """Return descriptors of standard input and output, which nothing else of the process uses from now on."""
    own = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return own


class _NoSuchMethod(Exception):
    """A request that is not answered here."""


@attrs.define(eq=False)
class _Host:
    """The server: its tools, and the calls that run."""

    tools: Mapping[str, Tool]
    output: int
    _rpc: RpcConnection = attrs.field(factory=RpcConnection, init=False)
    _locks: Locks = attrs.field(factory=Locks, init=False)
    _open: dict[RpcId, trio.CancelScope] = attrs.field(factory=dict[RpcId, trio.CancelScope], init=False)
    _lines: list[str] = attrs.field(factory=list[str], init=False)
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def serve(self, descriptor: int) -> None:
        """Serve until the input ends, which ends the process. Always a checkpoint."""
        token = trio.lowlevel.current_trio_token()
        async with trio.lowlevel.FdStream(self.output) as stream, trio.open_nursery() as nursery:
            nursery.start_soon(self._write, stream)

            def read() -> None:
                lines = LineSplitter(_LINE_BYTES)
                while data := os.read(descriptor, 65_536):
                    for line in lines.feed(data):
                        token.run_sync_soon(self._take, nursery, line)
                # Whatever the tools are doing: the engine is gone.
                os._exit(0)

            # A thread of its own: a tool that blocks the event loop must not keep the process alive.
            threading.Thread(target=read, name="engine input", daemon=True).start()

    def listing(self) -> list[dict[str, object]]:
        """Return the tools as MCP has them."""
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": json.loads(tool.schema.schema),
                "annotations": {"readOnlyHint": tool.read_only},
            }
            for tool in self.tools.values()
        ]

    async def _write(self, stream: trio.lowlevel.FdStream) -> None:
        """Write what there is to send. A checkpoint, for ever. One task alone does it, so that lines are never mixed."""
        while True:
            await self._news.wait()
            self._news, lines = trio.Event(), self._lines
            self._lines = []
            await stream.send_all("".join(f"{line}\n" for line in lines).encode())

    def _send(self, line: str | None) -> None:
        if line is not None:
            self._lines.append(line)
            self._news.set()

    def _take(self, nursery: trio.Nursery, line: bytes) -> None:
        """Begin to answer a line. Not a checkpoint."""
        received = self._rpc.receive(line)
        for reply in received.replies:
            self._send(reply)
        for message in received.messages:
            if isinstance(message, RpcRequest):
                # Before its task has begun: the cancel may come in the next line.
                self._open[message.id] = trio.CancelScope()
                nursery.start_soon(self._answer, message)
            elif isinstance(message, RpcNotification) and message.method == "notifications/cancelled":
                scope = self._open.get(cast("RpcId", _object(message.params).get("requestId")))
                if scope is not None:
                    scope.cancel(reason="the client has cancelled the call")

    async def _answer(self, request: RpcRequest) -> None:
        """Answer a request. A checkpoint if it calls a tool that is one."""
        try:
            with self._open[request.id] as scope:
                result = await self._result(request)
                self._send(self._rpc.answer(request.id, json.dumps(result)))
            if scope.cancelled_caught:
                # The client does not wait for an answer, but the id is free again.
                self._send(self._rpc.fail(request.id, RpcError(_CANCELLED, "cancelled")))
        except _NoSuchMethod as error:
            self._send(self._rpc.fail(request.id, RpcError(_NO_METHOD, str(error))))
        finally:
            del self._open[request.id]

    async def _result(self, request: RpcRequest) -> Mapping[str, object]:
        """Return the result of a request. A checkpoint if it calls a tool that is one. Raises `_NoSuchMethod`."""
        match request.method:
            case "initialize":
                server = {"name": "engine-tool-file", "version": __version__}
                return {"protocolVersion": PROTOCOL, "capabilities": {"tools": {}}, "serverInfo": server}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": self.listing()}
            case "tools/call":
                return await self._call(request.id, _object(request.params))
            case _:
                raise _NoSuchMethod(f"there is no method {request.method}")

    async def _call(self, key: RpcId, parameters: Mapping[str, object]) -> Mapping[str, object]:
        """Call a tool. A checkpoint if it is one."""
        tool = self.tools.get(str(parameters.get("name")))
        if tool is None:
            return _error(f"There is no tool {parameters.get('name')!r}.")
        show = partial(self._show, _object(parameters.get("_meta")).get("progressToken"))
        ctx = host_context(HostCall(self._locks, show), str(key), os.getcwd())  # noqa: PTH109 - a str
        with ErrorBoundary() as boundary:
            arguments = tool.parse(json.dumps(parameters.get("arguments") or {})).arguments
            return _content(await tool.body(arguments, ctx))
        assert boundary.error is not None
        return _error(describe(boundary.error))

    def _show(self, token: object, text: str) -> None:
        if token is not None:
            parameters = {"progressToken": token, "progress": trio.current_time(), "message": text}
            self._send(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": parameters}))


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _error(text: str) -> Mapping[str, object]:
    return {"isError": True, "content": [{"type": "text", "text": text}]}


def _content(output: object) -> Mapping[str, object]:
    if isinstance(output, str):
        output = ToolOutput(text=output)
    if not isinstance(output, ToolOutput):
        raise ConfigError(f"it returned {type(output).__name__}, not str or ToolOutput")
    if (problem := find_output_problem(output)) is not None:
        raise ConfigError(f"it returned a ToolOutput whose {problem}")
    images = [{"type": "image", "mimeType": image.media_type, "data": image.data} for image in output.images]
    return {"content": [{"type": "text", "text": output.text}, *images], "isError": output.failed}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
