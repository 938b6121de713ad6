"""A server hands its listening sockets and its lock to its successor, so that no connection is refused meanwhile.

Both are processes of one user, in one folder. The successor connects to `takeover.sock` there once it can serve. The
predecessor sends the descriptors with one message; the successor answers that it has them; the predecessor stops
accepting, and says so. Until that answer nothing has changed: a successor that dies before leaves the predecessor as it is.
"""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, cast

import attrs
import trio

from engine.control.service.listening_sockets import ListeningSockets
from engine.control.service.server_discovery import ServerLock
from engine.core.errors import ConfigError

SOCKET_NAME: Final = "takeover.sock"
_MOST_SOCKETS: Final = 64
_MESSAGE_BYTES: Final = 16 * 1024
_SECONDS: Final = 10.0
_TAKEN: Final = b"taken\n"
_STOPPED: Final = b"stopped\n"


@attrs.frozen
class Inheritance:
    """What a successor gets.

    Attributes:
        lock: on the folder, as a copy: it is held until both have closed theirs.
        sockets: at which the predecessor listened.
    """

    lock: ServerLock
    sockets: ListeningSockets

    def close(self) -> None:
        """Close all of it. Not a checkpoint."""
        self.sockets.close()
        self.lock.close()


async def hand_over(
    stream: trio.SocketStream, lock: ServerLock, sockets: ListeningSockets, stop: Callable[[], None]
) -> None:
    """Serve a successor that has connected. A checkpoint; it closes the stream.

    Args:
        stream: the connection.
        lock: the lock on the folder; the caller closes its copy.
        sockets: at which this server listens; the caller closes its copies.
        stop: stops accepting; called once the successor has everything, unless it has gone by then.
    """
    named = sockets.named
    message = json.dumps({"names": [name for name, _ in named]}).encode()
    descriptors = array.array("i", [lock.descriptor, *(descriptor for _, descriptor in named)])
    async with stream:
        with trio.move_on_after(_SECONDS), suppress(OSError, trio.BrokenResourceError):
            await stream.socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            if await stream.receive_some(len(_TAKEN)) == _TAKEN:
                # Not `send_all`: between this and `stop` there is no checkpoint, so the successor gets the line exactly if
                # this server stops. It raises if the successor has gone.
                os.write(stream.socket.fileno(), _STOPPED)
                stop()


async def take_over(folder: Path) -> Inheritance:
    """Take the sockets and the lock of the server in *folder*. A checkpoint.

    If cancelled before it has everything, that server goes on; after that, there may be no server.

    Raises:
        ConfigError: it does not hand them over.
    """
    failure = f"the server of {folder} has not handed over its sockets"
    inherited: Inheritance | None = None
    with ExitStack() as stack:
        stack.callback(lambda: None if inherited is None else inherited.close())
        try:
            stream = await trio.open_unix_socket(os.fspath(folder / SOCKET_NAME))
            # Not `async with`: no checkpoint may come between the last answer and the return.
            stack.callback(stream.socket.close)
            with trio.move_on_after(_SECONDS):
                inherited = await _receive(stream)
                await stream.send_all(_TAKEN)
                if await stream.receive_some(len(_STOPPED)) == _STOPPED:
                    result, inherited = inherited, None
                    return result
        except (OSError, trio.BrokenResourceError) as error:
            raise ConfigError(f"{failure}: {error}") from error
    raise ConfigError(failure)


async def _receive(stream: trio.SocketStream) -> Inheritance:
    """Receive everything. A checkpoint. Raises `ConfigError`, `OSError`."""
    space = socket.CMSG_SPACE(array.array("i").itemsize * _MOST_SOCKETS)
    data, ancillary, *_ = await stream.socket.recvmsg(_MESSAGE_BYTES, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    names = _names(data)
    if not names or len(descriptors) != len(names) + 1:
        for each in descriptors:
            os.close(each)
        raise ConfigError("the running server's message is damaged: is it of another version?")
    lock = ServerLock(descriptors[0])
    try:
        return Inheritance(lock, ListeningSockets.adopt(zip(names, descriptors[1:], strict=True)))
    except ConfigError:
        lock.close()
        raise


def _names(data: bytes) -> list[str]:
    """Return the names in the predecessor's message; none if it is damaged."""
    try:
        document: object = json.loads(data)
    except ValueError:
        return []
    names = cast("dict[str, object]", document).get("names") if isinstance(document, dict) else None
    return [str(each) for each in cast("list[object]", names)] if isinstance(names, list) else []
