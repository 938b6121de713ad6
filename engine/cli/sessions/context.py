"""`engine sessions context`, `compact`, `uncompact`: what fills a model's window, and making room in it by hand."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.cli.agent_files import find_user_agents
from engine.cli.compaction_notices import note_of
from engine.cli.default_tools import offered_tools
from engine.cli.model_flags import DEFAULT_MODEL
from engine.cli.output import complain
from engine.cli.sessions.common import FAILED, add_session_argument, command, here, parser_for, tell, with_store
from engine.cli.sessions.context_usage import filling
from engine.cli.sessions.undo import Nobody
from engine.cli.signals import heeded_signals
from engine.cli.store_flags import find_session
from engine.cli.terminal_text import one_line, visible
from engine.config.config import Config
from engine.core.errors import SessionElsewhere, SessionError, SessionNotFound
from engine.core.events import CompactionEnded, CompactionStarted, TurnResult
from engine.session.engine import open_engine
from engine.session.session import Session
from engine.settings_file.config_file import load_config
from engine.store.protocols import FullStore, SessionRow

_LONGEST: Final = 2_000


def context_main(arguments: list[str]) -> int:
    """Run `context`; return the exit code."""
    parser = parser_for("context", "Show what would fill the model's window in the next request.", has_json=True)
    add_session_argument(parser)
    parser.add_argument("--model", metavar="MODEL", help="in the window of this model; default: the session's")
    _add_config(parser)
    return command("sessions context", parser, arguments, _context)


def compact_main(arguments: list[str]) -> int:
    """Run `compact`; return the exit code."""
    parser = parser_for(
        "compact",
        "Summarise what is old in a session, so that its next request is smaller. What was said stays in the store: "
        "`engine sessions uncompact` takes the summary back. Ctrl-C leaves the history as it was.",
    )
    add_session_argument(parser)
    parser.add_argument("--heed", default="", metavar="TEXT", help="what the summary has to heed besides")
    parser.add_argument(
        "--model", metavar="MODEL", help="who writes it; default: the configuration's for summaries, or the session's"
    )
    _add_config(parser)
    return command("sessions compact", parser, arguments, _told_errors("compact", _compact))


def uncompact_main(arguments: list[str]) -> int:
    """Run `uncompact`; return the exit code."""
    parser = parser_for("uncompact", "Take the newest summary of a session back: what it stands for is there again.")
    add_session_argument(parser)
    return command("sessions uncompact", parser, arguments, _told_errors("uncompact", _uncompact))


MAINS: Final[Mapping[str, Callable[[list[str]], int]]] = {
    "context": context_main,
    "compact": compact_main,
    "uncompact": uncompact_main,
}


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="default: $ENGINE_CONFIG, or the usual place")


def _told_errors(name: str, run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    def told(given: argparse.Namespace) -> int:
        try:
            return run(given)
        except (SessionNotFound, SessionElsewhere):
            raise  # told like everywhere
        except SessionError as error:
            complain(f"engine sessions {name}: {one_line(str(error), _LONGEST)}")
            return FAILED

    return told


# -- context ----------------------------------------------------------------------------------


def _context(given: argparse.Namespace) -> int:
    config = load_config(given.config, os.environ)

    async def reported(store: FullStore) -> str:
        row = await find_session(store, given.session, here())
        stored = await store.open_session(row.id)
        if stored is None:
            raise SessionNotFound(f"session {row.id} is gone")
        report = filling(stored.state, config, model=given.model)
        return report.as_json() if given.json else visible(report.as_text())

    return tell(f"{with_store(given, reported)}\n")


# -- compact, uncompact -------------------------------------------------------------------------


def _compact(given: argparse.Namespace) -> int:
    async def compacted(store: FullStore) -> int:
        row = await find_session(store, given.session, here())
        config = _config(given, row)
        # The session's own model is opened, whoever writes the summary: it stays the session's.
        async with open_engine(
            model=config.chain(row.model or DEFAULT_MODEL),
            config=config,
            tools=offered_tools(agents=config.all_agents),
            store=store,
        ) as eng:
            session = await eng.open_session(row.id)
            return await _watched(session, given.heed.strip())

    return with_store(given, compacted)


def _config(given: argparse.Namespace, row: SessionRow) -> Config:
    config = load_config(given.config, os.environ)
    config = find_user_agents(config, Path(row.cwd), trusts=False).merge_into(config)
    if given.model is None:
        return config
    return attrs.evolve(config, compaction=attrs.evolve(config.compaction, model=given.model))


async def _watched(session: Session, instructions: str) -> int:
    """Have it summarised, and tell how that goes; a signal cancels it. Always a checkpoint; returns the exit code."""
    signalled: list[int] = []
    results: list[TurnResult] = []
    events = session.subscribe()
    with trio.open_signal_receiver(*heeded_signals()) as signals:
        async with trio.open_nursery() as nursery:

            async def heed() -> None:
                async for number in signals:
                    signalled.append(number)
                    nursery.cancel_scope.cancel(reason="a signal has come")

            async def tell_all() -> None:
                async for event in events:
                    if isinstance(event, (CompactionStarted, CompactionEnded)) and (note := note_of(event)):
                        tell(f"{visible(note)}\n")

            nursery.start_soon(heed)
            nursery.start_soon(tell_all)
            results.append(await session.compact(instructions))
            nursery.cancel_scope.cancel(reason="it is done")
    if not results:
        complain("engine sessions compact: cancelled: the history is as it was")
        return 128 + signalled[0]
    (result,) = results
    if result.stop_reason == "completed":
        return 0
    complain(f"engine sessions compact: the history is as it was: {one_line(result.detail, _LONGEST)}")
    return FAILED


def _uncompact(given: argparse.Namespace) -> int:
    async def taken_back(store: FullStore) -> int:
        row = await find_session(store, given.session, here())
        async with open_engine(model=Nobody(row.model), store=store) as eng:
            session = await eng.open_session(row.id)
            await session.undo_compaction()
            return tell(f"the history is whole again: {len(session.state.transcript):,} messages\n")

    return with_store(given, taken_back)
