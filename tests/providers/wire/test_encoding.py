"""Incremental encoding: cached bytes, cache markers, broken prefixes."""

from __future__ import annotations

import gc
import itertools
import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConfigError
from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import CacheLifetime, ModelOptions, ModelRequest, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    FinishReason,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
)
from engine.providers.wire import encoding
from engine.providers.wire.encoding import EncodedChunk, Encoder, Piece, TurnWriter, members, tool_pieces
from engine.providers.wire.normalize_transcript import AssistantItem, ResultsItem, TranscriptItem, UserItem
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import Body
from engine.testing.transcript_strategies import asks, transcripts

MODEL = "a/one"
MARKED = Quirks(marks="anthropic")
UNMARKED = Quirks()
TOOLS = tuple(ToolSchema(name=name, description="", schema='{"type":"object"}') for name in ("read", "write"))


@attrs.define(eq=False)
class LineDialect:
    """Writes a line for each part, numbered; a marker is a star. Counts what it is asked to write."""

    written: int = 0
    openings: int = 0

    def opening(self, request: ModelRequest) -> Sequence[Piece]:
        self.openings += 1
        tools = tool_pieces(request.tools, [{"name": tool.name} for tool in request.tools])
        return [Piece("system", request.system.encode() + b"\n"), *tools, Piece("messages", b"\n")]

    def start(self) -> int:
        return 0

    def add(self, state: int, item: TranscriptItem) -> tuple[int, list[EncodedChunk]]:
        self.written += 1
        lines = list(lines_of(item))
        if any("refused" in line for line in lines):
            raise ConfigError("refused")
        return state + len(lines), [
            EncodedChunk(f"{state + n} {line}\n".encode("utf-8", "replace"), "hidden" not in line)
            for n, line in enumerate(lines)
        ]

    def closing(self, state: int, request: ModelRequest) -> bytes:
        return b"%d lines, %d tokens, %b" % (state, request.max_output, request.tool_choice.encode())

    def mark(self, data: bytes, lifetime: CacheLifetime) -> bytes:
        return data[:-1] + f" *{lifetime}\n".encode()


def lines_of(item: TranscriptItem) -> Sequence[str]:
    match item:
        case UserItem():
            return [f"user {getattr(part, 'text', 'media')!r}" for part in item.parts]
        case AssistantItem():
            return [f"model {spoken(part)}" for part in item.parts]
        case ResultsItem():
            return [f"result {each.call.call_id} {each.text!r}" for each in item.answered]


def spoken(part: AssistantPart) -> str:
    match part:
        case TextPart():
            return repr(part.text)
        case ReasoningPart():
            return f"thinks {part.text!r}"
        case CallPart():
            return repr(part.call_id)
        case ProviderPart():
            return part.kind


def text(words: str) -> TextPart:
    return TextPart(id=PartId("t"), text=words)


def user_message(*words: str) -> UserMessage:
    return UserMessage(id=MessageId("u"), parts=tuple(text(each) for each in words))


def model_message(*words: str, calls: Sequence[str] = (), finish: FinishReason = "stop") -> AssistantMessage:
    made = [CallPart(id=PartId("c"), call_id=CallId(each), tool="read", arguments="{}") for each in calls]
    parts: list[AssistantPart] = [*(text(each) for each in words), *made]
    return AssistantMessage(id=MessageId("a"), parts=tuple(parts), model=MODEL, finish=finish)


def results(*calls: str, words: str = "done") -> ResultsMessage:
    settlement = Settlement(status="completed", text=words)
    each = (CallResult(call_id=CallId(call), tool="read", settlement=settlement) for call in calls)
    return ResultsMessage(id=MessageId("r"), results=tuple(each))


def request(transcript: Transcript, **more: Any) -> ModelRequest:
    fields: dict[str, Any] = {"model": MODEL, "system": "be brief", "tools": TOOLS, "session_id": "s", **more}
    return ModelRequest(transcript=transcript, **fields)


def encoder(quirks: Quirks = MARKED) -> tuple[Encoder[int], LineDialect]:
    dialect = LineDialect()
    return Encoder(dialect, quirks), dialect


def lines(body: Body) -> list[str]:
    """Return the lines of the messages, without their numbers."""
    messages = bytes(body).decode().partition("\n\n")[2] or bytes(body).decode().split("\n", 2)[2]
    return [line.partition(" ")[2] for line in messages.split("\n")[:-1]]


def unmarked(body: Body) -> bytes:
    data = bytes(body)
    for lifetime in (b"5m", b"1h"):
        data = data.replace(b" *%b\n" % lifetime, b"\n")
    return data


STEPS: list[Message] = [
    user_message("go"),
    model_message("one", calls=["c1"]),
    results("c1"),
    model_message(calls=["c2", "c3"]),
    results("c2", "c3"),
    model_message("so"),
    user_message("and?", "well?"),
]
# Where the model does not have the last word, so that a request can end there.
ENDS = [1, 3, 5, 7]


# -- the body ------------------------------------------------------------------------


def test_a_body_is_opening_messages_closing() -> None:
    body = encoder()[0].encode(request(Transcript(STEPS[:3]), max_output=7))
    assert bytes(body) == (
        b'be brief\n{"name":"read"},{"name":"write"}\n'
        b"0 user 'go' *5m\n1 model 'one'\n2 model 'c1'\n3 result c1 'done' *5m\n"
        b"4 lines, 7 tokens, auto"
    )
    assert len(body) == len(bytes(body))
    assert body.broken_at == ""


def test_last_cache_marker_moves() -> None:
    whole = Transcript(STEPS)
    one, _ = encoder()
    starred = [[line for line in lines(one.encode(request(Transcript(whole[:end])))) if "*" in line] for end in ENDS]
    assert starred == [
        ["user 'go' *5m"],
        ["user 'go' *5m", "result c1 'done' *5m"],
        ["result c1 'done' *5m", "result c3 'done' *5m"],
        ["result c3 'done' *5m", "user 'well?' *5m"],
    ]


def test_no_marker_where_none_may_stand() -> None:
    one, _ = encoder()
    body = one.encode(request(Transcript([user_message("a", "hidden"), model_message("b"), user_message("hidden")])))
    assert lines(body) == ["user 'a' *5m", "user 'hidden'", "model 'b' *5m", "user 'hidden'"]


@pytest.mark.parametrize("quirks", [MARKED, UNMARKED])
def test_no_marker_with_the_cache_off(quirks: Quirks) -> None:
    lifetime: CacheLifetime = "off" if quirks.marks else "5m"
    body = encoder(quirks)[0].encode(request(Transcript(STEPS), options=ModelOptions(cache=lifetime)))
    assert b"*" not in bytes(body)


def test_a_marker_has_the_requested_lifetime() -> None:
    body = encoder()[0].encode(request(Transcript(STEPS[:1]), options=ModelOptions(cache="1h")))
    assert lines(body) == ["user 'go' *1h"]


def test_pending_encodings_are_written_and_dropped() -> None:
    one, _ = encoder()
    start = Transcript(STEPS[:2])
    assert lines(one.encode(request(start)))[-1] == "result c1 '(no result was recorded)' *5m"
    assert lines(one.encode(request(start.append(STEPS[2]))))[-1] == "result c1 'done' *5m"


def test_a_paused_answer_is_sent_and_goes_on() -> None:
    one, _ = encoder()
    paused = Transcript([user_message("go"), model_message("let me", finish="pause")])
    assert lines(one.encode(request(paused))) == ["user 'go' *5m", "model 'let me' *5m"]
    after = paused.append(model_message("see"), user_message("x"))
    assert lines(one.encode(request(after))) == ["user 'go' *5m", "model 'let me'", "model 'see'", "user 'x' *5m"]


# -- what is kept ------------------------------------------------------------------------


def test_a_step_writes_what_it_adds() -> None:
    one, dialect = encoder()
    transcript = Transcript(STEPS[:1])
    one.encode(request(transcript))
    for exchange in range(50):
        key = f"c{exchange}"
        transcript = transcript.append(model_message(calls=[key]), results(key))
        before = dialect.written
        one.encode(request(transcript))
        assert dialect.written == before + 2
    assert dialect.openings == 1


def long_session(steps: int, size: int = 5_000) -> list[Transcript]:
    """Return the transcripts of a session's requests, some megabytes at the end."""
    transcripts_ = [Transcript([user_message("go")])]
    for step in range(steps):
        key = f"c{step}"
        transcripts_.append(
            transcripts_[-1].append(model_message("x" * 10, calls=[key]), results(key, words="y" * size))
        )
    return transcripts_


@pytest.mark.parametrize("quirks", [MARKED, UNMARKED])
def test_old_bytes_stay_the_same_objects(quirks: Quirks) -> None:
    one, _ = encoder(quirks)
    bodies = [one.encode(request(transcript)) for transcript in long_session(200)]
    assert [body.broken_at for body in bodies] == [""] * len(bodies)
    for earlier, later in itertools.pairwise(bodies):
        kept = earlier.pieces[:-1]
        assert all(a is b for a, b in zip(kept, later.pieces, strict=False))
        assert len(later.pieces[-1]) < 100_000
    assert len(bodies[-1].pieces) > 10


@pytest.mark.parametrize("quirks", [MARKED, UNMARKED])
def test_cached_bytes_equal_a_fresh_encoding(quirks: Quirks) -> None:
    one, _ = encoder(quirks)
    for transcript in long_session(60):
        assert bytes(one.encode(request(transcript))) == bytes(encoder(quirks)[0].encode(request(transcript)))


def test_branches_and_shorter_transcripts_are_encoded_afresh() -> None:
    one, _ = encoder()
    base = Transcript(STEPS[:3])
    longer = base.append(*STEPS[3:5])
    branch = base.append(model_message("otherwise"), user_message("what?"))
    for each in (base, longer, branch, base, longer, Transcript(STEPS[:1]), branch):
        assert bytes(one.encode(request(each))) == bytes(encoder()[0].encode(request(each)))


def test_sessions_side_by_side_do_not_mix() -> None:
    one, dialect = encoder()
    here, there = Transcript([user_message("here")]), Transcript([user_message("there")])
    for step in range(5):
        for name, transcript in (("here", here), ("there", there)):
            body = one.encode(request(transcript, session_id=name))
            assert body.broken_at == ""
            assert f"'{name}'" in lines(body)[0]
        here = here.append(model_message(f"a{step}"), user_message("x"))
        there = there.append(model_message(f"b{step}"), user_message("y"))
    assert dialect.openings == 2


def test_another_model_s_history_is_encoded_afresh() -> None:
    one, _ = encoder()
    thought = ReasoningPart(id=PartId("r"), text="hm", signature="sig", model=MODEL)
    transcript = Transcript(
        [user_message("a"), AssistantMessage(id=MessageId("a"), parts=(thought,), model=MODEL), user_message("b")]
    )
    bodies = [bytes(one.encode(request(transcript, model=model))) for model in (MODEL, "b/two", MODEL)]
    assert bodies[0] == bodies[2]
    assert bodies[1] == bytes(encoder()[0].encode(request(transcript, model="b/two")))


def test_failed_encoding_leaves_nothing() -> None:
    """Were the messages before the failure kept as written, the next request would lack them."""
    one, _ = encoder()
    transcript = Transcript([model_message("first"), user_message("second")])
    for _ in range(2):
        with pytest.raises(ConfigError, match="begins with an assistant message"):
            one.encode(request(transcript))
    good = Transcript([user_message("a"), model_message("b"), user_message("c")])
    body = bytes(one.encode(request(good)))
    bad = good.append(model_message("d"), user_message("refused"), user_message("e"))
    for _ in range(2):
        with pytest.raises(ConfigError, match="refused"):
            one.encode(request(bad))
        assert bytes(one.encode(request(good))) == body


def test_bytes_go_with_their_transcript() -> None:
    one, _ = encoder()
    transcript = Transcript(STEPS)
    one.encode(request(transcript))
    assert len(one._histories) == 1
    del transcript
    gc.collect()
    assert len(one._histories) == 0


def test_the_sessions_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_MAX_CACHED_BYTES", 600_000)
    one, dialect = encoder(UNMARKED)
    sessions = [long_session(40)[-1] for _ in range(5)]
    for transcript in sessions:
        one.encode(request(transcript))
    assert len(one._histories) == 2
    before = dialect.written
    one.encode(request(sessions[-1]))
    assert dialect.written == before
    one.encode(request(sessions[0]))
    assert dialect.written > before


def test_session_may_exceed_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_MAX_CACHED_BYTES", 100_000)
    one, dialect = encoder(UNMARKED)
    steps = long_session(100)
    for transcript in steps:
        one.encode(request(transcript))
    assert dialect.written == 2 * 100 + 1


def test_few_openings_are_kept() -> None:
    one, dialect = encoder()
    for number in range(encoding._MAX_OPENINGS + 10):
        one.encode(request(Transcript(STEPS), session_id=f"s{number}"))
    assert len(one._openings) == encoding._MAX_OPENINGS
    assert dialect.openings == encoding._MAX_OPENINGS + 10


def test_remembered_sessions_keep_no_openings() -> None:
    """An opening has tens of kilobytes of tools, and four thousand sessions are remembered."""
    one, _ = encoder()
    system = "long " * 10_000
    gc.collect()
    tracemalloc.start()
    for number in range(300):
        one.encode(request(Transcript(STEPS), session_id=f"s{number}", system=system))
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 64 are kept, to be sent again.
    assert kept < 100 * 2 * len(system)


# -- what broke the prefix ------------------------------------------------------------------


def broken(first: ModelRequest, second: ModelRequest) -> str:
    one, _ = encoder()
    assert one.encode(first).broken_at == ""
    return one.encode(second).broken_at


BASE = Transcript(STEPS[:3])
LONGER = BASE.append(*STEPS[3:5])
READ, WRITE = TOOLS


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({}, ""),
        ({"max_output": 1}, ""),
        ({"tool_choice": "none"}, ""),
        ({"options": ModelOptions(temperature=0.5)}, ""),
        ({"transcript": BASE}, ""),
        ({"system": "be long"}, "system"),
        ({"system": "be long", "tools": (WRITE,)}, "system"),
        ({"tools": (READ, attrs.evolve(WRITE, name="edit"))}, "tool edit"),
        ({"tools": (WRITE, READ)}, "tool read"),
        ({"tools": (READ,)}, "tool write"),
        ({"tools": (READ, WRITE, attrs.evolve(READ, name="x"))}, "tool x"),
        ({"reasoning_from": 2}, "history"),
        ({"transcript": Transcript([user_message("a summary"), *STEPS[3:5]])}, "history"),
        ({"session_id": "another", "system": "be long"}, ""),
    ],
)
def test_broken_prefix_is_named(changes: dict[str, Any], at: str) -> None:
    after = {"transcript": LONGER, **changes}
    assert broken(request(BASE), request(after.pop("transcript"), **after)) == at


def test_the_break_is_reported_once() -> None:
    one, _ = encoder()
    reported = [
        one.encode(request(transcript, system=system)).broken_at
        for transcript, system in [(BASE, "a"), (BASE, "b"), (LONGER, "b"), (BASE, "b"), (BASE, "a"), (BASE, "a")]
    ]
    assert reported == ["", "system", "", "", "system", ""]


def test_request_without_session_is_harmless() -> None:
    one, _ = encoder()
    for system in ("a", "b"):
        assert one.encode(request(BASE, session_id="", system=system)).broken_at == ""


def test_the_sessions_seen_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_MAX_SESSIONS", 2)
    one, _ = encoder()
    for name in ("x", "y", "x", "z"):
        one.encode(request(BASE, session_id=name))
    reported = {name: one.encode(request(BASE, session_id=name, system="b")).broken_at for name in ("x", "z", "y")}
    assert reported == {"x": "system", "z": "system", "y": ""}


# -- turns -----------------------------------------------------------------------------------


def test_turns_are_closed_by_what_follows() -> None:
    turns = TurnWriter()
    state: str | None = None
    data = b""
    for role, texts in [
        ("user", ["a", "b"]),
        ("user", ["c"]),
        ("assistant", []),
        ("assistant", ["d"]),
        ("user", ["é"]),
    ]:
        state, chunks = turns.write(state, role, [({"text": each}, each != "b") for each in texts])
        assert [chunk.can_be_marked for chunk in chunks] == [each != "b" for each in texts]
        data += b"".join(chunk.data for chunk in chunks)
    assert json.loads(b"[" + data + turns.close(state) + b"]") == [
        {"role": "user", "content": [{"text": "a"}, {"text": "b"}, {"text": "c"}]},
        {"role": "assistant", "content": [{"text": "d"}]},
        {"role": "user", "content": [{"text": "é"}]},
    ]
    assert turns.close(None) == b""


def test_blocks_have_their_wire_names() -> None:
    state, (chunk,) = TurnWriter("parts").write(None, "model", [({"text": "a"}, True)])
    assert json.loads(chunk.data + TurnWriter("parts").close(state)) == {"role": "model", "parts": [{"text": "a"}]}


def test_members_of_an_object() -> None:
    assert members({"a": 1, "b": [2]}) == b'"a":1,"b":[2]'
    assert members({}) == b""


# -- any session ---------------------------------------------------------------------------------


MODELS = (MODEL, "b/two")


@given(transcripts(models=MODELS), st.sampled_from([MARKED, UNMARKED]), st.sampled_from([1, 50, 100_000]))
def test_each_request_extends_the_one_before(messages: tuple[Message, ...], quirks: Quirks, block: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(encoding, "_BLOCK_BYTES", block)
        one, _ = encoder(quirks)
        before = b""
        transcript = Transcript()
        for message in messages:
            transcript = transcript.append(message)
            if not asks(message):
                continue
            body = one.encode(request(transcript))
            assert bytes(body) == bytes(encoder(quirks)[0].encode(request(transcript)))
            assert body.broken_at == ""
            assert unmarked(body).startswith(before)
            assert bytes(body).count(b" *5m\n") <= (2 if quirks.marks else 0)
            before = unmarked(body).rpartition(b"\n")[0]


@given(st.lists(st.tuples(transcripts(models=MODELS), st.integers(0, 3)), max_size=4))
def test_cached_encoding_equals_a_fresh_one(
    requested: list[tuple[tuple[Message, ...], int]],
) -> None:
    one, _ = encoder()
    kept = [Transcript(messages) for messages, _ in requested]
    for (messages, number), transcript in zip(requested, kept, strict=True):
        for each in (transcript, kept[number % len(kept)], Transcript(messages).append(user_message("more"))):
            for reasoning_from in (0, number):
                made = one.encode(request(each, reasoning_from=reasoning_from))
                fresh = encoder()[0].encode(request(each, reasoning_from=reasoning_from))
                assert bytes(made) == bytes(fresh)
