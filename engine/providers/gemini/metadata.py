"""Metadata of a Gemini response: usage, finish reasons, citations."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.messages import Citation, FinishReason, Usage
from engine.providers.wire.untrusted_json import Json, as_list, as_object, count, dumps, text

_FILTERS = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
FINISH_REASONS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(_FILTERS, "content_filter"),
    **dict.fromkeys(("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"), "malformed"),
}
_COUNTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount")
_SOURCES = ("web", "retrievedContext", "maps", "image")


def has_counts(usage: Json) -> bool:
    """Return whether *usage* has any count: it may hold only the service tier."""
    return any(name in usage for name in _COUNTS)


def usage_of(raw: Json) -> Usage:
    """Return the usage: Gemini's prompt count includes cached tokens, but not those of tools."""
    prompt, cached = count(raw, "promptTokenCount"), count(raw, "cachedContentTokenCount")
    thoughts = count(raw, "thoughtsTokenCount")
    return Usage(
        input=max(0, prompt - cached) + count(raw, "toolUsePromptTokenCount"),
        output=count(raw, "candidatesTokenCount") + thoughts,
        cache_read=cached,
        reasoning=thoughts,
    )


def citations_in(candidate: Json) -> Iterator[Citation]:
    """Yield the citations of a candidate: search results for each passage, then quoted works."""
    grounding = as_object(candidate.get("groundingMetadata"))
    chunks = [as_object(chunk) for chunk in as_list(grounding.get("groundingChunks"))]
    for support in as_list(grounding.get("groundingSupports")):
        facts = as_object(support)
        places = [place for place in as_list(facts.get("groundingChunkIndices")) if isinstance(place, int)]
        yield _grounding_citation(facts, [chunks[place] for place in places if 0 <= place < len(chunks)])
    quoted = as_object(candidate.get("citationMetadata"))
    for quote in (*as_list(quoted.get("citationSources")), *as_list(quoted.get("citations"))):
        facts = as_object(quote)
        yield Citation(url=text(facts, "uri"), title=text(facts, "title"), raw=dumps(facts))


def _grounding_citation(support: Json, chunks: list[Json]) -> Citation:
    """Return a citation of the first source and the passage; `raw` holds all sources."""
    sources = [as_object(chunk.get(name)) for chunk in chunks for name in _SOURCES if name in chunk]
    first = sources[0] if sources else Json()
    return Citation(
        url=text(first, "uri") or text(first, "sourceUri"),
        title=text(first, "title"),
        quote=text(as_object(support.get("segment")), "text"),
        raw=dumps({"groundingSupport": support, "sources": [_without_body(source) for source in sources]}),
    )


def _without_body(source: Json) -> Json:
    """Return a source without its text, which every citation would repeat."""
    return {name: value for name, value in source.items() if name != "text"}
