"""`ToolDeferral`: which hosts take deferred tools, as their rows say and as their counts show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from engine.core.llm_types import ModelInfo, ModelRequest
    from engine.core.messages import Usage


@attrs.define(eq=False, repr=False)
class ToolDeferral:
    """The hosts of an engine that take deferred tools.

    A proxy may drop the mark of a deferred tool and show all of them to the model. So the first request with deferred tools
    to a host is compared with the count that comes back.
    """

    _checked: set[str] = attrs.field(factory=set[str], init=False)
    _refused: set[str] = attrs.field(factory=set[str], init=False)

    def is_used_with(self, info: ModelInfo) -> bool:
        """Return whether requests to a model may have deferred tools."""
        return info.defers_tools and info.host not in self._refused

    def check(self, info: ModelInfo, request: ModelRequest, usage: Usage) -> str | None:
        """Compare the host's count of a request with ours; return what to report if the host shows deferred tools."""
        if not info.sends_deferred or info.host in self._checked or not any(tool.deferred for tool in request.tools):
            return None
        # Imported here: most requests have no deferred tools.
        from engine.compaction.token_estimate import request_tokens, tool_tokens

        self._checked.add(info.host)
        deferred = sum(tool_tokens(tool) for tool in request.tools if tool.deferred)
        excess = usage.prompt - request_tokens(request)
        if excess <= deferred / 2:
            return None
        self._refused.add(info.host)
        return (
            f"{info.host or info.name} counts {usage.prompt:,} tokens, {excess:,} more than expected: it shows the model "
            f"tools that were to be searched for ({deferred:,} tokens). From now on they are left out of requests"
        )
