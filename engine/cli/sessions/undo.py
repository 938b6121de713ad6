"""`engine sessions undo`, `redo`, `diff`, `restore`: turns taken back, with the files that they changed."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import attrs
import trio

from engine.cli.output import complain
from engine.cli.sessions.common import FAILED, add_session_argument, command, here, parser_for, tell, with_store
from engine.cli.store_flags import find_session, place_of
from engine.cli.terminal_text import on_a_line, one_line, visible
from engine.core.errors import (
    ConfigError,
    NothingToUndo,
    SessionBusy,
    SnapshotError,
    UndoConflict,
    UndoIncomplete,
)
from engine.core.ids import TurnId
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import UserMessage
from engine.core.protocols import ModelStream
from engine.core.threads import to_thread
from engine.export.history import render_history
from engine.session.engine import open_engine
from engine.session.session import Session
from engine.session.undo import FileDiff
from engine.snapshots.project import ProjectSnapshots
from engine.store.protocols import FullStore

_SHOWN: Final = 70
_FORCE: Final = "overwrite also what somebody else has changed since; where files can't be put back, leave them"

# What else can be done where the files can't be put back.
_WITHOUT_FILES: Final[Mapping[str, str]] = {
    "undo": "\n(--force takes back the messages alone, and leaves files as they are)",
    "redo": "\n(--force lets the messages count again, and leaves files as they are)",
}


def undo_main(arguments: list[str]) -> int:
    """Run `undo`; return the exit code."""
    parser = parser_for("undo", "Take back the newest turn of a session: its messages, and its changes of files.")
    add_session_argument(parser)
    parser.add_argument("--force", action="store_true", help=_FORCE)
    return _run("undo", parser, arguments, _undo)


def redo_main(arguments: list[str]) -> int:
    """Run `redo`; return the exit code."""
    parser = parser_for("redo", "Let the turn that was undone last count again, with its changes of files.")
    add_session_argument(parser)
    parser.add_argument("--force", action="store_true", help=_FORCE)
    return _run("redo", parser, arguments, _redo)


def diff_main(arguments: list[str]) -> int:
    """Run `diff`; return the exit code."""
    parser = parser_for("diff", "Show what a turn did to files.")
    add_session_argument(parser)
    _add_turn(parser)
    return _run("diff", parser, arguments, _diff)


def restore_main(arguments: list[str]) -> int:
    """Run `restore`; return the exit code."""
    parser = parser_for("restore", "Put files, or all in folders, back as they were before a turn.")
    add_session_argument(parser)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="relative to the session's folder")
    _add_turn(parser)
    parser.add_argument("--force", action="store_true", help="overwrite also what somebody else has changed since")
    return _run("restore", parser, arguments, _restore)


def _add_turn(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--turn",
        metavar="ID",
        help="which turn: its id, or that of a message in it or the end of that, as `engine sessions show` tells it; "
        "default: the newest that changed files",
    )


def _run(
    name: str,
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    work: Callable[[Session, argparse.Namespace], Awaitable[str]],
) -> int:
    """Do *work* with the session that is meant, and tell what came of it."""

    def run(given: argparse.Namespace) -> int:
        try:
            return tell(_with_session(given, work))
        except UndoConflict as error:
            files = ", ".join(map(on_a_line, error.paths))
            complain(
                f"engine sessions {name}: changed since by somebody else, so nothing was done: {files}. With --force "
                "they are overwritten."
            )
            return FAILED
        except (NothingToUndo, SessionBusy, SnapshotError, UndoIncomplete) as error:
            way_out = _WITHOUT_FILES.get(name, "") if isinstance(error, SnapshotError) else ""
            complain(f"engine sessions {name}: {one_line(str(error), 4_000)}{way_out}")
            return FAILED

    return command(f"sessions {name}", parser, arguments, run)


def _with_session(given: argparse.Namespace, work: Callable[[Session, argparse.Namespace], Awaitable[str]]) -> str:
    """Open the session in an engine that asks no model."""

    async def opened(store: FullStore) -> str:
        row = await find_session(store, given.session, here())
        async with open_engine(
            model=Nobody(row.model), store=store, snapshots=ProjectSnapshots(left_out=(place_of(given),))
        ) as eng:
            return await work(await eng.open_session(row.id), given)

    return with_store(given, opened)


@attrs.frozen
class Nobody:
    """A model that is asked nothing: it has the name of the session's, so that this stays the session's."""

    name: str

    @property
    def info(self) -> ModelInfo:
        """Its name."""
        return ModelInfo(name=self.name)

    async def open(self, request: ModelRequest) -> ModelStream:
        """Refuse. A checkpoint, as all are that open something."""
        await trio.lowlevel.checkpoint()
        raise ConfigError("no model is asked anything here")


async def _undo(session: Session, given: argparse.Namespace) -> str:
    undone = await session.undo(force=given.force)
    said = one_line(undone.prompt, _SHOWN)
    head = f"undone: {said}" if said else f"undone: turn {undone.turn_id}"
    lines = [head, *_files("put back", undone.files), *_files("not kept, so left", undone.left)]
    return _told([*lines, *(one_line(remark, 1_000) for remark in undone.remarks)], undone.note)


async def _redo(session: Session, given: argparse.Namespace) -> str:
    redone = await session.redo(force=given.force)
    said = await to_thread(_asked_in, session, redone.turn_id)
    return _told([f"redone: {said}", *_files("changed again", redone.files)], redone.note)


def _asked_in(session: Session, turn_id: TurnId) -> str:
    """Return the beginning of what a turn was asked; if it was nothing, its id. It blocks."""
    messages = (e.message for e in render_history(session.journal.events()).entries if e.turn_id == turn_id)
    texts = (one_line(message.text, _SHOWN) for message in messages if isinstance(message, UserMessage))
    return next(filter(None, texts), f"turn {turn_id}")


async def _turn(session: Session, name: str | None) -> str | None:
    """Return the id of the turn that *name* means. Raises `NothingToUndo`, which says what there is."""
    return None if name is None else await to_thread(_turn_named, session, name)


def _turn_named(session: Session, name: str) -> str:
    entries = render_history(session.journal.events()).entries
    found = {entry.turn_id for entry in entries if name and entry.message.id.endswith(name)} - {None}
    if len(found) > 1:
        raise NothingToUndo(f"{name!r} may be a message of {len(found)} turns: more of its id tells them apart")
    # It may be the id of a turn, also of one that was undone: the session knows.
    return next((turn_id for turn_id in found if turn_id is not None), name)


async def _diff(session: Session, given: argparse.Namespace) -> str:
    diffs = await session.diff(await _turn(session, given.turn))
    if not diffs:
        return "no file was changed\n"
    return "".join(visible(diff.text) or f"{_how(diff)}: {on_a_line(diff.path)}\n" for diff in diffs)


async def _restore(session: Session, given: argparse.Namespace) -> str:
    files = await session.restore(given.paths, turn_id=await _turn(session, given.turn), force=given.force)
    return _told(
        _files("put back", files) or ["nothing was put back: the turn has not changed that, nor anybody since"], ""
    )


def _files(what: str, files: Sequence[str]) -> list[str]:
    return [f"{what}: {on_a_line(file)}" for file in files]


def _told(lines: Sequence[str], note: str) -> str:
    noted = [f"no file was changed: {note}"] if note else []
    return "".join(f"{line}\n" for line in (*lines, *noted))


def _how(diff: FileDiff) -> str:
    if diff.before is None:
        return "new"
    return "removed" if diff.after is None else "changed"


MAINS: Final[Mapping[str, Callable[[list[str]], int]]] = {
    "undo": undo_main,
    "redo": redo_main,
    "diff": diff_main,
    "restore": restore_main,
}
