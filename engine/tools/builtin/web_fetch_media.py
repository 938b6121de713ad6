"""Images and PDFs for `web_fetch`, shown as `read` shows those on disk.

Those who look into them want a file, so they lie in a temporary folder of their own.
"""

from __future__ import annotations

import base64
import re
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import attrs

from engine.core.errors import ToolError
from engine.core.messages import FilePart
from engine.core.threads import to_thread
from engine.providers.wire.untrusted_json import number
from engine.tools.call_values import ToolOutput
from engine.tools.read.image import Image, image_output
from engine.tools.read.media_process import has_library, pdf_text
from engine.tools.read.pdf import MAX_ATTACHED_PAGES
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, metadata

# As for `read`: beyond these, the text is cut.
_MAX_PAGES: Final = 500
_MAX_TEXT_BYTES: Final = 4_000_000
_ODD: Final = re.compile(r"[^A-Za-z0-9._ -]+")


async def media_output(url: str, data: bytes, ctx: ToolContext, *, is_pdf: bool) -> ToolOutput:
    """Return an image or a PDF. A checkpoint; raises `ToolError`. If cancelled, no process and no file is left."""
    with tempfile.TemporaryDirectory(prefix="engine-fetched-") as folder:
        path = Path(folder, _name(url))
        # Not abandoned: a few MiB are written quickly, and an abandoned thread would write into a folder that is being
        # removed.
        await to_thread(path.write_bytes, data, abandon_on_cancel=False)
        if is_pdf:
            return await _pdf_output(url, path, data, ctx)
        shown = await image_output(url, Image(path=path, size=len(data), data=data), ctx)
        return attrs.evolve(shown, is_cut=False)


async def _pdf_output(url: str, path: Path, data: bytes, ctx: ToolContext) -> ToolOutput:
    part = FilePart(media_type="application/pdf", data=base64.b64encode(data).decode(), name=path.name)
    # A host that can't open it refuses the request, and every later one with the same transcript.
    files = () if b"/Encrypt" in data else (part,)
    text, pages, about = "", 0, "its text could not be taken out"
    if await ctx.to_thread(has_library, "pypdfium2", "pypdf"):
        try:
            answer = await pdf_text(path, None, ctx, pages=_MAX_PAGES, size=_MAX_TEXT_BYTES)
        except ToolError as error:
            about = f"{about}: {error}"
        else:
            pages, text = number(answer.facts, "pages", 0), answer.body.decode(errors="replace").strip()
            about = counted(pages, "page") + ("; this is the text" if text else " without a text: images, it seems")
            files = files if pages <= MAX_ATTACHED_PAGES else ()
    if not files and not text:
        raise ToolError(
            f"{url} is a PDF of {len(data):,} bytes that can't be shown: it is encrypted or too long, and {about}."
        )
    attached = "attached" if files else "not attached"
    note = f"({url} is a PDF of {len(data):,} bytes, {attached}; {about})"
    return ToolOutput(text=f"{note}\n\n{text}".strip(), files=files, metadata=metadata("PDF", url=url))


def _name(url: str) -> str:
    """Return a file name: the last part of the URL's path, restricted to harmless characters."""
    return _ODD.sub("_", unquote(urlsplit(url).path.rpartition("/")[2]))[-100:].strip(". ") or "document"
