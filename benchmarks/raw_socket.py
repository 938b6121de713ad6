"""A WebSocket client that costs little: ten thousand of them fit into one process. It speaks the control protocol."""

from __future__ import annotations

import json
import resource
from typing import Any, Final

import trio

_PIECE: Final = 256 * 1024
# Masking with zeros changes nothing; it is as valid as any other mask.
_MASK: Final = b"\0\0\0\0"
_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10


class SocketClosed(Exception):
    """The connection has ended.

    Attributes:
        code: of the close; 1006: there was none.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


def client_frame(payload: bytes, *, opcode: int = _TEXT, first: int = 0x80) -> bytes:
    """Return a frame of a client. *first* holds the bits beside the opcode."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = b"\xfe" + size.to_bytes(2, "big")
    else:
        length = b"\xff" + size.to_bytes(8, "big")
    return bytes([first | opcode]) + length + _MASK + payload


def raise_file_limit() -> None:
    """Let this process open as many files as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class RawSocket:
    """A connection to a control server."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = bytearray()
        self._message = b""
        self._number = 0
        self.notes: list[dict[str, Any]] = []

    @classmethod
    async def connect(cls, port: int, token: str, *, instance: str = "") -> RawSocket:
        """Connect, and say hello. Raises `SocketClosed`, `OSError`."""
        socket = cls(await trio.open_tcp_stream("127.0.0.1", port))
        head = (
            f"GET /v1/socket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        try:
            await socket.stream.send_all(head.encode())
            while (end := socket._buffer.find(b"\r\n\r\n")) < 0:
                await socket._fill()
            status = bytes(socket._buffer[:end]).split(b"\r\n", 1)[0]
            assert b" 101 " in status, status
            del socket._buffer[: end + 4]
            client = {"name": "benchmark", "instance": instance}
            await socket.call("hello", protocol={"min": 1, "max": 1}, client=client)
        except BaseException:
            await socket.aclose()
            raise
        return socket

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self.stream)

    async def send(self, text: str) -> None:
        try:
            await self.stream.send_all(client_frame(text.encode()))
        except trio.BrokenResourceError:
            raise SocketClosed(1006) from None

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """Return the result of a request; what else comes meanwhile is kept in `notes`."""
        self._number += 1
        await self.send(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}))
        while True:
            text = await self.receive()
            if text.startswith(b"["):
                continue  # the answer to a batch
            message: dict[str, Any] = json.loads(text)
            if message.get("id") == self._number:
                assert "result" in message, message
                result: dict[str, Any] = message["result"]
                return result
            self.notes.append(message)

    async def note(self) -> dict[str, Any]:
        """Return the next notification; ticks are answered."""
        while True:
            message: dict[str, Any] = self.notes.pop(0) if self.notes else json.loads(await self.receive())
            if message.get("method") != "tick":
                return message
            await self.send(
                json.dumps({"jsonrpc": "2.0", "method": "tock", "params": {"time": message["params"]["time"]}})
            )

    async def receive(self) -> bytes:
        """Return the next text message. Raises `SocketClosed`."""
        while True:
            frame = self._frame()
            if frame is None:
                await self._fill()
                continue
            opcode, is_last, payload = frame
            if opcode == _CLOSE:
                raise SocketClosed(int.from_bytes(payload[:2], "big") if payload else 1005)
            if opcode == _PING:
                await self.stream.send_all(client_frame(payload, opcode=_PONG))
            elif opcode <= _TEXT:
                self._message += payload
                if is_last:
                    message, self._message = self._message, b""
                    return message

    def _frame(self) -> tuple[int, bool, bytes] | None:
        """Return the next whole frame: its opcode, whether it ends its message, and what it holds."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1], 2
        if size == 126:
            size, start = int.from_bytes(buffer[2:4], "big"), 4
        elif size == 127:
            size, start = int.from_bytes(buffer[2:10], "big"), 10
        if len(buffer) < start + size:
            return None
        frame = buffer[0] & 15, bool(buffer[0] & 0x80), bytes(buffer[start : start + size])
        del buffer[: start + size]
        return frame

    async def _fill(self) -> None:
        try:
            data = await self.stream.receive_some(_PIECE)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise SocketClosed(1006)
        self._buffer += data
