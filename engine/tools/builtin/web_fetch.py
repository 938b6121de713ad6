"""`web_fetch`: the content of a URL, in a form that a model can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description
from engine.web.address_guard import MAX_REDIRECTS, Guard, parse_url

PERMISSION: Final = "web"
DEFAULT_TIMEOUT: Final = 30.0
MAX_TIMEOUT: Final = 120.0
# The text of a page is much smaller; images and PDFs have limits of their own.
MAX_BYTES: Final = 5 * 1024 * 1024
# Markdown first: some documentation sites serve it, and need no conversion.
_ACCEPT: Final = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5"


def _is_url(_: object, field: attrs.Attribute[str], value: str) -> None:
    try:
        parse_url(value)
    except ToolError as error:
        raise ValueError(f"{field.name!r} can't be fetched: {error}") from error


@attrs.frozen(eq=False, repr=False)
class WebFetch(Value):
    """Arguments of `web_fetch`."""

    url: Annotated[str, doc("where it is, beginning with https:// or http://")] = attrs.field(validator=_is_url)
    timeout: Annotated[float, doc(f"seconds it may take, at most {MAX_TIMEOUT:g}")] = attrs.field(
        default=DEFAULT_TIMEOUT, validator=[attrs.validators.gt(0), attrs.validators.le(MAX_TIMEOUT)]
    )


def web_fetch_tool(*, allow_private: Sequence[str] = ()) -> Tool:
    """Return the tool `web_fetch`.

    Args:
        allow_private: addresses and networks (`127.0.0.1`, `10.0.0.0/8`) that may be
            fetched from although they are not public.

    Raises:
        ConfigError: one of them is invalid.
    """
    guard = Guard.of(allow_private)

    async def web_fetch(args: WebFetch, ctx: ToolContext) -> ToolOutput:
        """Fetch a URL. A checkpoint; if cancelled, the connection is closed."""
        from engine.tools.builtin.web_fetch_output import page_output
        from engine.web.fetch import FetchReply, fetch

        reply: FetchReply | None = None
        with trio.move_on_after(args.timeout):
            reply = await fetch(args.url, guard=guard, limit=MAX_BYTES, accept=_ACCEPT)
        if reply is None:
            raise ToolError(f"It took longer than {args.timeout:g} s and was stopped.")
        return attrs.evolve(await page_output(args.url, reply, ctx), changed=())

    return tool(
        name="web_fetch",
        description=description(
            "web_fetch",
            max_mib=MAX_BYTES / 1024 / 1024,
            max_redirects=MAX_REDIRECTS,
            default_timeout=DEFAULT_TIMEOUT,
            max_timeout=MAX_TIMEOUT,
        ),
        # It changes nothing here, but a URL can carry data out, so it is not free of a question.
        read_only=False,
        safe=True,
        need=_need,
        permission="web",
        direction="head",
    )(web_fetch)


def _need(args: WebFetch) -> Need:
    # Rules are about hosts: `allow web docs.python.org`.
    host = parse_url(args.url).host
    return Need(permission=PERMISSION, patterns=(host,), detail=args.url)
