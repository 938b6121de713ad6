"""`list`: what is in a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import attrs

from engine.errors import ToolError
from engine.tools.builtin.files import renamed_errors, resolve, visible_name
from engine.tools.builtin.texts import counted, description, metadata
from engine.tools.context import ToolContext
from engine.tools.schema import doc
from engine.tools.spec import Need, ToolOutput, tool

MAX_ENTRIES: Final = 1_000


@attrs.frozen
class List:
    """Arguments of `list`."""

    path: Annotated[str, doc("the folder, relative to the working directory or absolute")] = "."


async def list_folder(args: List, ctx: ToolContext) -> ToolOutput:
    """Return the names in a folder. A checkpoint; if cancelled, the thread that looks is abandoned."""
    return await ctx.to_thread(_list, args, ctx.cwd)


def _need(args: List) -> Need:
    return Need(permission="read", patterns=(args.path,))


LIST = tool(name="list", description=description("list", max_entries=MAX_ENTRIES), read_only=True, need=_need)(
    list_folder
)


def _list(args: List, cwd: str) -> ToolOutput:
    path = resolve(cwd, args.path)
    with renamed_errors(args.path, path):
        if path.exists() and not path.is_dir():
            raise ToolError(f"{args.path} is no folder. If it is a text file, use the read tool to see what is in it.")
        with os.scandir(path) as entries:
            names = sorted(_shown(entry) for entry in entries)
    if not names:
        return ToolOutput(text=f"({args.path} is empty)", metadata=metadata("empty"))
    shown = names[:MAX_ENTRIES]
    if len(names) > MAX_ENTRIES:
        shown.append(f"({len(names) - MAX_ENTRIES:,} more entries are not shown)")
    return ToolOutput(text="\n".join(shown), metadata=metadata(counted(len(names), "entry", "entries")))


def _shown(entry: os.DirEntry[str]) -> str:
    name = visible_name(entry.name)
    try:
        if entry.is_symlink():
            return f"{name} -> {visible_name(str(Path(entry).readlink()))}"
        return f"{name}/" if entry.is_dir() else name
    except OSError:  # it went away meanwhile
        return name
