"""Estimate the tokens of texts and messages, and the usable window (T7).

Words, dense JSON, base64 and CJK differ by a factor of six in characters per token.
Long texts are sampled. `engine.compaction.token_counter` corrects the remaining
error with the providers' counts.
"""

from __future__ import annotations

from typing import Final, assert_never

import attrs

from engine.compaction.media_tokens import media_of, media_tokens
from engine.core.llm_types import ModelInfo, ModelRequest, ToolSchema
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
from engine.core.value_base import Value

# The overhead of a message, and of a call or a result.
MESSAGE: Final = 4
CALL: Final = 12

# The minimal reserve, for errors of the estimate.
SPARE: Final = 20_000

# The count of a request that fills the window contradicts the estimate if that is smaller by more than this factor.
CERTAIN: Final = 1.25

_DIGITS: Final = "0123456789"
# Tokens for a digit.
_DIGIT: Final = 0.55

# Characters of a sample, and their number: counting in a text of megabytes would block the event loop.
_SAMPLE: Final = 1_024
_SAMPLES: Final = 8


def text_tokens(text: str) -> int:
    """Estimate the tokens of *text*; rather a little too many than too few."""
    size = len(text)
    if size <= _SAMPLE * _SAMPLES:
        return round(_tokens(text)) if text else 0
    # At equal distances: a file often begins with a header that is unlike the rest.
    step = size // _SAMPLES
    sample = "".join([text[start : start + _SAMPLE] for start in range(0, step * _SAMPLES, step)])
    return round(_tokens(sample) * size / len(sample))


def _tokens(text: str) -> float:
    size = len(text)
    if text.isascii():
        return size * _density(text, size)
    # Other alphabets have two bytes per character, CJK three, emoji four: more bytes mean fewer characters per token.
    extra = len(text.encode("utf-8", "surrogatepass")) - size
    foreign = extra * (0.25 + 0.075 * min(2.0, extra / size))
    return size * _density(text, size) + foreign


def _density(text: str, size: int) -> float:
    """Return tokens per character for the ASCII part of *text*."""
    bare = _bare_density(text, size)
    digits = sum(map(text.count, _DIGITS))
    # About two digits make a token: relevant in logs, tables, checksums and dumps.
    return bare if digits * 25 < size else bare + (max(_DIGIT, bare) - bare) * digits / size


def _bare_density(text: str, size: int) -> float:
    # `str.count` runs in C, and a loop over the characters would be some fifty times slower.
    blanks = text.count(" ")
    if blanks * 14 >= size or size < 24:
        return 0.25
    blanks += text.count("\n")
    if blanks * 14 >= size:
        return 0.25
    signs = text.count('"') + text.count(",") + text.count(":") + text.count(".") + text.count("/")
    # Few blanks: dense JSON and paths have punctuation between words, base64 has none.
    return 0.4 if signs * 25 >= size else 0.65 if blanks * 60 < size and text.isascii() and size > 64 else 0.3


def message_tokens(message: Message, model: str) -> int:
    """Estimate the tokens of *message* for *model*."""
    match message:
        case UserMessage():
            sizes = [
                text_tokens(part.text) if isinstance(part, TextPart) else media_tokens(part, model)
                for part in message.parts
            ]
            return MESSAGE + sum(sizes)
        case AssistantMessage():
            return MESSAGE + sum([part_tokens(part) for part in message.parts])
        case ResultsMessage():
            return sum([CALL + result_tokens(result.settlement, model) for result in message.results])
        case _:
            assert_never(message)


def part_tokens(part: AssistantPart) -> int:
    """Estimate the tokens of a part of an answer."""
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
    """Estimate the tokens of a result, without its overhead."""
    tokens = text_tokens(settlement.text)
    if settlement.images or settlement.files:
        tokens += sum(media_tokens(part, model) for part in media_of(settlement))
    return tokens


def tool_tokens(tool: ToolSchema) -> int:
    """Estimate the tokens of a tool's declaration."""
    return CALL + text_tokens(tool.description) + text_tokens(tool.schema)


def request_tokens(request: ModelRequest) -> int:
    """Estimate the tokens of a whole request."""
    messages = sum([message_tokens(message, request.model) for message in request.transcript])
    tools = sum(tool_tokens(tool) for tool in request.tools if not tool.deferred)
    return text_tokens(request.system) + tools + messages


@attrs.frozen(eq=False, repr=False)
class WindowEstimate(Value):
    """A model's context window.

    Attributes:
        context: its whole size.
        usable: what a request may take; the rest is for the answer and for errors of the estimate.
    """

    context: int
    usable: int

    @classmethod
    def of(cls, info: ModelInfo, max_output: int, reserve: int | None = None) -> WindowEstimate:
        """Return the window of a model whose answer may have *max_output* tokens.

        *reserve* replaces the default reserve. At least half of the window is usable, even if answers may be as long
        as the window.
        """
        # A tenth of a small window: a fixed reserve would leave nothing of it.
        kept = max(max_output, min(SPARE, info.context // 10)) if reserve is None else reserve
        return cls(context=info.context, usable=max(info.context - kept, info.context // 2, 1))
