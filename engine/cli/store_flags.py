"""The flags that say where sessions are kept, and which one is meant."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

from engine.errors import SessionNotFound
from engine.given import store_of
from engine.store.opened import opened
from engine.store.place import default_path
from engine.store.ports import FullStore, SessionQuery, SessionRow

if TYPE_CHECKING:
    from engine.store.ports import Catalogue

VARIABLE: Final = "ENGINE_STORE"
LAST: Final = "last"

_PAGE: Final = 1_000


def add_store_flag(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]  # it has no other name
    """Add the flag to *parser*."""
    parser.add_argument(
        "--store",
        metavar="PLACE",
        help="where sessions are kept: a file, the URL of a PostgreSQL database, or :memory: for nowhere; "
        "default: $ENGINE_STORE, or the usual place",
    )


def place_of(given: argparse.Namespace) -> str:
    """Return where sessions are kept, as the flag, the environment, or nobody says. Raises `ConfigError`."""
    place = given.store or os.environ.get(VARIABLE, "").strip() or default_path()
    return cast("str", store_of(place))


@asynccontextmanager
async def open_place(place: str) -> AsyncGenerator[FullStore]:
    """Open what is at *place*, and close it again. A checkpoint. Raises `StoreError`."""
    store = cast("FullStore", await opened(place))
    try:
        yield store
    finally:
        await store.aclose()  # noqa: ASYNC102  # bounded: a store takes no longer to close than it says


async def find_session(store: Catalogue, name: str, cwd: str) -> SessionRow:
    """Return the session that *name* means. A checkpoint. Raises `SessionNotFound`, which says what else there is.

    It is an id, its beginning or its end, if no other has the same; or `last`, the newest in that folder.
    """
    if name == LAST:
        rows = await store.list_sessions(SessionQuery(limit=1, cwd=cwd))
        if not rows:
            raise SessionNotFound(
                f"there is no session in {cwd} yet; `engine sessions list --all` lists those of others"
            )
        return rows[0]
    found = [row for row in await _all(store) if row.id.startswith((name, f"ses_{name}")) or row.id.endswith(name)]
    exact = [row for row in found if row.id == name]
    if exact or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise SessionNotFound(f"there is no session {name!r}; `engine sessions list --all` lists them")
    shown = ", ".join(row.id for row in found[:5])
    raise SessionNotFound(f"{name!r} may be one of {len(found)} sessions: {shown}{', …' if len(found) > 5 else ''}")


async def _all(store: Catalogue) -> Sequence[SessionRow]:
    rows: list[SessionRow] = []
    while True:
        page = await store.list_sessions(SessionQuery(limit=_PAGE, before=rows[-1] if rows else None))
        rows += page
        if len(page) < _PAGE:
            return rows
