"""`engine stats`: tokens and money spent, by day, model, folder and session."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Final

import attrs

from engine.cli.sessions.list import short_folder
from engine.cli.sessions.session_command import NoStoreYet, run_subcommand, with_store
from engine.cli.sessions.table import Column, table
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import stdout_width
from engine.core.messages import Usage
from engine.export.format_cost import format_cost
from engine.store.store_protocols import FullStore, Spending, SpendingKind, SpendingQuery
from engine.tools.tool_text import counted

_DAY: Final = 86_400
_DEFAULT_KINDS: Final[tuple[SpendingKind, ...]] = ("model", "day")
_NOTHING: Final = Spending(key="", usage=Usage(), cost=0.0)
# Rows per table, so that it fits a screen.
_MAX_ROWS: Final = 40


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_subcommand("stats", arguments, _run)


def _run(args: argparse.Namespace) -> int:
    now = time.time()
    since = None if args.all else _midnight(now, args.days - 1)
    kinds: Sequence[SpendingKind] = _DEFAULT_KINDS if args.by is None else (args.by,)

    async def work(store: FullStore) -> dict[SpendingKind, Sequence[Spending]]:
        # The store sums by day itself, so it needs to know when the user's days begin.
        query = SpendingQuery(since=since, clock=utc_offsets(now))
        return {kind: await store.spending(attrs.evolve(query, by=kind)) for kind in ("total", *kinds)}

    try:
        spending = with_store(args, work, only_reads=True)
    except NoStoreYet:  # a new user has spent nothing: that is no error
        spending = {}
    total = next(iter(spending.get("total", ())), _NOTHING)
    if args.json:
        return print_text(_as_json(since, total, {kind: spending.get(kind, ()) for kind in kinds}))
    if not (total.steps or total.cost or total.usage.total):
        return print_text(f"nothing was spent {_span(args)}\n")
    sections = [_total(total, _span(args))]
    for kind in kinds:
        sections += [_table(kind, spending[kind], is_all=args.by is not None)]
    return print_text("\n".join(sections))


def _span(args: argparse.Namespace) -> str:
    if args.all:
        return "in total"
    return "today" if args.days == 1 else f"in the last {args.days} days"


def _midnight(now: float, days: int) -> float:
    """Return the local midnight at the start of the day this many days before today."""
    today = time.localtime(now)
    # mktime normalises negative days, and -1 lets it find out about daylight saving.
    return time.mktime((today.tm_year, today.tm_mon, today.tm_mday - days, 0, 0, 0, 0, 0, -1))


def utc_offsets(now: float) -> tuple[tuple[float, int], ...]:
    """Return the local UTC offsets of the last years, each with the moment since when it applies (daylight saving)."""
    # Ten years of weekly samples; a binary search finds the second of each change.
    begin = now - 366 * _DAY * 10
    offsets = [(begin, _offset_at(begin))]
    moment = begin
    while moment < now:
        later = min(moment + 7 * _DAY, now)
        if _offset_at(later) != offsets[-1][1]:
            before, after = moment, later
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if _offset_at(middle) == offsets[-1][1] else (before, middle)
            offsets.append((float(round(after)), _offset_at(later)))
        moment = later
    return tuple(offsets)


def _offset_at(moment: float) -> int:
    return time.localtime(moment).tm_gmtoff


# -- how it is shown -------------------------------------------------------------------------


def _total(total: Spending, span: str) -> str:
    share = f" ({total.usage.cache_share:.0%} of the prompts from a cache)" if total.usage.cache_read else ""
    parts = [
        counted(total.sessions, "session"),
        counted(total.steps, "request"),
        f"{counted(total.usage.total, 'token')}{share}",
        format_cost(total.cost) or "cost unknown",
    ]
    return f"{span}: {', '.join(parts)}\n"


def _table(kind: SpendingKind, rows: Sequence[Spending], *, is_all: bool) -> str:
    left = 0 if is_all else max(0, len(rows) - _MAX_ROWS)
    # Days are sorted by date, the other kinds by cost: the last days and the first of the others matter most.
    rows = rows[left:] if kind == "day" else rows[: len(rows) - left]
    more = f"{counted(left, 'more')}: --by {kind} shows all\n" if left else ""
    return table(_columns(kind, rows), stdout_width()) + more


def _columns(kind: SpendingKind, rows: Sequence[Spending]) -> list[Column]:
    def figures(heading: str, texts: list[str]) -> Column:
        return Column(heading=heading, texts=texts, is_right=True)

    # A table of sessions needs no count of them; a column without texts is left out.
    sessions = [] if kind == "session" else [f"{row.sessions:,}" for row in rows]
    return [
        Column(heading=kind, texts=[_name(kind, row) for row in rows], grows=kind != "session"),
        Column(heading="title", texts=[row.name for row in rows], grows=True),
        figures("sessions", sessions),
        figures("requests", [f"{row.steps:,}" for row in rows]),
        figures("prompt", [f"{_prompt(row.usage):,}" for row in rows]),
        figures("cached", [f"{row.usage.cache_share:.0%}" for row in rows]),
        figures("answer", [f"{row.usage.output:,}" for row in rows]),
        figures("cost", [format_cost(row.cost) for row in rows]),
    ]


def _prompt(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write


def _name(kind: SpendingKind, row: Spending) -> str:
    if kind == "model":
        return row.key or "(unknown)"
    if not row.key and kind != "day":
        return "(deleted)"
    return short_folder(row.key) if kind == "folder" else row.key


def _as_json(since: float | None, total: Spending, spending: dict[SpendingKind, Sequence[Spending]]) -> str:
    document: dict[str, object] = {"since": since, "total": _document(total)}
    document |= {
        kind: [{"key": row.key, "name": row.name, **_document(row)} for row in rows] for kind, rows in spending.items()
    }
    return json.dumps(document, indent=2) + "\n"


def _document(row: Spending) -> dict[str, object]:
    return {"sessions": row.sessions, "steps": row.steps, "usage": attrs.asdict(row.usage), "cost": row.cost}
