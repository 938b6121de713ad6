"""Where the server is: as the caller says, as the environment says, or as the server of the user's store does."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final

import trio

from engine.client.server_address import ServerAddress, SocketPath, parse_address
from engine.control.service.server_discovery import find_server, server_folder
from engine.core.errors import ServerOffline
from engine.core.threads import to_thread

URL_VARIABLE: Final = "ENGINE_URL"
TOKEN_VARIABLE: Final = "ENGINE_TOKEN"  # noqa: S105  # the name of one
_STORE_VARIABLE: Final = "ENGINE_STORE"


async def find_address(
    url: str | None, token: str | None, *, store: str | None = None, tls: ssl.SSLContext | None = None
) -> ServerAddress:
    """Return the address of the server. A checkpoint.

    Args:
        url: as the caller says; None: `$ENGINE_URL`, or else that of the server for *store*.
        token: as the caller says; None: `$ENGINE_TOKEN`.
        store: the place of the store; None: `$ENGINE_STORE`, or the user's own.
        tls: how to check the server's certificate.

    Raises `ConfigError`, `ServerOffline`.
    """
    await trio.lowlevel.checkpoint()
    place = url or os.environ.get(URL_VARIABLE, "").strip()
    if place:
        return parse_address(place, token or os.environ.get(TOKEN_VARIABLE, "").strip() or None, tls)
    return await to_thread(_address_of_store, store)


def _address_of_store(store: str | None) -> ServerAddress:
    """Return the socket of the server for a store. It blocks."""
    from engine.store.sqlite.file_location import default_path

    place = store or os.environ.get(_STORE_VARIABLE, "").strip() or str(default_path())
    record = find_server(server_folder(place))
    if record is None:
        raise ServerOffline(f"no server runs for the store {place}")
    # The user's own socket, which needs no token.
    return SocketPath(Path(record.socket))
