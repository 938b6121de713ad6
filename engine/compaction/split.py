"""What of a history is summarised, and what stays word for word (T8).

The user's first and newest messages stay, and as much of the end as there is room
for. It is cut only where calls and their results stay together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from engine.compaction.prune import calls_of, cleared, with_results
from engine.compaction.roles import is_users
from engine.compaction.shorten import shortened
from engine.compaction.shrink_arguments import shorter
from engine.compaction.token_estimate import result_tokens
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    TextPart,
    UserMessage,
)

# Of what is usable, a quarter is for the end of the history, within these bounds.
TAIL_SHARE: Final = 0.25
LEAST_TAIL: Final = 2_000
MOST_TAIL: Final = 15_000
# Of a result that is too long for it, at least so much is shown.
_LEAST_EXCERPT: Final = 400
_CHARS_OF_TOKEN: Final = 3


@attrs.frozen(kw_only=True)
class Selection:
    """A history taken apart.

    Attributes:
        original: what the user asked first, where it is not in the tail.
        previous: the message with the summary of what was before; None: nothing was summarised yet.
        head: what is to be summarised.
        latest: what the user said last, where it is neither the first nor in the tail.
        tail: the end, as it stays.
        start: where the tail begins in the history.
    """

    original: UserMessage | None
    previous: UserMessage | None
    head: tuple[Message, ...]
    latest: UserMessage | None
    tail: tuple[Message, ...]
    start: int

    @property
    def pinned(self) -> tuple[Message, ...]:
        """What stays beside the tail."""
        return tuple(message for message in (self.original, self.latest) if message is not None)


def tail_budget(usable: int, wanted: int | None = None) -> int:
    """Return how many tokens of the end stay word for word."""
    if wanted is not None:
        return wanted
    return min(max(LEAST_TAIL, min(MOST_TAIL, round(TAIL_SHARE * usable))), usable // 2)


def select(messages: Sequence[Message], sizes: Sequence[int], budget: int, model: str = "") -> Selection:
    """Take a history apart. *sizes* are the tokens of each message, *budget* those that the tail may have."""
    latest_at = next((n for n in range(len(messages) - 1, -1, -1) if is_users(messages[n])), None)
    start = _start(messages, sizes, budget, latest_at)
    tail = tuple(messages[start:])
    if sum(size for n, size in enumerate(sizes[start:], start) if n != latest_at) > budget:
        tail = _squeezed(tail, budget, model)
    first_at = next((n for n, message in enumerate(messages) if is_users(message)), None)
    return Selection(
        original=_pinned(messages, first_at, start),
        previous=_last_summary(messages[:start]),
        head=tuple(message for message in messages[:start] if not _is_scaffold(message)),
        latest=None if latest_at == first_at else _pinned(messages, latest_at, start),
        tail=tail,
        start=start,
    )


def _start(messages: Sequence[Message], sizes: Sequence[int], budget: int, latest_at: int | None) -> int:
    """Return where the longest end begins that fits, is consistent, and is not everything; the last exchange at least."""
    start, room = len(messages), budget
    for position in range(len(messages) - 1, 0, -1):
        # The newest words of the user stay whatever they take.
        room -= 0 if position == latest_at else sizes[position]
        if room < 0:
            break
        if _may_begin(messages[position]):
            start = position
    return min(start, _last_exchange(messages))


def _last_exchange(messages: Sequence[Message]) -> int:
    """Return where the newest thing begins that the model has to answer."""
    for position in range(len(messages) - 1, 0, -1):
        if is_users(messages[position]) or isinstance(messages[position], AssistantMessage):
            return position
    return len(messages)


def _may_begin(message: Message) -> bool:
    return not isinstance(message, ResultsMessage) and not _is_scaffold(message)


def _last_summary(messages: Sequence[Message]) -> UserMessage | None:
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.origin == "summary":
            return message
    return None


def _is_scaffold(message: Message) -> bool:
    """Tell whether it was put there by a compaction: the next one makes its own."""
    return isinstance(message, UserMessage) and message.origin in {"summary", "continue"}


def _pinned(messages: Sequence[Message], at: int | None, start: int) -> UserMessage | None:
    if at is None or at >= start:
        return None
    message = messages[at]
    return message if isinstance(message, UserMessage) else None


def _squeezed(tail: tuple[Message, ...], budget: int, model: str) -> tuple[Message, ...]:
    """Return the last exchange with what is long in it cut, so that it has room."""
    said = [message for message in tail if isinstance(message, AssistantMessage)]
    results = sum(len(message.results) for message in tail if isinstance(message, ResultsMessage))
    # The words of the model and its calls have as much room as a result.
    each = budget // (results + len(said) + sum(len(message.calls) for message in said) or 1)
    excerpt = max(_LEAST_EXCERPT, _CHARS_OF_TOKEN * each // 2)
    calls = calls_of(tail)

    def squeeze(result: CallResult) -> CallResult:
        if result_tokens(result.settlement, model) <= each:
            return result
        text = cleared(result, calls.get(result.call_id), frozenset({result.tool}), excerpt)
        return attrs.evolve(result, settlement=attrs.evolve(result.settlement, text=text, images=(), files=()))

    shorter = with_results(tail, squeeze)
    return tuple(_cut(m, 2 * excerpt) if isinstance(m, AssistantMessage) else m for m in shorter)


def _cut(message: AssistantMessage, most: int) -> AssistantMessage:
    """Return what the model said with long texts, and long texts in its calls, cut in the middle."""
    parts: list[AssistantPart] = []
    for part in message.parts:
        match part:
            case TextPart():
                parts.append(attrs.evolve(part, text=shortened(part.text, most)))
            case CallPart():
                parts.append(attrs.evolve(part, arguments=shorter(part.arguments, most)))
            case ReasoningPart() | ProviderPart():
                # Their hosts take them back as they were, or not at all.
                parts.append(part)
    return attrs.evolve(message, parts=tuple(parts))
