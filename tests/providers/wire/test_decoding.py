"""Decoders: events in order at any chunk boundaries, none lost before an error, none after it."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConnectionBroken, Overloaded, ProviderError, ProviderProtocolError
from engine.core.llm_types import Finished, StreamEvent, TextChunk, Unread
from engine.providers.wire import decoding
from engine.providers.wire.decoding import DocumentDecoder, StreamDecoder, decoder_for
from engine.providers.wire.untrusted_json import Json, text


@attrs.define(eq=False)
class WordReader:
    """Knows events of words, an end, an error, and nothing else.

    Attributes:
        ends_by_itself: the end of the bytes is an answer's proper end.
    """

    ends_by_itself: bool = False
    host: str = "Somebody"
    is_over: bool = False
    ignored: Counter[str] = attrs.field(factory=Counter[str])

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        kind = text(event, "type") or name
        match kind:
            case "word":
                out.append(TextChunk("0", text(event, "word")))
            case "words":
                out.extend(TextChunk("0", word) for word in text(event, "words").split())
                if event.get("then") == "error":
                    raise Overloaded("busy")
            case "error":
                raise Overloaded("busy")
            case "end":
                self.finish(out)
            case _:
                self.ignored[kind] += 1

    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        if document.get("type") == "unfinished":
            return
        for event in document.get("events", []):
            self.read("message", event, out)
        self.finish(out)

    def end(self, out: list[StreamEvent]) -> None:
        if self.ends_by_itself:
            self.finish(out)

    def finish(self, out: list[StreamEvent]) -> None:
        out.append(Finished("stop"))
        self.is_over = True


def stream(*, ends_by_itself: bool = False) -> StreamDecoder:
    decoder = decoder_for(WordReader(ends_by_itself), "text/event-stream")
    assert isinstance(decoder, StreamDecoder)
    return decoder


def document() -> DocumentDecoder:
    decoder = decoder_for(WordReader(), "application/json")
    assert isinstance(decoder, DocumentDecoder)
    return decoder


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def word(message: str) -> dict[str, str]:
    return {"type": "word", "word": message}


END = {"type": "end"}
ERROR = {"type": "error"}
DONE = b"data: [DONE]\n\n"


def play(
    decoder: StreamDecoder | DocumentDecoder, chunks: Iterable[bytes]
) -> tuple[list[StreamEvent], ProviderError | None]:
    """Decode as the HTTP shell does: an empty feed before each read, until the end or the error."""
    events: list[StreamEvent] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
            events += decoder.feed(b"")
        while more := decoder.close():
            events += more
    except ProviderError as error:
        return events, error
    return events, None


A, B = TextChunk("0", "a"), TextChunk("0", "b")


# -- streams ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("text/event-stream", StreamDecoder),
        ("", StreamDecoder),
        ("application/json", DocumentDecoder),
        ("text/html", type(None)),
        ("text/plain", type(None)),
    ],
)
def test_content_type_selects_the_framing(content_type: str, kind: type[object]) -> None:
    assert type(decoder_for(WordReader(), content_type)) is kind


def test_events_in_order_to_the_end() -> None:
    decoder = stream()
    assert (decoder.feed(sse(word("a"))), decoder.is_over) == ([A], False)
    assert (decoder.feed(sse(word("b"), END)), decoder.is_over) == ([B, Finished("stop")], True)
    assert decoder.feed(sse(word("c"))) == []
    assert decoder.close() == []


def test_the_name_of_an_event() -> None:
    decoder = stream()
    assert decoder.feed(b'event: word\ndata: {"word": "a"}\n\ndata: {"word": "b"}\n\n') == [A]
    assert decoder.ignored == {"message": 1}


@pytest.mark.parametrize("rest", [b"", DONE, sse(word("b")), b"data: nonsense\n\n", sse(ERROR)])
def test_events_after_the_end_are_ignored(rest: bytes) -> None:
    assert play(stream(), [sse(word("a"), END) + rest]) == ([A, Finished("stop")], None)
    assert play(stream(), [sse(word("a"), END), rest]) == ([A, Finished("stop")], None)


def test_done_ends_the_stream_if_expected() -> None:
    assert play(stream(ends_by_itself=True), [sse(word("a")) + DONE + sse(word("b"))]) == ([A, Finished("stop")], None)
    events, error = play(stream(), [sse(word("a")) + DONE])
    assert events == [A]
    assert isinstance(error, ConnectionBroken)


def test_end_of_bytes_ends_if_expected() -> None:
    for left_over in (b"", b"data", b"data: {", b": comment"):
        assert play(stream(ends_by_itself=True), [sse(word("a")) + left_over]) == ([A, Finished("stop")], None)
    whole = sse(word("a"), word("b")).rstrip(b"\n")
    assert play(stream(ends_by_itself=True), [whole]) == ([A, B, Finished("stop")], None)


@pytest.mark.parametrize("left_over", [b"", b"data", b"data: {", b": comment\n\n", b"event: end\n\n"])
def test_an_answer_cut_short_is_a_broken_connection(left_over: bytes) -> None:
    decoder = stream()
    events, error = play(decoder, [sse(word("a")) + left_over])
    assert events == [A]
    assert isinstance(error, ConnectionBroken)
    assert str(error) == "Somebody: the stream ended in the middle of the response"
    assert error.retryable
    assert not decoder.is_over


def test_invalid_json_is_no_event() -> None:
    events, error = play(stream(), [sse(word("a")) + b"data: nonsense\n\n" + sse(word("b"), END)])
    assert events == [A]
    assert isinstance(error, ProviderProtocolError)
    assert error.retryable


def test_events_before_an_error_come_first() -> None:
    for failing in (sse(word("a"), ERROR, word("b")), sse({"type": "words", "words": "a", "then": "error"})):
        decoder = stream()
        assert decoder.feed(failing) == [A]
        raised: list[ProviderError] = []
        for _ in range(2):
            with pytest.raises(Overloaded) as caught:
                decoder.feed(sse(word("b")))
            raised.append(caught.value)
        with pytest.raises(Overloaded) as caught:
            decoder.close()
        assert raised == [caught.value, caught.value]


def test_a_failure_alone_is_raised_at_once() -> None:
    decoder = stream()
    for _ in range(2):
        with pytest.raises(Overloaded):
            decoder.feed(sse(ERROR))


def test_final_failure_follows_the_events() -> None:
    decoder = stream()
    assert decoder.feed(sse({"type": "words", "words": "a", "then": "error"}).rstrip(b"\n")) == []
    assert decoder.close() == [A]
    for _ in range(2):
        with pytest.raises(Overloaded):
            decoder.close()


def test_unread_events_are_reported_before_the_end() -> None:
    odd = {"type": "odd"}
    stranger = {"type": "stranger"}
    events, _ = play(stream(), [sse(odd, word("a"), stranger), sse(odd, END)])
    assert events == [A, Unread("odd", 2), Unread("stranger", 1), Finished("stop")]
    events, _ = play(stream(ends_by_itself=True), [sse(odd)])
    assert events == [Unread("odd"), Finished("stop")]
    events, error = play(stream(), [sse(odd, word("a"), ERROR)])
    assert events == [A]
    assert isinstance(error, Overloaded)


# -- documents ------------------------------------------------------------------------------


def test_a_document_in_pieces() -> None:
    data = json.dumps({"events": [word("a"), {"type": "odd"}, word("b")]}).encode()
    decoder = document()
    for place in range(0, len(data), 7):
        assert decoder.feed(data[place : place + 7]) == []
    assert decoder.close() == [A, B, Unread("odd"), Finished("stop")]
    assert decoder.is_over
    assert decoder.close() == []


def test_a_document_s_error_follows_its_events() -> None:
    decoder = document()
    decoder.feed(json.dumps({"events": [word("a"), ERROR, word("b")]}).encode())
    assert decoder.close() == [A]
    for ask in (decoder.close, lambda: decoder.feed(b"")):
        with pytest.raises(Overloaded):
            ask()


@pytest.mark.parametrize("data", [b"", b"{", b'{"type": "unfinished"}', b"[" * 100_000])
def test_a_document_cut_short(data: bytes) -> None:
    events, error = play(document(), [data])
    assert events == []
    assert isinstance(error, ConnectionBroken)
    assert error.retryable


def test_a_document_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_LARGEST_DOCUMENT", 100)
    decoder = document()
    assert decoder.feed(b" " * 60) == []
    for _ in range(2):
        with pytest.raises(ProviderProtocolError):
            decoder.feed(b" " * 60)
    with pytest.raises(ProviderProtocolError):
        decoder.close()


# -- any cut ----------------------------------------------------------------------------------


EVENTS = st.sampled_from(
    [word("a"), word("é"), {"type": "odd"}, {"type": "words", "words": "b c", "then": "error"}, ERROR, END, 7, None]
)
FRAMES = st.lists(
    st.builds(sse, EVENTS) | st.sampled_from([DONE, b": comment\n\n", b"\r\n", b"data: nonsense\n\n", b"event: x\n"]),
    max_size=6,
)


@given(frames=FRAMES, cuts=st.lists(st.floats(0, 1), max_size=8), lost=st.integers(0, 9), by_itself=st.booleans())
def test_any_cut_gives_equal_events_and_failure(
    frames: list[bytes], cuts: list[float], lost: int, by_itself: bool
) -> None:
    data = b"".join(frames)
    data = data[: len(data) - lost]
    edges = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    split = play(stream(ends_by_itself=by_itself), [data[a:b] for a, b in itertools.pairwise(edges)])
    single = play(stream(ends_by_itself=by_itself), [data[i : i + 1] for i in range(len(data))])
    events, error = play(stream(ends_by_itself=by_itself), [data])
    for other_events, other_error in (split, single):
        assert other_events == events
        assert repr(other_error) == repr(error)
    assert (error is None) == (events != [] and isinstance(events[-1], Finished))


# -- a host that never stops ------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [[b"data: ", *[b"x" * 30] * 4], [b"data: x\n" * 4] * 4, [sse(word("a"))] * 9, [b": ping\n\n" * 4] * 4],
    ids=["one line", "many lines", "many events", "comments"],
)
def test_a_stream_has_a_largest_size(pieces: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_LARGEST_STREAM", 100)
    decoder = stream()
    with pytest.raises(ProviderProtocolError, match="the response is too large"):
        for piece in pieces:
            decoder.feed(piece)
            decoder.feed(b"")
    with pytest.raises(ProviderProtocolError):
        decoder.close()


def test_only_a_few_unknown_kinds_are_reported() -> None:
    odd = b"".join(sse({"type": f"odd{number:03}"}) for number in range(100))
    (events, error) = play(stream(), [odd, sse({"type": "x" * 1_000}), sse(END)])
    reported = [event for event in events if isinstance(event, Unread)]
    assert error is None
    assert [event.kind for event in reported] == [*(f"odd{number:03}" for number in range(16)), "others"]
    assert sum(event.count for event in reported) == 101
    (events, error) = play(stream(), [sse({"type": "x" * 1_000}), sse(END)])
    assert [event for event in events if isinstance(event, Unread)] == [Unread(f"{'x' * 64}…", 1)]
