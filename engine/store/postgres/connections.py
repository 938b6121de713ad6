"""The connections to one database: how each is made, and the pool for reading."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, TypeAlias, TypeVar

import attrs
import psycopg
from psycopg.rows import TupleRow

from engine.core.errors import StoreMismatch
from engine.core.threads import in_background
from engine.store.postgres.address import Address
from engine.store.postgres.error_mapping import DatabaseConnectionBroken, map_errors
from engine.store.reader_pool import ReaderPool

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[TupleRow]

# If an engine's machine disappears during a transaction, the server ends it, and releases its locks, after this time.
_ABANDONED_AFTER: Final = "30s"
# The delay between two attempts: the first, and the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.5
_CANCEL_WITHIN: Final = 5.0

# One statement, and not libpq's `options`, which connection poolers such as PgBouncer may not pass on. Synchronous
# commit is forced on, since a flush promises durability; a stronger server setting is kept.
_SET_UP: Final = """
SELECT set_config('search_path', %(path)s, false),
    set_config('lock_timeout', %(lock)s, false),
    set_config('idle_in_transaction_session_timeout', %(abandoned)s, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('standard_conforming_strings', 'on', false),
    set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
        false),
    current_setting('server_encoding')
"""


def connect(address: Address) -> Connection:
    """Return a new connection. It blocks, up to the timeout. Raises `StoreMismatch`, `psycopg.Error`."""
    connection = psycopg.connect(address.conninfo, autocommit=True)
    try:
        values = {
            # No other schema after it, so that another program's table is never used, or created, instead of ours.
            "path": f'"{address.namespace}"',
            "lock": f"{max(1, round(address.timeout * 1000))}ms",
            "abandoned": _ABANDONED_AFTER,
        }
        row = connection.execute(_SET_UP, values).fetchone()
        encoding = row[-1] if row is not None else ""
        if encoding != "UTF8":
            raise StoreMismatch(
                f"the database {address.name} keeps texts as {encoding}, which can't hold every text:"
                " make one with ENCODING 'UTF8'"
            )
    except BaseException:  # re-raised: so far only this frame can close the connection
        connection.close()
        raise
    return connection


def wait_before_retry(since: float, address: Address) -> bool:
    """Wait before another attempt, longer each time, and return True; False once the timeout has passed."""
    waited = time.monotonic() - since
    if waited >= address.timeout:
        return False
    time.sleep(min(max(_FIRST_WAIT, waited), _LONGEST_WAIT))  # in a thread: nothing signals when a server is back
    return True


@attrs.define(eq=False, kw_only=True)
class PostgresReaders(ReaderPool[Connection]):
    """See `ReaderPool`."""

    address: Address

    @property
    def name(self) -> str:
        """See `ReaderPool`."""
        return self.address.name

    def connect_reader(self) -> Connection:
        """See `ReaderPool`."""
        connection = connect(self.address)
        try:
            connection.execute("SET default_transaction_read_only = on")
        except BaseException:  # as in `connect`
            connection.close()
            raise
        return connection

    def close_reader(self, connection: Connection) -> None:
        """See `ReaderPool`."""
        connection.close()

    def interrupt(self, connection: Connection) -> None:
        """See `ReaderPool`: a background thread asks the server, over another connection."""
        in_background(lambda: _cancel(connection))

    def map_errors(self) -> AbstractContextManager[None]:
        """See `ReaderPool`."""
        return map_errors(self.address)

    def run_with_retry(self, work: Callable[[], T], is_stopped: Callable[[], bool]) -> T:
        """See `ReaderPool`: a broken connection is replaced, until the timeout."""
        began = time.monotonic()
        while True:
            try:
                return work()
            except DatabaseConnectionBroken:
                # What broke one connection, such as a server restart, has most likely broken all.
                self.drop_idle()
                if is_stopped() or self._is_closed or not wait_before_retry(began, self.address):
                    raise


def _cancel(connection: Connection) -> None:
    with contextlib.suppress(psycopg.Error):
        # The thread that uses the connection closes it, so a late cancel can't hit another query.
        connection.cancel_safe(timeout=_CANCEL_WITHIN)
