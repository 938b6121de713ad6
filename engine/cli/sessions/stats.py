"""`engine stats`: what was spent, by day, model, folder and session."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Final

import attrs

from engine.cli.arg_types import whole
from engine.cli.sessions.common import Column, NoStoreYet, command, table, tell, width, with_store
from engine.cli.sessions.list import folder
from engine.cli.store_flags import add_store_flag
from engine.core.messages import Usage
from engine.export.format_cost import format_cost
from engine.store.protocols import FullStore, Spending, SpendingKind, SpendingQuery
from engine.tools.tool_text import counted

_DAY: Final = 86_400
_DAYS: Final = 30
_KINDS: Final[tuple[SpendingKind, ...]] = ("day", "model", "folder", "session")
_SHOWN: Final[tuple[SpendingKind, ...]] = ("model", "day")
_NOTHING: Final = Spending(key="", usage=Usage(), cost=0.0)
# Of one kind, so that a person sees the end of it.
_MOST: Final = 40


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="engine stats",
        allow_abbrev=False,
        description="What was spent, in tokens and money: in all, by model and by day. What was deleted counts still.",
        epilog="Prices are those of the catalogue at the time. A sub-agent counts for the session that began it. "
        "Exit codes: 0 told, 1 it could not be read, 2 wrong usage.",
    )
    since = parser.add_mutually_exclusive_group()
    since.add_argument(
        "--days",
        type=whole(1, 36_500),
        default=_DAYS,
        metavar="N",
        help=f"of the last so many days, today too; default: {_DAYS}",
    )
    since.add_argument("--all", action="store_true", help="of all time")
    parser.add_argument("--by", choices=_KINDS, help="by this alone, all of it")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_store_flag(parser)
    return command("stats", parser, arguments, _run)


def _run(given: argparse.Namespace) -> int:
    now = time.time()
    since = None if given.all else _midnight(now, given.days - 1)
    kinds: Sequence[SpendingKind] = _SHOWN if given.by is None else (given.by,)

    async def work(store: FullStore) -> dict[SpendingKind, Sequence[Spending]]:
        query = SpendingQuery(since=since, clock=clock(now))
        return {kind: await store.spending(attrs.evolve(query, by=kind)) for kind in ("total", *kinds)}

    try:
        found = with_store(given, work)
    except NoStoreYet:
        found = {}
    total = next(iter(found.get("total", ())), _NOTHING)
    if given.json:
        return tell(_as_json(since, total, {kind: found.get(kind, ()) for kind in kinds}))
    if not (total.steps or total.cost or total.usage.total):
        return tell(f"nothing was spent {_span(given)}\n")
    told = [_total(total, _span(given))]
    for kind in kinds:
        told += [_table(kind, found[kind], is_all=given.by is not None)]
    return tell("\n".join(told))


def _span(given: argparse.Namespace) -> str:
    if given.all:
        return "in all"
    return "today" if given.days == 1 else f"in the last {given.days} days"


def _midnight(now: float, days: int) -> float:
    """Return when the day so many days before today began, on the clocks here."""
    today = time.localtime(now)
    return time.mktime((today.tm_year, today.tm_mon, today.tm_mday - days, 0, 0, 0, 0, 0, -1))


def clock(now: float) -> tuple[tuple[float, int], ...]:
    """Return how far the clocks here are ahead of the world's, each from a moment on: it changes with the season."""
    begin = now - 366 * _DAY * 10
    found = [(begin, _ahead(begin))]
    moment = begin
    while moment < now:
        later = min(moment + 7 * _DAY, now)
        if _ahead(later) != found[-1][1]:
            before, after = moment, later
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if _ahead(middle) == found[-1][1] else (before, middle)
            found.append((float(round(after)), _ahead(later)))
        moment = later
    return tuple(found)


def _ahead(moment: float) -> int:
    return time.localtime(moment).tm_gmtoff


# -- how it is shown -------------------------------------------------------------------------


def _total(total: Spending, span: str) -> str:
    share = f" ({total.usage.cache_share:.0%} of the prompts from a cache)" if total.usage.cache_read else ""
    parts = [
        counted(total.sessions, "session"),
        counted(total.steps, "step"),
        f"{counted(total.usage.total, 'token')}{share}",
        format_cost(total.cost) or "no money that is known of",
    ]
    return f"{span}: {', '.join(parts)}\n"


def _table(kind: SpendingKind, rows: Sequence[Spending], *, is_all: bool) -> str:
    left = 0 if is_all else max(0, len(rows) - _MOST)
    rows = rows[left:] if kind == "day" else rows[: len(rows) - left]
    columns = [
        Column(heading=kind, texts=[_name(kind, row) for row in rows], grows=kind != "session"),
        Column(heading="title", texts=[row.name for row in rows], grows=True),
        Column(
            heading="sessions", texts=[f"{row.sessions:,}" for row in rows] if kind != "session" else [], is_right=True
        ),
        Column(heading="steps", texts=[f"{row.steps:,}" for row in rows], is_right=True),
        Column(heading="prompt", texts=[f"{_prompt(row.usage):,}" for row in rows], is_right=True),
        Column(heading="cached", texts=[f"{row.usage.cache_share:.0%}" for row in rows], is_right=True),
        Column(heading="answer", texts=[f"{row.usage.output:,}" for row in rows], is_right=True),
        Column(heading="cost", texts=[format_cost(row.cost) for row in rows], is_right=True),
    ]
    more = f"{counted(left, 'more')}: --by {kind} tells all\n" if left else ""
    return table(columns, width()) + more


def _prompt(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write


def _name(kind: SpendingKind, row: Spending) -> str:
    if kind == "model":
        return row.key or "(unknown)"
    if not row.key and kind != "day":
        return "(deleted)"
    return folder(row.key) if kind == "folder" else row.key


def _as_json(since: float | None, total: Spending, found: dict[SpendingKind, Sequence[Spending]]) -> str:
    document: dict[str, object] = {"since": since, "total": _document(total)}
    document |= {
        kind: [{"key": row.key, "name": row.name, **_document(row)} for row in rows] for kind, rows in found.items()
    }
    return json.dumps(document, indent=2) + "\n"


def _document(row: Spending) -> dict[str, object]:
    return {"sessions": row.sessions, "steps": row.steps, "usage": attrs.asdict(row.usage), "cost": row.cost}
