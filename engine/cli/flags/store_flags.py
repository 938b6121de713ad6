"""The flags that select the store and a session in it."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

from engine.cli.flags.arg_types import LAST
from engine.cli.flags.completion_names import MAX_NAMES, keep_names
from engine.core.errors import SessionNotFound, StoreError
from engine.core.ids import SessionId
from engine.core.threads import to_thread
from engine.session.open_store import open_store_at
from engine.session.validation import store_of
from engine.store.sqlite.file_location import default_path
from engine.store.store_protocols import FullStore, SessionQuery, SessionRow

if TYPE_CHECKING:
    from engine.config.store_config import StoreConfig
    from engine.store.store_protocols import Catalogue

VARIABLE: Final = "ENGINE_STORE"
PREFIX: Final = "ses_"

_PAGE_SIZE: Final = 1_000
_MAX_LISTED: Final = 5


def resolve_store(args: argparse.Namespace) -> str:
    """Return the store's location from the flag, the environment or the default. Raises `ConfigError`."""
    return cast("str", store_of(args.store)) if args.store else _usual_place()


def _usual_place() -> str:
    """Return the location of the store where no flag names one. Raises `ConfigError`."""
    return cast("str", store_of(os.environ.get(VARIABLE, "").strip() or default_path()))


def is_usual_place(place: str) -> bool:
    """Tell whether a command without `--store` finds the store at *place*."""
    return place == _usual_place()


@asynccontextmanager
async def open_store(
    place: str, *, only_reads: bool = False, config: StoreConfig | None = None
) -> AsyncGenerator[FullStore]:
    """Open the store at *place*; close it at the end of the block. A checkpoint. Raises `StoreError`.

    With *only_reads* nothing will be written, and a file that can't be written is read all the same. *config* is for a
    database.

    After a block that ended well, shell completion learns the names of the newest sessions; a cancel leaves the old ones.
    """
    # The protocols of `open_store_at` are those of the engine; both databases implement the rest as well.
    store = cast("FullStore", await open_store_at(place, only_reads=only_reads, config=config))
    try:
        yield store
        if is_usual_place(place):
            await _keep_session_names(store)
    finally:
        await store.aclose()  # noqa: ASYNC102  # bounded: a store's closing has a deadline


async def _keep_session_names(store: Catalogue) -> None:
    """Write the names of the newest sessions for shell completion. A checkpoint."""
    # The command has done its work: completion is no reason to fail.
    with suppress(StoreError):
        rows = await store.list_sessions(SessionQuery(limit=MAX_NAMES))
        await to_thread(keep_names, "sessions", [(row.id, row.title) for row in rows])


async def resolve_session_id(store: Catalogue, name: str, folder: Callable[[], str]) -> SessionId:
    """Resolve *name* to a session id. A checkpoint. Raises `SessionNotFound` with a hint.

    A name is an id, the unique beginning or end of one, or `last`: the newest session of the *folder*.
    """
    if name == LAST:
        cwd = folder()
        rows = await store.list_sessions(SessionQuery(limit=1, cwd=cwd))
        if not rows:
            raise SessionNotFound(f"no session in {cwd}\nNext: engine sessions list --all")
        return rows[0].id
    matches = _matching_ids(await store.ids(), name)
    # A complete id wins even if another one begins with it.
    for whole in (name, f"{PREFIX}{name}"):
        if whole in matches:
            return SessionId(whole)
    if not matches:
        raise SessionNotFound(f"unknown session {name!r}\nNext: engine sessions list --all")
    if len(matches) > 1:
        shown = ", ".join(matches[:_MAX_LISTED])
        more = ", …" if len(matches) > _MAX_LISTED else ""
        raise SessionNotFound(f"{name!r} is ambiguous; {len(matches)} sessions match: {shown}{more}")
    return matches[0]


def _matching_ids(ids: Iterable[SessionId], name: str) -> list[SessionId]:
    """Return the ids that begin with *name*, or else those that end with it."""
    if not name:
        return []
    every = list(ids)
    return [each for each in every if each.startswith((name, f"{PREFIX}{name}"))] or [
        each for each in every if each.endswith(name)
    ]


async def resolve_session(store: Catalogue, name: str, cwd: str) -> SessionRow:
    """Resolve *name* to the row of a session that can be continued. A checkpoint. Raises `SessionNotFound`."""
    session_id = await resolve_session_id(store, name, lambda: cwd)
    # The list has no sub-agents' sessions, and the store has no lookup of one row.
    before: SessionRow | None = None
    while True:
        page = await store.list_sessions(SessionQuery(limit=_PAGE_SIZE, before=before))
        match = next((row for row in page if row.id == session_id), None)
        if match is not None:
            return match
        if len(page) < _PAGE_SIZE:
            raise SessionNotFound(f"{session_id} is a sub-agent's session: name the session that started it")
        before = page[-1]
