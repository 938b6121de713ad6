"""`engine sessions context`, `compact`, `uncompact`: show what fills the context window, and summarise by hand."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.cli.agent_files import load_user_agents
from engine.cli.default_tools import default_tools
from engine.cli.flags.config_flags import load_user_config
from engine.cli.flags.default_model import default_model
from engine.cli.flags.store_flags import resolve_session
from engine.cli.sessions.context_usage import context_report
from engine.cli.sessions.session_command import (
    current_folder,
    run_subcommand,
    with_store,
)
from engine.cli.sessions.undo import NoModel
from engine.cli.terminal.exit_codes import FAILED
from engine.cli.terminal.signals import termination_signals
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars, one_line
from engine.cli.turn.compaction_notices import compaction_note
from engine.config.config import Config
from engine.core.errors import SessionNotFound
from engine.core.events import CompactionEnded, CompactionStarted, TurnResult
from engine.session.engine import open_engine
from engine.session.session import Session
from engine.store.store_protocols import FullStore, SessionRow

_MAX_ERROR_CHARS: Final = 2_000


def context_main(arguments: list[str]) -> int:
    """Run `context`; return the exit code."""
    return run_subcommand("sessions context", arguments, _context)


def compact_main(arguments: list[str]) -> int:
    """Run `compact`; return the exit code."""
    return run_subcommand("sessions compact", arguments, _compact)


def uncompact_main(arguments: list[str]) -> int:
    """Run `uncompact`; return the exit code."""
    return run_subcommand("sessions uncompact", arguments, _uncompact)


# -- context ----------------------------------------------------------------------------------


def _context(args: argparse.Namespace) -> int:
    config = load_user_config(args)

    async def work(store: FullStore) -> str:
        row = await resolve_session(store, args.session, current_folder())
        stored = await store.open_session(row.id)
        if stored is None:
            raise SessionNotFound(f"session {row.id} is gone")
        report = context_report(stored.state, config, model=args.model)
        return report.as_json() if args.json else escape_control_chars(report.as_text())

    return print_text(f"{with_store(args, work, only_reads=True)}\n")


# -- compact, uncompact -------------------------------------------------------------------------


def _compact(args: argparse.Namespace) -> int:
    async def work(store: FullStore) -> int:
        row = await resolve_session(store, args.session, current_folder())
        config = _config(args, row)
        # Open the session's own model, whichever model writes the summary: the session keeps it.
        async with open_engine(
            model=config.chain(row.model or default_model(os.environ, config)),
            config=config,
            tools=default_tools(agents=config.all_agents),
            store=store,
        ) as eng:
            session = await eng.open_session(row.id)
            return await _compact_session(session, args.heed.strip())

    return with_store(args, work)


def _config(args: argparse.Namespace, row: SessionRow) -> Config:
    config = load_user_config(args)
    config = load_user_agents(config, Path(row.cwd), trusts=False).merge_into(config)
    if args.model is None:
        return config
    return attrs.evolve(config, compaction=attrs.evolve(config.compaction, model=args.model))


async def _compact_session(session: Session, instructions: str) -> int:
    """Compact the session and report the progress; a signal cancels it. Always a checkpoint; returns the exit code."""
    signalled: list[int] = []
    results: list[TurnResult] = []
    events = session.subscribe()
    with trio.open_signal_receiver(*termination_signals()) as signals:
        async with trio.open_nursery() as nursery:

            async def cancel_at_a_signal() -> None:
                async for number in signals:
                    signalled.append(number)
                    nursery.cancel_scope.cancel(reason="interrupted by a signal")

            async def print_notes() -> None:
                async for event in events:
                    if isinstance(event, (CompactionStarted, CompactionEnded)) and (note := compaction_note(event)):
                        print_text(f"{escape_control_chars(note)}\n")

            # Both run until the compaction is over; the events of a session never end by themselves.
            nursery.start_soon(cancel_at_a_signal)
            nursery.start_soon(print_notes)
            results.append(await session.context.compact(instructions))
            nursery.cancel_scope.cancel(reason="the compaction is over")
    if not results:  # cancelled by a signal; the compaction leaves the old history then
        print_error("engine sessions compact: cancelled: the history is unchanged")
        return 128 + signalled[0]
    (result,) = results
    if result.stop_reason == "completed":
        return 0
    print_error(
        f"engine sessions compact: the history is unchanged: {one_line(result.detail, _MAX_ERROR_CHARS)}\n"
        "Next: engine help sessions compact"
    )
    return FAILED


def _uncompact(args: argparse.Namespace) -> int:
    async def work(store: FullStore) -> int:
        row = await resolve_session(store, args.session, current_folder())
        async with open_engine(model=NoModel(row.model), store=store) as eng:
            session = await eng.open_session(row.id)
            await session.context.undo_compaction()
            return print_text(
                f"the summary was undone: the history has {len(session.state.transcript):,} messages again\n"
            )

    return with_store(args, work)
