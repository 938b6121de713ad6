"""Clear old tool results, and long arguments of old calls, if that avoids a summary (T9).

The newest results stay, and those of the user's last two turns and of tools whose
results can't be reproduced. The replacement text names the call, shows how the
result began and ended, and says how to get it again. Everything is cleared at
once, since each change invalidates the provider's cache behind the first one.
Long arguments of the same calls, such as a written file, are shortened as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from engine.compaction.media_tokens import media_of
from engine.compaction.message_origin import is_user_message
from engine.compaction.shrink_arguments import shorten_arguments
from engine.compaction.token_estimate import result_tokens, text_tokens
from engine.compaction.verbatim_parts import paths_in
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

# The tokens of the newest results that stay, and the tokens of older ones from which on clearing is worth it.
KEPT_TOKENS: Final = 40_000
MIN_CLEARED_TOKENS: Final = 20_000
# Nothing of the user's last turns is cleared.
KEPT_TURNS: Final = 2

CLEARED: Final = "[cleared to make room: "
# Characters of the arguments, and of the beginning and the end of a result, in the text that replaces it.
_SHOWN_ARGUMENTS: Final = 200
_EXCERPT: Final = 160
# Shorter results are not cleared: the replacement would be as long.
_WORTH: Final = 4 * _EXCERPT
# Characters; a replacement text is never longer.
_LONGEST_CLEARED: Final = 4_000
_SPILL: Final = re.compile(r"spill:[0-9a-f]{16}")


@attrs.frozen(kw_only=True)
class PruneRules:
    """What may be cleared.

    Attributes:
        newest: tokens of the newest results that stay.
        least: older results are cleared if they have more tokens than this.
        turns: the number of the user's last turns of which nothing is cleared.
        protected: tools whose results stay.
        read_only: tools that can be called again for the same result.
    """

    newest: int = KEPT_TOKENS
    least: int = MIN_CLEARED_TOKENS
    turns: int = KEPT_TURNS
    protected: frozenset[str] = frozenset()
    read_only: frozenset[str] = frozenset()


@attrs.frozen
class PruneResult:
    """The messages with old results cleared, and how many tokens that saves."""

    messages: tuple[Message, ...]
    spared: int


def prune(messages: Sequence[Message], rules: PruneRules, model: str, ratio: float = 1.0) -> PruneResult | None:
    """Return *messages* with old results cleared; None if there is not enough to clear."""
    old = _old_results(messages, rules, model, ratio)
    if sum(old.values()) <= rules.least:
        return None
    calls = calls_of(messages)
    remaining = 0

    def clear(result: CallResult) -> CallResult:
        nonlocal remaining
        if result.call_id not in old or not _is_worth_it(result.settlement):
            return result
        text = cleared_text(result, calls.get(result.call_id), rules.read_only)
        remaining += text_tokens(text)
        shown = attrs.evolve(result.settlement, text=text, images=(), files=())
        return attrs.evolve(result, settlement=shown)

    def cut(call: CallPart) -> CallPart:
        nonlocal remaining
        if call.call_id not in old or (arguments := _cut_arguments(call)) is None:
            return call
        remaining += text_tokens(arguments)
        return attrs.evolve(call, arguments=arguments)

    shorter_messages = with_calls(with_results(messages, clear), cut)
    return PruneResult(shorter_messages, sum(old.values()) - round(remaining * ratio))


def _old_results(messages: Sequence[Message], rules: PruneRules, model: str, ratio: float) -> Mapping[CallId, int]:
    """Return the calls whose results or arguments are to be cleared, with the tokens of each."""
    newest, turns = 0, 0
    old: dict[CallId, int] = {}
    calls = calls_of(messages)
    # From the end: what is newest stays, up to a number of tokens.
    for message in reversed(messages):
        turns += is_user_message(message)
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
    """Return the shortened arguments of a call; None if it is not worth it."""
    if len(call.arguments) <= 2 * _WORTH:
        return None
    cut = shorten_arguments(call.arguments, 2 * _EXCERPT)
    # A later summary has to list the files: in a patch, their names are in the middle of the text.
    is_worth_it = len(call.arguments) - len(cut) > _WORTH and paths_in(cut) == paths_in(call.arguments)
    return cut if is_worth_it else None


def _is_worth_it(settlement: Settlement) -> bool:
    # Any result may begin with this text, but cleared ones are also short.
    if settlement.text.startswith(CLEARED) and len(settlement.text) <= _LONGEST_CLEARED:
        return False
    return len(settlement.text) > _WORTH or bool(settlement.images or settlement.files)


def calls_of(messages: Sequence[Message]) -> Mapping[CallId, CallPart]:
    """Return the calls of *messages*, by their ids."""
    return {
        call.call_id: call for message in messages if isinstance(message, AssistantMessage) for call in message.calls
    }


def with_results(messages: Sequence[Message], change: Callable[[CallResult], CallResult]) -> tuple[Message, ...]:
    """Apply *change* to each result; messages without a change stay the same objects."""

    def changed(message: Message) -> Message:
        if not isinstance(message, ResultsMessage):
            return message
        results = tuple(change(result) for result in message.results)
        same = all(new is old for new, old in zip(results, message.results, strict=True))
        return message if same else attrs.evolve(message, results=results)

    return tuple(changed(message) for message in messages)


def with_calls(messages: Sequence[Message], change: Callable[[CallPart], CallPart]) -> tuple[Message, ...]:
    """Apply *change* to each call; messages without a change stay the same objects."""

    def changed(message: Message) -> Message:
        if not isinstance(message, AssistantMessage):
            return message
        parts = tuple(change(part) if isinstance(part, CallPart) else part for part in message.parts)
        # The same object, so that its size is not estimated again and the record of the change stays small.
        same = all(new is old for new, old in zip(parts, message.parts, strict=True))
        return message if same else attrs.evolve(message, parts=parts)

    return tuple(changed(message) for message in messages)


def cleared_text(result: CallResult, call: CallPart | None, read_only: frozenset[str], excerpt: int = _EXCERPT) -> str:
    """Return the text that replaces a cleared result."""
    text = result.settlement.text
    arguments = "" if call is None else _short(call.arguments)
    media = ", ".join(media_label(part) for part in media_of(result.settlement))
    what = f"the result of {result.tool}({arguments}), {len(text):,} characters{f' and {media}' if media else ''}"
    spill = _SPILL.search(text)
    # In the order of how well it works: the kept original, the same call again, nothing.
    if spill is not None:
        again = f'To get it again: read with path="{spill[0]}".'
    elif result.tool in read_only:
        again = f"To get it again: call {result.tool} with the same arguments."
    else:
        again = "It was not kept; its effects remain. Look at those if you need them."
    if len(text) <= 2 * excerpt:
        return f"{CLEARED}{what}. {again}]\n{text}"
    return f"{CLEARED}{what}. {again} Its beginning and end:]\n{text[:excerpt]}\n[…]\n{text[-excerpt:]}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_ARGUMENTS else f"{text[:_SHOWN_ARGUMENTS]}…"


# -- media ------------------------------------------------------------------------------


def media_label(part: MediaPart) -> str:
    """Return a description of an image or a file."""
    name = part.name if isinstance(part, FilePart) else ""
    kind = "an image" if isinstance(part, ImagePart) else "a file"
    size = len(part.data) * 3 // 4
    return f"{kind}{f' {name!r}' if name else ''} of type {part.media_type} ({_bytes(size)})"


def _bytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{size / 1_000:.1f} kB"


def without_media(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """Replace each image and file by a sentence; None if there are none."""
    if not any(True for _ in _media(messages)):
        return None
    return tuple(_remove_media(message) for message in messages)


def _media(messages: Sequence[Message]) -> Iterator[MediaPart]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield from (part for part in message.parts if not isinstance(part, TextPart))
        elif isinstance(message, ResultsMessage):
            for result in message.results:
                yield from media_of(result.settlement)


def _remove_media(message: Message) -> Message:
    match message:
        case UserMessage():
            if all(isinstance(part, TextPart) for part in message.parts):
                return message
            parts = tuple(
                part
                if isinstance(part, TextPart)
                else TextPart(id=PartId(f"{message.id}_{n}"), text=_removed_media_text(part))
                for n, part in enumerate(message.parts)
            )
            return attrs.evolve(message, parts=parts)
        case ResultsMessage():
            return with_results((message,), _remove_result_media)[0]
        case AssistantMessage():
            return message


def _remove_result_media(result: CallResult) -> CallResult:
    shown = media_of(result.settlement)
    if not shown:
        return result
    text = "\n".join([result.settlement.text, *map(_removed_media_text, shown)]).strip()
    return attrs.evolve(result, settlement=attrs.evolve(result.settlement, text=text, images=(), files=()))


def _removed_media_text(part: MediaPart) -> str:
    return (
        f"[{media_label(part)} was here. The provider refused the request because of its size, so it was removed: you "
        "can't see it. If you need it, say so, and ask for a smaller one.]"
    )
