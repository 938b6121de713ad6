"""The query that adds up what was spent, in SQL that every database understands, and the rows it returns."""

from __future__ import annotations

from datetime import date
from typing import Final, TypeAlias

from engine.core.messages import Usage
from engine.store.projection import SLOT_SECONDS, slot_of
from engine.store.store_protocols import Spending, SpendingQuery

_SLOTS_OF_A_DAY: Final = 86_400 // SLOT_SECONDS
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal()
SpendingColumns: TypeAlias = tuple[str | int, str, int, int, int, int, int, int, int, float]

_COUNTS: Final = ("steps", "input", "output", "cache_read", "cache_write", "reasoning", "cost")
_SUMS: Final = ", ".join(f"sum(spent.{name}) AS {name}" for name in _COUNTS)
_TITLE: Final = "coalesce(CASE given_title WHEN '' THEN title ELSE given_title END, '')"


def spending_statement(query: SpendingQuery) -> tuple[str, tuple[int | str, ...]]:
    """Return the statement, with `?` for each value, and the values."""
    begin = -(1 << 62) if query.since is None else slot_of(query.since)
    # A day is a run of whole slots; it ends where the first slot of the next day begins.
    end = 1 << 62 if query.until is None else slot_of(query.until)
    return _statement(query), (begin, end, *(query.of or ()))


def _statement(query: SpendingQuery) -> str:
    condition = "spent.slot >= ? AND spent.slot < ?"
    if query.of is not None:
        condition += f" AND spent.root_id IN ({', '.join('?' * len(query.of)) or 'NULL'})"
    # The sums per tree first, so that each tree's session is looked up once.
    by_tree = f"SELECT root_id, {_SUMS} FROM spent WHERE {condition} GROUP BY root_id"  # noqa: S608  # texts of ours
    match query.by:
        case "session":
            counts = ", ".join(f"spent.{name} AS {name}" for name in _COUNTS)
            return (
                f"SELECT spent.root_id AS key, {_TITLE}, CASE spent.root_id WHEN '' THEN 0 ELSE 1 END, {counts}"  # noqa: S608  # texts of ours
                f" FROM ({by_tree}) AS spent LEFT JOIN sessions ON sessions.id = spent.root_id"
                " ORDER BY spent.cost DESC, spent.input DESC, spent.root_id"
            )
        case "folder":
            return (
                f"SELECT coalesce(cwd, '') AS key, '', count(nullif(spent.root_id, '')), {_SUMS}"  # noqa: S608  # texts of ours
                f" FROM ({by_tree}) AS spent LEFT JOIN sessions ON sessions.id = spent.root_id"
                " GROUP BY key ORDER BY sum(spent.cost) DESC, sum(spent.input) DESC, key"
            )
        case "model" | "day" | "total":
            key = {"model": "spent.model", "day": _day_of(query), "total": "''"}[query.by]
            order = "key" if query.by == "day" else "sum(spent.cost) DESC, sum(spent.input) DESC, key"
            return (
                f"SELECT {key} AS key, '', count(DISTINCT nullif(spent.root_id, '')), {_SUMS}"  # noqa: S608  # texts of ours
                f" FROM spent WHERE {condition} GROUP BY key ORDER BY {order}"
            )


def spending_from_row(row: SpendingColumns) -> Spending:
    """Build a `Spending` from one row of the result."""
    key, title, sessions, *counts, cost = row
    steps, read, written, cache_read, cache_write, reasoning = map(int, counts)
    usage = Usage(input=read, output=written, cache_read=cache_read, cache_write=cache_write, reasoning=reasoning)
    text_key = _date_of(key) if isinstance(key, int) else key
    return Spending(key=text_key, name=title, sessions=sessions, steps=steps, usage=usage, cost=cost)


def _day_of(query: SpendingQuery) -> str:
    """Return the SQL expression for the day of a slot, in the local time that *query* describes."""
    cases = "".join(
        f" WHEN spent.slot >= {slot_of(since)} THEN {ahead // SLOT_SECONDS}"
        for since, ahead in sorted(query.clock, reverse=True)
    )
    ahead = f"CASE{cases} ELSE {min(query.clock)[1] // SLOT_SECONDS} END" if cases else "0"
    return f"((spent.slot + {ahead}) / {_SLOTS_OF_A_DAY})"


def _date_of(day: int) -> str:
    return date.fromordinal(max(1, min(_FIRST_DAY + day, _LAST_DAY))).isoformat()
