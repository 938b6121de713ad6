"""Clearing old results, and what is long in old calls, if that spares a summary (T9).

The newest results stay, and so do those of the last two turns of the user and those of
tools that say that theirs can't be had again. What is cleared says so in its place: of
which call it was, how it began and ended, and how it can be had again. All of it is
cleared at once, since each time costs the host's cache what stands behind the first.
What is long in the arguments of the same calls, such as a file that was written, is cut
likewise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from engine.compaction.media_tokens import media_of
from engine.compaction.preserved import paths_in
from engine.compaction.roles import is_users
from engine.compaction.shrink_arguments import shorter
from engine.compaction.token_estimate import result_tokens, text_tokens
from engine.core.ids import CallId, PartId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
)

# The newest results, tokens of them, stay; what is older is cleared if it has so many.
NEWEST: Final = 40_000
LEAST: Final = 20_000
# The turns of the user, counted from the end, of which nothing is cleared.
TURNS: Final = 2

CLEARED: Final = "[cleared to make room: "
_SHOWN_ARGUMENTS: Final = 200
_EXCERPT: Final = 160
# A shorter result would not become shorter.
_WORTH: Final = 4 * _EXCERPT
_LONGEST_CLEARED: Final = 4_000
_SPILL: Final = re.compile(r"spill:[0-9a-f]{16}")


@attrs.frozen(kw_only=True)
class Rules:
    """What may be cleared.

    Attributes:
        newest: so many tokens of the newest results stay.
        least: what is older is cleared if it has more than so many.
        turns: of so many turns of the user, the last ones, nothing is cleared.
        protected: tools whose results stay.
        read_only: tools that can be called again for the same result.
    """

    newest: int = NEWEST
    least: int = LEAST
    turns: int = TURNS
    protected: frozenset[str] = frozenset()
    read_only: frozenset[str] = frozenset()


@attrs.frozen
class Pruned:
    """The messages with what is old cleared, and how many tokens that spares."""

    messages: tuple[Message, ...]
    spared: int


def prune(messages: Sequence[Message], rules: Rules, model: str, ratio: float = 1.0) -> Pruned | None:
    """Return *messages* with old results cleared; None if there is not enough of them."""
    old = _old_results(messages, rules, model, ratio)
    if sum(old.values()) <= rules.least:
        return None
    calls = calls_of(messages)
    left = 0

    def clear(result: CallResult) -> CallResult:
        nonlocal left
        if result.call_id not in old or not _is_worth_it(result.settlement):
            return result
        text = cleared(result, calls.get(result.call_id), rules.read_only)
        left += text_tokens(text)
        shown = attrs.evolve(result.settlement, text=text, images=(), files=())
        return attrs.evolve(result, settlement=shown)

    def cut(call: CallPart) -> CallPart:
        nonlocal left
        if call.call_id not in old or (arguments := _cut_arguments(call)) is None:
            return call
        left += text_tokens(arguments)
        return attrs.evolve(call, arguments=arguments)

    shorter_messages = with_calls(with_results(messages, clear), cut)
    return Pruned(shorter_messages, sum(old.values()) - round(left * ratio))


def _old_results(messages: Sequence[Message], rules: Rules, model: str, ratio: float) -> Mapping[CallId, int]:
    """Return the calls whose results, or arguments, are to be cleared, with what each takes."""
    newest, turns = 0, 0
    old: dict[CallId, int] = {}
    calls = calls_of(messages)
    for message in reversed(messages):
        turns += is_users(message)
        if turns < rules.turns or not isinstance(message, ResultsMessage):
            continue
        for result in reversed(message.results):
            if result.tool in rules.protected:
                continue
            tokens = result_tokens(result.settlement, model) if _is_worth_it(result.settlement) else 0
            call = calls.get(result.call_id)
            if call is not None and _cut_arguments(call) is not None:
                tokens += text_tokens(call.arguments)
            if not tokens:
                continue
            size = round(tokens * ratio)
            newest += size
            if newest > rules.newest:
                old[result.call_id] = size
    return old


def _cut_arguments(call: CallPart) -> str | None:
    """Return the arguments of a call with what is long in them cut; None: that is not worth it."""
    if len(call.arguments) <= 2 * _WORTH:
        return None
    cut = shorter(call.arguments, 2 * _EXCERPT)
    # A summary has to name the files later: a patch tells in its midst which they are.
    is_worth_it = len(call.arguments) - len(cut) > _WORTH and paths_in(cut) == paths_in(call.arguments)
    return cut if is_worth_it else None


def _is_worth_it(settlement: Settlement) -> bool:
    # Anybody may begin a text so; what was cleared is short.
    if settlement.text.startswith(CLEARED) and len(settlement.text) <= _LONGEST_CLEARED:
        return False
    return len(settlement.text) > _WORTH or bool(settlement.images or settlement.files)


def calls_of(messages: Sequence[Message]) -> Mapping[CallId, CallPart]:
    """Return the calls of *messages*, by their ids."""
    return {
        call.call_id: call for message in messages if isinstance(message, AssistantMessage) for call in message.calls
    }


def with_results(messages: Sequence[Message], change: Callable[[CallResult], CallResult]) -> tuple[Message, ...]:
    """Return *messages* with each result as *change* has it; those in which nothing changes stay the same objects."""

    def changed(message: Message) -> Message:
        if not isinstance(message, ResultsMessage):
            return message
        results = tuple(change(result) for result in message.results)
        same = all(new is old for new, old in zip(results, message.results, strict=True))
        return message if same else attrs.evolve(message, results=results)

    return tuple(changed(message) for message in messages)


def with_calls(messages: Sequence[Message], change: Callable[[CallPart], CallPart]) -> tuple[Message, ...]:
    """Return *messages* with each call as *change* has it; those in which nothing changes stay the same objects."""

    def changed(message: Message) -> Message:
        if not isinstance(message, AssistantMessage):
            return message
        parts = tuple(change(part) if isinstance(part, CallPart) else part for part in message.parts)
        same = all(new is old for new, old in zip(parts, message.parts, strict=True))
        return message if same else attrs.evolve(message, parts=parts)

    return tuple(changed(message) for message in messages)


def cleared(result: CallResult, call: CallPart | None, read_only: frozenset[str], excerpt: int = _EXCERPT) -> str:
    """Return what stands in the place of a result that is cleared."""
    text = result.settlement.text
    arguments = "" if call is None else _short(call.arguments)
    media = ", ".join(named(part) for part in media_of(result.settlement))
    what = f"the result of {result.tool}({arguments}), {len(text):,} characters{f' and {media}' if media else ''}"
    spill = _SPILL.search(text)
    if spill is not None:
        again = f'To have it again: read with path="{spill[0]}".'
    elif result.tool in read_only:
        again = f"To have it again: call {result.tool} with the same arguments."
    else:
        again = "It was not kept; what it changed stays changed. Look at that if you need it."
    if len(text) <= 2 * excerpt:
        return f"{CLEARED}{what}. {again}]\n{text}"
    return f"{CLEARED}{what}. {again} It began and ended so:]\n{text[:excerpt]}\n[…]\n{text[-excerpt:]}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_ARGUMENTS else f"{text[:_SHOWN_ARGUMENTS]}…"


# -- media ------------------------------------------------------------------------------


def named(part: MediaPart) -> str:
    """Return what an image or a file is called."""
    name = part.name if isinstance(part, FilePart) else ""
    kind = "an image" if isinstance(part, ImagePart) else "a file"
    size = len(part.data) * 3 // 4
    return f"{kind}{f' {name!r}' if name else ''} of type {part.media_type} ({_bytes(size)})"


def _bytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{size / 1_000:.1f} kB"


def without_media(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """Return *messages* with a sentence in the place of each image and file; None if there is none."""
    if not any(True for _ in _media(messages)):
        return None
    return tuple(_bare(message) for message in messages)


def _media(messages: Sequence[Message]) -> Iterator[MediaPart]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield from (part for part in message.parts if not isinstance(part, TextPart))
        elif isinstance(message, ResultsMessage):
            for result in message.results:
                yield from media_of(result.settlement)


def _bare(message: Message) -> Message:
    match message:
        case UserMessage():
            if all(isinstance(part, TextPart) for part in message.parts):
                return message
            parts = tuple(
                part if isinstance(part, TextPart) else TextPart(id=PartId(f"{message.id}_{n}"), text=_left_out(part))
                for n, part in enumerate(message.parts)
            )
            return attrs.evolve(message, parts=parts)
        case ResultsMessage():
            return with_results((message,), _without_shown)[0]
        case AssistantMessage():
            return message


def _without_shown(result: CallResult) -> CallResult:
    shown = media_of(result.settlement)
    if not shown:
        return result
    text = "\n".join([result.settlement.text, *map(_left_out, shown)]).strip()
    return attrs.evolve(result, settlement=attrs.evolve(result.settlement, text=text, images=(), files=()))


def _left_out(part: MediaPart) -> str:
    return (
        f"[{named(part)} stood here. Its host refused the request because of its size, so it was taken out: you can't "
        "see it. If it is needed, say so, and ask for a smaller one.]"
    )
