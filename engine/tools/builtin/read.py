"""`read`: files of all kinds that a model can read, folders, and kept outputs."""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.files.text_files import resolve
from engine.tools.call_values import Need, ToolOutput
from engine.tools.output.spill import PREFIX, READER
from engine.tools.read.line_window import MAX_BYTES, MAX_LINE_CHARS, MAX_LINES, Part
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description

PERMISSION: Final = "read"


@attrs.frozen(eq=False, repr=False)
class Read(Value):
    """Arguments of `read`."""

    path: Annotated[str, doc("the file or folder, relative to the working directory or absolute")]
    offset: Annotated[int, doc("the number of the first line to read")] = attrs.field(
        default=1, validator=attrs.validators.ge(1)
    )
    limit: Annotated[int, doc("how many lines to read at most")] = attrs.field(
        default=MAX_LINES, validator=[attrs.validators.ge(1), attrs.validators.le(MAX_LINES)]
    )
    column: Annotated[int, doc("in a line that was cut: the character to go on with")] = attrs.field(
        default=1, validator=attrs.validators.ge(1)
    )


async def read(args: Read, ctx: ToolContext) -> ToolOutput:
    """Return a file's content, or a part of it. A checkpoint.

    If cancelled, the thread that reads is abandoned, and a process that takes a file
    apart is ended.
    """
    from engine.tools.read.read_file import read_path

    return await read_path(Part(args.path, args.offset, args.limit, args.column), ctx)


async def _need(args: Read, ctx: ToolContext) -> Need:
    if args.path.startswith(PREFIX):
        # Only outputs of this tree of sessions can be read under such a name.
        return Need(permission=PERMISSION, patterns=(args.path,), is_own=True)
    return await ctx.to_thread(_needed, args, ctx.cwd)


def _needed(args: Read, cwd: str) -> Need:
    from engine.tools.search.search_paths import read_need

    try:
        return read_need(cwd, resolve(cwd, args.path))
    except ToolError:  # not a path; the tool's own message is better
        return Need(permission=PERMISSION, patterns=(args.path,))


READ = tool(
    name=READER,
    description=description("read", max_lines=MAX_LINES, max_line_chars=MAX_LINE_CHARS, max_bytes=MAX_BYTES),
    read_only=True,
    need=_need,
    permission=PERMISSION,
)(read)
