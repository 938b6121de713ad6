"""Split a history into what is summarised and what stays unchanged (T8).

The user's first and newest messages stay, and as many of the last messages as fit.
A split never separates calls from their results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from engine.compaction.message_origin import is_user_message
from engine.compaction.prune import calls_of, cleared_text, with_results
from engine.compaction.shorten import truncate_middle
from engine.compaction.shrink_arguments import shorten_arguments
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

# The share of the usable window for the tail, and its bounds in tokens: enough to go on without a break, not so much that
# the next compaction comes soon.
TAIL_SHARE: Final = 0.25
LEAST_TAIL: Final = 2_000
MOST_TAIL: Final = 15_000
# Characters that are shown of a truncated result, at least.
_LEAST_EXCERPT: Final = 400
# Rather few, as in code: an excerpt must not become longer than its share.
_CHARS_OF_TOKEN: Final = 3


@attrs.frozen(kw_only=True)
class Selection:
    """A history that was split.

    Attributes:
        original: the user's first message, if it is not in the tail.
        previous: the message with the previous summary; None: there is none.
        head: the messages to summarise.
        latest: the user's newest message, if it is neither the first nor in the tail.
        tail: the last messages, which stay.
        start: the index of the tail's first message.
    """

    original: UserMessage | None
    previous: UserMessage | None
    head: tuple[Message, ...]
    latest: UserMessage | None
    tail: tuple[Message, ...]
    start: int

    @property
    def pinned(self) -> tuple[Message, ...]:
        """The messages that stay, apart from the tail."""
        return tuple(message for message in (self.original, self.latest) if message is not None)


def tail_budget(usable: int, configured: int | None = None) -> int:
    """Return how many tokens the tail may have."""
    if configured is not None:
        return configured
    return min(max(LEAST_TAIL, min(MOST_TAIL, round(TAIL_SHARE * usable))), usable // 2)


def split_history(messages: Sequence[Message], sizes: Sequence[int], budget: int, model: str = "") -> Selection:
    """Split a history. *sizes* are the tokens of each message, *budget* those that the tail may have."""
    latest_at = next((n for n in range(len(messages) - 1, -1, -1) if is_user_message(messages[n])), None)
    start = _start(messages, sizes, budget, latest_at)
    tail = tuple(messages[start:])
    if sum(size for n, size in enumerate(sizes[start:], start) if n != latest_at) > budget:
        tail = _shrink_tail(tail, budget, model)
    first_at = next((n for n, message in enumerate(messages) if is_user_message(message)), None)
    return Selection(
        original=_pinned(messages, first_at, start),
        previous=_last_summary(messages[:start]),
        head=tuple(message for message in messages[:start] if not _is_scaffold(message)),
        latest=None if latest_at == first_at else _pinned(messages, latest_at, start),
        tail=tail,
        start=start,
    )


def _start(messages: Sequence[Message], sizes: Sequence[int], budget: int, latest_at: int | None) -> int:
    """Return where the longest consistent tail begins that fits and is not everything; at least the last exchange."""
    start, room = len(messages), budget
    for position in range(len(messages) - 1, 0, -1):
        # The user's newest message stays, however large it is.
        room -= 0 if position == latest_at else sizes[position]
        if room < 0:
            break
        if _may_begin(messages[position]):
            start = position
    return min(start, _last_exchange(messages))


def _last_exchange(messages: Sequence[Message]) -> int:
    """Return where the newest exchange begins, which the model has to continue."""
    for position in range(len(messages) - 1, 0, -1):
        if is_user_message(messages[position]) or isinstance(messages[position], AssistantMessage):
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
    """Return whether a compaction added the message: the next compaction makes its own."""
    return isinstance(message, UserMessage) and message.origin in {"summary", "continue"}


def _pinned(messages: Sequence[Message], at: int | None, start: int) -> UserMessage | None:
    if at is None or at >= start:
        return None
    message = messages[at]
    return message if isinstance(message, UserMessage) else None


def _shrink_tail(tail: tuple[Message, ...], budget: int, model: str) -> tuple[Message, ...]:
    """Return the last exchange with long texts truncated, so that it fits."""
    answers = [message for message in tail if isinstance(message, AssistantMessage)]
    results = sum(len(message.results) for message in tail if isinstance(message, ResultsMessage))
    # Each text of the model, each call and each result gets an equal share.
    each = budget // (results + len(answers) + sum(len(message.calls) for message in answers) or 1)
    # Half, since an excerpt has a beginning and an end.
    excerpt = max(_LEAST_EXCERPT, _CHARS_OF_TOKEN * each // 2)
    calls = calls_of(tail)

    def squeeze(result: CallResult) -> CallResult:
        if result_tokens(result.settlement, model) <= each:
            return result
        text = cleared_text(result, calls.get(result.call_id), frozenset({result.tool}), excerpt)
        return attrs.evolve(result, settlement=attrs.evolve(result.settlement, text=text, images=(), files=()))

    shorter = with_results(tail, squeeze)
    return tuple(_cut(m, 2 * excerpt) if isinstance(m, AssistantMessage) else m for m in shorter)


def _cut(message: AssistantMessage, most: int) -> AssistantMessage:
    """Truncate long texts of the model and long arguments of its calls in the middle."""
    parts: list[AssistantPart] = []
    for part in message.parts:
        match part:
            case TextPart():
                parts.append(attrs.evolve(part, text=truncate_middle(part.text, most)))
            case CallPart():
                parts.append(attrs.evolve(part, arguments=shorten_arguments(part.arguments, most)))
            case ReasoningPart() | ProviderPart():
                # Providers accept these only unchanged.
                parts.append(part)
    return attrs.evolve(message, parts=tuple(parts))
