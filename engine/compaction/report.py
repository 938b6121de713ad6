"""Measure what fills the window: the shares of a context report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from engine.compaction.message_origin import is_user_message
from engine.compaction.prune import CLEARED
from engine.compaction.token_estimate import (
    MESSAGE,
    WindowEstimate,
    message_tokens,
    part_tokens,
    result_tokens,
    text_tokens,
    tool_tokens,
)
from engine.core.context_report import ContextReport, Share
from engine.core.ids import CallId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    Message,
    ReasoningPart,
    ResultsMessage,
    TextPart,
    UserMessage,
)
from engine.core.prompt_section import PromptSection
from engine.core.protocols import ContextView
from engine.tools.tool_text import path_argument

_SKILLS: Final = frozenset({"skill"})


def build_report(
    view: ContextView,
    *,
    sections: Sequence[PromptSection] = (),
    tokens: int | None = None,
    is_counted: bool = False,
    pinned: int = 0,
    reserve: int | None = None,
) -> ContextReport:
    """Return what fills the window in the request of *view*.

    *sections* are those of the system prompt, if available; *tokens* is the size of the whole request, if there is a
    better figure than the sum of the parts.
    """
    sizes = _sums((*_opening(view, sections), *_messages(view.transcript, view.model.name)))
    # Scaled to the provider's count, so that the shares add up to the figure above them.
    raw = sum(size for size, _ in sizes.values())
    whole = raw if tokens is None else tokens
    scale = whole / max(1, raw)
    window = WindowEstimate.of(view.model, view.max_output, reserve)
    return ContextReport(
        model=view.model.name,
        context=window.context,
        usable=window.usable,
        tokens=whole,
        is_counted=is_counted,
        shares=_shares(sizes, scale),
        pinned=pinned,
        files=_shares(_sums(_files(view.transcript, view.model.name)), scale),
    )


def _sums(sizes: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """Return the sum and the number of the sizes of each kind."""
    sums: dict[str, tuple[int, int]] = {}
    for kind, size in sizes:
        before, count = sums.get(kind, (0, 0))
        sums[kind] = (before + size, count + 1)
    return sums


def _shares(sums: Mapping[str, tuple[int, int]], scale: float) -> tuple[Share, ...]:
    """Return the shares, the largest first."""
    shares = [Share(kind, round(size * scale), count) for kind, (size, count) in sums.items() if size]
    return tuple(sorted(shares, key=lambda share: (-share.tokens, share.kind)))


def _files(messages: Iterable[Message], model: str) -> Iterable[tuple[str, int]]:
    """Yield the files that calls name, each with the size of a call or of its result."""
    paths: dict[CallId, str] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                if path := path_argument(call.arguments):
                    paths[call.call_id] = path
                    yield path, part_tokens(call)
        elif isinstance(message, ResultsMessage):
            for result in message.results:
                if result.call_id in paths and not result.settlement.text.startswith(CLEARED):
                    yield paths[result.call_id], result_tokens(result.settlement, model)


def pinned_tokens(view: ContextView) -> int:
    """Return an estimate of what a summary preserves: the user's first and newest message, and pins."""
    prompts = [message for message in view.transcript if is_user_message(message)]
    records = [m for m in view.transcript if isinstance(m, UserMessage) and m.origin == "summary"]
    carried = sum(
        text_tokens(part.text) for record in records for part in record.parts[1:] if isinstance(part, TextPart)
    )
    words = {message.id: message for message in (*prompts[:1], *prompts[-1:])}
    return carried + sum(message_tokens(message, view.model.name) for message in words.values())


def _opening(view: ContextView, sections: Sequence[PromptSection]) -> Iterable[tuple[str, int]]:
    if sections:
        yield from ((_section(section.name), text_tokens(section.text)) for section in sections)
    elif view.system:
        yield "system", text_tokens(view.system)
    yield from (("tools", tool_tokens(tool)) for tool in view.tools)


def _section(name: str) -> str:
    kind = name.partition(":")[0]
    return kind if kind in {"instructions", "skills"} else "system"


def _messages(messages: Iterable[Message], model: str) -> Iterable[tuple[str, int]]:
    for message in messages:
        match message:
            case UserMessage():
                yield from _user_message_sizes(message, model)
            case AssistantMessage():
                for part in message.parts:
                    yield _kind(part), part_tokens(part)
            case ResultsMessage():
                for result in message.results:
                    size = result_tokens(result.settlement, model)
                    if result.tool in _SKILLS:
                        yield "skills", size
                    elif result.settlement.text.startswith(CLEARED):
                        yield "cleared results", size
                    else:
                        yield f"results of {result.tool}", size


_ORIGINS: Final = {"engine": "reminders", "summary": "summary", "continue": "reminders"}


def _user_message_sizes(message: UserMessage, model: str) -> Iterable[tuple[str, int]]:
    media = tuple(part for part in message.parts if not isinstance(part, TextPart))
    whole = message_tokens(message, model)
    shown = message_tokens(attrs.evolve(message, parts=media), model) - MESSAGE if media else 0
    yield _ORIGINS.get(message.origin, "the user's words"), whole - shown
    if media:
        yield "images and files", shown


def _kind(part: object) -> str:
    match part:
        case TextPart():
            return "the model's words"
        case ReasoningPart():
            return "the model's thinking"
        case CallPart():
            return f"calls of {part.tool}"
        case _:
            return "the host's own tools"
