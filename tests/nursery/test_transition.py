"""What the loop does next (C6): one case per reason, the order in which they are asked, and that it always ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.events import CONTINUE_REASONS, STOP_REASONS, ContinueReason
from engine.core.llm_types import ModelOptions
from engine.core.messages import FinishReason
from engine.core.settings import Limits, RetryPolicy, Settings
from engine.nursery.budget import Budget
from engine.nursery.loop_state import Continue, LoopState, Move, StepOutcome, Stop
from engine.nursery.retry import Failure, FailureKind, RetryBudget
from engine.nursery.transition import (
    BREAKS,
    COMPACTIONS_IN_A_ROW,
    DIMINISHING_TOKENS,
    PAUSES,
    after_compaction,
    transition,
    wants_stop_hooks,
)

SETTINGS = Settings(retry=RetryPolicy(attempts=2, base=2.0, longest=60.0, total=300.0))
FRESH = LoopState(settings=SETTINGS)


def state(**changes: Any) -> LoopState:
    return attrs.evolve(FRESH, **changes)


def outcome(finish: FinishReason | None = "stop", **more: Any) -> StepOutcome:
    more.setdefault("jitter", 1.0)
    return StepOutcome(finish=finish, **more)


def failed(kind: FailureKind, **more: Any) -> StepOutcome:
    failure = Failure(kind=kind, message=f"it was {kind}", reset_at=99.0 if kind == "rate_limited" else None)
    return outcome(None, failure=failure, **more)


def targeted(target: int, **changes: Any) -> LoopState:
    return state(settings=attrs.evolve(SETTINGS, token_target=target), **changes)


# -- one case for each reason ------------------------------------------------------------------

CONTINUES: list[tuple[LoopState, StepOutcome, Continue]] = [
    (FRESH, outcome("calls", calls=2), Continue(reason="next_step", state=FRESH)),
    (FRESH, outcome(steered=True), Continue(reason="steered", state=FRESH)),
    (
        FRESH,
        failed("transient"),
        Continue(
            reason="provider_retry",
            state=state(retry=RetryBudget(1, 2.0, silent=2.0)),
            keep=False,
            delay=2.0,
            status="it was transient",
        ),
    ),
    (
        FRESH,
        failed("overflow", room="collapsed"),
        Continue(reason="overflow_prune_retry", state=state(collapsed=True), keep=False),
    ),
    (
        state(collapsed=True),
        failed("overflow", room="compacted"),
        Continue(reason="reactive_compact_retry", state=state(collapsed=True, reactive_compacted=True), keep=False),
    ),
    (
        FRESH,
        outcome("length", can_raise_cap=True),
        Continue(reason="output_escalate", state=state(escalated=True), keep=False),
    ),
    (
        state(escalated=True),
        outcome("length", turn_output_tokens=70_000),
        Continue(
            reason="output_recover",
            state=state(unusable_answers=1, escalated=True, recoveries=1),
            nudge="Your answer was cut off at the output limit (continuation 1 of 3, 70000 tokens so far). Go on "
            "exactly where it stopped. Don't apologise, don't repeat and don't summarise what you wrote.",
        ),
    ),
    (
        FRESH,
        outcome(stop_hook="blocked", stop_hook_text="the tests are red"),
        Continue(reason="stop_hook_blocked", state=state(stop_blocks=1), nudge="the tests are red"),
    ),
    (
        targeted(10_000),
        outcome(turn_output_tokens=2_500),
        Continue(
            reason="budget_continue",
            state=targeted(10_000, nudged_at=2_500),
            nudge="2500 of 10000 tokens of this task's budget are used (25 %). Keep working on what is not done yet. "
            "Don't summarise.",
        ),
    ),
    (
        FRESH,
        failed("transient", calls=1, started=True),
        Continue(reason="resume_after_break", state=state(breaks=1)),
    ),
    (FRESH, outcome("pause"), Continue(reason="provider_pause", state=state(pauses=1))),
    (
        FRESH,
        outcome(is_empty=True),
        Continue(
            reason="empty_retry",
            state=state(unusable_answers=1, empties=1),
            keep=False,
        ),
    ),
    (
        FRESH,
        outcome("length", calls=2, cut_calls=1, can_raise_cap=True),
        Continue(reason="output_escalate", state=state(escalated=True)),
    ),
    (
        FRESH,
        outcome("length", calls=1, cut_calls=1),
        Continue(
            reason="output_recover",
            state=state(unusable_answers=1, recoveries=1),
            nudge="Your call was cut off at the output limit, so it was not run (attempt 1 of 3). Do the same in several "
            "smaller calls.",
        ),
    ),
    (
        FRESH,
        outcome(invalid_output="a field is missing"),
        Continue(
            reason="schema_repair",
            state=state(unusable_answers=1, schema_repairs=1),
            nudge="Your answer does not fit the schema that was asked for: a field is missing\nAnswer again with that "
            "JSON only.",
        ),
    ),
    (
        FRESH,
        outcome("malformed", finish_detail="MALFORMED_FUNCTION_CALL"),
        Continue(
            reason="schema_repair",
            state=state(unusable_answers=1, malformed=1),
            nudge="Your last call could not be read (MALFORMED_FUNCTION_CALL), so it was not run. Make it again, as the "
            "schema of its tool says.",
        ),
    ),
    (
        FRESH,
        failed("signature"),
        Continue(reason="signature_retry", state=state(signature_retried=True), keep=False),
    ),
    (
        state(model_count=2, retry=RetryBudget(2, 6.0)),
        failed("transient"),
        Continue(
            reason="model_fallback",
            state=state(model_count=2, model_index=1, retry=RetryBudget(0, 6.0)),
            keep=False,
            status="it was transient",
        ),
    ),
]


@pytest.mark.parametrize(
    ("before", "what", "move"), CONTINUES, ids=[f"{n}-{move.reason}" for n, (_, _, move) in enumerate(CONTINUES)]
)
def test_why_it_goes_on(before: LoopState, what: StepOutcome, move: Continue) -> None:
    assert transition(before, what) == move


def test_loop_continues_after_a_compaction() -> None:
    assert after_compaction(FRESH) == Continue(reason="compacted", state=state(compactions=1))


STOPS: list[tuple[LoopState, StepOutcome, Stop]] = [
    (
        state(malformed=3),
        outcome("malformed", finish_detail="BAD"),
        Stop(reason="incomplete", detail="the host could not read 4 calls: BAD"),
    ),
    (
        FRESH,
        outcome("malformed", wrapped_up=True),
        Stop(reason="step_limit", detail="the last step was a call that its host could not read"),
    ),
    (FRESH, outcome(), Stop(reason="completed")),
    (FRESH, outcome("unknown"), Stop(reason="completed")),
    (
        FRESH,
        outcome("calls", calls=1, wrapped_up=True),
        Stop(reason="step_limit", detail="the last step that the limit allows was used"),
    ),
    (
        FRESH,
        outcome(wrapped_up=True),
        Stop(reason="step_limit", detail="the last step that the limit allows was used"),
    ),
    (
        FRESH,
        outcome("length", wrapped_up=True, can_raise_cap=True),
        Stop(reason="step_limit", detail="the last answer was cut off at the output limit"),
    ),
    (
        FRESH,
        outcome("pause", wrapped_up=True),
        Stop(reason="step_limit", detail="the last step was paused by the provider"),
    ),
    (FRESH, failed("transient", started=True, wrapped_up=True), Stop(reason="step_limit", detail="it was transient")),
    (
        targeted(10_000, increments=(499, 499), nudged_at=1_000),
        outcome(turn_output_tokens=1_499),
        Stop(reason="diminishing", detail="the last 3 continuations added [499, 499, 499] tokens"),
    ),
    (FRESH, outcome(prevented="enough"), Stop(reason="hook_stopped", detail="enough")),
    (
        FRESH,
        outcome(stop_hook="prevented", stop_hook_text="enough"),
        Stop(reason="hook_stopped", detail="enough"),
    ),
    (
        state(stop_blocks=SETTINGS.stop_hook_limit),
        outcome(stop_hook="blocked", stop_hook_text="still red"),
        Stop(reason="stop_hook_limit", detail="still red"),
    ),
    (FRESH, failed("overflow"), Stop(reason="prompt_too_long", detail="it was overflow", keep=False)),
    (FRESH, failed("media"), Stop(reason="prompt_too_long", detail="it was media", keep=False)),
    (FRESH, outcome("overflow", finish_detail="full"), Stop(reason="prompt_too_long", detail="full")),
    (
        state(recoveries=SETTINGS.output_recoveries),
        outcome("length"),
        Stop(reason="output_limit", detail="cut off 4 times"),
    ),
    (FRESH, outcome(None), Stop(reason="incomplete", detail="the answer ended without a finish reason")),
    (state(pauses=PAUSES), outcome("pause"), Stop(reason="incomplete", detail="the provider paused 20 times")),
    (
        state(schema_repairs=1),
        outcome(invalid_output="a field is missing"),
        Stop(reason="incomplete", detail="the answer does not fit the schema: a field is missing"),
    ),
    (FRESH, outcome("refusal", finish_detail="not that"), Stop(reason="refusal", detail="not that")),
    (FRESH, outcome("content_filter", finish_detail="no"), Stop(reason="content_filter", detail="no")),
    (FRESH, failed("filtered"), Stop(reason="content_filter", detail="it was filtered", keep=False)),
    (FRESH, failed("filtered", has_content=True), Stop(reason="content_filter", detail="it was filtered")),
    (
        state(retry=RetryBudget(2, 6.0)),
        failed("rate_limited"),
        Stop(reason="rate_limited", detail="it was rate_limited", reset_at=99.0, keep=False, is_exhausted=True),
    ),
    (FRESH, failed("auth"), Stop(reason="auth_failed", detail="it was auth", keep=False, is_exhausted=True)),
    (FRESH, failed("fatal"), Stop(reason="provider_error", detail="it was fatal", keep=False, is_exhausted=True)),
    (FRESH, failed("fatal", has_content=True), Stop(reason="provider_error", detail="it was fatal", is_exhausted=True)),
    (
        state(retry=RetryBudget(2, 6.0)),
        failed("transient"),
        Stop(reason="provider_error", detail="it was transient", keep=False, is_exhausted=True),
    ),
    (
        state(signature_retried=True),
        failed("signature"),
        Stop(reason="provider_error", detail="it was signature", keep=False, is_exhausted=True),
    ),
    (
        state(breaks=BREAKS),
        failed("transient", started=True, has_content=True),
        Stop(reason="provider_error", detail="it was transient"),
    ),
    (FRESH, outcome(repetition="the same text again"), Stop(reason="doom_loop", detail="the same text again")),
]


@pytest.mark.parametrize(("before", "what", "move"), STOPS, ids=[move.reason for _, _, move in STOPS])
def test_why_it_stops(before: LoopState, what: StepOutcome, move: Stop) -> None:
    assert transition(before, what) == move


def test_repeated_compaction_gives_up() -> None:
    spent = state(compactions=COMPACTIONS_IN_A_ROW)
    told = "the window is as full after compacting as before"
    assert after_compaction(spent) == Stop(reason="compaction_ineffective", detail=told)


def test_every_reason_has_its_case() -> None:
    assert {move.reason for _, _, move in CONTINUES} | {"compacted"} == set(CONTINUE_REASONS)
    # These come from elsewhere: from the turn's cause, from budgets, from the context keeper.
    elsewhere = {
        "aborted",
        "token_budget",
        "cost_limit",
        "deadline",
        "blocking_limit",
        "permission_rejected",
        "internal_error",
    }
    assert {move.reason for _, _, move in STOPS} | {"compaction_ineffective"} | elsewhere == set(STOP_REASONS)


# -- which reason comes first ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (outcome("calls", calls=1, prevented="enough", repetition="circles"), "doom_loop"),
        (outcome("calls", calls=1, prevented="enough"), "hook_stopped"),
        (failed("transient", prevented="enough"), "hook_stopped"),
        # Results are never thrown away: what has calls goes on from them, whatever the finish says.
        (outcome("length", calls=1, can_raise_cap=True), "next_step"),
        (outcome("stop", calls=1), "next_step"),
        (outcome(None, calls=1), "next_step"),
        (outcome("stop", calls=1, steered=True), "next_step"),
        # A stream that broke is sent again only if no call has begun.
        (failed("transient", calls=1), "provider_retry"),
        (failed("overflow", calls=1, started=True), "resume_after_break"),
        (failed("auth", calls=1, started=True), "resume_after_break"),
        # The user comes before the engine's own wishes.
        (outcome(steered=True, stop_hook="blocked", invalid_output="no"), "steered"),
        (outcome(steered=True, wrapped_up=True), "steered"),
        (outcome(wrapped_up=True, stop_hook="blocked", invalid_output="no"), "step_limit"),
        (outcome(stop_hook="blocked", invalid_output="no"), "stop_hook_blocked"),
        (outcome("length", steered=True), "output_recover"),
    ],
)
def test_which_reason_comes_first(what: StepOutcome, reason: str) -> None:
    assert transition(FRESH, what).reason == reason


@pytest.mark.parametrize(
    ("what", "wanted"),
    [
        (outcome(), True),
        (outcome("unknown"), True),
        (outcome("calls"), False),
        (outcome(is_empty=True), False),
        (outcome("length"), False),
        (outcome("pause"), False),
        (outcome("refusal"), False),
        (outcome(None), False),
        (outcome(calls=1), False),
        (outcome(steered=True), False),
        (outcome(wrapped_up=True), False),
        (outcome(prevented="enough"), False),
        (outcome(repetition="circles"), False),
        (failed("transient"), False),
    ],
)
def test_stop_hooks_run_only_at_the_models_end(what: StepOutcome, wanted: bool) -> None:
    assert wants_stop_hooks(what) is wanted


# -- the budgets of the reasons -----------------------------------------------------------------------


def reasons(before: LoopState, outcomes: list[StepOutcome]) -> list[str]:
    """Return the reasons in a row, up to a stop."""
    found: list[str] = []
    for what in outcomes:
        move = transition(before, what)
        found.append(move.reason)
        if isinstance(move, Stop):
            break
        before = move.state
    return found


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (
            [failed("overflow", room="collapsed"), failed("overflow", room="compacted"), failed("overflow")],
            ["overflow_prune_retry", "reactive_compact_retry", "prompt_too_long"],
        ),
        ([failed("media", room="compacted"), failed("media")], ["reactive_compact_retry", "prompt_too_long"]),
        (
            [outcome("length", can_raise_cap=True)] * 9,
            ["output_escalate", *["output_recover"] * 3, "output_limit"],
        ),
        ([outcome("length")] * 9, [*["output_recover"] * 3, "output_limit"]),
        (
            [outcome("length", calls=1, cut_calls=1, can_raise_cap=True)] * 9,
            ["output_escalate", *["output_recover"] * 3, "output_limit"],
        ),
        ([outcome("stop", calls=1, cut_calls=1)] * 9, [*["output_recover"] * 3, "incomplete"]),
        ([outcome(is_empty=True)] * 9, ["empty_retry", "incomplete"]),
        (
            [outcome(is_empty=True), outcome(calls=1, has_progress=True), outcome(is_empty=True)],
            ["empty_retry", "next_step", "empty_retry"],
        ),
        ([outcome(stop_hook="blocked")] * 9, [*["stop_hook_blocked"] * 3, "stop_hook_limit"]),
        ([outcome("pause")] * 99, [*["provider_pause"] * PAUSES, "incomplete"]),
        ([outcome(invalid_output="no")] * 9, ["schema_repair", "incomplete"]),
        ([failed("signature")] * 9, ["signature_retry", "provider_error"]),
        ([failed("transient")] * 9, ["provider_retry", "provider_retry", "provider_error"]),
        ([failed("rate_limited")] * 9, ["provider_retry", "provider_retry", "rate_limited"]),
        ([failed("transient", started=True)] * 9, [*["resume_after_break"] * BREAKS, "provider_error"]),
        # A success gives a step's budgets back, and only those.
        (
            [*[failed("transient")] * 2, outcome(calls=1), *[failed("transient")] * 3],
            [*["provider_retry"] * 2, "next_step", *["provider_retry"] * 2, "provider_error"],
        ),
        (
            [*[failed("transient", started=True)] * BREAKS, outcome(calls=1), failed("transient", started=True)],
            [*["resume_after_break"] * BREAKS, "next_step", "resume_after_break"],
        ),
        (
            [outcome("length", can_raise_cap=True), outcome(calls=1), outcome("length", can_raise_cap=True)],
            ["output_escalate", "next_step", "output_recover"],
        ),
    ],
)
def test_each_reason_has_a_budget_of_its_own(outcomes: list[StepOutcome], expected: list[str]) -> None:
    assert reasons(FRESH, outcomes) == expected


def test_success_renews_collapse_but_not_overflow_compaction() -> None:
    """The loop asks the context keeper by these flags."""
    before = state(collapsed=True, reactive_compacted=True)
    after = transition(before, outcome(calls=1))
    assert after == Continue(reason="next_step", state=state(collapsed=False, reactive_compacted=True))


def test_waits_of_a_whole_turn_are_bounded() -> None:
    """Each step may retry anew, but the seconds are the turn's."""
    policy = RetryPolicy(attempts=1, base=40.0, longest=60.0, total=100.0)
    script = [failed("transient"), outcome(calls=1)] * 5
    assert reasons(state(settings=attrs.evolve(SETTINGS, retry=policy)), script) == [
        *["provider_retry", "next_step"] * 2,
        "provider_error",
    ]


def test_each_model_has_its_own_retries() -> None:
    assert reasons(state(model_count=3), [failed("transient")] * 20) == [
        *["provider_retry", "provider_retry", "model_fallback"] * 2,
        *["provider_retry"] * 2,
        "provider_error",
    ]
    assert reasons(state(model_count=2), [failed("fatal")] * 9) == ["model_fallback", "provider_error"]
    # Another model may have another key.
    assert reasons(state(model_count=2), [failed("auth")] * 9) == ["model_fallback", "auth_failed"]


def test_each_model_may_drop_old_reasoning_once() -> None:
    script = [failed("signature"), failed("fatal"), failed("signature"), failed("signature")]
    assert reasons(state(model_count=2), script) == [
        *["signature_retry", "model_fallback", "signature_retry"],
        "provider_error",
    ]


@pytest.mark.parametrize("kind", ["filtered", "overflow", "media"])
def test_local_errors_need_no_other_model(kind: FailureKind) -> None:
    assert isinstance(transition(state(model_count=2), failed(kind)), Stop)


# -- the output cap --------------------------------------------------------------------------------------


def test_the_cap_is_raised_once() -> None:
    escalated = state(escalated=True)
    assert [s.output_cap(ModelOptions()) for s in (FRESH, escalated)] == [8_192, 65_536]
    assert [s.output_cap(ModelOptions(effort="high")) for s in (FRESH, escalated)] == [65_536, 65_536]
    assert [s.output_cap(ModelOptions(effort="minimal")) for s in (FRESH, escalated)] == [8_192, 65_536]
    assert [s.output_cap(ModelOptions(), "medium") for s in (FRESH, escalated)] == [65_536, 65_536]
    assert [s.output_cap(ModelOptions(), "none") for s in (FRESH, escalated)] == [8_192, 65_536]
    assert [s.output_cap(ModelOptions(effort="none"), "high") for s in (FRESH, escalated)] == [8_192, 65_536]
    assert [s.output_cap(ModelOptions(output_cap=500)) for s in (FRESH, escalated)] == [500, 500]


@pytest.mark.parametrize(("cap", "raised"), [(65_536, 65_536), (100_000, 65_536)])
def test_cap_that_would_not_grow_stays(cap: int, raised: int) -> None:
    settings = attrs.evolve(SETTINGS, output_cap=cap, output_cap_raised=raised)
    assert transition(state(settings=settings), outcome("length", can_raise_cap=True)).reason == "output_recover"


# -- the token target (C9) ---------------------------------------------------------------------------------


def keep_at_work(target: int, used: list[int]) -> list[str]:
    return reasons(targeted(target), [outcome(turn_output_tokens=tokens) for tokens in used])


@pytest.mark.parametrize(
    ("target", "used", "reason"),
    [
        (1_000, 899, "budget_continue"),
        (1_000, 900, "completed"),
        (1_000, 2_000, "completed"),
        (1, 0, "budget_continue"),
    ],
)
def test_the_target_counts_as_reached_at_90_percent(target: int, used: int, reason: str) -> None:
    assert keep_at_work(target, [used]) == [reason]


@pytest.mark.parametrize(
    ("increments", "expected"),
    [
        ([499, 499, 499], ["budget_continue"] * 3 + ["diminishing"]),
        ([499, 501, 499], ["budget_continue"] * 4),
        ([500, 499, 499, 499], ["budget_continue"] * 4 + ["diminishing"]),
        ([499, 499, 500, 499, 499], ["budget_continue"] * 6),
        ([0, 0, 0], ["budget_continue"] * 3 + ["diminishing"]),
    ],
)
def test_three_small_increments_are_diminishing(increments: list[int], expected: list[str]) -> None:
    assert keep_at_work(1_000_000, list(itertools.accumulate([1_000, *increments]))) == expected


def test_work_between_two_nudges_counts_as_one_increment() -> None:
    script = [
        outcome(turn_output_tokens=1_000),
        outcome(calls=1, turn_output_tokens=1_200),
        outcome(turn_output_tokens=1_600),
        outcome(turn_output_tokens=1_700),
        outcome(turn_output_tokens=1_800),
        outcome(turn_output_tokens=1_900),
    ]
    assert reasons(targeted(1_000_000), script)[-2:] == ["budget_continue", "diminishing"]


def test_without_a_target_it_never_keeps_at_work() -> None:
    assert transition(FRESH, outcome(turn_output_tokens=1)) == Stop(reason="completed")


# -- monologue ----------------------------------------------------------------------------------------------


def test_monologue_nudge_if_the_turn_continues() -> None:
    told = "You are going in circles: the same text. Do something else, or say what keeps you from it."
    steered = transition(FRESH, outcome(steered=True, monologue="the same text"))
    assert steered == Continue(reason="steered", state=FRESH, nudge=told)
    blocked = transition(FRESH, outcome(stop_hook="blocked", stop_hook_text="red", monologue="the same text"))
    assert blocked == Continue(reason="stop_hook_blocked", state=state(stop_blocks=1), nudge=f"{told}\n\nred")
    assert transition(FRESH, outcome(monologue="the same text")) == Stop(reason="completed")
    escalated = transition(FRESH, outcome("length", can_raise_cap=True, monologue="the same text"))
    assert escalated == Continue(reason="output_escalate", state=state(escalated=True), keep=False)


def test_no_nudge_asks_for_a_summary() -> None:
    for _, _, move in CONTINUES:
        assert move.nudge is None or "summarise" not in move.nudge.replace("n't summarise", "")


# -- every script ends -----------------------------------------------------------------------------------------

FAILURES = st.builds(
    Failure,
    kind=st.sampled_from(
        ["overflow", "media", "auth", "filtered", "signature", "rate_limited", "transient", "transient", "fatal"]
    ),
    message=st.just("broken"),
    wait=st.none() | st.floats(0, 100),
)
FINISHES = st.sampled_from(
    ["stop", "calls", "length", "pause", "refusal", "content_filter", "overflow", "malformed", "unknown", None]
)
RARELY = st.integers(0, 9).map(lambda number: number == 0)
OUTCOMES = st.builds(
    StepOutcome,
    finish=FINISHES,
    failure=st.none() | FAILURES,
    calls=st.integers(0, 2),
    started=st.booleans(),
    has_content=st.booleans(),
    steered=st.booleans(),
    prevented=RARELY.map(lambda yes: "enough" if yes else None),
    repetition=RARELY.map(lambda yes: "circles" if yes else None),
    can_raise_cap=st.booleans(),
    stop_hook=st.sampled_from(["none", "passed", "blocked", "prevented"]),
    invalid_output=st.none() | st.just("it does not fit"),
    room=st.sampled_from(["none", "collapsed", "compacted"]),
    jitter=st.floats(0, 1),
).map(lambda what: attrs.evolve(what, started=what.started and what.calls > 0))
STATES = st.builds(
    LoopState,
    settings=st.builds(
        Settings,
        retry=st.builds(RetryPolicy, attempts=st.integers(0, 4), base=st.floats(0, 3), total=st.floats(0, 500)),
        output_recoveries=st.integers(0, 4),
        stop_hook_limit=st.integers(1, 4),
        token_target=st.none() | st.integers(1, 5_000),
        wrap_up=st.booleans(),
    ),
    model_count=st.integers(1, 3),
)


def run(
    before: LoopState, script: Callable[[], StepOutcome], steps: int | None, most: int
) -> tuple[Stop, list[ContinueReason]]:
    """Do what the loop does, with a scripted step; complain if it makes more than *most* requests."""
    budget = Budget(limits=Limits(steps=steps))
    repeats, wrapped_up, tokens = False, False, 0
    found: list[ContinueReason] = []
    for _ in range(most):
        if not repeats:
            wrapped_up = before.settings.wrap_up and budget.steps_left == 1
            exhausted = budget.take_step()
            if exhausted is not None:
                return Stop(reason=exhausted.reason), found
        what = script()
        tokens += what.turn_output_tokens
        if (what.room == "collapsed" and before.collapsed) or (what.room == "compacted" and before.reactive_compacted):
            what = attrs.evolve(what, room="none")  # the loop has asked the context keeper once already
        move: Move = transition(before, attrs.evolve(what, wrapped_up=wrapped_up, turn_output_tokens=tokens))
        if isinstance(move, Stop):
            return move, found
        found.append(move.reason)
        before, repeats = move.state, not move.keep
    raise AssertionError(f"it goes on and on: {found}")


@given(before=STATES, steps=st.integers(1, 8), data=st.data())
def test_a_step_limit_ends_any_script(before: LoopState, steps: int, data: st.DataObject) -> None:
    """Every request that is not sent again takes a step; how often one is sent again is bounded."""
    per_step = 1 + before.settings.retry.attempts + 1  # the request, its retries, a collapse
    per_turn = 3 + (before.model_count - 1) * per_step  # escalation, signature, compaction; other models
    stop, found = run(before, lambda: data.draw(OUTCOMES), steps, steps * per_step + per_turn + 1)
    assert stop.reason in STOP_REASONS
    assert set(found) <= set(CONTINUE_REASONS)


@given(before=STATES, data=st.data())
def test_talking_model_ends_without_limits(before: LoopState, data: st.DataObject) -> None:
    """Without calls and steers, the sum of the budgets bounds the turn."""
    settings = before.settings
    talk = OUTCOMES.map(lambda what: attrs.evolve(what, calls=0, steered=False, started=False))
    grows = st.tuples(talk, st.integers(0, 1_000)).map(lambda both: attrs.evolve(both[0], turn_output_tokens=both[1]))
    kept = PAUSES + settings.output_recoveries + settings.stop_hook_limit + 1
    if settings.token_target is not None:
        # Of three continuations in a row, one adds so many tokens, or it ends.
        kept += 3 * (settings.token_target // DIMINISHING_TOKENS + 2)
    per_step = 1 + settings.retry.attempts + 1
    most = (kept + 1) * per_step + 3 + (before.model_count - 1) * per_step + 1
    stop, _ = run(before, lambda: data.draw(grows), None, most)
    assert stop.reason in STOP_REASONS


@given(before=STATES, what=OUTCOMES)
def test_any_outcome_has_a_move_that_makes_sense(before: LoopState, what: StepOutcome) -> None:
    move = transition(before, what)
    assert move == transition(before, what)
    if isinstance(move, Continue):
        assert (move.delay is not None) == (move.reason == "provider_retry")
        assert move.keep or move.nudge is None, "a nudge behind a message that is taken back"
        assert move.keep or not what.started, "a call has run, and its result would be lost"
        assert move.state.settings == before.settings
    elif what.started:
        assert move.keep or what.failure is not None
