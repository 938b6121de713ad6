"""`web_search`: search the web through a service."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.builtin.web_search_hosts import SearchProvider, SearchResult, provider_from
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, description, metadata

PERMISSION: Final = "web"
# The limits of the services.
MAX_QUERY_CHARS: Final = 400
MAX_COUNT: Final = 20
DEFAULT_COUNT: Final = 8
# Services answer within seconds.
TIMEOUT: Final = 30.0


def _is_a_query(_: object, field: attrs.Attribute[str], value: str) -> None:
    if not value.strip() or len(value) > MAX_QUERY_CHARS:
        raise ValueError(f"{field.name!r} must say what to look for, in at most {MAX_QUERY_CHARS} characters")


@attrs.frozen(eq=False, repr=False)
class WebSearch(Value):
    """Arguments of `web_search`."""

    query: Annotated[str, doc("what to look for")] = attrs.field(validator=_is_a_query)
    count: Annotated[int, doc("how many results to return at most")] = attrs.field(
        default=DEFAULT_COUNT, validator=[attrs.validators.ge(1), attrs.validators.le(MAX_COUNT)]
    )


def web_search_tool(provider: SearchProvider) -> Tool:
    """Return the tool `web_search`, which uses *provider*."""

    async def web_search(args: WebSearch, _: ToolContext) -> ToolOutput:
        """Search the web. A checkpoint; if cancelled, the connection is closed."""
        results: Sequence[SearchResult] | None = None
        with trio.move_on_after(TIMEOUT):
            results = await provider(args.query, args.count)
        if results is None:
            raise ToolError(f"The search failed: {provider.host} did not answer within {TIMEOUT:g} s.")
        return ToolOutput(
            text=_listed(results[: args.count]) or "(nothing was found)",
            metadata=metadata(counted(len(results), "result"), host=provider.host),
            changed=(),
        )

    def need(args: WebSearch) -> Need:
        return Need(permission=PERMISSION, patterns=(provider.host,), detail=args.query)

    return tool(
        name="web_search",
        description=description("web_search", max_count=MAX_COUNT, max_chars=MAX_QUERY_CHARS),
        # It changes nothing here, but a query tells the service something, so it is not free of a question.
        read_only=False,
        safe=True,
        need=need,
        permission="web",
        direction="head",
    )(web_search)


def configured_web_search(environment: Mapping[str, str] | None = None) -> Tool | None:
    """Return `web_search` with the service configured in the environment; None if there is none.

    Raises `ConfigError` as `provider_from` does.
    """
    provider = provider_from(os.environ if environment is None else environment)
    return None if provider is None else web_search_tool(provider)


def _listed(results: Sequence[SearchResult]) -> str:
    return "\n\n".join(
        f"{number}. {result.title}\n   {result.url}" + (f"\n   {result.snippet}" if result.snippet else "")
        for number, result in enumerate(results, 1)
    )
