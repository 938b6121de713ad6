"""`write`: a whole file, all at once."""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from engine.errors import ToolError
from engine.threads import to_thread
from engine.tools.builtin.changes import whole_text
from engine.tools.builtin.commit import replace_file
from engine.tools.builtin.files import TextFile, resolve
from engine.tools.builtin.texts import counted, description, metadata
from engine.tools.context import ToolContext
from engine.tools.schema import doc
from engine.tools.spec import Need, ToolOutput, tool

PERMISSION: Final = "edit"


@attrs.frozen
class Write:
    """Arguments of `write`."""

    path: Annotated[str, doc("the file, relative to the working directory or absolute")]
    content: Annotated[str, doc("the whole text of the file")]


async def write(args: Write, ctx: ToolContext) -> ToolOutput:
    """Create or replace a file. A checkpoint; if cancelled, it waits for the file to be whole."""
    # Not abandoned: a file must not change after the turn's record says that the
    # call was aborted. On a disk that hangs, the turn ends at the grace all the
    # same, and the record says that the outcome is not known.
    return await to_thread(_write, args, ctx.cwd, abandon_on_cancel=False)


def _need(args: Write) -> Need:
    # What is replaced is not shown: a need is told by the arguments alone, and these don't know it.
    detail = whole_text(args.path, args.content)
    return Need(permission=PERMISSION, patterns=(args.path,), offers=(args.path,), detail=detail)


WRITE = tool(name="write", description=description("write"), need=_need)(write)


def _write(args: Write, cwd: str) -> ToolOutput:
    path = resolve(cwd, args.path)
    if args.path.endswith("/"):
        raise ToolError(f"{args.path} names a folder, not a file.")
    is_new = replace_file(args.path, path, TextFile(args.content, has_bom=False).data)
    lines = counted(args.content.count("\n") + (not args.content.endswith("\n") and bool(args.content)), "line")
    done = "Created" if is_new else "Replaced"
    return ToolOutput(
        text=f"{done} {args.path} ({lines}).", metadata=metadata(f"{done.lower()}, {lines}", created=is_new)
    )
