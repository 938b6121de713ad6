"""PDFs for `read`: the file itself, for models that can read it, and its text."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.core.messages import FilePart
from engine.files.read_state import Modifier
from engine.providers.wire.untrusted_json import number
from engine.tools.call_values import ToolOutput
from engine.tools.read.line_window import Part, window
from engine.tools.read.media_process import Identity, has_library, pdf_text
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, metadata

# What hosts accept. A request with more is refused, and so is every later one.
MAX_ATTACHED_BYTES: Final = 10_000_000
# The limit of Anthropic's API.
MAX_ATTACHED_PAGES: Final = 100
MAX_BYTES: Final = 200_000_000
_MAX_PAGES: Final = 2_000
_MAX_TEXT_BYTES: Final = 4_000_000
_LIBRARIES: Final = ("pypdfium2", "pypdf")


@attrs.frozen(kw_only=True)
class Pdf:
    """A PDF file: its path, its size, and its content unless that is too large."""

    path: Path
    size: int
    data: bytes | None
    modify: Modifier | None = None
    identity: Identity | None = None


async def pdf_output(part: Part, pdf: Pdf, ctx: ToolContext) -> ToolOutput:
    """Return a PDF, and the requested part of its text. A checkpoint; if cancelled, no process is left."""
    obstacle = _obstacle(pdf)
    if pdf.size > MAX_BYTES or not await ctx.to_thread(has_library, *_LIBRARIES):
        why = "it is too large" if pdf.size > MAX_BYTES else "that needs the extra 'pdf' of nursery-engine"
        return _output(part, pdf, obstacle, about=f"its text could not be taken out: {why}")
    try:
        answer = await pdf_text(pdf.path, pdf.identity, ctx, pages=_MAX_PAGES, size=_MAX_TEXT_BYTES)
    except ToolError as error:
        return _output(part, pdf, obstacle, about=f"its text could not be taken out: {error}")
    pages, read = number(answer.facts, "pages", 0), number(answer.facts, "read", 0)
    if pages > MAX_ATTACHED_PAGES:
        obstacle = f"it has {pages:,} pages, and hosts take {MAX_ATTACHED_PAGES}"
    if answer.facts.get("has_text") is not True:
        return _output(part, pdf, obstacle, about=f"{counted(pages, 'page')} without a text: images, it seems")
    about = f"{counted(pages, 'page')}; this is the text" + (f" of the first {read:,}" if read < pages else "")
    shown = await ctx.to_thread(window, part, io.BytesIO(answer.body))
    return _output(part, pdf, obstacle, about=about, text=f"\n{shown.text}", summary=shown.summary)


def _obstacle(pdf: Pdf) -> str:
    """Return why a PDF can't be attached; empty if it can."""
    if pdf.data is None:
        return f"it is larger than {MAX_ATTACHED_BYTES:,} bytes"
    # According to its trailer. Hosts can't open it, and would refuse every request with it.
    return "it is encrypted" if b"/Encrypt" in pdf.data else ""


def _output(part: Part, pdf: Pdf, obstacle: str, *, about: str, text: str = "", summary: str = "") -> ToolOutput:
    if not text and obstacle:
        raise ToolError(f"{part.shown} is a PDF of {pdf.size:,} bytes, which can't be shown: {obstacle}, and {about}.")
    files: tuple[FilePart, ...] = ()
    attached = f"not attached: {obstacle}" if obstacle else "attached when it is read from its first line"
    if not obstacle and pdf.data is not None and part.offset == 1:
        files = (FilePart(media_type="application/pdf", data=base64.b64encode(pdf.data).decode(), name=pdf.path.name),)
        attached = "attached"
    return ToolOutput(
        text=f"({part.shown} is a PDF of {pdf.size:,} bytes, {attached}; {about}){text}",
        files=files,
        modify=pdf.modify,
        metadata=metadata(summary or "PDF"),
        is_cut=True,
    )
