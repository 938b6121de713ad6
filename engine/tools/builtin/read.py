"""`read`: lines of a text file, numbered."""

from __future__ import annotations

from typing import Annotated, BinaryIO, Final

import attrs

from engine.errors import ToolError
from engine.tools.builtin.files import BOM, check_regular, looks_binary, renamed_errors, resolve
from engine.tools.builtin.texts import counted, description, metadata
from engine.tools.context import ToolContext
from engine.tools.schema import doc
from engine.tools.spec import Need, ToolOutput, tool

MAX_LINES: Final = 2_000
MAX_LINE_CHARS: Final = 2_000
MAX_BYTES: Final = 51_200
_LINE_BYTES: Final = 4 * MAX_LINE_CHARS


@attrs.frozen
class Read:
    """Arguments of `read`."""

    path: Annotated[str, doc("the file, relative to the working directory or absolute")]
    offset: Annotated[int, doc("the number of the first line to read")] = attrs.field(
        default=1, validator=attrs.validators.ge(1)
    )
    limit: Annotated[int, doc("how many lines to read at most")] = attrs.field(
        default=MAX_LINES, validator=[attrs.validators.ge(1), attrs.validators.le(MAX_LINES)]
    )


async def read(args: Read, ctx: ToolContext) -> ToolOutput:
    """Return a window of a text file. A checkpoint; if cancelled, the thread that reads is abandoned."""
    return await ctx.to_thread(_read, args, ctx.cwd)


def _need(args: Read) -> Need:
    return Need(permission="read", patterns=(args.path,))


READ = tool(
    name="read",
    description=description("read", max_lines=MAX_LINES, max_line_chars=MAX_LINE_CHARS, max_bytes=MAX_BYTES),
    read_only=True,
    need=_need,
)(read)


def _read(args: Read, cwd: str) -> ToolOutput:
    path = resolve(cwd, args.path)
    with renamed_errors(args.path, path):
        size = check_regular(args.path, path).st_size
        with path.open("rb") as file:
            beginning = file.peek()
            if looks_binary(beginning):
                raise ToolError(f"{args.path} is a binary file of {size:,} bytes.")
            if beginning.startswith(BOM):
                file.read(len(BOM))
            return _window(args, file)


def _window(args: Read, file: BinaryIO) -> ToolOutput:
    for number in range(1, args.offset):
        if not _next_line(file):
            raise ToolError(
                f"{args.path} has only {counted(number - 1, 'line')}; offset={args.offset} is behind its end."
            )
    shown: list[str] = []
    room = MAX_BYTES
    while len(shown) < args.limit:
        line = _next_line(file)
        if line is None:
            return _whole(args, shown)
        numbered = f"{args.offset + len(shown):>6}\t{line}"
        room -= len(numbered.encode()) + 1
        if room < 0 and shown:
            return _part(args, shown)
        shown.append(numbered)
    return _part(args, shown) if file.read(1) else _whole(args, shown)


def _whole(args: Read, shown: list[str]) -> ToolOutput:
    """The window reaches to the end of the file."""
    if not shown and args.offset == 1:
        return ToolOutput(text=f"({args.path} is empty)", metadata=metadata("empty"))
    if not shown:
        raise ToolError(
            f"{args.path} has only {counted(args.offset - 1, 'line')}; offset={args.offset} is behind its end."
        )
    return ToolOutput(text="\n".join(shown), metadata=metadata(counted(len(shown), "line")))


def _part(args: Read, shown: list[str]) -> ToolOutput:
    """There is more than the window shows."""
    last = args.offset + len(shown) - 1
    note = f"(lines {args.offset}-{last}; the file goes on: read it with offset={last + 1})"
    return ToolOutput(text="\n".join([*shown, note]), metadata=metadata(f"lines {args.offset}-{last}"))


def _next_line(file: BinaryIO) -> str | None:
    """Return the next line, cut if it is a long one; None at the end. Takes no more memory than it returns."""
    data = file.readline(_LINE_BYTES)
    if not data:
        return None
    line = data.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")
    is_cut = len(line) > MAX_LINE_CHARS
    while not data.endswith(b"\n") and (data := file.readline(_LINE_BYTES)):
        is_cut = True
    return f"{line[:MAX_LINE_CHARS]} [the rest of this line is not shown]" if is_cut else line
