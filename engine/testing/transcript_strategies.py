"""Hypothesis strategies for valid and invalid transcripts. Needs the extra `testing`.

Content for one model only names that model, so that a test can look for it in a
request: a signature begins with `signature_of(model)`, a provider's own item contains
`item_of(model)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import assert_never, get_args

from hypothesis import strategies as st

from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    CallStatus,
    Citation,
    FilePart,
    FinishReason,
    ImagePart,
    MediaPart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
    UserPart,
)

WORDS = ("", " ", "\n", "word", "two words", "naïve 😀", "half \ud83d", "\ud83d\ude00", '"}]', "[DONE]")
TOOLS = ("read", "mcp/files.read it", "", "a" * 70, "läsa")
ARGUMENTS = (
    *("{}", '{"path": "a"}', ' {"n": [1, 2.5, null]} ', '{"text": "\\ud83d\\ude00 \\udc00"}', '{"text": "é\ud800"}'),
    *("", "{", "[]", "null", '{"path": "a', '{"n": NaN}', '{"n": 1e999}'),
)
MEDIA: tuple[MediaPart, ...] = (
    ImagePart(media_type="image/png", data="aGk="),
    ImagePart(media_type="image/bmp", data="aGk="),
    ImagePart(media_type="image/png", data=""),
    FilePart(media_type="application/pdf", data="JVBERg==", name="plan.pdf"),
    FilePart(media_type="application/pdf", data="JVBERg=="),
    FilePart(media_type="audio/wav", data="aGk=", name="talk.wav"),
    FilePart(media_type="video/mp4", data="aGk="),
    FilePart(media_type="application/zip", data="aGk=", name="all.zip"),
)
# Prefixes of call ids: shortening them or replacing characters, as some hosts require, must not make two equal.
ID_STYLES = ("call_", "toolu_01AbCdEfGhIjKlMnOpQrStUv", "call:", "call.", "functions.read:", "x-", "é")

_FINISHES: tuple[FinishReason, ...] = get_args(FinishReason)
_STATUSES: tuple[CallStatus, ...] = get_args(CallStatus)


def signature_of(model: str) -> str:
    """Return the prefix of a signature of *model*."""
    return f"signed by {model};"


def item_of(model: str) -> str:
    """Return a text that every item of *model*'s provider contains."""
    return f"made by {model};"


def asks(message: Message) -> bool:
    """Tell whether a transcript that ends with *message* can be answered: not if it is the model's own, or empty."""
    match message:
        case UserMessage():
            return any(not isinstance(part, TextPart) or part.text.strip() for part in message.parts)
        case ResultsMessage():
            return True
        case AssistantMessage():
            return False
        case _:
            assert_never(message)


def words() -> st.SearchStrategy[str]:
    """Texts: empty, blank, ordinary, and with lone surrogates."""
    return st.sampled_from(WORDS) | st.text(max_size=5)


@st.composite
def texts(draw: st.DrawFn) -> TextPart:
    """A text, perhaps with citations."""
    sources = draw(st.lists(st.sampled_from([_PAGE, _QUOTE]), max_size=1))
    return TextPart(id=PartId("t"), text=draw(words()), citations=tuple(sources))


_PAGE = Citation(url="https://a.example", title="A", quote="so it is", raw='{"type":"web"}')
_QUOTE = Citation(title="B.pdf")


@st.composite
def thoughts(draw: st.DrawFn, *, model: str) -> ReasoningPart:
    """Reasoning of *model*: signed, unsigned, redacted, empty."""
    signed = f"{signature_of(model)} {draw(st.integers(0, 9))}"
    own = json.dumps({"id": "rs_1", "encrypted_content": signed, "summary": [], "type": "reasoning"})
    signature, redacted = draw(
        st.sampled_from([(signed, None), (own, None), (None, None), (None, signed), ("", None), (None, "")])
    )
    return ReasoningPart(id=PartId("r"), text=draw(words()), signature=signature, redacted=redacted, model=model)


@st.composite
def hosted_work(draw: st.DrawFn, model: str) -> ProviderPart:
    """One half of a hosted tool's work in Anthropic's format, or invalid data."""
    key = draw(st.sampled_from(["s1", "s2"]))
    use: dict[str, object] = {
        "type": "server_tool_use",
        "id": key,
        "name": "web_search",
        "input": {"query": item_of(model)},
    }
    result: dict[str, object] = {
        "type": "web_search_tool_result",
        "tool_use_id": key,
        "content": [{"encrypted": item_of(model)}],
    }
    item = draw(st.sampled_from([use, result]))
    data = draw(st.sampled_from([json.dumps(item)] * 4 + ["{", "[]", "null"]))
    return ProviderPart(id=PartId("h"), kind=str(item["type"]), data=data, model=model)


@st.composite
def call_parts(draw: st.DrawFn, *, number: int) -> CallPart:
    """A call; different *number*s make different ids."""
    style = draw(st.sampled_from(ID_STYLES))
    return CallPart(
        id=PartId("c"),
        call_id=CallId(f"{style}{number}"),
        tool=draw(st.sampled_from(TOOLS)),
        arguments=draw(st.sampled_from(ARGUMENTS)),
        provider_id=draw(st.sampled_from(["", "call_0"])),
        complete=draw(st.booleans()),
    )


@st.composite
def settlements(draw: st.DrawFn) -> Settlement:
    """How a call ended, with its media."""
    shown = draw(st.lists(st.sampled_from(MEDIA), max_size=2))
    status = draw(st.sampled_from(_STATUSES))
    return Settlement(
        status=status,
        text=draw(words()),
        reason="cancelled" if status == "aborted" else None,
        images=tuple(part for part in shown if isinstance(part, ImagePart)),
        files=tuple(part for part in shown if isinstance(part, FilePart)),
        failed=draw(st.booleans()),
    )


@st.composite
def user_messages(draw: st.DrawFn) -> UserMessage:
    """A user's message with text and media; it may be empty."""
    parts: list[UserPart] = draw(st.lists(texts() | st.sampled_from(MEDIA), max_size=3))
    return UserMessage(id=MessageId("u"), parts=tuple(parts))


# Makes the items of a model's provider.
Items = Callable[[str], st.SearchStrategy[ProviderPart]]


@st.composite
def assistant_messages(
    draw: st.DrawFn, *, models: Sequence[str], number: int, items: Items = hosted_work
) -> AssistantMessage:
    """The answer of one of *models* in step *number*."""
    model = draw(st.sampled_from(models))
    parts: list[AssistantPart] = []
    for place in range(draw(st.integers(0, 5))):
        kinds: list[st.SearchStrategy[AssistantPart]] = [
            texts(),
            thoughts(model=model),
            call_parts(number=10 * number + place),
            items(model),
        ]
        parts.append(draw(st.one_of(kinds)))
    return AssistantMessage(
        id=MessageId("a"), parts=tuple(parts), model=model, finish=draw(st.none() | st.sampled_from(_FINISHES))
    )


@st.composite
def transcripts(
    draw: st.DrawFn, *, models: Sequence[str], wild: bool = False, items: Items = hosted_work
) -> tuple[Message, ...]:
    """A transcript whose answers are by *models*, changing from step to step.

    A transcript of the engine begins with the user, has all results after their calls,
    and ends with something to answer. A *wild* one need not.
    """
    # Encoders refuse a wild one with a bad beginning or end: most must get further than that.
    begins, ends = (draw(st.sampled_from([True, True, True, False])) if wild else True for _ in range(2))
    messages: list[Message] = [_user_message("begin")] if begins else []
    for number in range(draw(st.integers(0, 4))):
        assistant = draw(assistant_messages(models=models, number=number, items=items))
        each = [CallResult(call_id=c.call_id, tool=c.tool, settlement=draw(settlements())) for c in assistant.calls]
        if wild:
            each = draw(st.permutations([*each, _UNKNOWN_RESULT]))[draw(st.integers(0, 2)) :]
        exchange: list[Message] = [assistant]
        if each:
            exchange.append(ResultsMessage(id=MessageId("r"), results=tuple(each)))
        messages += draw(st.permutations(exchange)) if wild else exchange
        messages += draw(st.lists(user_messages(), max_size=2))
    return (*messages, _user_message("go on")) if ends else tuple(messages)


def _user_message(text: str) -> UserMessage:
    return UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("t"), text=text),))


_UNKNOWN_RESULT = CallResult(
    call_id=CallId("stray"), tool="read", settlement=Settlement(status="completed", text="stray")
)
