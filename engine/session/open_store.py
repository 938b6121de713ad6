"""Opens the store that a host names: a file or a database."""

from __future__ import annotations

from typing import Final, cast

import trio

from engine.config.store_config import StoreConfig
from engine.core.errors import ConfigError
from engine.core.protocols import Store

DATABASES: Final = ("postgresql://", "postgres://")


async def open_store_at(place: str, *, only_reads: bool = False, config: StoreConfig | None = None) -> Store:
    """Open the store at *place*: a file's path, `:memory:`, or the URL of a PostgreSQL database. A checkpoint.

    With *only_reads* nothing will be written, and a file that can't be written is read all the same. *config* is for a
    database.

    If cancelled, it is closed again. Raises `StoreError`, `StoreMismatch`, `StoreCorrupt`; `ConfigError` if a package
    is missing, or for a clock that jumps.
    """
    # The writer's thread takes real time, but Trio's autojump clock ignores threads: each wait for the disk would time
    # out at once, and nothing would ever count as durable.
    if cast("object", getattr(trio.lowlevel.current_clock(), "autojump_threshold", None)) == 0:
        raise ConfigError(
            "a store in a file or a database takes real time, and MockClock(autojump_threshold=0) does not wait for it: "
            "use the default store, in memory, or a MockClock with an autojump_threshold of a second"
        )
    if place.startswith(DATABASES):
        # Imported here: it is an extra, and most installations do not have it.
        from engine.store.postgres.open import open_postgres_store as open_database

        return await open_database(place, config=config)
    # Imported here: a host with its own store, or none, needs no database.
    from engine.store.sqlite.store import open_sqlite_store as open_file

    return await open_file(place, only_reads=only_reads)
