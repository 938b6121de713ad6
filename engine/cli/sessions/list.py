"""`engine sessions list` and `search`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.cli.sessions.session_command import (
    NoStoreYet,
    current_folder,
    run_subcommand,
    short_ids,
    with_store,
)
from engine.cli.sessions.table import Column, format_moment, table
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import escape_control_chars, one_line, stdout_width
from engine.core.ids import SessionId
from engine.export.format_cost import format_cost
from engine.store.search_text import MATCH_MARKS
from engine.store.store_protocols import FullStore, SearchHit, SessionQuery, SessionRow, Spending, SpendingQuery

_LISTED: Final = 20
# The databases take a 32-bit limit, and one more row is requested to see whether there are more.
_ALL: Final = (1 << 31) - 2
# Sessions per query: databases limit the number of its parameters.
_AT_ONCE: Final = 500
_STATUSES: Final = {"busy": "busy", "waiting": "waiting for you", "interrupted": "interrupted"}


@attrs.frozen(kw_only=True)
class _Page:
    """Rows or search hits to show, and their short ids."""

    rows: Sequence[SessionRow] = ()
    hits: Sequence[SearchHit] = ()
    short: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str])
    has_others: bool = False


def list_main(arguments: list[str]) -> int:
    """Run `list`; return the exit code."""
    return run_subcommand("sessions list", arguments, _list)


def search_main(arguments: list[str]) -> int:
    """Run `search`; return the exit code."""
    return run_subcommand("sessions search", arguments, _search)


def _most(args: argparse.Namespace) -> int:
    limit: int | None = args.limit
    if limit is None:
        return _ALL if args.json else _LISTED
    return min(limit, _ALL) or _ALL


def _list(args: argparse.Namespace) -> int:
    cwd = None if args.all else current_folder()
    most = _most(args)

    async def work(store: FullStore) -> _Page:
        # One more than shown, to know whether there are more.
        rows = await store.list_sessions(SessionQuery(limit=most + 1, cwd=cwd))
        has_others = not rows and bool(await store.list_sessions(SessionQuery(limit=1)))
        short = {} if args.json else short_ids(await store.ids())
        return _Page(rows=await with_agents(store, rows), short=short, has_others=has_others)

    try:
        page = with_store(args, work, only_reads=True)
    except NoStoreYet:
        page = _Page()
    rows = page.rows[:most]
    if args.json:
        return print_text(json.dumps([document(row) for row in rows], indent=2) + "\n")
    if not rows:
        others = "; --all lists those of other folders" if page.has_others else ""
        return print_text(f"no sessions{'' if args.all else ' in this folder'}{others}\n")
    more = f"there are more; --limit {2 * most} shows them\n" if len(page.rows) > most else ""
    return print_text(_listed(rows, page.short, has_folders=cwd is None) + more)


async def with_agents(store: FullStore, rows: Sequence[SessionRow]) -> list[SessionRow]:
    """Return *rows* with the spending of their sub-agents included, as in `engine stats`. A checkpoint."""
    spent: dict[str, Spending] = {}
    for first in range(0, len(rows), _AT_ONCE):
        some = tuple(row.id for row in rows[first : first + _AT_ONCE])
        spent |= {each.key: each for each in await store.spending(SpendingQuery(by="session", of=some))}
    return [
        attrs.evolve(row, usage=spent[row.id].usage, cost=spent[row.id].cost) if row.id in spent else row
        for row in rows
    ]


def _listed(rows: Sequence[SessionRow], short: dict[SessionId, str], *, has_folders: bool) -> str:
    now = time.time()
    columns = [
        Column(heading="id", texts=[escape_control_chars(short.get(row.id, row.id)) for row in rows]),
        Column(heading="when", texts=[format_moment(row.updated, now) for row in rows], is_right=True),
        Column(heading="title", texts=[_title(row) for row in rows], grows=True),
        Column(heading="folder", texts=[short_folder(row.cwd) if has_folders else "" for row in rows]),
        Column(heading="messages", texts=[str(row.messages) for row in rows], is_right=True),
        Column(heading="cost", texts=[format_cost(row.cost) for row in rows], is_right=True),
        Column(heading="status", texts=[_status(row) for row in rows]),
    ]
    return table(columns, stdout_width())


def _title(row: SessionRow) -> str:
    return one_line(row.title, 200) or "(empty)"


def _status(row: SessionRow) -> str:
    if row.status != "idle":
        return _STATUSES[row.status]
    return "open" if row.holder == "elsewhere" else ""


def short_folder(path: str) -> str:
    """Return a folder with `~` for the home folder, and without the middle of a long path."""
    home = str(Path("~").expanduser())
    short = f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path
    parts = short.split("/")
    return short if len(short) <= 32 or len(parts) < 4 else "/".join((parts[0], "…", *parts[-2:]))


def document(row: SessionRow) -> dict[str, object]:
    """Return a row for JSON output."""
    return {
        "id": row.id,
        "title": row.title,
        "titled_by": row.titled_by or None,
        "folder": row.cwd,
        "model": row.model,
        "agent": row.agent or None,
        "created": row.created,
        "updated": row.updated,
        "messages": row.messages,
        "turns": row.turns,
        "status": row.status,
        "stop_reason": row.stop_reason,
        "open": row.holder,
        "parent": row.parent_id,
        "root": row.root_id,
        "forked_from": row.forked_from,
        "usage": attrs.asdict(row.usage),
        "cost": row.cost,
    }


# -- search ----------------------------------------------------------------------------------


def _search(args: argparse.Namespace) -> int:
    cwd = None if args.all else current_folder()
    words, most = " ".join(args.words), _most(args)

    async def work(store: FullStore) -> _Page:
        hits = await store.search(words, limit=most, cwd=cwd)
        has_others = not hits and cwd is not None and bool(await store.search(words, limit=1))
        counted = await with_agents(store, [hit.session for hit in hits] if args.json else [])
        if counted:
            hits = [attrs.evolve(hit, session=row) for hit, row in zip(hits, counted, strict=True)]
        return _Page(hits=hits, short={} if args.json else short_ids(await store.ids()), has_others=has_others)

    try:
        page = with_store(args, work, only_reads=True)
    except NoStoreYet:
        page = _Page()
    if args.json:
        return print_text(json.dumps([_hit_document(hit) for hit in page.hits], indent=2) + "\n")
    if not page.hits:
        others = " in this folder; --all searches all folders" if page.has_others else ""
        return print_text(f"no matches{others}\n")
    return print_text("".join(_hit(hit, page.short, has_folder=cwd is None) for hit in page.hits))


def _hit(hit: SearchHit, short: dict[SessionId, str], *, has_folder: bool) -> str:
    row = hit.session
    where = f"  {short_folder(row.cwd)}" if has_folder else ""
    head = f"{escape_control_chars(short.get(row.id, row.id))}  {format_moment(hit.time, time.time())}{escape_control_chars(where)}  "
    title = one_line(row.title, max(20, stdout_width() - len(head)))
    who = {"user": "you: ", "assistant": "", "title": "title: "}[hit.role]
    begin, end = ("\x1b[1m", "\x1b[0m") if _has_bold() else ("", "")
    # Insert the escape sequences after the text was escaped, so that only these two take effect.
    snippet = one_line(hit.snippet, 400).replace(MATCH_MARKS[0], begin).replace(MATCH_MARKS[1], end)
    return f"{head}{title}\n    {who}{snippet}\n"


def _has_bold() -> bool:
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return is_terminal and os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("NO_COLOR")


def _hit_document(hit: SearchHit) -> dict[str, object]:
    snippet = hit.snippet.replace(MATCH_MARKS[0], "").replace(MATCH_MARKS[1], "")
    return {"session": document(hit.session), "event": hit.seq, "role": hit.role, "time": hit.time, "snippet": snippet}
