"""Inserts many rows with few statements.

SQLite releases the GIL at each step of a statement, and while the event loop is busy it takes
up to five milliseconds to get it back. Row by row, a batch would wait that long for each row.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence
from typing import Final

# Largest first. Only a few sizes, since sqlite3 caches each compiled statement.
_SIZES: Final = (128, 16, 1)


def insert_rows(
    connection: sqlite3.Connection, table: str, columns: str, rows: Sequence[Sequence[str | float]]
) -> None:
    """Insert all *rows*. Raises `sqlite3.Error`."""
    row_marks = f"({', '.join('?' * len(columns.split(',')))})"
    begin = 0
    for size in _SIZES:
        statement = f"INSERT INTO {table} ({columns}) VALUES {', '.join([row_marks] * size)}"  # noqa: S608  # constants
        while len(rows) - begin >= size:
            values = tuple(itertools.chain.from_iterable(rows[begin : begin + size]))
            connection.execute(statement, values)
            begin += size
