"""The flags that say where sessions are kept, and which one is meant."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

from engine.core.errors import SessionNotFound
from engine.core.ids import SessionId
from engine.session.open_store import opened
from engine.session.validation import store_of
from engine.store.protocols import FullStore, SessionQuery, SessionRow
from engine.store.sqlite.location import default_path

if TYPE_CHECKING:
    from engine.store.protocols import Catalogue

VARIABLE: Final = "ENGINE_STORE"
LAST: Final = "last"
PREFIX: Final = "ses_"

_PAGE: Final = 1_000
_SHOWN: Final = 5


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


async def find_id(store: Catalogue, name: str, folder: Callable[[], str]) -> SessionId:
    """Return the id of the session that *name* means. A checkpoint. Raises `SessionNotFound`, which says what there is.

    It is an id, its beginning or its end, if no other has the same; or `last`, the newest in that *folder*.
    """
    if name == LAST:
        cwd = folder()
        rows = await store.list_sessions(SessionQuery(limit=1, cwd=cwd))
        if not rows:
            raise SessionNotFound(f"there is no session in {cwd} yet; `engine sessions list --all` lists others")
        return rows[0].id
    known = await store.ids()
    found = [known_id for known_id in known if known_id.startswith((name, f"{PREFIX}{name}"))] if name else []
    # Its end is for those who read it at the end of a line.
    found = found or [known_id for known_id in known if name and known_id.endswith(name)]
    if name in found:
        return SessionId(name)
    if not found:
        raise SessionNotFound(f"there is no session {name!r}; `engine sessions list --all` lists them")
    if len(found) > 1:
        shown = ", ".join(found[:_SHOWN])
        more = ", …" if len(found) > _SHOWN else ""
        raise SessionNotFound(f"{name!r} may be one of {len(found)} sessions: {shown}{more}")
    return found[0]


async def find_session(store: Catalogue, name: str, cwd: str) -> SessionRow:
    """Return the row of a session that can be gone on with. A checkpoint. Raises `SessionNotFound`, as `find_id`."""
    wanted = await find_id(store, name, lambda: cwd)
    before: SessionRow | None = None
    while True:
        page = await store.list_sessions(SessionQuery(limit=_PAGE, before=before))
        found = next((row for row in page if row.id == wanted), None)
        if found is not None:
            return found
        if len(page) < _PAGE:
            raise SessionNotFound(f"{wanted} is the session of a sub-agent: name the one that has sent it")
        before = page[-1]
