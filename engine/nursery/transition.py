"""`transition(state, outcome)`: what the loop does next, as a pure function (C6).

The loop only carries out moves. Each reason to go on has a budget of its own in `LoopState`, so a turn terminates whatever
the provider sends. When a budget is used up, the turn ends with what originally went wrong, not with "too many retries".

The order of the checks is a part of the contract: what ends the turn comes before what goes on, and what the user asked
for (a steer) before what the engine would do by itself.
"""

from __future__ import annotations

from typing import Final

import attrs

from engine.core.events import StopReason
from engine.nursery.loop_state import Continue, LoopState, Move, StepOutcome, Stop
from engine.nursery.retry import Failure, RetryBudget, next_delay

# Of a token target. A model that is told to go on at 95% has no room for another useful step.
TARGET_PERCENT = 90
# So many continuations that each added fewer tokens than this: the model has nothing more to do, and only says so.
DIMINISHING_RUNS = 3
DIMINISHING_TOKENS = 500
# Hosted tools pause an answer now and then; a host that does nothing else would keep the turn for ever.
PAUSES = 20
# A second compaction may help where the first one left large results; a third one finds the same history again.
COMPACTIONS_IN_A_ROW = 2
# Streams that broke in a row, each after a call had run, so that the retries of a request do not count.
BREAKS = 5
# Calls in a row that the host could not parse. A model that fails so often will not learn it in this turn.
MALFORMED = 3
# Of the whole turn, whatever the other answers achieve. Without it a host that sends nothing after each good answer would
# keep the turn for ever: a completed call renews the budgets that count in a row.
UNUSABLE_ANSWERS = 20
# The beginning of the detail where a structured answer still does not fit after it was asked for again.
NO_FIT: Final = "the answer does not fit the schema"


def wants_stop_hooks(outcome: StepOutcome) -> bool:
    """Return whether to ask the stop hooks: only when the model itself has come to an end (C8)."""
    return (
        outcome.failure is None
        and outcome.finish in {"stop", "unknown", "calls"}
        and outcome.calls == 0
        and not (outcome.steered or outcome.wrapped_up or outcome.prevented or outcome.repetition)
        and not _shows_nothing(outcome)
    )


def transition(state: LoopState, outcome: StepOutcome) -> Move:
    """Return what to do after a step."""
    move = _within_the_turn(_decide(state, outcome), outcome)
    # The nudge rides on a move that goes on anyway: a monologue is no reason of its own to go on.
    if outcome.monologue is None or isinstance(move, Stop) or not move.keep:
        return move
    nudge = f"You are going in circles: {outcome.monologue}. Do something else, or say what keeps you from it."
    return attrs.evolve(move, nudge=nudge if move.nudge is None else f"{nudge}\n\n{move.nudge}")


def _within_the_turn(move: Move, outcome: StepOutcome) -> Move:
    """Count an answer that could not be used and is asked for again; end the turn where that was too often."""
    if not isinstance(move, Continue) or move.reason not in {"empty_retry", "output_recover", "schema_repair"}:
        return move
    unusable = move.state.unusable_answers + 1
    if unusable > UNUSABLE_ANSWERS:
        return Stop(
            reason="output_limit" if outcome.finish == "length" else "incomplete",
            detail=f"{unusable} answers of this turn were empty, cut off or not as their schema demands",
            keep=outcome.has_content,
        )
    return attrs.evolve(move, state=attrs.evolve(move.state, unusable_answers=unusable))


def _decide(state: LoopState, outcome: StepOutcome) -> Move:
    # These two before a failure: they were decided while the answer was still good.
    if outcome.repetition is not None and not outcome.cut_calls:
        return Stop(reason="doom_loop", detail=outcome.repetition)
    if outcome.prevented is not None:
        return Stop(reason="hook_stopped", detail=outcome.prevented)
    if outcome.failure is not None:
        return _after_failure(state, outcome, outcome.failure)
    # An answer came: the budgets "in a row" start over. The others hold for the whole turn, `waited` among them.
    state = attrs.evolve(
        state, retry=attrs.evolve(state.retry, attempts_made=0, silent=0.0), breaks=0, collapsed=False, compactions=0
    )
    if outcome.finish == "refusal":
        return Stop(reason="refusal", detail=outcome.finish_detail)
    if outcome.finish == "content_filter":
        return Stop(reason="content_filter", detail=outcome.finish_detail)
    if outcome.cut_calls:
        move = _after_cut_call(state, outcome)
        if outcome.repetition is not None and isinstance(move, Continue):
            return Stop(reason="doom_loop", detail=outcome.repetition)
        return move
    if outcome.calls:
        if outcome.has_progress:
            # So what the model may do wrong in a row starts over.
            state = attrs.evolve(state, malformed=0, empties=0, recoveries=0)
        return _after_calls(state, outcome)
    return _after_finish(state, outcome)


def _after_finish(state: LoopState, outcome: StepOutcome) -> Move:
    match outcome.finish:
        case "length":
            return _after_cut(state, outcome)
        case "pause":
            return _after_pause(state, outcome)
        case "malformed":
            return _after_malformed(state, outcome)
        case "overflow":
            return Stop(reason="prompt_too_long", detail=outcome.finish_detail)
        case None:
            return Stop(reason="incomplete", detail="the answer ended without a finish reason")
        case _:
            return _after_answer(state, outcome)


# -- a request or a stream that failed ------------------------------------------------


def _after_failure(state: LoopState, outcome: StepOutcome, failure: Failure) -> Move:
    if failure.kind == "oversized":
        # Whatever calls of it have done: a host that sends without end would do so again.
        return Stop(reason="output_limit", detail=failure.message, keep=outcome.has_content, failure=failure.info)
    if outcome.started:
        # A call has run: its results are saved and the next request goes on from them. Sending this request again would
        # run the call twice.
        return _resume(state, outcome, failure)
    # What a wait can't help has an answer of its own; the rest may be retried.
    match failure.kind:
        case "overflow" | "media":
            return _after_overflow(state, outcome, failure)
        case "signature" if not state.signature_retried:
            return Continue(reason="signature_retry", state=attrs.evolve(state, signature_retried=True), keep=False)
        case "auth":
            # Another model may have another key.
            stop = Stop(
                reason="auth_failed",
                detail=failure.message,
                keep=outcome.has_content,
                is_exhausted=True,
                failure=failure.info,
            )
            return _fall_back(state, failure) or stop
        case "filtered":
            return Stop(reason="content_filter", detail=failure.message, keep=outcome.has_content, failure=failure.info)
        case _:
            return _retry(state, outcome, failure)


def _resume(state: LoopState, outcome: StepOutcome, failure: Failure) -> Move:
    if outcome.wrapped_up:
        return Stop(reason="step_limit", detail=failure.message, failure=failure.info)
    if state.breaks >= BREAKS:
        return _failed(outcome, failure)
    return Continue(reason="resume_after_break", state=attrs.evolve(state, breaks=state.breaks + 1))


def _after_overflow(state: LoopState, outcome: StepOutcome, failure: Failure) -> Move:
    # The keeper has acted already (`make_room_after`): no retry without a smaller request.
    match outcome.room:
        case "collapsed":
            return Continue(reason="overflow_prune_retry", state=attrs.evolve(state, collapsed=True), keep=False)
        case "compacted":
            compacted = attrs.evolve(state, reactive_compacted=True)
            return Continue(reason="reactive_compact_retry", state=compacted, keep=False)
        case "none":
            return Stop(
                reason="prompt_too_long", detail=failure.message, keep=outcome.has_content, failure=failure.info
            )


def _retry(state: LoopState, outcome: StepOutcome, failure: Failure) -> Move:
    delay = next_delay(failure, state.retry, state.settings.retry, outcome.jitter)
    if delay is not None:
        # The message is taken back: the same request gives a new answer, and the user must not see both.
        spent = state.retry.after(failure, delay)
        return Continue(
            reason="provider_retry",
            state=attrs.evolve(state, retry=spent),
            keep=False,
            delay=delay,
            status=failure.message,
            failure=failure.info,
        )
    return _fall_back(state, failure) or attrs.evolve(_failed(outcome, failure), is_exhausted=True)


def _fall_back(state: LoopState, failure: Failure) -> Continue | None:
    """Return the move to the next model of the chain; None: there is none.

    A fallback holds for the rest of the turn: going back would cost the new model's cache, and meet the same failure.
    """
    if state.model_index + 1 >= state.model_count:
        return None
    fresh = attrs.evolve(
        state,
        model_index=state.model_index + 1,
        # New attempts for a new host, but not a new budget of seconds: the user is waiting all the same.
        retry=RetryBudget(0, state.retry.waited),
        signature_retried=False,
    )
    return Continue(reason="model_fallback", state=fresh, keep=False, status=failure.message, failure=failure.info)


def _failed(outcome: StepOutcome, failure: Failure) -> Stop:
    # Thinking alone is not kept: hosts refuse a message that has nothing else.
    reason: StopReason = "rate_limited" if failure.kind == "rate_limited" else "provider_error"
    return Stop(
        reason=reason,
        detail=failure.message,
        reset_at=failure.reset_at,
        keep=outcome.has_content,
        failure=failure.info,
    )


# -- an answer with calls ------------------------------------------------------------------


def _after_cut_call(state: LoopState, outcome: StepOutcome) -> Move:
    """Go on after a call that the model did not bring to an end; its result tells the model so."""
    if outcome.wrapped_up:
        return Stop(reason="step_limit", detail="a call of the last step was cut off")
    at_limit = outcome.finish == "length"
    if at_limit and state.can_escalate and outcome.can_raise_cap:
        # Sent again with more room; but what other calls of the answer have done must stay in the record.
        has_results = outcome.calls > outcome.cut_calls
        return Continue(reason="output_escalate", state=attrs.evolve(state, escalated=True), keep=has_results)
    where = "at the output limit" if at_limit else "before its arguments were complete"
    if state.recoveries >= state.settings.output_recoveries:
        detail = f"{state.recoveries + 1} times in a row, a call was cut off {where}"
        return Stop(reason="output_limit" if at_limit else "incomplete", detail=detail)
    done = state.recoveries + 1
    return Continue(
        reason="output_recover",
        state=attrs.evolve(state, recoveries=done),
        nudge=(
            f"Your call was cut off {where}, so it was not run (attempt {done} of {state.settings.output_recoveries}). "
            "Do the same in several smaller calls."
        ),
    )


def _after_calls(state: LoopState, outcome: StepOutcome) -> Move:
    # A model that calls tools although none are offered has used up its last step.
    if outcome.wrapped_up:
        return Stop(reason="step_limit", detail="the last step that the limit allows was used")
    return Continue(reason="next_step", state=state)


# -- an answer without calls ---------------------------------------------------------------


def _after_cut(state: LoopState, outcome: StepOutcome) -> Move:
    if outcome.wrapped_up:
        return Stop(reason="step_limit", detail="the last answer was cut off at the output limit")
    # First with a higher cap, from the beginning: a whole answer is better than one that is pieced together.
    if state.can_escalate and outcome.can_raise_cap:
        return Continue(reason="output_escalate", state=attrs.evolve(state, escalated=True), keep=False)
    if state.recoveries >= state.settings.output_recoveries:
        return Stop(reason="output_limit", detail=f"cut off {state.recoveries + 1} times")
    done = state.recoveries + 1
    return Continue(
        reason="output_recover",
        state=attrs.evolve(state, recoveries=done),
        nudge=(
            f"Your answer was cut off at the output limit (continuation {done} of "
            f"{state.settings.output_recoveries}, {outcome.turn_output_tokens} tokens so far). Go on exactly where "
            "it stopped. Don't apologise, don't repeat and don't summarise what you wrote."
        ),
    )


def _after_pause(state: LoopState, outcome: StepOutcome) -> Move:
    if outcome.wrapped_up:
        return Stop(reason="step_limit", detail="the last step was paused by the provider")
    if state.pauses >= PAUSES:
        return Stop(reason="incomplete", detail=f"the provider paused {PAUSES} times")
    return Continue(reason="provider_pause", state=attrs.evolve(state, pauses=state.pauses + 1))


def _after_malformed(state: LoopState, outcome: StepOutcome) -> Move:
    """Ask the model to repeat a call that its host could not parse; without the nudge it would wait for a result."""
    if outcome.wrapped_up:
        return Stop(reason="step_limit", detail="the last step was a call that its host could not read")
    if state.malformed >= MALFORMED:
        return Stop(
            reason="incomplete", detail=f"the host could not read {MALFORMED + 1} calls: {outcome.finish_detail}"
        )
    return Continue(
        reason="schema_repair",
        state=attrs.evolve(state, malformed=state.malformed + 1),
        nudge=(
            f"Your last call could not be read ({outcome.finish_detail}), so it was not run. Make it again, as the "
            "schema of its tool says."
        ),
    )


def _after_answer(state: LoopState, outcome: StepOutcome) -> Move:
    # A steer even before the step limit: the next round then stops at the limit, with the steer in the history.
    if outcome.steered:
        return Continue(reason="steered", state=state)
    if outcome.wrapped_up:
        return Stop(reason="step_limit", detail="the last step that the limit allows was used")
    if _shows_nothing(outcome):
        return _after_empty(state, outcome)
    if outcome.stop_hook == "prevented":
        return Stop(reason="hook_stopped", detail=outcome.stop_hook_text)
    if outcome.stop_hook == "blocked":
        return _after_block(state, outcome)
    if outcome.invalid_output is not None:
        return _after_invalid(state, outcome.invalid_output)
    return _after_target(state, outcome)


def _shows_nothing(outcome: StepOutcome) -> bool:
    return outcome.is_empty or (outcome.finish == "calls" and outcome.calls == 0)


def _after_empty(state: LoopState, outcome: StepOutcome) -> Move:
    """Ask once more: an answer without a word is an accident of the model or its host, not the end of a task."""
    what = "it announced a call and made none" if outcome.finish == "calls" else "it had no text and no call"
    if state.empties >= 1:
        return Stop(reason="incomplete", detail=f"the model's answer was empty twice: {what}", keep=outcome.has_content)
    return Continue(
        reason="empty_retry",
        state=attrs.evolve(state, empties=state.empties + 1),
        keep=False,
    )


def _after_block(state: LoopState, outcome: StepOutcome) -> Move:
    if state.stop_blocks >= state.settings.stop_hook_limit:
        return Stop(reason="stop_hook_limit", detail=outcome.stop_hook_text)
    return Continue(
        reason="stop_hook_blocked",
        state=attrs.evolve(state, stop_blocks=state.stop_blocks + 1),
        nudge=outcome.stop_hook_text,
    )


def _after_invalid(state: LoopState, problem: str) -> Move:
    # Once: a model that fails twice at the same schema does so again, at the price of the whole history.
    if state.schema_repairs >= 1:
        return Stop(reason="incomplete", detail=f"{NO_FIT}: {problem}")
    return Continue(
        reason="schema_repair",
        state=attrs.evolve(state, schema_repairs=state.schema_repairs + 1),
        nudge=f"Your answer does not fit the schema that was asked for: {problem}\nAnswer again with that JSON only.",
    )


def _after_target(state: LoopState, outcome: StepOutcome) -> Move:
    target, used = state.settings.token_target, outcome.turn_output_tokens
    if target is None or 100 * used >= TARGET_PERCENT * target:
        return Stop(reason="completed")
    increments = state.increments
    if state.nudged_at is not None:
        increments = (*increments, used - state.nudged_at)
    recent = increments[-DIMINISHING_RUNS:]
    if len(recent) == DIMINISHING_RUNS and all(gained < DIMINISHING_TOKENS for gained in recent):
        return Stop(
            reason="diminishing", detail=f"the last {DIMINISHING_RUNS} continuations added {list(recent)} tokens"
        )
    return Continue(
        reason="budget_continue",
        state=attrs.evolve(state, increments=increments, nudged_at=used),
        nudge=(
            f"{used} of {target} tokens of this task's budget are used ({100 * used // target} %). Keep working on "
            "what is not done yet. Don't summarise."
        ),
    )


# -- when the user decides how to go on ----------------------------------------------------------


def wait_again(state: LoopState, stop: Stop, now: float) -> Continue:
    """Return the move of a user who decides to wait: until the limit is lifted, or for the longest single wait."""
    delay = state.settings.retry.longest if stop.reset_at is None else max(0.0, stop.reset_at - now)
    # Not 0: the wait itself is the first attempt, and is shown as such.
    fresh = attrs.evolve(state, retry=RetryBudget(attempts_made=1))
    return Continue(
        reason="provider_retry", state=fresh, keep=False, delay=delay, status=stop.detail, failure=stop.failure
    )


def switch_model(state: LoopState, stop: Stop) -> Continue:
    """Return the move of a user who goes on with another model, which the loop appends to the chain."""
    fresh = attrs.evolve(
        state,
        model_index=state.model_count,
        model_count=state.model_count + 1,
        retry=RetryBudget(),
        signature_retried=False,
    )
    return Continue(reason="model_fallback", state=fresh, keep=False, status=stop.detail, failure=stop.failure)


# -- before a request ------------------------------------------------------------------------


def after_compaction(state: LoopState, *, is_continued: bool = False, is_over: bool = False) -> Move:
    """Return what to do after the context keeper has compacted ahead of a request.

    Args:
        state: before it.
        is_continued: the model was at work, and the summary asks it to go on.
        is_over: it was at work, and must not go on by itself any more.
    """
    if state.compactions >= COMPACTIONS_IN_A_ROW:
        return Stop(reason="compaction_ineffective", detail="the window is as full after compacting as before")
    if is_over:
        message = "the history was summarised, and the turn may not go on by itself any more: prompt again"
        return Stop(reason="blocking_limit", detail=message)
    done = attrs.evolve(state, compactions=state.compactions + 1, continued=state.continued + is_continued)
    return Continue(reason="compacted", state=done)
