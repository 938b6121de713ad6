"""Inserts many rows with few statements.

The interpreter's lock is let go of at each step of a statement, and while the loop is
busy it takes up to five milliseconds to get it back. Row by row, a batch would wait
that long for each of its rows.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence
from typing import Final

# Largest first. A few sizes only, as SQLite keeps each statement that it has compiled.
_SIZES: Final = (128, 16, 1)


def insert(connection: sqlite3.Connection, table: str, columns: str, rows: Sequence[Sequence[str | float]]) -> None:
    """Insert *rows*; all of them, or it raises `sqlite3.Error`."""
    marks = f"({', '.join('?' * len(columns.split(',')))})"
    begin = 0
    for size in _SIZES:
        statement = f"INSERT INTO {table} ({columns}) VALUES {', '.join([marks] * size)}"  # noqa: S608  # names of ours
        while len(rows) - begin >= size:
            values = tuple(itertools.chain.from_iterable(rows[begin : begin + size]))
            connection.execute(statement, values)
            begin += size
