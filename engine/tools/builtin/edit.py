"""`edit`: replace an exact text in a file."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import attrs

from engine.errors import ToolError
from engine.threads import to_thread
from engine.tools.builtin.changes import replacement
from engine.tools.builtin.commit import replace_file
from engine.tools.builtin.files import TextFile, read_text, resolve
from engine.tools.builtin.texts import counted, description, metadata
from engine.tools.builtin.write import PERMISSION
from engine.tools.context import ToolContext
from engine.tools.schema import doc
from engine.tools.spec import Need, ToolOutput, tool

_LINES_NAMED = 20


@attrs.frozen
class Edit:
    """Arguments of `edit`."""

    path: Annotated[str, doc("the file, relative to the working directory or absolute")]
    old_string: Annotated[str, doc("the text to replace, exactly as it stands in the file, without line numbers")]
    new_string: Annotated[str, doc("the text to put in its place")]
    replace_all: Annotated[bool, doc("replace every occurrence instead of the only one")] = False


@attrs.frozen
class Replaced:
    """A text after an edit, and the lines on which the old text began."""

    text: str
    lines: tuple[int, ...]


async def edit(args: Edit, ctx: ToolContext) -> ToolOutput:
    """Replace a text in a file. A checkpoint; if cancelled, it waits for the file to be whole."""
    # Not abandoned, for the same reason as in `write`.
    return await to_thread(_edit, args, ctx.cwd, abandon_on_cancel=False)


def _need(args: Edit) -> Need:
    detail = replacement(args.path, args.old_string, args.new_string)
    return Need(permission=PERMISSION, patterns=(args.path,), offers=(args.path,), detail=detail)


EDIT = tool(name="edit", description=description("edit"), need=_need)(edit)


def _edit(args: Edit, cwd: str) -> ToolOutput:
    path = resolve(cwd, args.path)
    before = read_text(args.path, path)
    replaced = replace(before.text, args)
    replace_file(args.path, path, TextFile(replaced.text, before.has_bom).data)
    where = f"line {replaced.lines[0]}" if len(replaced.lines) == 1 else f"lines {_named(replaced.lines)}"
    return ToolOutput(
        text=f"Edited {args.path}: {counted(len(replaced.lines), 'replacement')} at {where}.",
        metadata=metadata(where, replacements=len(replaced.lines)),
    )


def replace(text: str, args: Edit) -> Replaced:
    """Return *text* after the edit. Raises `ToolError` unless what to replace is certain."""
    old, new = _with_endings_of(text, args.old_string), _with_endings_of(text, args.new_string)
    if not old:
        raise ToolError("old_string is empty. To create a file, or to replace all of it, use the write tool.")
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change.")
    starts = _starts(text, old, overlapping=not args.replace_all)
    if not starts:
        raise ToolError(
            f"old_string was not found in {args.path}. It must be the text of the file, character for character, blanks "
            "and line ends included. Read the file again."
        )
    lines = tuple(text.count("\n", 0, start) + 1 for start in islice(starts, _LINES_NAMED))
    if len(starts) > 1 and not args.replace_all:
        raise ToolError(
            f"old_string was found {len(starts):,} times in {args.path}, on lines {_named(lines, len(starts))}. Add lines "
            "around it so that it fits one place, or set replace_all."
        )
    if not args.replace_all:
        return Replaced(text[: starts[0]] + new + text[starts[0] + len(old) :], lines)
    return Replaced(text.replace(old, new), lines)


def _with_endings_of(text: str, piece: str) -> str:
    """Return *piece* with the line endings of *text*, where that has one kind only."""
    pairs = text.count("\r\n")
    if pairs == 0 or pairs != text.count("\n"):
        return piece
    return piece.replace("\r\n", "\n").replace("\n", "\r\n")


def _starts(text: str, old: str, *, overlapping: bool) -> list[int]:
    """Return where *old* begins; occurrences that overlap are as ambiguous as others."""
    found: list[int] = []
    start = text.find(old)
    while start >= 0:
        found.append(start)
        start = text.find(old, start + (1 if overlapping else len(old)))
    return found


def _named(lines: tuple[int, ...], count: int | None = None) -> str:
    more = (count or len(lines)) - len(lines)
    return ", ".join(map(str, lines)) + (f" and {more:,} more" if more else "")
