"""Maps PostgreSQL's errors to `StoreError`, and decides whether a retry may help."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Final

import psycopg

from engine.core.errors import StoreCorrupt, StoreError, StoreMismatch
from engine.store.backend import TransientStoreError
from engine.store.postgres.address import Address


class DatabaseConnectionBroken(TransientStoreError):
    """The connection is gone, or two transactions conflicted: it can be retried immediately."""


# By code, or the two characters of its class. These errors may be temporary; all others are permanent.
_RETRY_NOW: Final = {
    "08": "the connection broke",
    "57P01": "the server is being shut down",
    "57P02": "the server crashed",
    "57P05": "the connection was idle for too long",
    "25P03": "the connection was idle for too long",
    "25P04": "a transaction took too long",
    "40": "another transaction was in the way",
}
_RETRY_LATER: Final = {
    "53100": "the database's disk is full: free some space",
    "53200": "the database has no memory left",
    "53300": "the database has no connection left",
    "53": "the database has not enough of something",
    "54000": "a limit of the database was reached",
    "55P03": "another transaction has locked it",
    "57014": "it was interrupted",
    "57": "the database's operator stepped in",
    "58": "the database's disk refuses to read or write",
    "25006": "the database is read-only",
    "42501": "its rights forbid it",
}
_DAMAGED: Final = "XX00"
_GONE: Final = ("3F000", "42P01", "42703")


def to_store_error(error: psycopg.Error, address: Address) -> StoreError:
    """Return the exception to raise for *error*. It contains no stored data and no password."""
    code = error.sqlstate or ""
    name = f"the store {address.name}"
    summary = error_summary(error, address)
    if code.startswith(_DAMAGED) and code != "XX000":
        return StoreCorrupt(f"{name} is damaged ({summary}): restore the database from a backup")
    if code in _GONE:
        return StoreMismatch(f"{name} is not what it was: its tables were removed or changed ({summary})")
    why = _RETRY_NOW.get(code) or _RETRY_NOW.get(code[:2])
    if why is not None:
        return DatabaseConnectionBroken(f"{name}: {why} ({summary})")
    why = _RETRY_LATER.get(code) or _RETRY_LATER.get(code[:2])
    if why is not None:
        return TransientStoreError(f"{name}: {why} ({summary})", is_full=code == "53100")
    if isinstance(error, psycopg.OperationalError) and not code:
        # Also if the server rejects the login: libpq reports that as text only.
        return DatabaseConnectionBroken(f"{name} can't be reached ({summary})")
    return StoreError(f"{name} failed: {summary}")


def error_summary(error: psycopg.Error, address: Address) -> str:
    """Return the first line of the error; the others quote rows and statements."""
    text = error.diag.message_primary or str(error)
    line = text.strip().split("\n", 1)[0].strip()
    return address.scrubbed(line) or type(error).__name__


@contextlib.contextmanager
def map_errors(address: Address) -> Generator[None]:
    """Map psycopg's exceptions in the block to `StoreError`."""
    try:
        yield
    except psycopg.Error as error:
        # Not as its cause: psycopg's message may quote the text that was to be stored.
        raise to_store_error(error, address) from None
