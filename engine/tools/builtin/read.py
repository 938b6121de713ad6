"""`read`: files of all kinds that a model can read, folders, and outputs that were kept."""

from __future__ import annotations

import io
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Final

import attrs

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.files.read_state import note_read
from engine.files.text_files import BOM, MAX_TEXT_BYTES, is_utf16, looks_binary, real_file, renamed_errors, resolve
from engine.tools.call_values import Need, ToolOutput
from engine.tools.output.spill import PREFIX, READER, Spills
from engine.tools.read.folder import folder_output
from engine.tools.read.image import MAX_SOURCE_BYTES, Image, image_output, picture_of
from engine.tools.read.line_window import MAX_BYTES, MAX_LINE_CHARS, MAX_LINES, Part, window
from engine.tools.read.notebook import notebook_of
from engine.tools.read.opened_file import OpenedSource, opened
from engine.tools.read.pdf import MAX_ATTACHED_BYTES, Pdf, pdf_output
from engine.tools.search.search_paths import read_need
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description, metadata

PERMISSION: Final = "read"


@attrs.frozen
class Read:
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
    """Return what is in a file, or a part of it. A checkpoint.

    If cancelled, the thread that reads is abandoned, and a process that takes a file
    apart is ended.
    """
    if args.path.startswith(PREFIX):
        return await ctx.to_thread(_read_kept, args, ctx.spills)
    content = await ctx.to_thread(_read, args, ctx.cwd, ctx.approved_paths)
    match content:
        case Pdf():
            return await pdf_output(_part(args), content, ctx)
        case Image():
            return await image_output(args.path, content, ctx)
        case ToolOutput():
            return content


async def _need(args: Read, ctx: ToolContext) -> Need:
    if args.path.startswith(PREFIX):
        # Only what this tree of sessions has kept can be read so.
        return Need(permission=PERMISSION, patterns=(args.path,), is_own=True)
    return await ctx.to_thread(_needed, args, ctx.cwd)


def _needed(args: Read, cwd: str) -> Need:
    try:
        return read_need(cwd, resolve(cwd, args.path))
    except ToolError:  # it is no path, which the tool itself says better
        return Need(permission=PERMISSION, patterns=(args.path,))


READ = tool(
    name=READER,
    description=description("read", max_lines=MAX_LINES, max_line_chars=MAX_LINE_CHARS, max_bytes=MAX_BYTES),
    read_only=True,
    need=_need,
    permission=PERMISSION,
)(read)


def _part(args: Read) -> Part:
    return Part(args.path, args.offset, args.limit, args.column)


def _read_kept(args: Read, spills: Spills | None) -> ToolOutput:
    if spills is None:
        raise ToolError("This session has kept no outputs.")
    with spills.open(args.path.removeprefix(PREFIX)) as file:
        shown = window(_part(args), file)
    return ToolOutput(text=shown.text, metadata=metadata(shown.summary), is_cut=True)


def _read(args: Read, cwd: str, approved: Collection[str] | None) -> ToolOutput | Pdf | Image:
    path = real_file(cwd, args.path, approved)
    with renamed_errors(args.path, resolve(cwd, args.path)):
        with opened(args.path, path) as source:
            if isinstance(source, int):
                return folder_output(args.path, source)
            content = _content(args, path, source)
            digest = source.digest()
        noted = None if digest is None else note_read(path, digest)
    return attrs.evolve(content, modify=noted)


def _content(args: Read, path: Path, source: OpenedSource) -> ToolOutput | Pdf | Image:
    beginning = source.beginning
    if beginning.startswith(b"%PDF-"):
        data = source.file.read(MAX_ATTACHED_BYTES + 1)
        attached = data if len(data) <= MAX_ATTACHED_BYTES else None
        return Pdf(path=path, identity=source.identity, size=source.size, data=attached)
    if picture_of(beginning) is not None:
        data = source.file.read(MAX_SOURCE_BYTES)
        return Image(path=path, identity=source.identity, size=source.size, data=data)
    if is_utf16(beginning):
        raise ToolError(f"{args.path} is a text in UTF-16, which this tool does not read. Convert it: iconv -t UTF-8.")
    if looks_binary(beginning):
        raise ToolError(f"{args.path} is a binary file of {source.size:,} bytes.")
    if path.suffix == ".ipynb" and source.size <= MAX_TEXT_BYTES:
        return _notebook(args, source)
    if beginning.startswith(BOM):
        source.file.read(len(BOM))
    shown = window(_part(args), source.file)
    return ToolOutput(text=shown.text, metadata=metadata(shown.summary), is_cut=True)


def _notebook(args: Read, source: OpenedSource) -> ToolOutput:
    data = source.file.read(MAX_TEXT_BYTES)
    notebook = notebook_of(data)
    if notebook is None or not notebook.text:
        shown = window(_part(args), io.BytesIO(data.removeprefix(BOM)))
        return ToolOutput(text=shown.text, metadata=metadata(shown.summary), is_cut=True)
    shown = window(_part(args), io.BytesIO(notebook.text.encode(errors="replace")))
    note = f"({args.path} is a notebook; its cells are shown, not the JSON that is in the file)"
    images = notebook.images if args.offset == 1 else ()
    return ToolOutput(text=f"{note}\n{shown.text}", images=images, metadata=metadata(shown.summary), is_cut=True)
