"""`/rewind`, `/undo`, `/redo` and `/diff`: the same for a session of this process and one of a server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import attrs

from engine.cli.chat.command_result import CommandResult, printed
from engine.cli.chat.machine.picker import PickerItem, PickerRequest
from engine.cli.task.file_blocks import without_file_blocks
from engine.cli.terminal.terminal_text import escape_on_one_line, one_line
from engine.core.errors import ConfigError, NothingToUndo, SnapshotError
from engine.session.rewind import RewindPoint, RewindPreview, RewindScope, Rewound

_MAX_PROMPT: Final = 60
_MAX_FILES: Final = 3
_SCOPES: Final[Mapping[str, RewindScope]] = {"both": "both", "conversation": "conversation", "files": "files"}


class FileHistory(Protocol):
    """What a session can undo."""

    async def points(self) -> Sequence[RewindPoint]:
        """Return the prompts to rewind to, the oldest first. A checkpoint. Raises `EngineError`."""
        ...

    async def preview(self, turn_id: str) -> RewindPreview:
        """Return what rewinding would do. A checkpoint. Raises `EngineError`."""
        ...

    async def rewind(self, turn_id: str, scope: RewindScope, *, force: bool) -> Rewound:
        """Undo a turn and all later ones. A checkpoint. Raises `EngineError`."""
        ...

    async def undo(self, *, force: bool) -> Rewound:
        """Undo the newest turn. A checkpoint. Raises `EngineError`."""
        ...

    async def redo(self, *, force: bool) -> tuple[str, ...]:
        """Redo what was undone last; return the files. A checkpoint. Raises `EngineError`."""
        ...

    async def diff(self) -> str:
        """Return the newest turn's changes of files. A checkpoint. Raises `EngineError`."""
        ...

    async def summarise(self, turn_id: str) -> str:
        """Summarise a turn and all later ones; return why not, if so. A checkpoint. Raises `EngineError`."""
        ...


@attrs.frozen
class RewindCommands:
    """Runs them."""

    _history: FileHistory

    async def rewind(self, argument: str) -> CommandResult:
        """Choose a prompt, then what is restored; then restore it. A checkpoint. Raises `EngineError`."""
        points = await self._history.points()
        if not points:
            return printed("There is no prompt to rewind to.")
        if not argument:
            return CommandResult(picker=PickerRequest("rewind", "Rewind to before", tuple(_items(points))))
        name, *words = argument.split()
        point = _point(points, name)
        if not words:
            return await self._choose(point)
        if words[0] == "summarise":
            why_not = await self._history.summarise(point.turn_id)
            return printed(
                f"Not summarised: {why_not}" if why_not else "Summarised from that prompt on. /undo takes it back."
            )
        scope = _SCOPES.get(words[0])
        if scope is None or words[1:] not in ([], ["force"]):
            raise ConfigError(
                f"unknown choice: {escape_on_one_line(' '.join(words))}\n"
                "Next: /rewind NUMBER both|conversation|files|summarise"
            )
        return _result(scope, await self._history.rewind(point.turn_id, scope, force=words[1:] == ["force"]))

    async def _choose(self, point: RewindPoint) -> CommandResult:
        """Show what would change, and offer the choices."""
        diff = ""
        lines: list[str] = []
        has_files, is_safe = False, True
        try:
            preview = await self._history.preview(point.turn_id)
        except SnapshotError as error:
            lines = [f"Files can't be restored: {error}"]
        else:
            has_files, is_safe = bool(preview.files), not preview.conflicts
            diff = "".join(file.text or f"{file.path}: not text\n" for file in preview.files)
            lines = [f"Changed by another program since: {escape_on_one_line(path)}" for path in preview.conflicts]
            lines += [f"No snapshot, left as it is: {escape_on_one_line(path)}" for path in preview.left]
            lines += [] if has_files else ["No file would change."]
        force, how = ("", "") if is_safe else (" force", ", overwriting what others have changed")
        both = PickerItem(f"{point.turn_id} both{force}", f"Restore conversation and files{how}")
        talk = PickerItem(f"{point.turn_id} conversation", "Restore the conversation, leave files as they are")
        files = PickerItem(f"{point.turn_id} files{force}", f"Restore files, keep the conversation{how}")
        summary = PickerItem(f"{point.turn_id} summarise", "Summarise from here, leave files as they are")
        if not has_files:
            items = [talk, summary]
        elif is_safe:
            items = [both, talk, files, summary]
        else:
            # An Enter too many chooses the first one, which must not overwrite anything.
            items = [talk, summary, both, files]
        title = f"Before: {one_line(without_file_blocks(point.prompt), _MAX_PROMPT)}"
        return CommandResult(diff=diff, lines=tuple(lines), picker=PickerRequest("rewind", title, tuple(items)))

    async def undo(self, argument: str) -> CommandResult:
        """Undo the newest turn. A checkpoint. Raises `EngineError`."""
        return _result("both", await self._history.undo(force=argument == "force"))

    async def redo(self, argument: str) -> CommandResult:
        """Redo what was undone last. A checkpoint. Raises `EngineError`."""
        files = await self._history.redo(force=argument == "force")
        return CommandResult(lines=("Redone.", *file_lines("Changed", files)))

    async def diff(self, argument: str) -> CommandResult:
        """Show the newest turn's changes of files. A checkpoint. Raises `EngineError`."""
        del argument
        diff = await self.diff_text()
        return CommandResult(diff=diff) if diff else printed("No file was changed.")

    async def diff_text(self) -> str:
        """Return the newest turn's changes of files. A checkpoint. Raises `EngineError`."""
        try:
            return await self._history.diff()
        except NothingToUndo:
            return ""


def file_lines(what: str, files: Sequence[str]) -> list[str]:
    """Return a line for each file."""
    return [f"{what}: {escape_on_one_line(file)}" for file in files]


def _items(points: Sequence[RewindPoint]) -> list[PickerItem]:
    """Return the prompts, the newest first."""
    return [PickerItem(point.turn_id, _label(point)) for point in reversed(points)]


def _label(point: RewindPoint) -> str:
    when = time.strftime("%d %b %H:%M", time.localtime(point.time))
    return f"{one_line(without_file_blocks(point.prompt), _MAX_PROMPT)}  ({_files(point)})  {when}"


def _files(point: RewindPoint) -> str:
    if not point.files:
        return "changed files" if point.has_files else "no files"
    more = f" and {len(point.files) - _MAX_FILES} more" if len(point.files) > _MAX_FILES else ""
    return ", ".join(map(escape_on_one_line, point.files[:_MAX_FILES])) + more


def _point(points: Sequence[RewindPoint], name: str) -> RewindPoint:
    """Return the prompt of that turn, or with that number from the newest on. Raises `ConfigError`."""
    if name.isascii() and name.isdigit() and 0 < int(name) <= len(points):
        return points[-int(name)]
    found = next((point for point in points if point.turn_id == name), None)
    if found is None:
        raise ConfigError(f"unknown prompt {escape_on_one_line(name)}: 1 is the newest of {len(points)}\nNext: /rewind")
    return found


def _result(scope: RewindScope, rewound: Rewound) -> CommandResult:
    turns = f"{len(rewound.turns)} turns" if len(rewound.turns) > 1 else "the turn"
    where = (
        "The prompt is in the composer; /redo, without that prompt, takes it back."
        if rewound.prompt
        else "/redo takes that back."
    )
    heads = {
        "both": f"Undone: {turns}. {where}",
        "conversation": f"Undone: the messages of {turns}. {where}",
        "files": f"Restored the files from before {turns}. /redo takes that back.",
    }
    lines = [*file_lines("Restored", rewound.files), *file_lines("No snapshot, left as it is", rewound.left)]
    lines += [one_line(remark, 1_000) for remark in rewound.remarks]
    draft = rewound.prompt if scope != "files" else ""
    return CommandResult(lines=(heads[scope], *lines), draft=draft)
