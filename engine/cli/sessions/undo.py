"""`engine sessions undo`, `redo`, `diff`, `restore`, `versions`: undo turns and their file changes."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, cast

import attrs
import trio

from engine.cli.flags.store_flags import resolve_session, resolve_store
from engine.cli.sessions.session_command import (
    current_folder,
    run_subcommand,
    with_store,
)
from engine.cli.terminal.exit_codes import FAILED, NO_HINTS
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line, one_line
from engine.core.errors import ConfigError, EngineError, NothingToUndo, SnapshotError, UndoConflict
from engine.core.ids import TurnId
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import UserMessage
from engine.core.protocols import ModelStream
from engine.core.threads import to_thread
from engine.export.history import render_history
from engine.session.engine import open_engine
from engine.session.engine_options import FileOptions
from engine.session.rewind import RewindPoint, RewindPreview, RewindScope, Rewound
from engine.session.session import Session
from engine.session.undo import FileDiff
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.store.store_protocols import FullStore

_MAX_PROMPT_CHARS: Final = 70
_ID_CHARS: Final = 8
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_TIME: Final = "%Y-%m-%d %H:%M:%S"

# What to do, for each subcommand, if the files can't be restored.
_HINTS: Final[Mapping[str, Mapping[type[EngineError], str]]] = {
    "undo": {SnapshotError: "Next: add --force to undo only the messages"},
    "redo": {SnapshotError: "Next: add --force to redo only the messages"},
}


def undo_main(arguments: list[str]) -> int:
    """Run `undo`; return the exit code."""
    return _run("undo", arguments, _undo)


def redo_main(arguments: list[str]) -> int:
    """Run `redo`; return the exit code."""
    return _run("redo", arguments, _redo)


def diff_main(arguments: list[str]) -> int:
    """Run `diff`; return the exit code."""
    return _run("diff", arguments, _diff)


def restore_main(arguments: list[str]) -> int:
    """Run `restore`; return the exit code."""
    return _run("restore", arguments, _restore)


def versions_main(arguments: list[str]) -> int:
    """Run `versions`; return the exit code."""
    return _run("versions", arguments, _versions)


def _run(
    name: str,
    arguments: Sequence[str],
    work: Callable[[Session, argparse.Namespace], Awaitable[str]],
) -> int:
    """Do *work* with the session that the arguments name, and print the result."""

    def run(args: argparse.Namespace) -> int:
        try:
            return print_text(_with_session(args, work))
        except UndoConflict as error:
            files = ", ".join(map(escape_on_one_line, error.paths))
            print_error(
                f"engine sessions {name}: nothing was done: these files were changed since: {files}\n"
                f"Next: {_again(name, args)} --force"
            )
            return FAILED

    return run_subcommand(f"sessions {name}", arguments, run, hints=_HINTS.get(name, NO_HINTS))


def _again(name: str, args: argparse.Namespace) -> str:
    """Return the command as it was typed, as far as it says what is undone."""
    flags = [f"--{flag} {value}" for flag in ("to", "only") if (value := getattr(args, flag, None)) is not None]
    return " ".join(["engine", "sessions", name, args.session, *flags])


def _with_session(args: argparse.Namespace, work: Callable[[Session, argparse.Namespace], Awaitable[str]]) -> str:
    """Open the session in an engine that never calls a model."""

    async def opened(store: FullStore) -> str:
        row = await resolve_session(store, args.session, current_folder())
        # A real model would need a key, which undoing does not.
        async with open_engine(
            model=NoModel(row.model),
            store=store,
            files=FileOptions(snapshots=ProjectSnapshots(left_out=(resolve_store(args),))),
        ) as eng:
            return await work(await eng.open_session(row.id), args)

    return with_store(args, opened)


@attrs.frozen
class NoModel:
    """A model that refuses every request. It has the name of the session's model, so that the session keeps it."""

    name: str

    @property
    def info(self) -> ModelInfo:
        """The name."""
        return ModelInfo(name=self.name)

    async def open(self, request: ModelRequest) -> ModelStream:
        """Refuse. A checkpoint, as with every model."""
        await trio.lowlevel.checkpoint()
        raise ConfigError('this command calls no model\nNext: engine run "TASK"')


async def _undo(session: Session, args: argparse.Namespace) -> str:
    if args.list:
        return _as_lines(_point_lines(await session.files.rewind_points()) or ["there is no prompt to undo"], "")
    if args.show:
        return _preview_text(await session.files.preview_rewind(await _turn_to_undo(session, args.to or "1")))
    if args.to is not None or args.only is not None:
        scope = cast("RewindScope", args.only or "both")
        turn_id = await _turn_to_undo(session, args.to or "1")
        return _rewound_text(scope, await session.files.rewind(turn_id, scope=scope, force=args.force))
    undone = await session.files.undo(force=args.force)
    prompt = one_line(undone.prompt, _MAX_PROMPT_CHARS)
    head = f"undone: {prompt}" if prompt else f"undone: turn {undone.turn_id}"
    lines = [head, *_files("restored", undone.files), *_files("no snapshot, left unchanged", undone.left)]
    return _as_lines([*lines, *(one_line(remark, 1_000) for remark in undone.remarks)], undone.note)


async def _turn_to_undo(session: Session, name: str) -> str:
    """Return the turn of a prompt, which is named by its number from the newest on, or by an id. Raises `ConfigError`."""
    if not _NUMBER.fullmatch(name):
        return await to_thread(_turn_named, session, name)
    points = await session.files.rewind_points()
    if not 0 < int(name) <= len(points):
        raise ConfigError(f"--to {name}: the session has {len(points)} prompts\nNext: engine sessions undo last --list")
    return points[-int(name)].turn_id


def _point_lines(points: Sequence[RewindPoint]) -> list[str]:
    """Return a line for each prompt, the newest first."""
    lines: list[str] = []
    for number, point in enumerate(reversed(points), 1):
        files = ", ".join(map(escape_on_one_line, point.files)) or ("files" if point.has_files else "no files")
        when = time.strftime(_TIME, time.localtime(point.time))
        lines.append(f"{number:>3}  {when}  {one_line(point.prompt, _MAX_PROMPT_CHARS)}  ({files})")
    return lines


def _preview_text(preview: RewindPreview) -> str:
    lines = [
        f"{len(preview.turns)} {'turn' if len(preview.turns) == 1 else 'turns'} would be undone",
        *_files("changed since by another program, so it needs --force", preview.conflicts),
        *_files("no snapshot, would be left unchanged", preview.left),
    ]
    return _as_lines(lines, "") + (_diff_text(preview.files) or "no file would change\n")


def _rewound_text(scope: RewindScope, rewound: Rewound) -> str:
    turns = f"{len(rewound.turns)} {'turn' if len(rewound.turns) == 1 else 'turns'}"
    heads = {
        "both": f"undone: {turns}, to before: {one_line(rewound.prompt, _MAX_PROMPT_CHARS)}",
        "conversation": f"undone: the messages of {turns}; files are unchanged",
        "files": f"undone: the file changes of {turns}; the messages are unchanged",
    }
    files = [*_files("restored", rewound.files), *_files("no snapshot, left unchanged", rewound.left)]
    return _as_lines([heads[scope], *files, *(one_line(remark, 1_000) for remark in rewound.remarks)], "")


async def _redo(session: Session, args: argparse.Namespace) -> str:
    redone = await session.files.redo(force=args.force)
    # In a thread: a long session has many events to read.
    prompt = await to_thread(_prompt_of, session, redone.turn_id)
    return _as_lines([f"redone: {prompt}", *_files("changed", redone.files)], redone.note)


def _prompt_of(session: Session, turn_id: TurnId) -> str:
    """Return the beginning of a turn's prompt, or the turn's id if it had none. It blocks."""
    messages = (e.message for e in render_history(session.events()).entries if e.turn_id == turn_id)
    texts = (one_line(message.text, _MAX_PROMPT_CHARS) for message in messages if isinstance(message, UserMessage))
    return next(filter(None, texts), f"turn {turn_id}")


async def _turn(session: Session, name: str | None) -> str | None:
    """Resolve *name* to a turn id. Raises `NothingToUndo` if it is ambiguous."""
    return None if name is None else await to_thread(_turn_named, session, name)


def _turn_named(session: Session, name: str) -> str:
    entries = render_history(session.events()).entries
    turn_ids = {entry.turn_id for entry in entries if name and entry.message.id.endswith(name)} - {None}
    if len(turn_ids) > 1:
        raise NothingToUndo(f"{name!r} is ambiguous: messages of {len(turn_ids)} turns match; use more of the id")
    # Otherwise it may be the id of a turn, perhaps of one that was undone: the session checks it.
    return next((turn_id for turn_id in turn_ids if turn_id is not None), name)


async def _diff(session: Session, args: argparse.Namespace) -> str:
    diffs = await session.files.diff(await _turn(session, args.turn))
    # Not an error: a turn that only talked changed no files.
    return _diff_text(diffs) or "no file was changed\n"


def _diff_text(diffs: Sequence[FileDiff]) -> str:
    return "".join(
        escape_control_chars(diff.text) or f"{_how(diff)}: {escape_on_one_line(diff.path)}\n" for diff in diffs
    )


async def _restore(session: Session, args: argparse.Namespace) -> str:
    turn_id = await _turn(session, args.turn)
    files = await session.files.restore(args.paths, turn_id=turn_id, version=args.version, force=args.force)
    then = "before the turn" if args.version is None else "in that version"
    return _as_lines(_files("restored", files) or [f"nothing to restore: these paths are as they were {then}"], "")


async def _versions(session: Session, args: argparse.Namespace) -> str:
    versions = await session.files.versions(args.path)
    width = _width([version.id for version in versions])
    lines = [
        f"{version.id[:width]}  {time.strftime(_TIME, time.localtime(version.time))}{'  (as it is now)' if version.is_current else ''}"
        for version in versions
    ]
    return _as_lines(lines or ["no snapshot shows another content of this file"], "")


def _width(ids: Collection[str]) -> int:
    """Return how many characters of the ids tell them apart."""
    return next((n for n in range(_ID_CHARS, 40) if len({one[:n] for one in ids}) == len(ids)), 40)


def _files(what: str, files: Sequence[str]) -> list[str]:
    return [f"{what}: {escape_on_one_line(file)}" for file in files]


def _as_lines(lines: Sequence[str], note: str) -> str:
    noted = [f"no file was changed: {note}"] if note else []
    return "".join(f"{line}\n" for line in (*lines, *noted))


def _how(diff: FileDiff) -> str:
    if diff.before is None:
        return "new"
    return "removed" if diff.after is None else "changed"
