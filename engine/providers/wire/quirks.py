"""What is particular to a host or a family of models, as data.

`Quirks` is what a wire format is told; `engine.providers.hosts.host` holds each host's,
`engine.providers.models.quirks_lookup` what is true of a family of models wherever it is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import attrs

from engine.core.llm_types import Effort

MediaKind = Literal["image", "pdf", "audio", "video"]
CallIds = Literal["own", "nine"]
Output = Literal["native", "tool"]
# Where earlier thinking goes in a chat message; "" : nowhere.
ReasoningField = Literal["", "reasoning_content", "reasoning", "reasoning_details", "content"]
# How a chat or Converse request says how much to think; "" : not at all.
EffortField = Literal["", "reasoning_effort", "reasoning.effort", "thinking.type", "enable_thinking", "reasoningConfig"]
SchemaDialect = Literal["plain", "openai", "gemini", "gemini-json", "moonshot"]
# How a request marks what to cache; "" : the host does it by itself, or not at all.
Marks = Literal["", "anthropic", "bedrock"]


@attrs.frozen(kw_only=True)
class Quirks:
    """How a host speaks its wire format.

    Attributes:
        title: the host's name for people.
        user_media: what it reads in a user's message; the rest becomes a sentence.
        result_media: what it reads in a result; the rest goes into a user's message after it.
        image_types: the kinds of image it reads.
        call_ids: "own": ours as they are, made safe; "nine": nine letters and digits.
        output: whether a schema for the answer is native, or has to be a tool that must be called.
        schema: what its JSON schemas for tools may hold.
        marks: how cache markers are written.
        mark_tools: whether a cache marker may stand after the tools (Converse).
        forced_tools: whether it can be made to call a tool (chat, Converse).
        calls_alone: its calls stand alone: the words beside them are left out (Converse).
        streams: whether answers with calls are streamed; else each answer is asked for whole (Converse).
        long_cache: whether it keeps a cache for an hour if asked.
        effort_field: how effort is said (chat, Converse).
        efforts: the efforts it knows, lowest first; another one becomes the nearest. Empty: any.
        adaptive_thinking: it chooses how much it thinks (newer Claude models).
        thinking_budget: effort is said as a number of tokens.
        temperature: whether it takes one (models that think often do not).
        default_temperature: what it is sent if nothing was chosen; None: nothing.
        default_top_p: the same.
        default_top_k: the same.
        max_tokens_field: the name of the output cap (chat).
        system_role: the role of the system prompt (chat, Responses); "instructions": it is no item (Responses).
        stream_usage: whether usage has to be asked for (chat).
        reasoning_field: where earlier thinking goes (chat).
        reasoning_always: each of the model's messages needs that field, be it empty.
        space_between_reasoning: empty text between two signed thoughts is sent as a space: their places count.
        assistant_after_results: a user message may not follow results: a short one of the model goes between.
        alternates: nor may it follow another user message: the same (chat).
        cache_key_field: the name of the conversation's id in the body; empty: it takes none.
        strict_tools: says `strict: false` of each tool.
        cached_apart: its count of input tokens does not hold those read from a cache (chat).
        reasoning_apart: its count of output tokens does not hold thinking (chat).
        default_effort: how much it thinks if nothing was chosen; None: the host's own default.
        reasoning_summary: thinking is summed up for people if asked (Responses).
        encrypted_reasoning: thinking comes encrypted if asked, and is wanted back (Responses).
        item_ids: what goes back keeps the ids that the host gave it (Responses).
        marks_system: reads from its cache no beginning that was not marked: the system prompt's end is (Responses).
        verbosity: how long its answers are to be; empty: as the host has it (Responses).
        signed_calls: refuses a step whose first call has no signature, unless it says so (Gemini 3).
        session_headers: the headers that hold the conversation's id: the host keeps its requests near to each other (chat).
        stand_in_tool: refuses a transcript with calls where no tool is offered: one that can't be called is (chat).
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
    mark_tools: bool = True
    forced_tools: bool = True
    calls_alone: bool = False
    streams: bool = True
    long_cache: bool = False
    effort_field: EffortField = ""
    efforts: tuple[str, ...] = ()
    adaptive_thinking: bool = False
    thinking_budget: bool = False
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
    """Return the effort of *known* that is nearest to *effort*; the lower one of two."""
    if not supported or effort in supported:
        return effort
    ladder = [name for name in _LADDER if name in supported]
    place = _LADDER.index(effort)
    return min(ladder, key=lambda name: abs(_LADDER.index(name) - place)) if ladder else supported[0]


# Tokens of thinking where they have to be said as a number; they are part of the output cap.
_BUDGETS: Mapping[Effort, int] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 10_240,
    "high": 24_576,
    "xhigh": 32_768,
    "max": 49_152,
}
_MIN_BUDGET = 1_024


def thinking_budget(effort: Effort, max_output: int) -> int | None:
    """Return the tokens of thinking that *effort* means, as far as the output cap allows; None: too few to think."""
    budget = min(_BUDGETS.get(effort, 0), max_output - _MIN_BUDGET)
    return None if budget < _MIN_BUDGET else budget
