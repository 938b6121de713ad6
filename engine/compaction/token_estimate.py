"""What the next request takes of the model's window, and whether that is too much (T7).

Tokens are estimated from the texts: words, dense JSON, base64 and CJK differ by a
factor of six in how many characters make a token. Of a long text, samples are
looked at. What is left of the error, `engine.compaction.token_counter` calibrates away by
what the host has counted.
"""

from __future__ import annotations

from typing import Final, assert_never

import attrs

from engine.compaction.media_tokens import media_of, media_tokens
from engine.core.llm_types import ModelInfo, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
)

# What a message, a call or a result takes beside its words.
MESSAGE: Final = 4
CALL: Final = 12

# Of what is kept free, at least so much is for what the estimate does not see.
SPARE: Final = 20_000

_DIGITS: Final = "0123456789"
_DIGIT: Final = 0.55

_SAMPLE: Final = 1_024
_SAMPLES: Final = 8


def text_tokens(text: str) -> int:
    """Return about how many tokens *text* has; a little too many rather than too few."""
    size = len(text)
    if size <= _SAMPLE * _SAMPLES:
        return round(_tokens(text)) if text else 0
    step = size // _SAMPLES
    sample = "".join([text[start : start + _SAMPLE] for start in range(0, step * _SAMPLES, step)])
    return round(_tokens(sample) * size / len(sample))


def _tokens(text: str) -> float:
    size = len(text)
    if text.isascii():
        return size * _density(text, size)
    # Letters of other scripts have two bytes, CJK three, emoji four: the more, the fewer of them make a token.
    extra = len(text.encode("utf-8", "surrogatepass")) - size
    foreign = extra * (0.25 + 0.075 * min(2.0, extra / size))
    return size * _density(text, size) + foreign


def _density(text: str, size: int) -> float:
    """Return tokens per character of what is ASCII in *text*."""
    bare = _bare_density(text, size)
    digits = sum(map(text.count, _DIGITS))
    # Two digits make a token or so, whatever is around them: in logs, tables, sums and dumps that is most of it.
    return bare if digits * 25 < size else bare + (max(_DIGIT, bare) - bare) * digits / size


def _bare_density(text: str, size: int) -> float:
    blanks = text.count(" ")
    if blanks * 14 >= size or size < 24:
        return 0.25
    blanks += text.count("\n")
    if blanks * 14 >= size:
        return 0.25
    signs = text.count('"') + text.count(",") + text.count(":") + text.count(".") + text.count("/")
    # Few blanks: dense JSON and paths have signs between their words, base64 has not.
    return 0.4 if signs * 25 >= size else 0.65 if blanks * 60 < size and text.isascii() and size > 64 else 0.3


def message_tokens(message: Message, model: str) -> int:
    """Return about how many tokens *message* has for *model*."""
    match message:
        case UserMessage():
            said = [
                text_tokens(part.text) if isinstance(part, TextPart) else media_tokens(part, model)
                for part in message.parts
            ]
            return MESSAGE + sum(said)
        case AssistantMessage():
            return MESSAGE + sum([part_tokens(part) for part in message.parts])
        case ResultsMessage():
            return sum([CALL + result_tokens(result.settlement, model) for result in message.results])
        case _:
            assert_never(message)


def part_tokens(part: AssistantPart) -> int:
    """Return about how many tokens a part of an answer has."""
    match part:
        case TextPart() | ReasoningPart():
            return text_tokens(part.text)
        case CallPart():
            return CALL + text_tokens(part.arguments) + len(part.tool) // 4
        case ProviderPart():
            return text_tokens(part.data)
        case _:
            assert_never(part)


def result_tokens(settlement: Settlement, model: str) -> int:
    """Return about how many tokens a result has, apart from what frames it."""
    tokens = text_tokens(settlement.text)
    if settlement.images or settlement.files:
        tokens += sum(media_tokens(part, model) for part in media_of(settlement))
    return tokens


def tool_tokens(tool: ToolSchema) -> int:
    """Return about how many tokens the description of a tool has."""
    return CALL + text_tokens(tool.description) + text_tokens(tool.schema)


@attrs.frozen
class Window:
    """A model's window, as it concerns the next request.

    Attributes:
        context: all of it.
        usable: what the request may take: the rest is for the answer, and for what the estimate does not see.
    """

    context: int
    usable: int

    @classmethod
    def of(cls, info: ModelInfo, max_output: int, reserve: int | None = None) -> Window:
        """Return the window of a model whose answer may have so many tokens.

        *reserve* is what to keep free instead of the usual. At least half of the window is
        usable: a model whose answers may be as long as its window has one all the same.
        """
        kept = max(max_output, min(SPARE, info.context // 10)) if reserve is None else reserve
        return cls(context=info.context, usable=max(info.context - kept, info.context // 2, 1))
