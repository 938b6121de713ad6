"""Quirks of a host or of a family of models, as data.

A wire format is configured by `Quirks`; `engine.providers.hosts.host` holds each host's,
`engine.providers.models.quirks_lookup` those of a family of models wherever it is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import attrs

from engine.core.llm_types import Effort
from engine.core.value_base import Value

MediaKind = Literal["image", "pdf", "audio", "video"]
CallIds = Literal["own", "nine"]
Output = Literal["native", "tool"]
# The member of a chat message for earlier reasoning; "" : none.
ReasoningField = Literal["", "reasoning_content", "reasoning", "reasoning_details", "content"]
# The member of a chat or Converse request for the reasoning effort; "" : none.
EffortField = Literal["", "reasoning_effort", "reasoning.effort", "thinking.type", "enable_thinking", "reasoningConfig"]
ThinkingOff = Literal["", "disabled", "between_tools", "never"]
SchemaDialect = Literal["plain", "openai", "gemini", "gemini-json", "moonshot"]
# The form of cache markers; "" : the host caches by itself, or not at all.
Marks = Literal["", "anthropic", "bedrock"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Quirks(Value):
    """How a host differs from others of its wire format.

    Attributes:
        title: the host's name for people.
        user_media: kinds of media it accepts in a user message; others become a sentence.
        result_media: kinds of media it accepts in a result; others go into a user message after it.
        image_types: media types of images it accepts.
        call_ids: "own": call ids are sent as they are, escaped; "nine": nine characters.
        output: "native": it takes a schema for the answer; "tool": the answer is a forced tool call.
        schema: the dialect of JSON Schema it accepts for tools.
        marks: the form of cache markers.
        defers_tools: it takes tools that the model sees only once the result of a search refers to them (Anthropic), or
            defines them (Responses).
        mark_tools: it accepts a cache marker after the tools (Converse).
        forced_tools: it accepts `tool_choice: required`, or `any` (chat, Converse, Anthropic).
        calls_alone: it refuses text together with calls: the text is dropped (Converse).
        streams: it can stream answers with calls; if not, no answer is streamed (Converse).
        long_cache: it supports a prompt-cache lifetime of one hour.
        effort_field: the member for the reasoning effort (chat, Converse).
        efforts: the efforts it supports, lowest first; others become the nearest. Empty: any.
        adaptive_thinking: it decides itself how much to think (newer Claude models).
        thinking_budget: effort is sent as a number of tokens.
        unasked_effort: it thinks if nothing is requested, with that effort; None: it does not.
        thinking_off: how thinking is switched off; "": by not requesting it, "never": it can't be (Claude).
        thinking_display: the text of thinking must be requested (Claude).
        thinking_binding: it refuses thinking of another history unless told to drop it (Claude).
        no_effort_with_tools: with tools it accepts no effort but "none", which must be sent (chat).
        temperature: it accepts one (reasoning models often do not).
        default_temperature: sent if the user sets none; None: nothing is sent.
        default_top_p: the same.
        default_top_k: the same.
        max_tokens_field: the name of the output cap (chat).
        system_role: the role of the system prompt (chat, Responses); "instructions": it is no item (Responses).
        stream_usage: usage must be requested (chat).
        reasoning_field: the member for earlier reasoning (chat).
        reasoning_always: every assistant message needs that member, even empty.
        space_between_reasoning: empty text between two signed reasoning blocks is sent as a space.
        assistant_after_results: a user message may not follow results: a short assistant message goes between.
        empty_content: a message without words has empty content, not null (chat).
        alternates: nor may it follow a user message: the same (chat).
        cache_key_field: the member for the session id, by which the host routes to a cache; empty: none.
        strict_tools: each tool needs `strict: false`.
        cached_apart: its input token count excludes cached tokens (chat).
        reasoning_apart: its output token count excludes reasoning (chat).
        default_effort: the effort if the user sets none; None: the host's own default.
        reasoning_summary: it can summarise reasoning for people (Responses).
        encrypted_reasoning: it returns encrypted reasoning, which is sent back (Responses).
        item_ids: items are sent back with the host's ids (Responses).
        marks_system: it caches only up to a marker: one is set after the system prompt (Responses).
        verbosity: requested length of answers; empty: the host's default (Responses).
        signed_calls: it refuses a step whose first call has neither a signature nor the marker for none (Gemini 3).
        session_headers: headers for the session id, by which the host routes to a cache (chat).
        stand_in_tool: it refuses a transcript with calls unless a tool is declared: a placeholder is (chat).
        extra_body: JSON object merged into the body, as text.
    """

    title: str = ""
    user_media: frozenset[MediaKind] = frozenset({"image"})
    result_media: frozenset[MediaKind] = frozenset()
    image_types: frozenset[str] = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
    call_ids: CallIds = "own"
    output: Output = "native"
    schema: SchemaDialect = "plain"
    marks: Marks = ""
    defers_tools: bool = False
    mark_tools: bool = True
    forced_tools: bool = True
    calls_alone: bool = False
    streams: bool = True
    long_cache: bool = False
    effort_field: EffortField = ""
    efforts: tuple[str, ...] = ()
    adaptive_thinking: bool = False
    thinking_budget: bool = False
    unasked_effort: Effort | None = None
    thinking_off: ThinkingOff = ""
    thinking_display: bool = False
    thinking_binding: bool = False
    no_effort_with_tools: bool = False
    temperature: bool = True
    default_temperature: float | None = None
    default_top_p: float | None = None
    default_top_k: int | None = None
    max_tokens_field: str = "max_tokens"
    system_role: Literal["system", "developer", "instructions"] = "system"
    stream_usage: bool = True
    reasoning_field: ReasoningField = ""
    reasoning_always: bool = False
    space_between_reasoning: bool = False
    assistant_after_results: bool = False
    empty_content: bool = False
    alternates: bool = False
    cache_key_field: str = ""
    strict_tools: bool = False
    cached_apart: bool = False
    reasoning_apart: bool = False
    default_effort: Effort | None = None
    reasoning_summary: bool = False
    encrypted_reasoning: bool = False
    item_ids: bool = False
    marks_system: bool = False
    verbosity: Literal["", "low", "medium", "high"] = ""
    signed_calls: bool = False
    session_headers: tuple[str, ...] = ()
    stand_in_tool: bool = False
    extra_body: str = ""


_LADDER: tuple[Effort, ...] = get_args(Effort)


def nearest_effort(effort: Effort, supported: tuple[str, ...]) -> str:
    """Return the supported effort nearest to *effort*; the lower one of two."""
    if not supported or effort in supported:
        return effort
    ladder = [name for name in _LADDER if name in supported]
    place = _LADDER.index(effort)
    return min(ladder, key=lambda name: abs(_LADDER.index(name) - place)) if ladder else supported[0]


# Reasoning budgets in tokens; they count towards the output cap.
_BUDGETS: Mapping[Effort, int] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 10_240,
    "high": 24_576,
    "xhigh": 32_768,
    "max": 49_152,
}
MIN_BUDGET = 1_024


def thinking_budget(effort: Effort, max_output: int) -> int | None:
    """Return the reasoning budget for *effort* within the output cap; None if too little is left."""
    budget = min(_BUDGETS.get(effort, 0), max_output - MIN_BUDGET)
    return None if budget < MIN_BUDGET else budget
