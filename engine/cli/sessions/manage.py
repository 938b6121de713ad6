"""`engine sessions rename`, `fork`, `delete` and `prune`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import attrs

from engine.cli.sessions.session_command import (
    resolve_session_id,
    run_subcommand,
    with_store,
)
from engine.cli.terminal.exit_codes import FAILED
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars, one_line
from engine.core.errors import ConfigError, MessageNotFound, SessionNotFound
from engine.core.events import SessionTitled, SharedContext
from engine.core.ids import SessionId
from engine.core.messages import UserMessage
from engine.core.threads import to_thread
from engine.export.seed_events import seed_events
from engine.journal.state import SessionState
from engine.journal.system_clock import RandomIds
from engine.session.stored_sessions import forked
from engine.snapshots.retention import forget_sessions
from engine.snapshots.snapshot_dir import default_folder
from engine.store.lazy_events import StoredSession
from engine.store.projection import make_title
from engine.store.store_protocols import FullStore
from engine.tools.output.spill import SpillStore
from engine.tools.tool_text import counted


def rename_main(arguments: list[str]) -> int:
    """Run `rename`; return the exit code."""
    return run_subcommand("sessions rename", arguments, _rename)


def fork_main(arguments: list[str]) -> int:
    """Run `fork`; return the exit code."""
    return run_subcommand("sessions fork", arguments, _fork)


def delete_main(arguments: list[str]) -> int:
    """Run `delete`; return the exit code."""
    return run_subcommand("sessions delete", arguments, _delete)


def prune_main(arguments: list[str]) -> int:
    """Run `prune`; return the exit code."""
    return run_subcommand("sessions prune", arguments, _prune)


async def _stored(store: FullStore, session_id: SessionId) -> StoredSession:
    stored = await store.open_session(session_id)
    if stored is None:
        raise SessionNotFound(f"session {session_id} is gone")
    return stored


def _title(state: SessionState) -> str:
    prompts = (make_title(message.text) for message in state.transcript if isinstance(message, UserMessage))
    return make_title(state.title) or next((title for title in prompts if title), "(empty)")


# -- rename, fork ----------------------------------------------------------------------------


def _rename(args: argparse.Namespace) -> int:
    title = " ".join(" ".join(args.title).split())
    if not title:
        raise ConfigError("the title is empty\nNext: engine sessions rename SESSION TITLE")

    async def work(store: FullStore) -> SessionId:
        session_id = await resolve_session_id(store, args.session)
        # An engine that has the session open would use the same event number.
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

    return print_text(f"{with_store(args, work)} renamed to {one_line(title, 200)}\n")


def _fork(args: argparse.Namespace) -> int:
    async def work(store: FullStore) -> SessionId:
        session_id = await resolve_session_id(store, args.session)
        stored = await _stored(store, session_id)
        state = stored.state
        at = None if args.at is None else await to_thread(_message_id, stored, args.at)
        messages = state.transcript[:] if at is None else await to_thread(forked, stored.events, at)
        fresh = SessionId(RandomIds().new("ses"))
        journal = seed_events(
            fresh,
            kind="fork",
            messages=messages,
            # Tools' values in the shared context belong to the end of the history.
            context=state.context if at is None else SharedContext(cwd=state.context.cwd),
            model=state.model,
            at=time.time(),
            agent=state.agent,
            forked_from=session_id,
            title=state.title,
        )
        await store.import_sessions([journal])
        return fresh

    fresh = with_store(args, work)
    return print_text(f"{fresh}\n`engine run --resume {fresh} TASK` continues it\n")


def _message_id(stored: StoredSession, name: str) -> str:
    """Resolve *name*, an id or the end of one, to a message id. It blocks. Raises `MessageNotFound`."""
    # Imported here: few calls need it.
    from engine.export.history import render_history

    ids = [entry.message.id for entry in render_history(stored.events).entries]
    if name in ids:
        return name
    matches = [message_id for message_id in ids if name and message_id.endswith(name)]
    if len(matches) > 1:
        raise MessageNotFound(f"{name!r} is ambiguous; {len(matches)} messages match: {', '.join(matches[:5])}")
    # Otherwise it may be a message that was undone since: `forked` checks it.
    return matches[0] if matches else name


# -- delete, prune ---------------------------------------------------------------------------


def _delete(args: argparse.Namespace) -> int:
    async def look(store: FullStore) -> dict[SessionId, str]:
        titles: dict[SessionId, str] = {}
        for name in args.sessions:
            session_id = await resolve_session_id(store, name)
            titles[session_id] = _title((await _stored(store, session_id)).state)
        return titles

    # The store is closed while the user thinks: a question must not hold a lock.
    titles = with_store(args, look)
    if not args.yes and not _confirm(titles):
        return FAILED

    async def work(store: FullStore) -> Sequence[SessionId]:
        deleted: list[SessionId] = []
        for session_id in titles:
            deleted += await store.delete(session_id)
        await _forget(deleted)
        return deleted

    deleted = with_store(args, work)
    # Sub-agents' sessions go with the one that started them.
    below = len(deleted) - len(titles)
    agents = f", with {counted(below, 'sub-agent')}" if below > 0 else ""
    return print_text(f"{counted(len(deleted) - max(0, below), 'session')} deleted{agents}\n")


def _confirm(titles: dict[SessionId, str]) -> bool:
    """Ask the user for confirmation. False without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        print_error(
            "engine sessions delete: no terminal to ask for confirmation\nNext: engine sessions delete ID --yes"
        )
        return False
    for session_id, title in titles.items():
        print_text(f"{escape_control_chars(session_id)}  {one_line(title, 100)}\n")
    print_text(f"Delete {'it' if len(titles) == 1 else 'them'} permanently? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


async def _forget(deleted: Sequence[SessionId]) -> None:
    """Delete the stored long outputs and the file snapshots of these sessions. A checkpoint."""
    await to_thread(forget_sessions, default_folder(), deleted)
    try:
        # Outputs of sub-agents are in the folder of the session that started them.
        await SpillStore(None).forget(deleted)
    except OSError as error:
        print_error(f"stored long outputs could not be deleted: {error.strerror}; they are deleted after a week")


def _prune(args: argparse.Namespace) -> int:
    since = time.time() - args.older_than

    async def look(store: FullStore) -> list[str]:
        roots = await store.list_inactive(older_than=since, keep=args.keep)
        return [f"{root}  {one_line(_title((await _stored(store, root)).state), 100)}" for root in roots]

    async def work(store: FullStore) -> tuple[int, int]:
        roots = set(await store.list_inactive(older_than=since, keep=args.keep))
        deleted = await store.prune(older_than=since, keep=args.keep)
        await _forget(deleted)
        return len(roots & set(deleted)), len(roots - set(deleted))

    if args.dry_run:
        lines = with_store(args, look, only_reads=True)
        return print_text(
            "".join(f"{escape_control_chars(line)}\n" for line in lines)
            + f"{counted(len(lines), 'session')} would be deleted\n"
        )
    removed, left = with_store(args, work)
    why = f"; {counted(left, 'session')} kept, because open or just used" if left else ""
    return print_text(f"{counted(removed, 'session')} deleted{why}\n")
