"""Token usage of chat hosts.

Most report totals, and how many of them were cached or reasoning; at some hosts these come on top of the totals. Quirks
say which, because the numbers alone do not.
"""

from __future__ import annotations

from engine.core.messages import Usage
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.untrusted_json import Json, as_object, count, number


def usage_of(raw: Json, quirks: Quirks) -> Usage:
    """Convert the usage of a host with *quirks*."""
    prompt = as_object(raw.get("prompt_tokens_details"))
    completion = as_object(raw.get("completion_tokens_details"))
    read = _first((prompt, "cached_tokens"), (raw, "prompt_cache_hit_tokens"), (raw, "cached_tokens"))
    write = _first(
        (prompt, "cache_write_tokens"), (raw, "cache_creation_input_tokens"), (prompt, "cache_creation_tokens")
    )
    reasoning = _first((completion, "reasoning_tokens"), (raw, "reasoning_tokens"))
    output = count(raw, "completion_tokens")
    return Usage(
        input=max(0, number(raw, "prompt_tokens", 0) - (0 if quirks.cached_apart else read + write)),
        output=output + reasoning if quirks.reasoning_apart else output,
        cache_read=read,
        cache_write=write,
        reasoning=reasoning,
    )


def _first(*places: tuple[Json, str]) -> int:
    """Return the first number that is present, else 0."""
    counts = (number(parent, name, -1) for parent, name in places)
    return next((value for value in counts if value >= 0), 0)
