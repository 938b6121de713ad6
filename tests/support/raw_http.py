"""Bytes over a socket, as no well-behaved client sends them."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import trio

KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
UPGRADE = f"Upgrade: websocket\r\nConnection: Upgrade\r\n{KEY}"


@attrs.frozen
class RawAnswer:
    """What came back: the first answer, and whatever followed on the connection."""

    status: int
    head: bytes
    body: bytes
    rest: bytes = b""

    @property
    def problem(self) -> dict[str, Any]:
        """The body of an error."""
        document: dict[str, Any] = json.loads(self.body)
        return document


def parse_answer(data: bytes) -> RawAnswer:
    """Return the first answer in *data*; status 0: the server has closed the connection without one."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        return RawAnswer(0, data, b"")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    size = int(lengths[0].partition(b":")[2]) if lengths else 0
    return RawAnswer(int(head.split(b" ")[1]), head, rest[:size], rest[size:])


@asynccontextmanager
async def raw_stream(port: int) -> AsyncGenerator[trio.SocketStream]:
    """Connect."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        yield stream


async def read_answer(stream: trio.SocketStream, *, has_body: bool = True) -> RawAnswer:
    """Return the next answer, as soon as it is complete."""
    data = b""
    while True:
        answer = parse_answer(data)
        if answer.status and (not has_body or len(answer.body) >= _length_of(answer)):
            return answer
        try:
            piece = await stream.receive_some()
        except trio.BrokenResourceError:
            return answer
        if not piece:
            return answer
        data += piece


def _length_of(answer: RawAnswer) -> int:
    for line in answer.head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def exchange(port: int, data: bytes) -> RawAnswer:
    """Send *data* on a connection of its own; return the first answer."""
    async with raw_stream(port) as stream:
        with suppress(trio.BrokenResourceError):  # it may have been refused before all of it was sent
            await stream.send_all(data)
        return await read_answer(stream, has_body=not data.startswith(b"HEAD "))


async def read_to_end(stream: trio.SocketStream) -> bytes:
    """Return everything until the server closes the connection, or resets it."""
    data = b""
    with suppress(trio.BrokenResourceError):
        async for piece in stream:
            data += piece
    return data


def reset_on_close(stream: trio.SocketStream) -> None:
    """Make the end of a connection a reset."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def request(
    target: str, port: int, *, method: str = "GET", body: str = "", token: str = "", fields: str = "", host: str = ""
) -> bytes:
    """Return a request that is correct but for what *fields* adds."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if method == "POST":
        lines += ["Content-Type: application/json", f"Content-Length: {len(body.encode())}"]
    return ("\r\n".join(lines) + f"\r\n{fields}\r\n{body}").encode()
