"""T2 in the real loop: what streams in, in whatever order and however badly, becomes parts, calls and text."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import ConnectionBroken, Overloaded, StreamTimeout
from engine.core.events import (
    CallQueued,
    CallSettled,
    Notice,
    PartDiscarded,
    PartEnded,
    PartReplaced,
    PartStarted,
    ReasoningDelta,
    RetryScheduled,
    StepStarted,
    TextDelta,
)
from engine.core.llm_types import (
    Finished,
    ModelInfo,
    ModelRequest,
    Ping,
    ProviderItem,
    ReasoningChunk,
    ReasoningDone,
    ReasoningStarted,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
)
from engine.core.messages import AssistantMessage, CallPart, ProviderPart, ReasoningPart, ResultsMessage, TextPart
from engine.core.settings import RetryPolicy, Settings, Timeouts
from engine.session.engine_options import Ports
from engine.testing.fakes import TrioClock
from engine.testing.invariants import check_transcript
from engine.testing.script import Answer, Break, Fail, Pause, ScriptItem, call, done, reasoning, text
from tests.support.bench import Bench
from tests.support.world import Played, World, about, world

NO_RETRY = RetryPolicy(attempts=0)


def answer_of(w: World) -> AssistantMessage:
    """The newest assistant message of the transcript."""
    found = [m for m in w.session.state.transcript if isinstance(m, AssistantMessage)]
    return found[-1]


def slips(played: Played) -> list[str]:
    return [n.text for n in played.all(Notice) if n.code == "protocol_slips"]


# -- interleaving ------------------------------------------------------------------------

INTERLEAVED: Answer = [
    TextStarted("a"),
    ReasoningStarted("a"),
    TextStarted("b"),
    TextChunk("a", "one "),
    ToolCallStarted("a", "read"),
    TextChunk("b", "uno "),
    ReasoningChunk("a", "hm "),
    ToolCallStarted("b", "read"),
    ToolCallChunk("b", '{"name": '),
    ToolCallChunk("a", '{"name": "x"'),
    TextChunk("a", "two"),
    ToolCallChunk("b", '"y"}'),
    ToolCallDone("b"),
    ReasoningChunk("a", "ah"),
    TextChunk("b", "dos"),
    ProviderItem("p", "citation", "{}"),
    TextDone("a"),
    ToolCallChunk("a", "}"),
    ToolCallDone("a"),
    ReasoningDone("a", "signed"),
    TextDone("b"),
    Finished("calls"),
]


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8, 100])
async def test_t2_interleaved_blocks_stay_apart(autojump_clock: MockClock, batch: int) -> None:
    bench = Bench()
    async with world(INTERLEAVED, [*text("Done."), *done()], tools=bench.tools(), batch=batch) as w:
        played = await w.play()
    first = next(m for m in w.session.state.transcript if isinstance(m, AssistantMessage))
    assert [type(p) for p in first.parts] == [TextPart, ReasoningPart, TextPart, CallPart, CallPart, ProviderPart]
    assert [p.text for p in first.parts if isinstance(p, TextPart)] == ["one two", "uno dos"]
    assert [(p.text, p.signature) for p in first.parts if isinstance(p, ReasoningPart)] == [("hm ah", "signed")]
    assert [(p.arguments, p.provider_id) for p in first.calls] == [('{"name": "x"}', "a"), ('{"name": "y"}', "b")]
    assert [s.text for s in played.settlements] == ["did x", "did y"]
    assert slips(played) == []


async def test_t2_deltas_concatenate_to_final_text(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(INTERLEAVED, [*text("Done.", pieces=3), *done()], tools=bench.tools()) as w:
        played = await w.play()
    texts: dict[str, str] = {}
    for event in played.events:
        if isinstance(event, TextDelta | ReasoningDelta):
            texts[event.part_id] = texts.get(event.part_id, "") + event.text
    ended = {e.part.id: e.part.text for e in played.all(PartEnded) if isinstance(e.part, TextPart | ReasoningPart)}
    assert texts == ended
    assert sorted(ended.values()) == ["Done.", "hm ah", "one two", "uno dos"]


# -- slips of a provider -------------------------------------------------------------------


async def test_t2_early_delta_opens_its_block(autojump_clock: MockClock) -> None:
    async with world([TextChunk("t", "Good "), TextStarted("t"), TextChunk("t", "day."), TextDone("t"), *done()]) as w:
        played = await w.play()
    assert played.result.text == "Good day."
    assert len(played.all(PartStarted)) == 1
    (told,) = slips(played)
    assert "delta_before_start ×1" in told


async def test_t2_call_without_a_start_runs(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [ToolCallDone("1", '{"name": "a"}', "read"), *done("calls")]
    async with world(first, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert bench.log == ["+a", "-a"]
    assert (played.statuses, slips(played)) == (["completed"], [])


async def test_t2_early_arguments_are_not_lost(autojump_clock: MockClock) -> None:
    bench = Bench()
    first: list[ScriptItem] = [
        ToolCallChunk("1", '{"name":'),
        ToolCallStarted("1", "read"),
        ToolCallChunk("1", '"a"}'),
        ToolCallDone("1"),
    ]
    async with world([*first, *done("calls")], [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert bench.log == ["+a", "-a"]
    assert played.one(CallQueued).arguments == '{"name":"a"}'
    assert len(slips(played)) == 1


@pytest.mark.parametrize(
    "again",
    [
        [ToolCallStarted("1", "read")],
        [ToolCallDone("1")],
        [ToolCallChunk("1", "}")],
        [ToolCallChunk("1", "}"), ToolCallDone("1")],
        [ToolCallDone("1", '{"name": "a"}')],
        [TextDone("never opened")],
        [ReasoningDone("never opened")],
    ],
    ids=["start-in-the-middle", "done", "chunk", "chunk-and-done", "done-with-arguments", "text-end", "thought-end"],
)
async def test_t2_duplicates_are_ignored_and_reported(autojump_clock: MockClock, again: list[ScriptItem]) -> None:
    """A repeated end or a late delta of a call makes no second call, which would be one without a name."""
    bench = Bench()
    if again == [ToolCallStarted("1", "read")]:
        whole = list(call("read", {"name": "a"}, id="1", pieces=2))
        first = [*whole[:2], *again, *whole[2:], *done("calls")]
    else:
        first = [*call("read", {"name": "a"}, id="1", pieces=2), *again, *done("calls")]
    async with world(first, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert bench.log == ["+a", "-a"]
    assert played.statuses == ["completed"]
    assert len(slips(played)) == 1
    assert [p.tool for p in answer_of_first(w).calls] == ["read"]


def answer_of_first(w: World) -> AssistantMessage:
    return next(m for m in w.session.state.transcript if isinstance(m, AssistantMessage))


async def test_t2_changed_tool_name_keeps_the_step(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [ToolCallStarted("1", "read"), ToolCallDone("1", '{"name": "a"}', "write"), *done("calls")]
    async with world(first, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert played.one(CallQueued).tool == "read"
    assert "tool_name_changed" in slips(played)[0]
    assert played.stop_reason == "completed"


async def test_t2_differing_final_arguments_replace_streamed_ones(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [
        ToolCallStarted("1", "read"),
        ToolCallChunk("1", '{"name": "wrong"}'),
        ToolCallDone("1", '{"name": "right"}'),
        *done("calls"),
    ]
    async with world(first, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert bench.log == ["+right", "-right"]
    assert len(played.all(PartReplaced)) == 1
    assert answer_of_first(w).calls[0].arguments == '{"name": "right"}'


async def test_t2_open_blocks_are_closed_with_the_stream(autojump_clock: MockClock) -> None:
    async with world([TextStarted("t"), TextChunk("t", "No end"), *done()]) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text) == ("completed", "No end")


async def test_t2_late_result_changes_nothing(autojump_clock: MockClock) -> None:
    """A call is settled once: see also the ledger's own tests; here nothing of the record is doubled."""
    bench = Bench()
    first = [*call("read", {"name": "a"}, id="1"), *done("calls")]
    async with world(first, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert len(played.all(CallSettled)) == 1
    results = [m for m in w.session.state.transcript if isinstance(m, ResultsMessage)]
    assert [len(m.results) for m in results] == [1]


# -- the watchdog ------------------------------------------------------------------------------


async def test_watchdog_silence_is_a_retryable_timeout(
    autojump_clock: MockClock,
) -> None:
    settings = Settings(timeouts=Timeouts(idle=10))
    silent = [TextStarted("t"), TextChunk("t", "Half"), Pause(11), TextChunk("t", " done"), *done()]
    async with world(silent, [*text("Whole."), *done()], settings=settings) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text, played.reasons) == ("completed", "Whole.", ["provider_retry"])
    assert played.one(RetryScheduled).message == str(StreamTimeout("idle", 10))
    discarded = played.all(PartDiscarded)
    assert len(discarded) == 1, "the half part is taken back"
    assert [p.text for p in answer_of(w).parts if isinstance(p, TextPart)] == ["Whole."]


async def test_watchdog_without_retries_keeps_the_text(
    autojump_clock: MockClock,
) -> None:
    settings = Settings(timeouts=Timeouts(idle=10), retry=NO_RETRY)
    silent = [TextStarted("t"), TextChunk("t", "Half"), Pause(100), *done()]
    async with world(silent, settings=settings) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == ("provider_error", str(StreamTimeout("idle", 10)))
        assert played.result.text == "Half"
        assert autojump_clock.current_time() == about(10)
        await w.goes_on()


async def test_watchdog_is_renewed_by_pings(autojump_clock: MockClock) -> None:
    settings = Settings(timeouts=Timeouts(idle=10))
    slow = [TextStarted("t"), *[item for _ in range(12) for item in (Pause(9), Ping())], TextChunk("t", "At last.")]
    async with world([*slow, TextDone("t"), *done()], settings=settings) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text, played.reasons) == ("completed", "At last.", [])
    assert autojump_clock.current_time() == about(12 * 9)


async def test_watchdog_is_renewed_by_deltas(autojump_clock: MockClock) -> None:
    settings = Settings(timeouts=Timeouts(idle=10))
    slow = [item for piece in "slowly" for item in (Pause(9.5), TextChunk("t", piece))]
    async with world([TextStarted("t"), *slow, TextDone("t"), *done()], settings=settings) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text) == ("completed", "slowly")


async def test_watchdog_missing_headers_are_a_timeout(autojump_clock: MockClock) -> None:
    settings = Settings(timeouts=Timeouts(headers=5, idle=100), retry=NO_RETRY)
    async with world([Pause(6), *text("Late."), *done()], settings=settings) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == ("provider_error", str(StreamTimeout("headers", 5)))
        assert autojump_clock.current_time() == about(5)
        await w.goes_on()


async def test_watchdog_silence_is_bounded_over_all_attempts(autojump_clock: MockClock) -> None:
    settings = Settings(timeouts=Timeouts(headers=120), retry=RetryPolicy(silence=300))
    async with world(*[[Pause(3_600), *done()]] * 9, settings=settings) as w:
        played = await w.play()
        assert played.stop_reason == "provider_error"
        # Two attempts of two minutes, and one that gets what is left.
        assert len(played.all(StepStarted)) == 3
        assert autojump_clock.current_time() == about(300)
        await w.goes_on()


async def test_watchdog_answers_renew_the_patience(autojump_clock: MockClock) -> None:
    settings = Settings(timeouts=Timeouts(headers=120), retry=RetryPolicy(silence=150))
    silent = [Pause(3_600), *done()]
    steps: list[Answer] = [
        silent,
        [*call("read", {"name": "a"}, id="c1"), *done("calls")],
        silent,
        [*text("Done."), *done()],
    ]
    async with world(*steps, settings=settings) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text) == ("completed", "Done.")


async def test_watchdog_headers_in_time_are_no_timeout(autojump_clock: MockClock) -> None:
    settings = Settings(timeouts=Timeouts(headers=5, idle=100), retry=NO_RETRY)
    async with world([Pause(4.9), *text("In time."), *done()], settings=settings) as w:
        played = await w.play()
    assert played.stop_reason == "completed"


async def test_watchdog_batch_at_the_deadline_counts(autojump_clock: MockClock) -> None:
    class Late:
        """Its second batch arrives when the deadline has passed already; the third one comes in time again."""

        def __init__(self) -> None:
            self.batches: list[list[StreamEvent]] = [
                [TextStarted("t"), TextChunk("t", "One, ")],
                [TextChunk("t", "two, ")],
                [TextChunk("t", "three."), TextDone("t"), Finished("stop")],
            ]

        async def receive(self) -> list[StreamEvent]:
            with trio.CancelScope(shield=len(self.batches) == 2):
                await trio.sleep(11 if len(self.batches) == 2 else 9)
            return self.batches.pop(0) if self.batches else []

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    class Punctual:
        info = ModelInfo(name="odd/punctual")

        async def open(self, request: ModelRequest) -> Late:
            await trio.lowlevel.checkpoint()
            return Late()

    settings = Settings(timeouts=Timeouts(idle=10), retry=NO_RETRY)
    async with engine.open_engine(model=Punctual(), settings=settings, ports=Ports(clock=TrioClock())) as eng:
        result = await (await eng.create_session()).run("go")
    assert (result.stop_reason, result.text) == ("completed", "One, two, three.")


async def test_watchdog_total_deadline_ends_a_busy_stream(autojump_clock: MockClock) -> None:
    settings = Settings(timeouts=Timeouts(idle=10, total=60), retry=NO_RETRY)
    endless = [TextStarted("t"), *[item for _ in range(100) for item in (Pause(1), TextChunk("t", "."))]]
    async with world(endless, settings=settings) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == ("provider_error", str(StreamTimeout("total", 60)))
        assert autojump_clock.current_time() == about(60)
        assert set(played.result.text) == {"."}
        await w.goes_on()


async def test_watchdog_the_total_deadline_counts_the_headers_too(autojump_clock: MockClock) -> None:
    settings = Settings(timeouts=Timeouts(headers=50, idle=50, total=60), retry=NO_RETRY)
    async with world([Pause(40), TextStarted("t"), Pause(40), TextChunk("t", "."), *done()], settings=settings) as w:
        played = await w.play()
    assert played.result.detail == str(StreamTimeout("total", 60))
    assert autojump_clock.current_time() == about(60)


async def test_watchdog_leaves_tools_alone_without_resending(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    settings = Settings(timeouts=Timeouts(idle=10))
    first = [*call("read", {"name": "slow", "seconds": 100}, id="1"), *text("and th"), Pause(1000), *done("calls")]
    async with world(first, [*text("Done."), *done()], tools=bench.tools(), settings=settings) as w:
        played = await w.play()
    assert bench.spans == {"slow": (0, about(100))}
    assert played.reasons == ["resume_after_break"]
    assert played.statuses == ["completed"]
    assert len(w.requests) == 2


# -- broken streams -------------------------------------------------------------------------------


async def test_t4_early_break_is_retried_and_discards_text(
    autojump_clock: MockClock,
) -> None:
    broken = [*reasoning("Hm."), TextStarted("t"), TextChunk("t", "Good "), Break()]
    async with world(broken, [*text("Good day."), *done()]) as w:
        played = await w.play()
    assert (played.result.text, played.reasons) == ("Good day.", ["provider_retry"])
    assert [(s.step, s.attempt) for s in played.all(StepStarted)] == [(1, 1), (1, 2)]
    order = played.order(PartDiscarded, StepStarted)
    assert order == ["StepStarted", "PartDiscarded", "PartDiscarded", "StepStarted"]
    assert [d.reason for d in played.all(PartDiscarded)] == ["provider_retry", "provider_retry"]
    assert w.requests[0].transcript == w.requests[1].transcript
    assert played.result.steps == 1


async def test_t4_break_in_arguments_never_runs_call(autojump_clock: MockClock) -> None:
    bench = Bench()
    broken = [*text("I read."), ToolCallStarted("1", "read"), ToolCallChunk("1", '{"name": "a"'), Break()]
    async with world(broken, [*text("Hello."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert bench.log == []
    assert played.statuses == ["not_executed"]
    assert played.reasons == ["provider_retry"]


@pytest.mark.parametrize("failure", [Break(), Fail(Overloaded("busy", retryable=True)), Fail(ConnectionBroken("cut"))])
async def test_t4_late_break_resumes_without_second_run(autojump_clock: MockClock, failure: ScriptItem) -> None:
    bench = Bench()
    broken = [*text("I write."), *call("write", {"name": "a"}, id="1"), Pause(1), TextStarted("u"), failure]
    async with world(broken, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert bench.log == ["+a", "-a"]
    assert played.reasons == ["resume_after_break"]
    results = w.requests[1].transcript[-1]
    assert isinstance(results, ResultsMessage)
    assert [r.settlement.text for r in results.results] == ["did a"]
    assert (played.stop_reason, played.result.text) == ("completed", "Done.")


async def test_c1_broken_stream_lets_started_calls_finish(
    autojump_clock: MockClock,
) -> None:
    """Call 1 finished, call 2 is running, call 3 is half received when the stream dies: none is missing."""
    bench = Bench()
    broken = [
        *call("read", {"name": "one"}, id="1"),
        *call("read", {"name": "two", "seconds": 5}, id="2"),
        Pause(1),
        ToolCallStarted("3", "read"),
        ToolCallChunk("3", '{"name": "thr'),
        Break(),
    ]
    async with world(broken, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert played.statuses == ["completed", "completed", "not_executed"]
    assert bench.log == ["+one", "-one", "+two", "-two"]
    assert played.reasons == ["resume_after_break"]


async def test_t4_queued_call_runs_after_a_break(autojump_clock: MockClock) -> None:
    bench = Bench()
    broken = [
        *call("write", {"name": "one", "seconds": 5}, id="1"),
        *call("write", {"name": "two"}, id="2"),
        Break(),
    ]
    async with world(broken, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert played.statuses == ["completed", "completed"]
    assert bench.log == ["+one", "-one", "+two", "-two"]


async def test_t4_endless_breaks_end_with_original_error(autojump_clock: MockClock) -> None:
    bench = Bench()

    def breaking(request: object) -> Answer:
        return [*call("read", {"name": f"n{len(w.requests)}"}, id="1"), Pause(1), Break("cut again")]

    async with world(breaking, tools=bench.tools(), repeat=True) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == ("provider_error", "cut again")
        assert set(played.reasons) == {"resume_after_break"}
        assert len(bench.log) == 2 * len(w.requests)
        await w.goes_on()


async def test_t23_retries_are_counted_spaced_and_bounded(autojump_clock: MockClock) -> None:
    async with world([Fail(Overloaded("busy", retryable=True))], repeat=True) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == ("provider_error", "busy")
        assert len(w.requests) == 6
        assert played.reasons == ["provider_retry"] * 5
        assert autojump_clock.current_time() == about(2 + 4 + 8 + 16 + 32)
        await w.goes_on()


async def test_t23_what_is_not_retryable_is_not_retried(autojump_clock: MockClock) -> None:
    async with world([Fail(ConnectionBroken("file has 500 lines"))], repeat=True) as w:
        played = await w.play()
    assert (played.stop_reason, played.reasons, len(w.requests)) == ("provider_error", [], 1)


async def test_t2_second_finish_is_reported_and_kept(autojump_clock: MockClock) -> None:
    async with world([*text("One."), *done(), *text(" Two.", id="u"), *done("refusal")]) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text) == ("completed", "One. Two.")
    (told,) = slips(played)
    assert "second_finish ×1" in told
    assert "block_after_finish ×1" in told


class Unstoppable:
    """A stream that shields itself: it gives its second half, a whole call, ten seconds late."""

    def __init__(self) -> None:
        self.halves: list[list[StreamEvent]] = [
            [TextStarted("t"), TextChunk("t", "Half"), ToolCallStarted("1", "read"), ToolCallChunk("1", '{"name": ')],
            [ToolCallChunk("1", '"late"}'), ToolCallDone("1"), TextChunk("t", " and late")],
        ]

    async def receive(self) -> list[StreamEvent]:
        with trio.CancelScope(shield=True):
            await trio.sleep(10 if len(self.halves) == 1 else 0)
        return self.halves.pop(0) if self.halves else []

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_uncancellable_model_delays_no_end(
    autojump_clock: MockClock,
) -> None:
    class Stubborn:
        info = ModelInfo(name="odd/stubborn")

        async def open(self, request: ModelRequest) -> Unstoppable:
            await trio.lowlevel.checkpoint()
            return Unstoppable()

    bench = Bench()
    async with engine.open_engine(model=Stubborn(), tools=bench.tools(), ports=Ports(clock=TrioClock())) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(1.25)
            assert (result.stop_reason, result.during, result.text) == ("aborted", "streaming", "Half")
            before = session.events()
        assert trio.current_time() == about(10)
        assert session.events() == before
        assert bench.log == []
        told = [e.text for e in before if isinstance(e, Notice) and e.code == "overstaying"]
        assert told == ["a task of the turn would not stop and is still running"]
        assert check_transcript(session.state.transcript) == []
