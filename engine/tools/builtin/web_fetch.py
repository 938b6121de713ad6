"""`web_fetch`: what is at a URL, as something that a model can read."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Annotated, Final

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.core.threads import to_thread
from engine.tools.builtin.web_fetch_media import media_output
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description, metadata
from engine.web.address_guard import Guard, parse_url
from engine.web.fetch import MAX_REDIRECTS, FetchReply, fetch
from engine.web.html_markdown import OutOfTime, markdown_of
from engine.web.page_content import Kind, decoded, kind_of

PERMISSION: Final = "web"
DEFAULT_TIMEOUT: Final = 30.0
MAX_TIMEOUT: Final = 120.0
MAX_BYTES: Final = 5 * 1024 * 1024
CONVERSION_SECONDS: Final = 20.0
_ERROR_CHARS: Final = 4_000
_ACCEPT: Final = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5"


def _is_url(_: object, field: attrs.Attribute[str], value: str) -> None:
    try:
        parse_url(value)
    except ToolError as error:
        raise ValueError(f"{field.name!r} can't be fetched: {error}") from error


@attrs.frozen
class WebFetch:
    """Arguments of `web_fetch`."""

    url: Annotated[str, doc("where it is, beginning with https:// or http://")] = attrs.field(validator=_is_url)
    timeout: Annotated[float, doc(f"seconds it may take, at most {MAX_TIMEOUT:g}")] = attrs.field(
        default=DEFAULT_TIMEOUT, validator=[attrs.validators.gt(0), attrs.validators.le(MAX_TIMEOUT)]
    )


def web_fetch_tool(*, allow_private: Sequence[str] = ()) -> Tool:
    """Return the tool `web_fetch`.

    Args:
        allow_private: addresses and networks (`127.0.0.1`, `10.0.0.0/8`) that may be
            fetched from although they are not the world's.

    Raises:
        ConfigError: for what is neither.
    """
    guard = Guard.of(allow_private)

    async def web_fetch(args: WebFetch, ctx: ToolContext) -> ToolOutput:
        """Return what is at a URL. A checkpoint; if cancelled, the connection is closed."""
        reply: FetchReply | None = None
        with trio.move_on_after(args.timeout):
            reply = await fetch(args.url, guard=guard, limit=MAX_BYTES, accept=_ACCEPT)
        if reply is None:
            raise ToolError(f"It took longer than {args.timeout:g} s and was stopped.")
        return attrs.evolve(await _output(args.url, reply, ctx), changed=())

    return tool(
        name="web_fetch",
        description=description(
            "web_fetch",
            max_mib=MAX_BYTES / 1024 / 1024,
            max_redirects=MAX_REDIRECTS,
            default_timeout=DEFAULT_TIMEOUT,
            max_timeout=MAX_TIMEOUT,
        ),
        # It changes nothing here, but a URL tells its host something: it is not free of a question.
        read_only=False,
        safe=True,
        need=_need,
        permission="web",
        direction="head",
    )(web_fetch)


def _need(args: WebFetch) -> Need:
    host = parse_url(args.url).host
    return Need(permission=PERMISSION, patterns=(host,), detail=args.url)


async def _output(requested_url: str, reply: FetchReply, ctx: ToolContext) -> ToolOutput:
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
    """Return an answer that is an error; what it says often tells why."""
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
