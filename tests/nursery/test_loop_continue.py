"""C6: each reason to go on, by a script of its own, with exactly that sequence; and what each of them leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from engine.core.errors import (
    AuthFailed,
    ConnectionBroken,
    ContentFiltered,
    ContextOverflow,
    MediaTooLarge,
    Overloaded,
    ProviderError,
    RateLimited,
    SignatureRejected,
)
from engine.core.events import (
    CONTINUE_REASONS,
    STOP_REASONS,
    ContinueReason,
    HistoryReplaced,
    LoopContinued,
    Notice,
    RetryScheduled,
    StepEnded,
    StepStarted,
    TextDelta,
    TurnEnded,
)
from engine.core.hooks import Hooks, StopDecision, Stopping
from engine.core.llm_types import ModelInfo, ModelRequest, TextChunk, TextStarted, ToolCallChunk, ToolCallStarted
from engine.core.messages import Message, Usage, UserMessage
from engine.core.protocols import ContextView
from engine.core.settings import Limits, RetryPolicy, Settings, Timeouts
from engine.journal.state import Retry
from engine.session.turn import Turn
from engine.testing.fakes import ScriptedKeeper
from engine.testing.script import Answer, Break, Fail, HttpFailure, Pause, call, done, reasoning, text
from engine.testing.scripted_provider import ScriptedAnswer, ScriptedProvider
from tests.support.bench import Bench
from tests.support.world import Played, Seen, about, said, world

DONE: Answer = [*text("Done."), *done()]
TOO_LONG: Answer = [Fail(ContextOverflow("prompt is too long"))]
UNSIGNED: Answer = [Fail(SignatureRejected("invalid signature"))]
BUSY: Answer = [Fail(Overloaded("busy", retryable=True))]
NO_RETRY = RetryPolicy(attempts=0)


def last_only(view: ContextView) -> Sequence[Message]:
    """Keep the newest user message and what follows it."""
    users = [i for i, m in enumerate(view.transcript) if isinstance(m, UserMessage)]
    return view.transcript[users[-1] :]


def reading(name: str = "a") -> Answer:
    return [*text("Reading."), *call("read", {"name": name}, id="1"), *done("calls")]


def spoken(told: str, output: int) -> Answer:
    return [*text(told), *done(usage=Usage(output=output))]


async def block_once(stopping: Stopping) -> StopDecision | None:
    return StopDecision(verdict="block", reason="not yet") if stopping.already_blocked == 0 else None


@attrs.frozen(kw_only=True)
class Case:
    """A script, and the reasons for which the loop goes on in it."""

    reasons: list[ContinueReason]
    script: list[ScriptedAnswer]
    settings: Settings = Settings()
    hooks: Hooks = Hooks()
    keeper: Callable[[], ScriptedKeeper] = ScriptedKeeper
    steer: bool = False
    fallback: bool = False
    info: ModelInfo = ModelInfo(name="scripted/model")


CASES: dict[str, Case] = {
    "next_step": Case(reasons=["next_step"], script=[reading(), DONE]),
    "steered": Case(
        reasons=["steered"], script=[[TextStarted("t"), TextChunk("t", "Hm"), Pause(1), *done()], DONE], steer=True
    ),
    "provider_retry": Case(reasons=["provider_retry", "provider_retry"], script=[BUSY, [Break()], DONE]),
    "overflow_prune_retry": Case(
        reasons=["overflow_prune_retry"],
        script=[TOO_LONG, DONE],
        keeper=lambda: ScriptedKeeper(forced=[last_only]),
    ),
    "reactive_compact_retry": Case(
        reasons=["overflow_prune_retry", "reactive_compact_retry"],
        script=[TOO_LONG, TOO_LONG, DONE],
        keeper=lambda: ScriptedKeeper(forced=[last_only, last_only]),
    ),
    "reactive_compact_retry-media": Case(
        reasons=["reactive_compact_retry"],
        script=[[Fail(MediaTooLarge("image too large"))], DONE],
        keeper=lambda: ScriptedKeeper(forced=[last_only]),
    ),
    "output_escalate": Case(reasons=["output_escalate"], script=[[*text("Cu"), *done("length")], DONE]),
    "output_recover": Case(
        reasons=["output_escalate", "output_recover"],
        script=[[*text("Cu"), *done("length")], [*text("Cut a"), *done("length")], DONE],
    ),
    "empty_retry": Case(reasons=["empty_retry"], script=[done(), DONE]),
    "stop_hook_blocked": Case(reasons=["stop_hook_blocked"], script=[DONE, DONE], hooks=Hooks(stop=(block_once,))),
    "budget_continue": Case(
        reasons=["budget_continue"],
        script=[spoken("One.", 100), spoken("Two.", 900)],
        settings=Settings(token_target=1_000),
    ),
    "resume_after_break": Case(
        reasons=["resume_after_break"],
        script=[[*call("read", {"name": "a"}, id="1"), Pause(1), Break()], DONE],
    ),
    "compacted": Case(reasons=["compacted"], script=[DONE], keeper=lambda: ScriptedKeeper(compacts=[last_only])),
    "provider_pause": Case(reasons=["provider_pause"], script=[[*text("Hm"), *done("pause")], DONE]),
    "signature_retry": Case(reasons=["signature_retry"], script=[UNSIGNED, DONE]),
    "model_fallback": Case(reasons=["model_fallback"], script=[BUSY], settings=Settings(retry=NO_RETRY), fallback=True),
    "all-in-one": Case(
        reasons=["compacted", "provider_retry", "next_step", "output_escalate", "output_recover", "stop_hook_blocked"],
        script=[BUSY, reading(), [*text("C"), *done("length")], [*text("Cut"), *done("length")], DONE, DONE],
        hooks=Hooks(stop=(block_once,)),
        keeper=lambda: ScriptedKeeper(compacts=[last_only]),
    ),
}


async def run_case(case: Case) -> tuple[Played, list[ModelRequest]]:
    bench = Bench()

    async def react(turn: Turn, event: Seen) -> None:
        if case.steer and isinstance(event, TextDelta) and event.text == "Hm":
            turn.steer("and this")

    fallback = ScriptedProvider([DONE], info=ModelInfo(name="scripted/other"))
    async with world(
        *case.script,
        tools=bench.tools(),
        settings=case.settings,
        hooks=case.hooks,
        keeper=case.keeper(),
        models=[fallback] if case.fallback else [],
        info=case.info,
    ) as w:
        played = await w.play(react=react)
        requests = [*w.requests, *fallback.requests]
        if not case.fallback and not case.hooks.stop:
            await w.goes_on()
    return played, requests


@pytest.mark.parametrize("name", CASES)
async def test_c6_each_reason_has_a_script(autojump_clock: MockClock, name: str) -> None:
    played, _ = await run_case(CASES[name])
    assert played.reasons == CASES[name].reasons
    assert played.stop_reason == "completed"


def test_c6_no_reason_is_without_a_script() -> None:
    # schema_repair needs `run(output=...)`: see test_session.py.
    assert {r for case in CASES.values() for r in case.reasons} | {"schema_repair"} == set(CONTINUE_REASONS)


@pytest.mark.parametrize("name", CASES)
async def test_c6_recovered_error_is_never_reported(autojump_clock: MockClock, name: str) -> None:
    played, _ = await run_case(CASES[name])
    assert [n for n in played.all(Notice) if n.level == "warning"] == []
    assert (played.result.detail, played.result.stop_reason) == ("", "completed")
    assert played.order(TurnEnded) == ["TurnEnded"]
    assert isinstance(played.events[-1], TurnEnded)


@pytest.mark.parametrize("name", CASES)
async def test_c6_each_transition_is_an_event(autojump_clock: MockClock, name: str) -> None:
    played, _ = await run_case(CASES[name])
    order = [e for e in played.own if isinstance(e, StepStarted | StepEnded | LoopContinued)]
    steps = 0
    for event in order:
        if isinstance(event, StepStarted):
            steps += 1
        elif isinstance(event, StepEnded):
            steps -= 1
        assert steps == (1 if isinstance(event, StepStarted) else 0)


# -- overflow --------------------------------------------------------------------------------------------------


async def test_c6_second_overflow_makes_no_further_request(
    autojump_clock: MockClock,
) -> None:
    keeper = ScriptedKeeper(forced=[last_only, last_only])
    async with world(TOO_LONG, TOO_LONG, TOO_LONG, DONE, keeper=keeper) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == ("prompt_too_long", "prompt is too long")
        assert len(w.requests) == 3
        assert keeper.requests == ["collapse", "compact"]
        assert repr(played.events).count("prompt is too long") == 1
        await w.goes_on()


async def test_c6_overflow_compacts_once_per_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    keeper = ScriptedKeeper(forced=[last_only, last_only, last_only, last_only])
    script = [TOO_LONG, TOO_LONG, reading(), TOO_LONG, TOO_LONG, DONE]
    async with world(*script, keeper=keeper, tools=bench.tools()) as w:
        played = await w.play()
    assert played.reasons == ["overflow_prune_retry", "reactive_compact_retry", "next_step", "overflow_prune_retry"]
    assert played.stop_reason == "prompt_too_long"


async def test_c6_what_the_keeper_returns_replaces_the_history(autojump_clock: MockClock) -> None:
    keeper = ScriptedKeeper(forced=[last_only])
    async with world(DONE, TOO_LONG, DONE, keeper=keeper) as w:
        await w.play("first")
        played = await w.play("second")
        assert [said(m) for m in w.requests[1].transcript] == ["first", "Done.", "second"]
        assert [said(m) for m in w.requests[2].transcript] == ["second"]
        assert [e.kind for e in played.all(HistoryReplaced)] == ["collapse"]
        assert [said(m) for m in w.session.state.transcript] == ["second", "Done."]


async def test_c6_unchanged_overflowing_request_is_not_resent(autojump_clock: MockClock) -> None:
    class NothingStaged(ScriptedKeeper):
        async def collapse(self, view: ContextView, *, forced: bool) -> Sequence[Message] | None:
            await trio.lowlevel.checkpoint()
            return None

    async with world(DONE, TOO_LONG, DONE, keeper=NothingStaged(forced=[last_only])) as w:
        await w.play("first")
        played = await w.play("second")
        assert (played.stop_reason, len(w.requests)) == ("completed", 3)
        assert played.reasons == ["reactive_compact_retry"]


async def test_t7_without_auto_compact_keeper_is_not_asked(
    autojump_clock: MockClock,
) -> None:
    keeper = ScriptedKeeper(
        prunes=[last_only], collapses=[last_only], compacts=[last_only], forced=[last_only], blocked=True
    )
    async with world(TOO_LONG, keeper=keeper, settings=Settings(auto_compact=False)) as w:
        played = await w.play()
        assert (played.stop_reason, played.reasons, len(w.requests)) == ("prompt_too_long", [], 1)
        assert keeper.requests == []


async def test_t7_order_of_steps_before_a_request(
    autojump_clock: MockClock,
) -> None:
    keeper = ScriptedKeeper(prunes=[last_only], collapses=[last_only], compacts=[last_only])
    async with world(DONE, DONE, keeper=keeper) as w:
        played = await w.play()
    assert keeper.requests == ["prune", "collapse", "compact"]
    assert [e.kind for e in played.all(HistoryReplaced)] == ["prune", "collapse", "compact"]
    assert played.reasons == ["compacted"]
    assert len(w.requests) == 1


async def test_t7_two_ineffective_compactions_end_the_turn(autojump_clock: MockClock) -> None:
    keeper = ScriptedKeeper(compacts=[last_only] * 9)
    async with world(DONE, keeper=keeper) as w:
        played = await w.play()
        assert (played.stop_reason, w.requests) == ("compaction_ineffective", [])
        assert played.reasons == ["compacted"] * 2
        keeper.compacts.clear()
        await w.goes_on()


async def test_t7_compactions_of_separate_steps_are_allowed(autojump_clock: MockClock) -> None:
    bench = Bench()
    # Compact, then find room enough, before each request.
    keeper = ScriptedKeeper(compacts=[last_only, lambda view: None] * 5)
    script = [reading(f"file {n * 17}") for n in range(4)]
    async with world(*script, DONE, keeper=keeper, tools=bench.tools()) as w:
        played = await w.play()
    assert played.stop_reason == "completed"
    assert played.reasons == [*["compacted", "next_step"] * 4, "compacted"]


async def test_t7_interrupted_compaction_keeps_the_history(autojump_clock: MockClock) -> None:
    keeper = ScriptedKeeper()
    async with world(DONE, DONE, keeper=keeper) as w:
        await w.play("first")
        keeper.compacts.append(last_only)
        keeper.seconds = 60
        async with w.session.prompt("second") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(1)
        assert (result.stop_reason, result.during) == ("aborted", "waiting")
        assert [said(m) for m in w.session.state.transcript] == ["first", "Done.", "second"]
        await w.goes_on()


async def test_c6_blocking_limit_ends_turn_before_requests(autojump_clock: MockClock) -> None:
    keeper = ScriptedKeeper(blocked=True)
    async with world(DONE, keeper=keeper) as w:
        played = await w.play()
        assert (played.stop_reason, w.requests) == ("blocking_limit", [])
        keeper.blocked = False
        await w.goes_on()


async def test_keeper_sees_transcript_model_and_usage(autojump_clock: MockClock) -> None:
    bench = Bench()
    views: list[ContextView] = []

    class Watching(ScriptedKeeper):
        async def prune(self, view: ContextView) -> Sequence[Message] | None:
            views.append(view)
            return await super().prune(view)

    first = [*call("read", {"name": "a"}, id="1"), *done("calls", usage=Usage(input=100, output=7))]
    async with world(first, DONE, keeper=Watching(), tools=bench.tools()) as w:
        await w.play()
    assert [len(v.transcript) for v in views] == [1, 3]
    assert [v.last_usage for v in views] == [Usage(), Usage(input=100, output=7)]
    assert views[0].model.name == "scripted/model"


# -- retries and fallbacks ----------------------------------------------------------------------------------------


async def test_t23_retry_is_announced_with_its_time(autojump_clock: MockClock) -> None:
    statuses: list[object] = []

    async def look(turn: Turn, event: Seen) -> None:
        if isinstance(event, RetryScheduled):
            statuses.append(w.session.state.status)

    async with world(BUSY, BUSY, DONE) as w:
        played = await w.play(react=look)
    assert [(e.attempt, e.message, e.next_at) for e in played.all(RetryScheduled)] == [
        (1, "busy", about(2)),
        (2, "busy", about(6)),
    ]
    assert statuses == [Retry(1, "busy", about(2)), Retry(2, "busy", about(6))]


async def test_t23_requested_wait_is_kept(autojump_clock: MockClock) -> None:
    asked: Answer = [Fail(RateLimited("slow down", retryable=True, retry_after=7))]
    async with world(asked, DONE) as w:
        played = await w.play()
    assert (played.stop_reason, autojump_clock.current_time()) == ("completed", about(7))


async def test_t23_too_long_wait_ends_the_turn(autojump_clock: MockClock) -> None:
    asked: Answer = [Fail(RateLimited("slow down", retryable=True, retry_after=3_600))]
    async with world([Pause(5), *asked], DONE) as w:
        played = await w.play()
        assert (played.stop_reason, played.reasons) == ("rate_limited", [])
        assert played.result.reset_at == about(3_605)
        await w.goes_on()


async def test_t23_reset_time_is_reported(autojump_clock: MockClock) -> None:
    asked: Answer = [Fail(RateLimited("slow down", retryable=True, retry_after=3_600, reset_at=12_345.0))]
    async with world(asked, DONE) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.reset_at) == ("rate_limited", 12_345.0)


async def test_t23_the_user_may_skip_the_wait(autojump_clock: MockClock) -> None:
    async def skip(turn: Turn, event: Seen) -> None:
        if isinstance(event, RetryScheduled):
            turn.skip_wait()

    async with world(BUSY, BUSY, DONE) as w:
        played = await w.play(react=skip)
    assert (played.stop_reason, autojump_clock.current_time()) == ("completed", 0)
    assert len(played.all(RetryScheduled)) == 2


async def test_t23_skip_without_a_wait_does_nothing(autojump_clock: MockClock) -> None:
    async def skip(turn: Turn, event: Seen) -> None:
        if isinstance(event, StepStarted) and event.attempt == 1:
            turn.skip_wait()

    async with world(BUSY, DONE) as w:
        await w.play(react=skip)
    assert autojump_clock.current_time() == about(2)


async def test_t23_retries_count_per_step_waits_per_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(retry=RetryPolicy(attempts=2, base=10, longest=60, total=45))
    script = [BUSY, BUSY, reading(), BUSY, BUSY, DONE]
    async with world(*script, tools=bench.tools(), settings=settings) as w:
        played = await w.play()
    assert played.reasons == ["provider_retry", "provider_retry", "next_step", "provider_retry"]
    assert (played.stop_reason, autojump_clock.current_time()) == ("provider_error", about(40))


async def test_c6_fallback_stays_for_the_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    other = ScriptedProvider([reading(), DONE], info=ModelInfo(name="scripted/other", output=4_000))
    settings = Settings(retry=RetryPolicy(attempts=1))
    async with world(BUSY, BUSY, tools=bench.tools(), settings=settings, models=[other]) as w:
        played = await w.play()
        assert played.reasons == ["provider_retry", "model_fallback", "next_step"]
        assert [s.model for s in played.all(StepStarted)] == ["scripted/model"] * 2 + ["scripted/other"] * 2
        assert [r.max_output for r in other.requests] == [4_000, 4_000]
        w.will_say(DONE)
        played = await w.play()
        assert [s.model for s in played.all(StepStarted)] == ["scripted/model"], "the next turn begins at the first"


async def test_c6_last_model_of_the_chain_is_reported(autojump_clock: MockClock) -> None:
    other = ScriptedProvider([[Fail(ProviderError("quite dead"))]], info=ModelInfo(name="scripted/other"))
    async with world([Fail(ProviderError("dead"))], models=[other]) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.detail) == ("provider_error", "quite dead")
    assert played.reasons == ["model_fallback"]


async def test_c6_rejected_signature_drops_reasoning_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*reasoning("Hm.", signature="s"), *call("read", {"name": "a"}, id="1"), *done("calls")]
    async with world(first, UNSIGNED, DONE, tools=bench.tools()) as w:
        played = await w.play()
        assert [r.reasoning_from for r in w.requests] == [0, 0, 3]
        assert played.reasons == ["next_step", "signature_retry"]
        w.will_say([*reasoning("New.", signature="t"), *text("Done."), *done()])
        await w.play()
        assert w.requests[-1].reasoning_from == 3, "the next turn does not send it again either"

    async with world(UNSIGNED, UNSIGNED, DONE) as w:
        played = await w.play()
    assert (played.stop_reason, played.reasons, len(w.requests)) == ("provider_error", ["signature_retry"], 2)


async def test_c6_endless_pauses_of_a_provider_end(autojump_clock: MockClock) -> None:
    async with world(lambda r: [*text(f"Hm {len(r.transcript)}"), *done("pause")], repeat=True) as w:
        played = await w.play()
        assert (played.stop_reason, set(played.reasons)) == ("incomplete", {"provider_pause"})
        await w.goes_on()


@pytest.mark.parametrize(
    ("error", "stop_reason"),
    [
        (AuthFailed("no key"), "auth_failed"),
        (ContentFiltered("filtered"), "content_filter"),
        (ProviderError("bad request", status=400), "provider_error"),
        (ContextOverflow("too long"), "prompt_too_long"),
    ],
)
async def test_c12_permanent_failure_ends_the_turn(
    autojump_clock: MockClock, error: ProviderError, stop_reason: str
) -> None:
    async with world([Fail(error)], settings=Settings(auto_compact=False)) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == (stop_reason, str(error))
        assert played.reasons == []
        await w.goes_on()


async def test_http_failures_are_classified_in_memory_too(autojump_clock: MockClock) -> None:
    async with world([HttpFailure(503, "{}")], DONE) as w:
        played = await w.play()
    assert played.reasons == ["provider_retry"]


# -- every script terminates -------------------------------------------------------------------------------------------


def half_call(request: ModelRequest) -> Answer:
    return [ToolCallStarted("1", "read"), ToolCallChunk("1", '{"na'), *done("length")]


def fresh_call(request: ModelRequest) -> Answer:
    return reading(f"{len(request.transcript) * 7919}")


ANSWERS: list[ScriptedAnswer] = [
    DONE,
    BUSY,
    TOO_LONG,
    UNSIGNED,
    [Break()],
    [Fail(ConnectionBroken("cut"))],
    [Fail(MediaTooLarge("image"))],
    [*text("cut"), *done("length")],
    [*text("pause"), *done("pause")],
    [*text("Half")],
    [*reasoning("Only thought."), *done()],
    [*done("calls")],
    [*call("nosuch", {}, id="1"), *done("calls")],
    [*call("read", {"name": "a"}, id="1"), Pause(1), Break()],
    [*call("read", {"name": "a"}, id="1"), *done("length")],
    [Pause(500)],
    half_call,
    fresh_call,
]


@given(
    script=st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=10),
    repeat=st.booleans(),
    target=st.sampled_from([None, 1_000]),
    blocks=st.booleans(),
)
def test_c6_any_script_terminates(script: list[ScriptedAnswer], repeat: bool, target: int | None, blocks: bool) -> None:
    """Even if its last answer comes for ever; a budget of steps bounds what is progress."""
    found: list[Played] = []

    async def block(stopping: Stopping) -> StopDecision:
        return StopDecision(verdict="block", reason="no")

    async def main() -> None:
        settings = Settings(
            limits=Limits(steps=15),
            token_target=target,
            timeouts=Timeouts(idle=100, headers=100),
            retry=RetryPolicy(attempts=2),
            headless="deny",
        )
        hooks = Hooks(stop=(block,) if blocks else ())
        keeper = ScriptedKeeper(forced=[last_only] * 3)
        bench = Bench()
        async with world(
            *script, settings=settings, hooks=hooks, keeper=keeper, tools=bench.tools(), repeat=repeat
        ) as w:
            found.append(await w.play())
            assert len(w.requests) < 100

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert found[0].stop_reason in STOP_REASONS
    assert found[0].stop_reason != "internal_error"
