"""What the model reads of a page that was fetched: HTML as markdown, an error with its text, media as such."""

from __future__ import annotations

import threading
import time
from typing import Final

from engine.core.errors import ToolError
from engine.core.threads import to_thread
from engine.tools.builtin.web_fetch_media import media_output
from engine.tools.call_values import ToolOutput
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import metadata
from engine.web.address_guard import parse_url
from engine.web.fetch import FetchReply
from engine.web.html_markdown import OutOfTime, markdown_of
from engine.web.page_content import Kind, decoded, kind_of

CONVERSION_SECONDS: Final = 20.0
_ERROR_CHARS: Final = 4_000


async def page_output(requested_url: str, reply: FetchReply, ctx: ToolContext) -> ToolOutput:
    """Return what the model reads of a reply. A checkpoint; if cancelled, the thread that converts it soon ends."""
    if reply.location:
        return ToolOutput(
            text=f"{reply.url} redirects to another host, to which it was not followed:\n{reply.location}\n"
            "Call web_fetch with that URL if you want what is there.",
            metadata=metadata(f"redirect to {parse_url(reply.location).host}", status=reply.status),
        )
    kind, media_type = kind_of(reply.body, reply.content_type)
    if reply.status >= 300:
        return await _failure(reply, kind)
    match kind:
        case "html" | "text":
            redirect_note = f"(from {reply.url})\n\n" if reply.url != parse_url(requested_url).url else ""
            text = await _text(reply, kind)
            facts = metadata(f"{len(reply.body):,} bytes of {media_type}", status=reply.status, url=reply.url)
            return ToolOutput(text=redirect_note + (text or "(it is empty)"), metadata=facts)
        case "image" | "pdf":
            return await media_output(reply.url, reply.body, ctx, is_pdf=kind == "pdf")
        case "other":
            raise ToolError(
                f"{reply.url} is {media_type[:100]}, {len(reply.body):,} bytes, which this tool can't show: only text, "
                "images (PNG, JPEG, GIF, WebP) and PDF documents."
            )


async def _failure(reply: FetchReply, kind: Kind) -> ToolOutput:
    """Return the output for an HTTP error; the page often contains the reason."""
    status = f"HTTP {reply.status} {reply.reason}".rstrip()
    text = await _text(reply, kind) if kind in {"html", "text"} else ""
    if len(text) > _ERROR_CHARS:
        text = f"{text[:_ERROR_CHARS]}\n[the rest is not shown]"
    return ToolOutput(
        text=f"{status}, from {reply.url}\n\n{text}".rstrip(),
        failed=True,
        metadata=metadata(status, status=reply.status, url=reply.url),
    )


async def _text(reply: FetchReply, kind: Kind) -> str:
    """Return the text of a page, HTML as markdown. A checkpoint; if cancelled, its thread is left, and ends soon."""
    is_abandoned = threading.Event()
    try:
        return await to_thread(_readable, reply, kind, is_abandoned)
    finally:
        is_abandoned.set()


def _readable(reply: FetchReply, kind: Kind, is_abandoned: threading.Event) -> str:
    text = decoded(reply.body, reply.content_type)
    if kind != "html":
        return text
    deadline = time.monotonic() + CONVERSION_SECONDS
    try:
        page = markdown_of(text, reply.url, is_late=lambda: is_abandoned.is_set() or time.monotonic() > deadline)
    except OutOfTime:
        return f"[it could not be made markdown within {CONVERSION_SECONDS:g} s; this is its HTML]\n\n{text}"
    is_titled = not page.title or page.text.startswith(f"# {page.title}")
    return page.text if is_titled else f"Title: {page.title}\n\n{page.text}".rstrip()
