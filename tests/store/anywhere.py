"""Stores for programs that are told where: the path of a file, or a database's URL."""

from __future__ import annotations

from pathlib import Path

from engine.store.sqlite import store as sqlite
from engine.store.store_protocols import FullStore


async def open_at(place: str) -> FullStore:
    if "://" not in place:
        return await sqlite.open_sqlite_store(place)
    from engine.store.postgres import open as postgres

    return await postgres.open_postgres_store(place)


def empty(place: str) -> None:
    """Begin anew there; nobody has it open."""
    if "://" not in place:
        for ending in ("", "-wal", "-shm"):
            Path(place + ending).unlink(missing_ok=True)
        return
    import psycopg

    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning; DROP SCHEMA IF EXISTS engine CASCADE")
