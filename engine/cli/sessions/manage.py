"""`engine sessions rename`, `fork`, `delete` and `prune`."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from typing import Final

import attrs

from engine.cli.arg_types import whole
from engine.cli.output import complain
from engine.cli.sessions.common import (
    FAILED,
    add_session_argument,
    command,
    find_id,
    parser_for,
    tell,
    with_store,
)
from engine.cli.terminal_text import one_line, visible
from engine.core.errors import ConfigError, MessageNotFound, SessionNotFound
from engine.core.events import SessionTitled, SharedContext
from engine.core.ids import SessionId
from engine.core.messages import UserMessage
from engine.core.state import SessionState
from engine.core.system_clock import RandomIds
from engine.core.threads import to_thread
from engine.export.seed_events import seed_events
from engine.session.fork import forked
from engine.snapshots.location import default_folder
from engine.snapshots.retention import forget_sessions
from engine.store.lazy_events import StoredSession
from engine.store.projection import make_title
from engine.store.protocols import FullStore
from engine.tools.output.spill import SpillStore
from engine.tools.tool_text import counted

_AGE: Final = re.compile(r"(\d{1,6})([hdw])\Z")
_SECONDS: Final = {"h": 3_600, "d": 86_400, "w": 7 * 86_400}


def rename_main(arguments: list[str]) -> int:
    """Run `rename`; return the exit code."""
    parser = parser_for("rename", "Give a session a title. No other takes its place but one that you give.")
    add_session_argument(parser)
    parser.add_argument("title", nargs="+", metavar="TITLE", help="what it is called from now on")
    return command("sessions rename", parser, arguments, _rename)


def fork_main(arguments: list[str]) -> int:
    """Run `fork`; return the exit code."""
    parser = parser_for(
        "fork", "Begin a new session with the history of another, which stays as it is. Tells the new one's id."
    )
    add_session_argument(parser)
    parser.add_argument(
        "--at", metavar="MESSAGE", help="the last message to begin with, by its id or the end of that; default: all"
    )
    return command("sessions fork", parser, arguments, _fork)


def delete_main(arguments: list[str]) -> int:
    """Run `delete`; return the exit code."""
    parser = parser_for("delete", "Remove sessions for good, with those of their sub-agents and what they have kept.")
    add_session_argument(parser, several=True)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    return command("sessions delete", parser, arguments, _delete)


def prune_main(arguments: list[str]) -> int:
    """Run `prune`; return the exit code."""
    parser = parser_for(
        "prune",
        "Remove, for good, the sessions of all folders in which nothing has happened for some time. One that is open "
        "anywhere stays.",
    )
    parser.add_argument("--older-than", type=_age, required=True, metavar="AGE", help="such as 30d, 12h or 8w")
    parser.add_argument("--keep", type=whole(0), default=0, metavar="N", help="the newest so many stay, however old")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    return command("sessions prune", parser, arguments, _prune)


def _age(text: str) -> float:
    found = _AGE.match(text)
    if found is None:
        raise argparse.ArgumentTypeError("an age is a number and h, d or w, such as 30d")
    return float(int(found[1]) * _SECONDS[found[2]])


async def _stored(store: FullStore, session_id: SessionId) -> StoredSession:
    stored = await store.open_session(session_id)
    if stored is None:
        raise SessionNotFound(f"session {session_id} is gone")
    return stored


def _called(state: SessionState) -> str:
    asked = (make_title(message.text) for message in state.transcript if isinstance(message, UserMessage))
    return make_title(state.title) or next((title for title in asked if title), "(nothing was said)")


# -- rename, fork ----------------------------------------------------------------------------


def _rename(given: argparse.Namespace) -> int:
    title = " ".join(" ".join(given.title).split())
    if not title:
        raise ConfigError("a title needs a word")

    async def work(store: FullStore) -> SessionId:
        session_id = await find_id(store, given.session)
        await store.claim(session_id)
        try:
            stored = await _stored(store, session_id)
            event = attrs.evolve(
                SessionTitled(title=title, by="user"),
                session_id=session_id,
                path=stored.events[0].path,
                time=time.time(),
                seq=stored.state.seq + 1,
            )
            store.put(event)
            await store.flushed(session_id, stored.state.seq + 1)
        finally:
            store.release(session_id)
        return session_id

    return tell(f"{with_store(given, work)} is called {one_line(title, 200)}\n")


def _fork(given: argparse.Namespace) -> int:
    async def work(store: FullStore) -> SessionId:
        session_id = await find_id(store, given.session)
        stored = await _stored(store, session_id)
        state = stored.state
        at = None if given.at is None else await to_thread(_message_id, stored, given.at)
        messages = state.transcript[:] if at is None else await to_thread(forked, stored.events, at)
        fresh = SessionId(RandomIds().new("ses"))
        journal = seed_events(
            fresh,
            kind="fork",
            messages=messages,
            # What tools keep in it is of the end.
            context=state.context if at is None else SharedContext(cwd=state.context.cwd),
            model=state.model,
            at=time.time(),
            agent=state.agent,
            forked_from=session_id,
            title=state.title,
        )
        await store.import_sessions([journal])
        return fresh

    fresh = with_store(given, work)
    return tell(f"{fresh}\n`engine run --resume {fresh} TASK` goes on with it\n")


def _message_id(stored: StoredSession, name: str) -> str:
    """Return the id of the message that *name* means: its id, or the end of that. It blocks. Raises `MessageNotFound`."""
    # Imported here: to show what there is.
    from engine.export.history import render_history

    ids = [entry.message.id for entry in render_history(stored.events).entries]
    if name in ids:
        return name
    found = [message_id for message_id in ids if name and message_id.endswith(name)]
    if len(found) > 1:
        raise MessageNotFound(f"{name!r} may be one of {len(found)} messages: {', '.join(found[:5])}")
    # It may be one that was taken back since: `forked` knows.
    return found[0] if found else name


# -- delete, prune ---------------------------------------------------------------------------


def _delete(given: argparse.Namespace) -> int:
    async def look(store: FullStore) -> dict[SessionId, str]:
        found: dict[SessionId, str] = {}
        for name in given.sessions:
            session_id = await find_id(store, name)
            found[session_id] = _called((await _stored(store, session_id)).state)
        return found

    found = with_store(given, look)
    if not given.yes and not _agreed(found):
        return FAILED

    async def work(store: FullStore) -> Sequence[SessionId]:
        deleted: list[SessionId] = []
        for session_id in found:
            deleted += await store.delete(session_id)
        await _forget(deleted)
        return deleted

    deleted = with_store(given, work)
    below = len(deleted) - len(found)
    agents = f", with {counted(below, 'sub-agent')}" if below > 0 else ""
    return tell(f"{counted(len(deleted) - max(0, below), 'session')} deleted{agents}\n")


def _agreed(found: dict[SessionId, str]) -> bool:
    """Ask whoever is there. False: nobody is, or they said no."""
    if sys.stdin is None or not sys.stdin.isatty():
        complain("engine sessions delete: nobody is here to be asked: add --yes")
        return False
    for session_id, title in found.items():
        tell(f"{visible(session_id)}  {one_line(title, 100)}\n")
    tell(f"Delete {'it' if len(found) == 1 else 'them'} for good? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


async def _forget(deleted: Sequence[SessionId]) -> None:
    """Remove the long outputs that those sessions have kept, and let go of their snapshots of files. A checkpoint."""
    await to_thread(forget_sessions, default_folder(), deleted)
    try:
        # Of a sub-agent there is no folder: what it kept is its first session's.
        await SpillStore(None).forget(deleted)
    except OSError as error:
        complain(f"long outputs that were kept could not be removed: {error.strerror}; they go after a week")


def _prune(given: argparse.Namespace) -> int:
    since = time.time() - given.older_than

    async def look(store: FullStore) -> list[str]:
        roots = await store.list_inactive(older_than=since, keep=given.keep)
        return [f"{root}  {one_line(_called((await _stored(store, root)).state), 100)}" for root in roots]

    async def work(store: FullStore) -> tuple[int, int]:
        roots = set(await store.list_inactive(older_than=since, keep=given.keep))
        deleted = await store.prune(older_than=since, keep=given.keep)
        await _forget(deleted)
        return len(roots & set(deleted)), len(roots - set(deleted))

    if given.dry_run:
        told = with_store(given, look)
        return tell(
            "".join(f"{visible(line)}\n" for line in told) + f"{counted(len(told), 'session')} would be removed\n"
        )
    removed, left = with_store(given, work)
    why = f"; {counted(left, 'session')} stayed, being open or used just now" if left else ""
    return tell(f"{counted(removed, 'session')} removed{why}\n")
