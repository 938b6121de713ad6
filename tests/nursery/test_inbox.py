"""T5: input that comes while a turn runs waits in a durable inbox: `steer` for the next step, `queue` for after the turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from engine.core.errors import ConfigError, InputConflict, TurnOver
from engine.core.events import (
    CallHeartbeat,
    CallSettled,
    CallStarted,
    InputAdmitted,
    InputPromoted,
    PartStarted,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from engine.core.llm_types import TextChunk, TextDone, TextStarted
from engine.core.messages import Message, UserMessage
from engine.core.settings import RetryPolicy, Settings
from engine.session.session import Session
from engine.session.turn import Turn
from engine.testing.fakes import SlowStore
from engine.testing.script import Answer, Break, Pause, ScriptItem, call, done, reasoning, text
from tests.support.bench import Bench
from tests.support.world import Seen, about, said, world

DONE: Answer = [*text("Done."), *done()]


def working(name: str = "a", seconds: float = 1.0) -> Answer:
    return [*call("read", {"name": name, "seconds": seconds}, id="1"), *done("calls")]


def user_texts(messages: Iterable[Message]) -> list[str]:
    return [m.text for m in messages if isinstance(m, UserMessage)]


async def next_end(session: Session, turns: int) -> None:
    """Wait until the session has ended so many turns and is idle."""
    async for _ in session.subscribe(after=0):
        if session.state.turns >= turns and session.state.turn is None:
            return


# -- steer ---------------------------------------------------------------------------------------


async def test_t5_steer_during_a_tool_interrupts_nothing(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()

    async def steer(turn: Turn, event: Seen) -> None:
        if isinstance(event, CallStarted):
            turn.steer("also the tests")

    async with world(working(seconds=60), DONE, tools=bench.tools()) as w:
        played = await w.play(react=steer)
    assert bench.spans == {"a": (0.0, about(60))}
    assert played.statuses == ["completed"]
    last = w.requests[1].transcript[-1]
    assert isinstance(last, UserMessage)
    assert (last.origin, last.text) == ("steer", "also the tests")
    assert "<user-message>\nalso the tests\n</user-message>" in said(last)
    assert len(w.requests) == 2
    assert played.reasons == ["next_step"]


async def test_t5_steer_at_the_end_adds_a_step(autojump_clock: MockClock) -> None:
    async def steer(turn: Turn, event: Seen) -> None:
        if isinstance(event, TextDelta) and event.text == "No":
            turn.steer("wait, also this")

    answer: list[ScriptItem] = [TextStarted("t"), TextChunk("t", "No"), Pause(1), TextChunk("t", "w."), TextDone("t")]
    async with world([*answer, *done()], [*text("And this."), *done()]) as w:
        played = await w.play(react=steer)
    assert (played.reasons, played.result.text) == (["steered"], "And this.")
    assert user_texts(w.requests[1].transcript) == ["go", "wait, also this"]


async def test_t5_steer_before_first_request_is_in_it(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        async with w.session.prompt("go") as turn:
            turn.steer("and be quick")
            await turn.wait()
    assert user_texts(w.requests[0].transcript) == ["go", "and be quick"]


async def test_t5_steer_during_retry_delay_is_sent(
    autojump_clock: MockClock,
) -> None:
    async with world([Break()], DONE) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.steer("never mind the rest")
            await turn.wait()
    assert user_texts(w.requests[1].transcript) == ["go", "never mind the rest"]


async def test_t5_order_of_steers_and_queued_input(autojump_clock: MockClock) -> None:
    bench = Bench()
    sent = False

    async def speak(turn: Turn, event: Seen) -> None:
        nonlocal sent
        if isinstance(event, CallStarted) and not sent:
            sent = True
            w.session.inputs.queue("third, later")
            turn.steer("first")
            turn.steer("second")

    async with world(working(), DONE, DONE, tools=bench.tools()) as w:
        played = await w.play(react=speak)
        assert user_texts(w.requests[1].transcript) == ["go", "first", "second"]
        assert played.stop_reason == "completed"
        await next_end(w.session, 2)
        assert user_texts(w.requests[2].transcript) == ["go", "first", "second", "third, later"]
        assert len(w.requests) == 3


async def test_t5_steer_after_the_end_is_refused(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        async with w.session.prompt("go") as turn:
            await turn.wait()
            with pytest.raises(TurnOver, match=r"use session\.prompt\(\) or session\.inputs\.queue\(\)"):
                turn.steer("too late")
        with pytest.raises(TurnOver):
            turn.steer("far too late")
        await w.goes_on()


async def test_t5_steer_after_cancel_is_refused(autojump_clock: MockClock) -> None:
    async with world([Pause(60), *DONE]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            with pytest.raises(TurnOver):
                turn.steer("too late")
        await w.goes_on()


async def test_t5_steer_left_by_cancel_precedes_next_prompt(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with world(working(seconds=60), DONE, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.steer("by the way")
            turn.cancel()
        assert [p.message.text for p in w.session.state.inbox] == ["by the way"]
        played = await w.play("go on")
        assert user_texts(w.requests[-1].transcript) == ["go", "by the way", "go on"]
        assert played.stop_reason == "completed"


async def test_t5_inbox_shows_input_until_promoted(autojump_clock: MockClock) -> None:
    bench = Bench()
    waiting: list[list[str]] = []

    async def look(turn: Turn, event: Seen) -> None:
        if isinstance(event, CallStarted):
            turn.steer("more")
        if isinstance(event, CallHeartbeat | StepStarted | TurnEnded):
            waiting.append([p.message.text for p in w.session.state.inbox])

    async with world(working(seconds=0.9), DONE, tools=bench.tools()) as w:
        played = await w.play(react=look)
    assert waiting == [[], ["more"], ["more"], ["more"], [], []]
    order = [type(e).__name__ for e in played.all(InputAdmitted) + played.all(InputPromoted)]
    assert order == ["InputAdmitted"] * 2 + ["InputPromoted"] * 2
    admitted, promoted = played.all(InputAdmitted)[1], played.all(InputPromoted)[1]
    assert admitted.input_id == promoted.input_id
    assert (admitted.mode, admitted.message.origin) == ("steer", "steer")


async def test_t5_admission_is_durable_and_fixes_wire_form(autojump_clock: MockClock) -> None:
    bench = Bench()
    store = SlowStore()

    async def steer(turn: Turn, event: Seen) -> None:
        if isinstance(event, CallStarted):
            turn.steer("more")

    async with world(working(), DONE, DONE, tools=bench.tools(), store=store) as w:
        await w.play(react=steer)
        await w.play("next")
        stored = [e for e in await store.load(w.session.id) if isinstance(e, InputAdmitted)]
        in_first = [m for m in w.requests[1].transcript if isinstance(m, UserMessage)]
        in_later = [m for m in w.requests[2].transcript if isinstance(m, UserMessage)]
        assert stored[1].message == in_first[1] == in_later[1]


# -- ids ---------------------------------------------------------------------------------------------


async def test_t5_the_same_id_twice_is_one_message(autojump_clock: MockClock) -> None:
    bench = Bench()

    async def steer(turn: Turn, event: Seen) -> None:
        if isinstance(event, CallStarted):
            assert turn.steer("more", input_id="mine") == turn.steer("more", input_id="mine") == "mine"

    async with world(working(), DONE, tools=bench.tools()) as w:
        played = await w.play(react=steer)
    assert user_texts(w.requests[1].transcript) == ["go", "more"]
    assert len(played.all(InputAdmitted)) == 2


async def test_t5_reused_id_with_other_text_is_refused(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(seconds=5), DONE, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            turn.steer("more", input_id="mine")
            with pytest.raises(InputConflict, match="'mine'"):
                turn.steer("less", input_id="mine")
            with pytest.raises(InputConflict):
                w.session.inputs.queue("less", input_id="mine")
            result = await turn.wait()
        assert result.stop_reason == "completed"
        assert "less" not in repr(w.requests)
        await w.goes_on()


async def test_t5_ids_stay_used_in_later_turns(autojump_clock: MockClock) -> None:
    async with world(DONE, DONE, DONE) as w:
        w.session.inputs.queue("first", input_id="mine")
        await next_end(w.session, 1)
        assert w.session.inputs.queue("first", input_id="mine") == "mine"
        with pytest.raises(InputConflict):
            w.session.inputs.queue("other", input_id="mine")
        await trio.testing.wait_all_tasks_blocked()
        assert len(w.requests) == 1, "sending it again does not run it again"


# -- queue -----------------------------------------------------------------------------------------------


async def test_t5_queued_input_starts_an_idle_session(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        watcher = w.session.subscribe()
        w.session.inputs.queue("do it")
        seen: list[str] = []
        async for event in watcher:
            seen.append(type(event).__name__)
            if isinstance(event, TurnEnded):
                break
        assert event.result.text == "Done."  # type: ignore[union-attr]  # the loop ended with it
    assert [m.origin for m in w.requests[0].transcript if isinstance(m, UserMessage)] == ["queue"]
    assert (seen[0], seen[-1]) == ("InputAdmitted", "TurnEnded")


async def test_t5_queued_inputs_run_in_order(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), DONE, DONE, DONE, DONE, tools=bench.tools()) as w:
        for name in ("one", "two", "three"):
            w.session.inputs.queue(name)
        await next_end(w.session, 3)
        assert user_texts(w.session.state.transcript) == ["one", "two", "three"]
        kinds = [type(e) for e in w.session.events() if isinstance(e, TurnStarted | TurnEnded)]
        assert kinds == [TurnStarted, TurnEnded] * 3


async def test_t5_queued_input_waits_for_the_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(seconds=5), DONE, DONE, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            w.session.inputs.queue("later")
            await trio.sleep(3)
            assert [p.mode for p in w.session.state.inbox] == ["queue"]
            await turn.wait()
        await next_end(w.session, 2)
        assert [len(user_texts(r.transcript)) for r in w.requests] == [1, 1, 2]


async def test_t5_queued_input_waits_after_an_abort(autojump_clock: MockClock) -> None:
    async with world([Pause(60), *DONE], DONE, DONE, DONE) as w:
        async with w.session.prompt("go") as turn:
            w.session.inputs.queue("later")
            await trio.sleep(1)
            turn.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert (len(w.requests), len(w.session.state.inbox)) == (1, 1)
        w.session.inputs.queue("even later")
        await next_end(w.session, 3)
        assert user_texts(w.session.state.transcript) == ["go", "later", "even later"]


async def test_t5_prompt_overtakes_queue_after_an_abort(autojump_clock: MockClock) -> None:
    async with world([Pause(60), *DONE], DONE, DONE) as w:
        async with w.session.prompt("go") as turn:
            w.session.inputs.queue("later")
            await trio.sleep(1)
            turn.cancel()
        await w.play("now")
        await next_end(w.session, 3)
        assert user_texts(w.session.state.transcript) == ["go", "now", "later"]


@pytest.mark.parametrize("bad", ["", "   ", 5, None, b"bytes", ["list"]])
async def test_t5_invalid_input_type_is_refused(autojump_clock: MockClock, bad: str) -> None:
    bench = Bench()
    async with world(working(seconds=5), DONE, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            with pytest.raises(ConfigError):
                turn.steer(bad)
            with pytest.raises(ConfigError):
                w.session.inputs.queue(bad)
            for bad_id in ("", "  ", 5, ["list"]):
                with pytest.raises(ConfigError):
                    turn.steer("fine", input_id=bad_id)  # type: ignore[arg-type]  # the point of it
            result = await turn.wait()
        assert (result.stop_reason, user_texts(w.session.state.transcript)) == ("completed", ["go"])
        await w.goes_on()


# -- the prefix -----------------------------------------------------------------------------------------------


def is_prefix(shorter: Iterable[Message], longer: Iterable[Message]) -> bool:
    one, other = tuple(shorter), tuple(longer)
    return other[: len(one)] == one


def answer_of(kind: str, n: int) -> Answer:
    """An answer of that kind, unlike the others of its script."""
    note = text(f"Step {n}.")
    read = call("read", {"name": f"a{n}", "seconds": 0.3}, id="1")
    match kind:
        case "read" | "steer":
            return [*note, *read, *done("calls")]
        case "two":
            return [*read, *call("read", {"name": f"b{n}", "seconds": 0.1}, id="2"), *done("calls")]
        case "write":
            return [
                *reasoning(f"Hm {n}.", signature="s"),
                *call("write", {"name": f"w{n}"}, id="1"),
                *done("calls"),
            ]
        case "thought":
            return [*reasoning("Only thought."), *read, *done("calls")]
        case "length":
            return [*note, *done("length")]
        case "break":
            return [*note, *read, Pause(1), Break()]
        case "pause":
            return [*note, *done("pause")]
        case _:
            return [*note, *call("nosuch", {}, id="1"), *done("calls")]


step = st.sampled_from(["read", "two", "write", "thought", "length", "break", "pause", "steer", "error"])


@given(steps=st.lists(step, max_size=8), queued=st.booleans())
def test_t5_request_extends_the_one_before(steps: list[str], queued: bool) -> None:
    """Append-only history: whatever happens, request N+1's transcript begins with request N's."""
    seen: list[list[Message]] = []

    async def main() -> None:
        script = [answer_of(kind, n) for n, kind in enumerate(steps)]
        bench = Bench()
        settings = Settings(retry=RetryPolicy(attempts=1), headless="deny")
        async with world(*script, DONE, repeat=True, tools=bench.tools(), settings=settings) as w:
            if queued:
                w.session.inputs.queue("and later this")
            steered = 0

            async def steer(turn: Turn, event: Seen) -> None:
                nonlocal steered
                if isinstance(event, PartStarted) and steered < steps.count("steer"):
                    steered += 1
                    turn.steer(f"steer {steered}")

            if not queued:
                await w.play(react=steer)
            await next_end(w.session, 1)
            await w.play("and again")
            seen.extend(list(r.transcript) for r in w.requests)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    for one, other in itertools.pairwise(seen):
        assert is_prefix(one, other)
    assert len({id(m) for m in seen[-1]}) == len(seen[-1])


async def test_t5_prefix_keeps_its_objects_for_caching(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with world(working("a"), working("b"), DONE, tools=bench.tools()) as w:
        await w.play()
    first, second = w.requests[1].transcript, w.requests[2].transcript
    assert all(one is other for one, other in zip(first, second, strict=False))


async def test_t5_cancelled_turn_stays_in_the_prefix(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working("a"), working("b", 60), DONE, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(5)
            turn.steer("quick")
            turn.cancel()
        await w.play("again")
    assert is_prefix(w.requests[1].transcript, w.requests[2].transcript)
    results = [s.settlement.reason for s in w.session.events() if isinstance(s, CallSettled)]
    assert results == [None, "cancelled"]
