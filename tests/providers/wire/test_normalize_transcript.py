"""Normalized transcripts: the rules that hold for every wire format."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConfigError
from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    FilePart,
    FinishReason,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
    UserPart,
)
from engine.providers.wire.normalize_transcript import (
    NO_OUTPUT,
    NO_RESULT,
    AssistantItem,
    CallWithResult,
    ResultsItem,
    TranscriptItem,
    TranscriptNormalizer,
    UserItem,
    arguments_of,
    media_kind,
    safe_id,
    safe_tool,
    schema_of,
)
from engine.providers.wire.quirks import Quirks
from engine.testing.transcript_strategies import ARGUMENTS, TOOLS, transcripts

MODEL = "a/one"
SAME_HOST = "a/two"
OTHER = "b/three"
PNG = ImagePart(media_type="image/png", data="aGk=")
PDF = FilePart(media_type="application/pdf", data="JVBERg==", name="plan.pdf")
READS_ALL = Quirks(
    user_media=frozenset({"image", "pdf", "audio", "video"}),
    result_media=frozenset({"image", "pdf", "audio", "video"}),
    space_between_reasoning=True,
)
READS_IMAGES = Quirks()
READS_NOTHING = Quirks(user_media=frozenset())
ALL_QUIRKS = [READS_ALL, READS_IMAGES, READS_NOTHING, Quirks(result_media=frozenset({"image"}))]


def text(words: str) -> TextPart:
    return TextPart(id=PartId("t"), text=words)


def user_message(*parts: UserPart | str) -> UserMessage:
    return UserMessage(id=MessageId("u"), parts=tuple(text(p) if isinstance(p, str) else p for p in parts))


def model_message(*parts: AssistantPart | str, model: str = MODEL, finish: FinishReason = "stop") -> AssistantMessage:
    made = tuple(text(p) if isinstance(p, str) else p for p in parts)
    return AssistantMessage(id=MessageId("a"), parts=made, model=model, finish=finish)


def tool_call(call_id: str, **more: Any) -> CallPart:
    fields: dict[str, Any] = {"tool": "read", "arguments": "{}", **more}
    return CallPart(id=PartId("c"), call_id=CallId(call_id), **fields)


def thought(words: str = "hm", **more: Any) -> ReasoningPart:
    fields: dict[str, Any] = {"signature": "sig", "model": MODEL, **more}
    return ReasoningPart(id=PartId("r"), text=words, **fields)


def result(call_id: str, words: str = "done", **more: Any) -> CallResult:
    fields: dict[str, Any] = {"status": "completed", **more}
    return CallResult(call_id=CallId(call_id), tool="read", settlement=Settlement(text=words, **fields))


def results(*each: CallResult) -> ResultsMessage:
    return ResultsMessage(id=MessageId("r"), results=each)


def arrange(
    *messages: Message, quirks: Quirks = READS_ALL, model: str = MODEL, reasoning_from: int = 0
) -> list[TranscriptItem]:
    arranger = TranscriptNormalizer(model, quirks, reasoning_from)
    return [item for message in messages for item in arranger.feed(message)] + arranger.pending()


def users(*parts: UserPart | str) -> UserItem:
    return UserItem(user_message(*parts).parts)


def spoken(*parts: AssistantPart | str, is_paused: bool = False) -> AssistantItem:
    return AssistantItem(model_message(*parts).parts, is_paused)


# -- calls and their results -----------------------------------------------------------


def test_results_follow_their_calls_in_call_order() -> None:
    one, two = tool_call("1"), tool_call("2")
    returned = [result("2", "second"), result("1", "first")]
    assert arrange(user_message("go"), model_message("on it", one, two), results(*returned), user_message("and?")) == [
        users("go"),
        spoken("on it", one, two),
        ResultsItem(
            (
                CallWithResult(one, Settlement(status="completed", text="first")),
                CallWithResult(two, Settlement(status="completed", text="second")),
            )
        ),
        users("and?"),
    ]


def test_missing_results_are_stated_and_surplus_ones_dropped() -> None:
    one = tool_call("1")
    twice = results(result("stray"), result("1", "first"), result("1", "again"))
    with_results = results(result("1", "first"))
    with_it = ResultsItem((CallWithResult(one, Settlement(status="completed", text="first")),))
    without = ResultsItem((CallWithResult(one, NO_RESULT),))
    go = users("go")
    assert arrange(user_message("go"), model_message(one), twice, user_message("x")) == [
        go,
        spoken(one),
        with_it,
        users("x"),
    ]
    assert arrange(user_message("go"), model_message(one), user_message("x")) == [go, spoken(one), without, users("x")]
    assert arrange(user_message("go"), model_message(one)) == [go, spoken(one), without]
    assert arrange(user_message("go"), twice, model_message("x"), twice, user_message("y")) == [
        go,
        spoken("x"),
        users("y"),
    ]
    assert arrange(user_message("go"), model_message(one), user_message(" "), with_results) == [
        go,
        spoken(one),
        with_it,
    ]
    assert arrange(user_message("go"), model_message("x"), with_results, model_message("y"), user_message("z"))[
        1
    ] == spoken("x", "y")
    assert arrange(user_message("go"), model_message(one), model_message("x"), user_message("y")) == [
        go,
        spoken(one),
        without,
        spoken("x"),
        users("y"),
    ]


@pytest.mark.parametrize("status", ["completed", "error", "denied", "aborted"])
def test_result_texts(status: Any) -> None:
    reported = CallWithResult(tool_call("1"), Settlement(status=status, text="why"))
    assert (reported.text, reported.is_error) == ("why", status != "completed")
    assert CallWithResult(tool_call("1"), Settlement(status=status, text=" \n")).text == NO_OUTPUT
    assert CallWithResult(tool_call("1"), Settlement(status=status, text="", images=(PNG,))).text == ""


# -- what is empty, what is joined --------------------------------------------------------


def test_empty_content_is_dropped() -> None:
    assert arrange(
        user_message("a"),
        user_message(" ", "\n"),
        user_message(),
        model_message("", " "),
        model_message(),
        user_message("b", ""),
    ) == [
        users("a"),
        users("b"),
    ]


def test_consecutive_answers_are_merged() -> None:
    assert arrange(user_message("a"), model_message("b", finish="pause"), model_message("c"), user_message("d")) == [
        users("a"),
        spoken("b", "c"),
        users("d"),
    ]


def test_a_pause_is_one_only_at_the_end() -> None:
    assert arrange(user_message("a"), model_message("b", finish="pause")) == [users("a"), spoken("b", is_paused=True)]
    assert arrange(user_message("a"), model_message("b", finish="pause"), user_message("c"))[1] == spoken("b")
    calling = arrange(user_message("a"), model_message(tool_call("1"), finish="pause"))
    assert calling[1:] == [spoken(tool_call("1")), ResultsItem((CallWithResult(tool_call("1"), NO_RESULT),))]


def test_pending_items_are_repeatable() -> None:
    arranger = TranscriptNormalizer(MODEL, READS_ALL)
    before = [*arranger.feed(user_message("a")), *arranger.feed(model_message(tool_call("1")))]
    assert (
        arranger.pending()
        == arranger.pending()
        == [spoken(tool_call("1")), ResultsItem((CallWithResult(tool_call("1"), NO_RESULT),))]
    )
    after = arranger.feed(results(result("1")))
    assert [*before, *after] == arrange(user_message("a"), model_message(tool_call("1")), results(result("1")))
    assert arranger.pending() == []


# -- thoughts and items of others -----------------------------------------------------------


def between(*parts: AssistantPart | str, quirks: Quirks = READS_ALL, **more: Any) -> tuple[AssistantPart, ...]:
    """Return what comes out of *parts*, of an answer that says something else besides."""
    _, item, _ = arrange(user_message("a"), model_message(*parts, "!"), user_message("b"), quirks=quirks, **more)
    assert isinstance(item, AssistantItem)
    assert item.parts[-1] == text("!")
    return item.parts[:-1]


def test_own_reasoning_returns_to_its_model() -> None:
    own = (thought(), thought("", redacted="x"), thought("unsigned", signature=None))
    assert between(*own) == own


@pytest.mark.parametrize("model", [SAME_HOST, OTHER, ""])
def test_foreign_reasoning_becomes_text(model: str) -> None:
    assert between(thought("hm", model=model)) == (TextPart(id=PartId("r"), text="hm"),)
    assert between(thought("", model=model), thought(" ", redacted="x", model=model)) == ()


def words_of(items: Sequence[TranscriptItem]) -> list[str]:
    parts = [part for item in items if not isinstance(item, ResultsItem) for part in item.parts]
    return [part.text for part in parts if isinstance(part, TextPart | ReasoningPart)]


def test_thoughts_before_a_message_are_left_out() -> None:
    messages: list[Message] = [
        user_message("a"),
        model_message(thought("x"), "b"),
        user_message("c"),
        model_message(thought("y"), "d"),
        user_message("e"),
    ]
    kept = [words_of(arrange(*messages, reasoning_from=n)) for n in range(5)]
    assert kept[0] == kept[1] == ["a", "x", "b", "c", "y", "d", "e"]
    assert kept[2] == kept[3] == ["a", "b", "c", "y", "d", "e"]
    assert kept[4] == ["a", "b", "c", "d", "e"]


def test_an_item_goes_to_its_own_provider_only() -> None:
    def item(model: str) -> ProviderPart:
        return ProviderPart(id=PartId("h"), kind="x", data="{}", model=model)

    assert between(item(MODEL), item(SAME_HOST), item(OTHER), item("")) == (item(MODEL), item(SAME_HOST))


def test_empty_text_between_signed_reasoning_is_space() -> None:
    x, y = thought("x"), thought("", redacted="y")
    assert between(x, "", y) == (x, text(" "), y)
    assert between(x, "", y, quirks=READS_IMAGES) == (x, y)
    assert between(x, "", y, reasoning_from=2) == ()
    unsigned = thought("z", signature=None)
    assert between(x, "", unsigned, "", x) == (x, unsigned, x)
    assert between(x, "", thought("z", model=SAME_HOST)) == (x, TextPart(id=PartId("r"), text="z"))


# -- media --------------------------------------------------------------------------------------


def test_media_that_are_read_go_through() -> None:
    wav = FilePart(media_type="audio/wav", data="aGk=")
    assert arrange(user_message("see", PNG, PDF, wav)) == [users("see", PNG, PDF, wav)]


@pytest.mark.parametrize(
    ("part", "quirks", "words"),
    [
        (PDF, READS_IMAGES, "(This pdf 'plan.pdf' has the type application/pdf, which this model cannot read."),
        (PNG, READS_NOTHING, "(This image has the type image/png, which this model cannot read."),
        (ImagePart(media_type="image/tiff", data="aGk="), READS_ALL, "(This image has the type image/tiff"),
        (FilePart(media_type="text/x", data="aGk="), READS_ALL, "(This file has the type text/x"),
        (ImagePart(media_type="image/png", data=""), READS_ALL, "(This image is empty."),
        (
            FilePart(media_type="application/pdf", data="", name="a"),
            READS_ALL,
            "(This pdf 'a' is empty.",
        ),
    ],
)
def test_other_media_become_a_sentence(part: UserPart, quirks: Quirks, words: str) -> None:
    (item,) = arrange(user_message(part), quirks=quirks)
    assert isinstance(item, UserItem)
    (reported,) = item.parts
    assert isinstance(reported, TextPart)
    assert reported.text.startswith(words)
    assert reported.text.endswith("Tell the user.)")


def test_unsupported_result_media_follow_in_a_message() -> None:
    call = tool_call("1", tool="look")
    shown = results(result("1", "two things", images=(PNG,), files=(PDF,)))
    reported = Settlement(status="completed", text="two things\n(the media of look follow in the next message)")
    assert arrange(user_message("a"), model_message(call), shown, quirks=READS_IMAGES)[2:3] == [
        ResultsItem((CallWithResult(call, reported),))
    ]
    images, moved = arrange(user_message("a"), model_message(call), shown, quirks=ALL_QUIRKS[3])[2:]
    assert images == ResultsItem((CallWithResult(call, attrs.evolve(reported, images=(PNG,))),))
    assert isinstance(moved, UserItem)
    intro, sentence = moved.parts
    assert intro == TextPart(id=PartId("media"), text="Media of look:")
    assert "plan.pdf" in str(sentence)
    assert arrange(user_message("a"), model_message(call), shown, quirks=READS_ALL)[2:] == [
        ResultsItem(
            (CallWithResult(call, Settlement(status="completed", text="two things", images=(PNG,), files=(PDF,))),)
        )
    ]


def test_next_message_follows_shown_media() -> None:
    call = tool_call("1")
    shown = results(result("1", "", images=(PNG,)))
    *_, moved, next_one = arrange(user_message("a"), model_message(call), shown, user_message("b"), quirks=READS_IMAGES)
    assert moved == UserItem((TextPart(id=PartId("media"), text="Media of read:"), PNG))
    assert next_one == users("b")


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("image/png", "image"),
        ("audio/mpeg", "audio"),
        ("video/mp4", "video"),
        ("application/pdf", "pdf"),
        ("application/zip", None),
        ("", None),
    ],
)
def test_kinds_of_media(media_type: str, kind: str | None) -> None:
    assert media_kind(media_type) == kind


# -- what can't be sent ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((), "nothing to send"),
        ((user_message(" "),), "nothing to send"),
        ((results(result("1")),), "nothing to send"),
        ((model_message("a"), user_message("b")), "begins with an assistant message"),
        ((model_message("a"),), "ends with an assistant message|begins with an assistant message"),
        ((user_message("a"), model_message("b")), "ends with an assistant message"),
        ((model_message("a", finish="pause"),), "begins with an assistant message"),
        ((user_message("a"), model_message("b"), user_message(" ")), "ends with an assistant message"),
        ((user_message("a"), model_message("b"), results(result("stray"))), "ends with an assistant message"),
    ],
)
def test_invalid_requests(messages: tuple[Message, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        arrange(*messages)


# -- ids, names, arguments, schemas ------------------------------------------------------------------


@pytest.mark.parametrize("plain", ["toolu_01ABC", "call-1", "_", "x", "x" * 64])
def test_ordinary_ids_pass(plain: str) -> None:
    assert safe_id(plain) == plain


IDS = st.text(st.sampled_from("ax-_0f.:é ") | st.characters(), max_size=8)


@given(IDS, IDS)
def test_ids_stay_apart_and_fit(first: str, second: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", safe_id(first))
    assert (safe_id(first) == safe_id(second)) == (first == second)


@given(IDS)
def test_safe_id_is_kept(call_id: str) -> None:
    """So what comes back names a call: the id that was sent is one of the transcript's, or made of one."""
    assert safe_id(call_id) == call_id or safe_id(call_id).startswith("x-")


@given(st.text(max_size=5) | st.sampled_from(TOOLS))
def test_names_of_tools_fit(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", safe_tool(name))
    assert safe_tool(safe_tool(name)) == safe_tool(name)
    assert safe_tool("read_2-x") == "read_2-x"


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (' {"a":\n1} ', '{"a":\n1}'),
        ('{"a": "\\ud83d\\ude00"}', '{"a":"😀"}'),
        ('{"a": "\\ud83d"}', '{"a":"\ufffd"}'),
        ('{"a\ud83d": 1}', '{"a\ufffd":1}'),
        ("", "{}"),
        ("{", "{}"),
        ("[1]", "{}"),
        ("null", "{}"),
        ('{"n": NaN}', "{}"),
        ('{"n": -Infinity}', "{}"),
        ('{"n": 1e999}', "{}"),
        ("[" * 100_000, "{}"),
    ],
)
def test_arguments(arguments: str, sent: str) -> None:
    assert arguments_of(tool_call("1", arguments=arguments)) == sent
    assert arguments_of(tool_call("1", arguments=arguments, complete=False)) == "{}"


@given(st.sampled_from(ARGUMENTS), st.booleans())
def test_arguments_are_an_object_every_host_can_read(arguments: str, complete: bool) -> None:
    sent = arguments_of(tool_call("1", arguments=arguments, complete=complete))
    assert isinstance(json.loads(sent), dict)
    json.dumps(json.loads(sent), allow_nan=False, ensure_ascii=False).encode()
    assert arguments_of(tool_call("1", arguments=sent)) == sent


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "is not valid JSON"),
        ("[]", "must be a non-empty JSON object"),
        ("{}", "must be"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_bad_schema_is_named(schema: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"the schema of the tool 'x' {words}"):
        schema_of(schema, "tool 'x'")


# -- any transcript -------------------------------------------------------------------------------------


MODELS = (MODEL, SAME_HOST, OTHER)


def back(items: Sequence[TranscriptItem]) -> list[Message]:
    """Return items as the transcript that they are."""
    messages: list[Message] = []
    for item in items:
        match item:
            case UserItem():
                messages.append(user_message(*item.parts))
            case AssistantItem():
                messages.append(model_message(*item.parts, finish="pause" if item.is_paused else "stop"))
            case ResultsItem():
                each = (
                    CallResult(call_id=a.call.call_id, tool=a.call.tool, settlement=a.settlement) for a in item.answered
                )
                messages.append(results(*each))
    return messages


def check(items: Sequence[TranscriptItem], quirks: Quirks, model: str) -> None:
    """Assert what the module promises."""
    assert isinstance(items[0], UserItem)
    for place, item in enumerate(items):
        before = items[place - 1] if place else None
        calls = before.calls if isinstance(before, AssistantItem) else ()
        if isinstance(item, ResultsItem):
            assert [model_message.call for model_message in item.answered] == list(calls)
            assert all(model_message.text or model_message.media for model_message in item.answered)
            assert all(media_kind(m.media_type) in quirks.result_media for a in item.answered for m in a.media)
            continue
        assert not calls
        assert item.parts
        for part in item.parts:
            check_part(part, quirks, model)
    assert not isinstance(items[-1], AssistantItem) or items[-1].is_paused


def check_part(part: object, quirks: Quirks, model: str) -> None:
    match part:
        case TextPart():
            assert part.text.strip() or (part.text == " " and quirks.space_between_reasoning)
        case ReasoningPart():
            assert part.model == model
        case ProviderPart():
            assert part.model.partition("/")[0] == model.partition("/")[0]
        case CallPart():
            assert re.fullmatch(r"[A-Za-z0-9_-]+", part.tool)
        case ImagePart() | FilePart():
            assert part.data
            assert media_kind(part.media_type) in quirks.user_media
        case _:
            pytest.fail(f"an unknown part: {part!r}")


@given(transcripts(models=MODELS), st.sampled_from(ALL_QUIRKS), st.sampled_from(MODELS), st.integers(0, 6))
def test_engine_transcripts_come_out_in_order(
    messages: tuple[Message, ...], quirks: Quirks, model: str, reasoning_from: int
) -> None:
    items = arrange(*messages, quirks=quirks, model=model, reasoning_from=reasoning_from)
    check(items, quirks, model)
    calls = [call.call_id for m in messages if isinstance(m, AssistantMessage) for call in m.calls]
    assert [call.call_id for item in items if isinstance(item, AssistantItem) for call in item.calls] == calls
    assert [a.call.call_id for item in items if isinstance(item, ResultsItem) for a in item.answered] == calls


@given(transcripts(models=MODELS, wild=True), st.sampled_from(ALL_QUIRKS), st.sampled_from(MODELS))
def test_any_transcript_is_ordered_or_refused(messages: tuple[Message, ...], quirks: Quirks, model: str) -> None:
    try:
        items = arrange(*messages, quirks=quirks, model=model)
    except ConfigError:
        return
    check(items, quirks, model)


@given(transcripts(models=MODELS), st.sampled_from(ALL_QUIRKS), st.sampled_from(MODELS))
def test_normalisation_is_idempotent(messages: tuple[Message, ...], quirks: Quirks, model: str) -> None:
    once = arrange(*messages, quirks=quirks, model=model)
    assert arrange(*back(once), quirks=quirks, model=model) == once


@given(transcripts(models=MODELS), st.sampled_from(ALL_QUIRKS))
def test_an_item_that_came_out_never_changes(messages: tuple[Message, ...], quirks: Quirks) -> None:
    whole = arrange(*messages, quirks=quirks)
    arranger = TranscriptNormalizer(MODEL, quirks)
    reported: list[TranscriptItem] = []
    for message in messages:
        reported += arranger.feed(message)
        assert whole[: len(reported)] == reported
    assert reported + arranger.pending() == whole
