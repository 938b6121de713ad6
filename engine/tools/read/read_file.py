"""What `read` does: tell what kind of file it is, and show a part of it."""

from __future__ import annotations

import io
from collections.abc import Collection
from pathlib import Path

import attrs

from engine.core.errors import ToolError
from engine.files.read_state import digest, note_read
from engine.files.text_files import BOM, MAX_TEXT_BYTES, is_utf16, looks_binary, real_file, renamed_errors, resolve
from engine.tools.call_values import ToolOutput
from engine.tools.editor_files import UnsavedText, unsaved_texts
from engine.tools.output.spill import PREFIX, Spills
from engine.tools.read.folder import folder_output
from engine.tools.read.image import MAX_SOURCE_BYTES, Image, image_output, picture_of
from engine.tools.read.line_window import Part, window
from engine.tools.read.notebook import notebook_of
from engine.tools.read.opened_file import OpenedSource, opened
from engine.tools.read.pdf import MAX_ATTACHED_BYTES, Pdf, pdf_output
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import metadata


async def read_path(part: Part, ctx: ToolContext) -> ToolOutput:
    """Return what is in a file, or a part of it. A checkpoint.

    If cancelled, the thread that reads is abandoned, and a process that takes a file
    apart is ended.
    """
    if part.shown.startswith(PREFIX):
        return await ctx.to_thread(_read_kept, part, ctx.spills)
    if ctx.editor is not None:
        unsaved = await unsaved_texts(ctx.editor, ctx.cwd, [part.shown], ctx.approved_paths)
        for path, held in unsaved.items():
            return await ctx.to_thread(_read_unsaved, part, path, held)
    content = await ctx.to_thread(_read, part, ctx.cwd, ctx.approved_paths)
    match content:
        case Pdf():
            return await pdf_output(part, content, ctx)
        case Image():
            return await image_output(part.shown, content, ctx)
        case ToolOutput():
            return content


def _read_kept(part: Part, spills: Spills | None) -> ToolOutput:
    if spills is None:
        raise ToolError("This session has kept no outputs.")
    with spills.open(part.shown.removeprefix(PREFIX)) as file:
        shown = window(part, file)
    return ToolOutput(text=shown.text, metadata=metadata(shown.summary), is_cut=True)


def _read_unsaved(part: Part, path: str, held: UnsavedText) -> ToolOutput:
    shown = window(part, io.BytesIO(held.data.removeprefix(BOM)))
    note = f"(the user's editor holds {part.shown} like this, unsaved; commands read an older text on the disk)"
    return ToolOutput(
        text=f"{note}\n{shown.text}",
        modify=note_read(path, digest(held.data)),
        metadata=metadata(shown.summary, unsaved=True),
        is_cut=True,
    )


def _read(part: Part, cwd: str, approved: Collection[str] | None) -> ToolOutput | Pdf | Image:
    path = real_file(cwd, part.shown, approved)
    with renamed_errors(part.shown, resolve(cwd, part.shown)):
        with opened(part.shown, path) as source:
            if isinstance(source, int):
                return folder_output(part.shown, source)
            content = _content(part, path, source)
            digest = source.digest()
        noted = None if digest is None else note_read(path, digest)
    return attrs.evolve(content, modify=noted)


def _content(part: Part, path: Path, source: OpenedSource) -> ToolOutput | Pdf | Image:
    beginning = source.beginning
    if beginning.startswith(b"%PDF-"):
        data = source.file.read(MAX_ATTACHED_BYTES + 1)
        attached = data if len(data) <= MAX_ATTACHED_BYTES else None
        return Pdf(path=path, identity=source.identity, size=source.size, data=attached)
    if picture_of(beginning) is not None:
        data = source.file.read(MAX_SOURCE_BYTES)
        return Image(path=path, identity=source.identity, size=source.size, data=data)
    if is_utf16(beginning):
        raise ToolError(f"{part.shown} is a text in UTF-16, which this tool does not read. Convert it: iconv -t UTF-8.")
    if looks_binary(beginning):
        raise ToolError(f"{part.shown} is a binary file of {source.size:,} bytes.")
    if path.suffix == ".ipynb" and source.size <= MAX_TEXT_BYTES:
        return _notebook(part, source)
    if beginning.startswith(BOM):
        source.file.read(len(BOM))
    shown = window(part, source.file)
    return ToolOutput(text=shown.text, metadata=metadata(shown.summary), is_cut=True)


def _notebook(part: Part, source: OpenedSource) -> ToolOutput:
    data = source.file.read(MAX_TEXT_BYTES)
    notebook = notebook_of(data)
    if notebook is None or not notebook.text:
        shown = window(part, io.BytesIO(data.removeprefix(BOM)))
        return ToolOutput(text=shown.text, metadata=metadata(shown.summary), is_cut=True)
    shown = window(part, io.BytesIO(notebook.text.encode(errors="replace")))
    note = f"({part.shown} is a notebook; its cells are shown, not the JSON that is in the file)"
    images = notebook.images if part.offset == 1 else ()
    return ToolOutput(text=f"{note}\n{shown.text}", images=images, metadata=metadata(shown.summary), is_cut=True)
