"""The embedding interface: sessions, turns and what a watcher sees (C13, O1, O3, O5, O6), structured answers."""

from __future__ import annotations

import random
from typing import Annotated

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError, ContextOverflow, JournalCorrupt
from engine.core.events import (
    ArgumentsDelta,
    CallHeartbeat,
    CallProgress,
    Durable,
    EventBase,
    Live,
    LoopContinued,
    PartStarted,
    ReasoningDelta,
    SessionCreated,
    StepStarted,
    TextDelta,
    TurnEnded,
)
from engine.core.llm_types import ModelInfo, ModelRequest, TextChunk, TextDone, TextStarted
from engine.core.messages import Message, Usage, UserMessage
from engine.core.protocols import ContextView
from engine.core.settings import Limits, Settings
from engine.journal.codec import encode_event
from engine.journal.cursors import Cursor
from engine.journal.fold import apply, fold
from engine.journal.position import Position, decode_position, encode_position
from engine.journal.state import Busy, Idle, Resync, SessionState
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions, Ports
from engine.session.turn import Turn
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.fakes import ScriptedKeeper, SlowStore, TrioClock
from engine.testing.script import Answer, Break, Fail, Pause, call, done, reasoning, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.bench import Bench, Nothing
from tests.support.world import Seen, about, said, world

DONE: Answer = [*text("Done."), *done()]
Delta = TextDelta | ReasoningDelta | ArgumentsDelta


def working(name: str = "a", seconds: float = 1.0, tool: str = "read") -> Answer:
    return [*text("Let me see."), *call(tool, {"name": name, "seconds": seconds}, id="1", pieces=3), *done("calls")]


# A bit of everything: thoughts, interleaved calls, a break that is taken back, one that is resumed, a cut answer.
RICH: list[Answer] = [
    [*reasoning("Hm, let me think.", pieces=3), *text("First I look.", pieces=4), *working()[3:]],
    [TextStarted("t"), TextChunk("t", "This will be ta"), TextChunk("t", "ken back"), Break()],
    [
        *call("read", {"name": "b", "seconds": 0.5}, id="1", pieces=2),
        *call("write", {"name": "c", "seconds": 0.3}, id="2", pieces=2),
        *text("meanwhile", pieces=3),
        Pause(1),
        Break(),
    ],
    [*text("An answer that is cu", pieces=2), *done("length")],
    [*text("An answer that is whole.", pieces=5), *done(usage=Usage(input=10, output=5))],
]


# -- the interface ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("home_with_project")
async def test_the_program_of_the_design_runs(autojump_clock: MockClock) -> None:
    """Section 3 of the design, word for word but for the model."""
    bench = Bench()
    model = ScriptedProvider([working(tool="write"), DONE])
    async with engine.open_engine(model=model, tools=bench.tools()) as eng:
        session = await eng.create_session(cwd="~/project")
        async with session.prompt("make the tests pass") as turn:
            async for event in turn:
                if isinstance(event, engine.PermissionAsked):
                    await turn.reply(event.request_id, engine.Once())
        assert (turn.result.stop_reason, turn.result.text) == ("completed", "Done.")
        assert (turn.result.usage, turn.result.cost) == (Usage(), 0.0)
    assert bench.log == ["+a", "-a"]


async def test_run_is_the_same_without_events(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), DONE, tools=bench.tools()) as w:
        result = await w.session.run("go")
        assert (result.stop_reason, result.text, result.steps) == ("completed", "Done.", 2)
        assert result == w.session.state.last_result
        await w.goes_on()


async def test_a_session_remembers_over_its_turns(autojump_clock: MockClock) -> None:
    async with world(DONE, DONE) as w:
        await w.play("one")
        await w.play("two")
        assert [said(m) for m in w.requests[1].transcript] == ["one", "Done.", "two"]
        assert w.session.state.turns == 2


async def test_two_sessions_run_independently(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()

    def answer(request: ModelRequest) -> Answer:
        if len(request.transcript) > 1:
            return DONE
        return working(said(request.transcript[0]), 2.0)

    async with world(answer, tools=bench.tools(), repeat=True) as w:
        sessions = [await w.engine.create_session() for _ in range(20)]
        async with trio.open_nursery() as nursery:
            for n, session in enumerate(sessions):
                nursery.start_soon(session.run, f"job {n}")
        assert trio.current_time() == about(2)
        assert bench.most == 20
        for n, session in enumerate(sessions):
            assert [m.text for m in session.state.transcript if isinstance(m, UserMessage)] == [f"job {n}"]
            assert {e.session_id for e in session.events()} == {session.id}


async def test_two_engines_are_independent(autojump_clock: MockClock) -> None:
    async with world(DONE) as one, world(DONE) as other:
        assert one.session.id == other.session.id, "the ids of the test count, in both"
        await one.play()
        assert other.session.state.turns == 0
        await other.play()


async def test_a_system_prompt_goes_with_every_request(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), DONE, tools=bench.tools(), settings=Settings(system="Be brief.")) as w:
        await w.play()
    assert [r.system for r in w.requests] == ["Be brief.", "Be brief."]
    assert [[t.name for t in r.tools] for r in w.requests] == [["read", "write"]] * 2


async def test_status_follows_the_work(autojump_clock: MockClock) -> None:
    bench = Bench()
    seen: list[object] = []

    async def look(turn: Turn, event: Seen) -> None:
        if isinstance(event, StepStarted | TurnEnded):
            seen.append(w.session.state.status)

    async with world(working(), DONE, tools=bench.tools()) as w:
        assert w.session.state.status == Idle()
        await w.play(react=look)
    assert seen == [Busy(1), Busy(2), Idle()]


async def test_state_shows_the_text_of_open_parts(autojump_clock: MockClock) -> None:
    slow: Answer = [
        TextStarted("t"),
        TextChunk("t", "Half an "),
        Pause(5),
        TextChunk("t", "answer"),
        TextDone("t"),
        *done(),
    ]
    async with world(slow) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            state = w.session.state
            assert state.turn is not None
            assert state.turn.step is not None
            assert [p.text for p in state.turn.step.parts] == ["Half an "]
            assert (await turn.wait()).text == "Half an answer"


# -- C13: injected I/O, settings as a snapshot ------------------------------------------------------------


async def test_c13_prompt_settings_last_one_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working("a"), working("b"), DONE, tools=bench.tools()) as w:
        first = await w.play(settings=Settings(limits=Limits(steps=1), wrap_up=False))
        assert first.stop_reason == "step_limit"
        second = await w.play()
        assert (second.stop_reason, second.result.steps) == ("completed", 2)


async def test_c13_settings_are_fixed_during_a_turn(autojump_clock: MockClock) -> None:
    settings = Settings(system="one")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        settings.system = "two"  # type: ignore[misc]  # the point of it
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        settings.limits.steps = 3  # type: ignore[misc]  # the point of it


async def test_c13_later_changes_of_arguments_are_ignored(autojump_clock: MockClock) -> None:
    """Lists that a host keeps and changes are copied when they are given."""
    bench = Bench()
    tools = list(bench.tools())
    async with engine.open_engine(
        model=(models := [ScriptedProvider([working(), DONE], repeat=True)]),
        tools=tools,
        permissions=PermissionOptions(approver=AllowAll()),
    ) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            tools.clear()
            models.clear()
            await turn.wait()
            assert turn.result.stop_reason == "completed"
        assert (await session.run("more")).stop_reason == "completed"


def record(seed: int) -> tuple[str, str]:
    """Play a rich script; return what a watcher saw, and the transcript, as JSON lines."""
    seen: list[str] = []
    transcript: list[str] = []

    async def main() -> None:
        bench = Bench()
        script = [*RICH[:3], [*working("d", 0.2)[:-1], *call("read", {"name": "e"}, id="9"), *done("calls")], *RICH[3:]]
        async with world(*script, tools=bench.tools()) as w:
            played = await w.play()
            seen.extend(encode_event(e) for e in played.events if not isinstance(e, Resync))
            transcript.extend(repr(m) for m in w.session.state.transcript)

    seed_scheduler(seed)
    trio.run(main, clock=MockClock(autojump_threshold=0))
    return "\n".join(seen), "\n".join(transcript)


@pytest.mark.parametrize("seed", range(5))
def test_c13_seeded_run_is_reproducible(seed: int) -> None:
    one, other = record(seed), record(seed)
    assert one == other
    assert len(one[0]) > 10_000


def test_c13_seed_changes_no_content() -> None:
    """Ids may be given in another order; results, texts and their order are the same whatever the scheduler does."""
    import re

    def without_ids(transcript: str) -> str:
        return re.sub(r"(call|msg|part)_\d+", r"\1", transcript)

    transcripts = {without_ids(record(seed)[1]) for seed in range(8)}
    assert len(transcripts) == 1


async def test_c13_events_carry_injected_time_and_ids(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), DONE, tools=bench.tools()) as w:
        played = await w.play()
    times = [e.time for e in played.events if isinstance(e, EventBase)]
    assert times == sorted(times)
    assert times[-1] == about(1)
    assert w.session.id == "ses_1"


# -- O1: exactly one turn terminator ------------------------------------------------------------------------


async def test_o1_turn_ends_once_after_its_text(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working("a"), working("other"), working("third!"), DONE, tools=bench.tools()) as w:
        played = await w.play()
    assert len(played.all(StepStarted)) == 4
    assert [i for i, e in enumerate(played.events) if isinstance(e, TurnEnded)] == [len(played.events) - 1]


async def test_o1_a_recovered_overflow_is_no_early_end(autojump_clock: MockClock) -> None:
    def last_only(view: ContextView) -> tuple[Message, ...]:
        return view.transcript[-1:]

    keeper = ScriptedKeeper(forced=[last_only, last_only])
    too_long: Answer = [Fail(ContextOverflow("too long"))]
    async with world(too_long, too_long, DONE, keeper=keeper) as w:
        played = await w.play()
    assert [type(e) for e in played.events].count(TurnEnded) == 1
    assert (played.stop_reason, played.result.text) == ("completed", "Done.")


async def test_o1_no_event_follows_the_turns_end(
    autojump_clock: MockClock,
) -> None:
    @engine.tool(read_only=True)
    async def stubborn(args: Nothing, ctx: engine.ToolContext) -> str:
        with trio.CancelScope(shield=True):
            for n in range(20):
                await trio.sleep(1)
                ctx.progress(f"still here {n}")
        return "a late result"

    slow: Answer = [TextStarted("t"), Pause(60), TextChunk("t", "second"), TextDone("t"), *done()]
    async with world([*call("stubborn", {}, id="1"), *done("calls")], slow, tools=[stubborn]) as w:
        watcher = w.session.subscribe()
        async with w.session.prompt("one") as first:
            await trio.sleep(0.5)
            first.cancel()
            await first.wait()
            second = w.engine.start_turn(w.session, "two")
            result = await second.wait()
            assert (result.stop_reason, result.text) == ("completed", "second")
        seen = drained(watcher)
    end = next(i for i, e in enumerate(seen) if isinstance(e, TurnEnded))
    assert {e.turn_id for e in seen[end + 1 :] if isinstance(e, EventBase)} == {second.id}
    assert "a late result" not in repr(seen)
    assert [type(e) for e in seen].count(TurnEnded) == 2


async def test_o1_end_is_announced_only_when_durable(autojump_clock: MockClock) -> None:
    store = SlowStore(delay=2)
    at_end: list[int] = []

    async def look(turn: Turn, event: Seen) -> None:
        if isinstance(event, TurnEnded):
            at_end.append(store.durable[w.session.id])
            assert w.session.state.status == Idle()

    async with world(DONE, store=store) as w:
        played = await w.play(react=look)
    assert at_end == [played.events[-1].seq]
    assert trio.current_time() == about(4)


def drained(cursor: Cursor) -> list[Seen]:
    seen: list[Seen] = []
    while (event := cursor.try_next()) is not None:
        seen.append(event)
    return seen


# -- O3: parts are announced before their deltas --------------------------------------------------------------


async def test_o3_delta_follows_its_part_and_message(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(*RICH, tools=bench.tools()) as w:
        played = await w.play()
    opened: dict[str, PartStarted] = {}
    messages: set[str] = set()
    kinds = {TextDelta: "text", ReasoningDelta: "reasoning", ArgumentsDelta: "call"}
    deltas = 0
    for event in played.events:
        if isinstance(event, StepStarted):
            messages.add(event.message_id)
        elif isinstance(event, PartStarted):
            assert event.message_id in messages
            opened[event.part_id] = event
        elif isinstance(event, Delta):
            deltas += 1
            start = opened[event.part_id]
            assert start.kind == kinds[type(event)]
            assert start.seq is not None
            assert start.seq <= event.after
            assert event.message_id == start.message_id
            assert event.seq is None
    assert deltas > 20


async def test_o3_sequence_rises_across_turns_and_reopening(autojump_clock: MockClock) -> None:
    store = SlowStore()
    bench = Bench()
    async with world(working(), DONE, DONE, tools=bench.tools(), store=store) as w:
        await w.play()
        await w.play()
        seen = [e.seq for e in w.session.events()]
        session_id = w.session.id
    assert seen == list(range(1, len(seen) + 1))
    async with engine.open_engine(model=ScriptedProvider([DONE]), store=store, ports=Ports(clock=TrioClock())) as eng:
        session = await eng.open_session(session_id)
        watcher = session.subscribe(after=len(seen))
        await session.run("again")
        numbers = [e.seq for e in drained(watcher) if isinstance(e, EventBase) and e.seq is not None]
        assert numbers == list(range(len(seen) + 1, len(seen) + 1 + len(numbers)))


# -- O5, O6: a client's view ---------------------------------------------------------------------------------------


@attrs.define
class Client:
    """What a client does with events: it folds them. What it can't place is a fault of whoever sent it."""

    state: SessionState
    last_seq: int = 0

    def see(self, event: Seen) -> None:
        if isinstance(event, Resync):
            self.state, self.last_seq = event.state, event.seq
            return
        if event.seq is not None:
            assert event.seq == self.last_seq + 1, f"{event.seq} came after {self.last_seq}"
            self.last_seq = event.seq
        self.state = apply(self.state, event)


async def test_o6_client_cut_at_any_event_catches_up(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with world(*RICH, tools=bench.tools()) as w:
        cursor = w.session.subscribe(after=0)
        seen: list[Seen] = []
        positions: list[Position] = [cursor.position]
        async with w.session.prompt("go") as turn, trio.open_nursery() as nursery:

            async def watch() -> None:
                async for event in cursor:
                    seen.append(event)
                    positions.append(cursor.position)
                    if isinstance(event, TurnEnded):
                        return

            nursery.start_soon(watch)
            await turn.wait()
        assert len(seen) > 80
        assert not any(isinstance(e, Resync) for e in seen)
        final = w.session.state
        for cut in range(len(seen) + 1):
            client = Client(SessionState())
            for event in seen[:cut]:
                client.see(event)
            for event in drained(w.session.subscribe(after=decode_position(encode_position(positions[cut])))):
                client.see(event)
            assert client.state == final
            assert client.last_seq == final.seq


async def test_o6_client_cut_during_the_turn_catches_up(autojump_clock: MockClock) -> None:
    """A client that reconnects after each single event."""
    bench = Bench()
    async with world(*RICH, tools=bench.tools()) as w:
        client = Client(SessionState())
        deltas: dict[str, str] = {}
        position = w.session.subscribe(after=0).position
        async with w.session.prompt("go") as turn:
            while True:
                cursor = w.session.subscribe(after=position)
                event = await cursor.__anext__()
                position = cursor.position
                client.see(event)
                if isinstance(event, Delta):
                    assert event.offset == len(deltas.get(event.part_id, "")), "nothing twice, nothing left out"
                    deltas[event.part_id] = deltas.get(event.part_id, "") + event.text
                if isinstance(event, TurnEnded):
                    break
            await turn.wait()
        assert client.state == w.session.state


async def test_o6_late_client_gets_snapshot_and_tail(autojump_clock: MockClock) -> None:
    bench = Bench()
    clients: list[tuple[Client, Cursor]] = []

    async def attach(turn: Turn, event: Seen) -> None:
        state = w.session.state
        clients.append((Client(state, state.seq), w.session.subscribe()))

    async with world(*RICH, tools=bench.tools()) as w:
        await w.play(react=attach)
        assert len(clients) > 80
        for client, cursor in clients:
            for event in drained(cursor):
                client.see(event)
            assert client.state == w.session.state


async def test_o6_other_epoch_gets_one_resync(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(DONE, working(), DONE, tools=bench.tools()) as w:
        await w.play()
        cursor = w.session.subscribe(after=Position(epoch="an older life", seq=3))
        await w.play()
        seen = drained(cursor)
        assert isinstance(seen[0], Resync)
        assert (seen[0].session_id, seen[0].epoch) == (w.session.id, "test")
        assert [type(e) for e in seen].count(Resync) == 1
        client = Client(SessionState())
        for event in seen:
            client.see(event)
        assert client.state == w.session.state


async def test_o6_slow_watcher_blocks_nothing(autojump_clock: MockClock) -> None:
    """It falls out of the ring: what it missed comes merged, one delta for each part."""
    pieces = 30_000
    many: Answer = [TextStarted("t"), *[TextChunk("t", f"{n},") for n in range(pieces)], TextDone("t")]
    bench = Bench()
    async with world([*many, *working()], [*many, *done()], tools=bench.tools(), batch=500) as w:
        slow = w.session.subscribe(after=0)
        client = Client(SessionState())
        client.see(await slow.__anext__())
        played = await w.play()
        assert trio.current_time() == about(1)
        assert len(played.all(TextDelta)) > pieces, "who keeps up sees every delta"
        rest = drained(slow)
        assert len(rest) < 10_000
        for event in rest:
            client.see(event)
        assert client.state == w.session.state


async def test_o6_many_watchers_see_the_same(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(*RICH, tools=bench.tools()) as w:
        seen: list[list[Seen]] = [[] for _ in range(5)]

        async def watch(n: int) -> None:
            async for event in w.session.subscribe(after=0):
                seen[n].append(event)
                if n % 2:
                    await trio.sleep(0.01 * n)
                if isinstance(event, TurnEnded):
                    return

        async with trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(watch, n)
            await w.session.run("go")
        durable = [[e for e in s if isinstance(e, EventBase) and e.seq is not None] for s in seen]
        assert all(d == durable[0] for d in durable)
        for events in seen:
            client = Client(SessionState())
            for event in events:
                client.see(event)
            assert client.state == w.session.state


@pytest.fixture(scope="module")
def rich_events() -> tuple[tuple[Durable | Live, ...], SessionState]:
    """Everything that happened in a rich turn, and the state after it."""
    found: list[tuple[tuple[Durable | Live, ...], SessionState]] = []

    async def main() -> None:
        bench = Bench()
        async with world(*RICH, tools=bench.tools()) as w:
            created = [e for e in w.session.events() if isinstance(e, SessionCreated)]
            played = await w.play()
            events = [*created, *[e for e in played.events if not isinstance(e, Resync)]]
            found.append((tuple(events), w.session.state))

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return found[0]


@given(seed=st.integers(0, 10_000), share=st.floats(0, 1))
def test_o5_lost_deltas_leave_the_final_text_equal(
    rich_events: tuple[tuple[Durable | Live, ...], SessionState], seed: int, share: float
) -> None:
    """State events are never lost; of the live ones any may be missing, and the whole text comes with the part's end."""
    events, final = rich_events
    rng = random.Random(seed)
    state = SessionState()
    for event in events:
        if isinstance(event, Delta):
            if rng.random() < share:
                continue
            assert state.turn is not None
            assert state.turn.step is not None
            (part,) = [part for part in state.turn.step.parts if part.part_id == event.part_id]
            if event.offset > len(part.text):
                # What came before it is lost; the fold refuses to guess.
                with pytest.raises(JournalCorrupt):
                    apply(state, event)
                continue
        state = apply(state, event)
    assert state == final


@given(seed=st.integers(0, 10_000), share=st.floats(0, 1))
def test_o5_repeated_deltas_change_nothing(
    rich_events: tuple[tuple[Durable | Live, ...], SessionState], seed: int, share: float
) -> None:
    events, final = rich_events
    rng = random.Random(seed)
    state = SessionState()
    for event in events:
        state = apply(state, event)
        if isinstance(event, Delta) and rng.random() < share:
            assert apply(state, event) == state
    assert state == final


async def test_o5_live_content_is_repeated_durably(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(*RICH, tools=bench.tools()) as w:
        played = await w.play()
    live = [e for e in played.events if isinstance(e, EventBase) and e.seq is None]
    assert {type(e) for e in live} <= {TextDelta, ReasoningDelta, ArgumentsDelta, CallHeartbeat, CallProgress}
    assert fold(w.session.events()) == w.session.state


# -- structured answers -------------------------------------------------------------------------------------------------


@attrs.frozen
class Finding:
    """One thing that was found."""

    path: str
    line: int = 0


@attrs.frozen
class Report:
    """What came of it."""

    passed: bool
    summary: Annotated[str, engine.doc("in one sentence")]
    findings: list[Finding] = attrs.field(factory=list)


GOOD = '{"passed": true, "summary": "All is well.", "findings": [{"path": "a.py", "line": 3}]}'
REPORT = Report(passed=True, summary="All is well.", findings=[Finding(path="a.py", line=3)])


async def test_output_that_fits_becomes_its_class(autojump_clock: MockClock) -> None:
    async with world([*text(GOOD, pieces=5), *done()]) as w:
        result = await w.session.run("check it", output=Report)
    assert result.stop_reason == "completed"
    assert result.value == REPORT
    assert result.output == GOOD
    schema = w.requests[0].output_schema
    assert schema is not None
    assert '"summary":{"type":"string","description":"in one sentence"}' in schema


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}\n```", "\n ```json\n{}\n``` \n"])
async def test_output_fence_is_removed(autojump_clock: MockClock, fence: str) -> None:
    async with world([*text(fence.replace("{}", GOOD)), *done()]) as w:
        result = await w.session.run("check it", output=Report)
    assert (result.stop_reason, result.value) == ("completed", REPORT)
    assert result.output is not None
    assert result.output.strip() == GOOD


@pytest.mark.parametrize(
    "bad",
    [
        "All is well.",
        "[]",
        '{"passed": "yes", "summary": "x"}',
        '{"passed": true}',
        '{"passed": true, "summary": "x", "mood": 1}',
    ],
)
async def test_output_that_does_not_fit_is_repaired_once(autojump_clock: MockClock, bad: str) -> None:
    async with world([*text(bad), *done()], [*text(GOOD), *done()]) as w:
        watcher = w.session.subscribe()
        result = await w.session.run("check it", output=Report)
        assert (result.stop_reason, result.value) == ("completed", REPORT)
        reasons = [e.reason for e in drained(watcher) if isinstance(e, LoopContinued)]
        assert reasons == ["schema_repair"]
        told = said(w.requests[1].transcript[-1])
        assert "does not fit the schema" in told
        assert said(w.requests[1].transcript[-2]) == bad


async def test_output_repaired_only_once(autojump_clock: MockClock) -> None:
    async with world([*text("bad"), *done()], [*text("worse"), *done()], [*text(GOOD), *done()]) as w:
        result = await w.session.run("check it", output=Report)
        assert (result.stop_reason, result.value, result.output) == ("incomplete", None, None)
        assert result.text == "worse"
        assert "does not fit" in result.detail
        assert len(w.requests) == 2
        await w.goes_on()


async def test_output_after_tools(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), [*text(GOOD), *done()], tools=bench.tools()) as w:
        result = await w.session.run("check it", output=Report)
    assert (result.value, result.steps) == (REPORT, 2)
    assert all(r.output_schema for r in w.requests)


async def test_output_of_an_answer_in_two_pieces(autojump_clock: MockClock) -> None:
    small = ModelInfo(name="scripted/small", output=8_192)
    async with world([*text(GOOD[:30]), *done("length")], [*text(GOOD[30:]), *done()], info=small) as w:
        result = await w.session.run("check it", output=Report)
    assert (result.stop_reason, result.value) == ("completed", REPORT)


async def test_output_of_an_incomplete_turn_is_none(autojump_clock: MockClock) -> None:
    async with world([*text(GOOD), *done("refusal")]) as w:
        result = await w.session.run("check it", output=Report)
    assert (result.stop_reason, result.value, result.output) == ("refusal", None, None)


async def test_output_is_for_its_run_only(autojump_clock: MockClock) -> None:
    async with world([*text(GOOD), *done()], DONE) as w:
        await w.session.run("check it", output=Report)
        result = await w.session.run("and now?")
        assert (result.text, w.requests[1].output_schema) == ("Done.", None)


async def test_output_class_without_schema_is_refused_early(
    autojump_clock: MockClock,
) -> None:
    @attrs.frozen
    class Odd:
        what: complex

    async with world(DONE) as w:
        with pytest.raises(ConfigError):
            await w.session.run("check it", output=Odd)
        assert w.requests == []
        await w.goes_on()
