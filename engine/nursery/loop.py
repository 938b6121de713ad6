"""The loop of a turn.

Each round: make room (prune, collapse, compact, blocking limit), run a step, let the pure `transition` decide what comes
next, carry that out. The loop itself decides nothing, so every reason to go on or to stop has its test without Trio.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from engine.core.events import DoomDetected, LoopContinued, RecoveryAsked
from engine.core.ids import RequestId
from engine.core.llm_types import ModelRequest
from engine.nursery.apply_compaction import compact_only, make_room, make_room_after
from engine.nursery.hook_points import (
    ask_about_prompts,
    ask_about_request,
    ask_for_sources,
    ask_to_stop,
    while_notifying,
)
from engine.nursery.inbox import nudge, promote, steers
from engine.nursery.loop_detection import Finding, signature_of
from engine.nursery.loop_state import Continue, LoopState, Move, StepOutcome, Stop
from engine.nursery.request_prefix import prepare_prompt, system_text
from engine.nursery.retry import patience
from engine.nursery.running_turn import RequestUsage, TurnRun
from engine.nursery.side_request import wait_for_retry
from engine.nursery.step_runner import begin_step, close_step, resume_step, run_step
from engine.nursery.stream_reader import estimate_next
from engine.nursery.transition import switch_model, transition, wait_again, wants_stop_hooks

if TYPE_CHECKING:
    from engine.journal.state import OpenStep, Received
    from engine.nursery.step import Step

WRAP_UP = "This is the last step that the limit allows. Answer now in text, with what you have; no tools are offered."


async def run_loop(run: TurnRun) -> Stop:
    """Run the turn to a stop.

    Always a cancel point; a schedule point unless it stops before its first step. If cancelled, the cleanup saves what
    is open.
    """
    # A task that was started in a cancelled scope runs to its first checkpoint: nothing may happen before this one.
    await trio.lowlevel.checkpoint_if_cancelled()
    if run.inputs.compaction is not None:
        return await compact_only(run, run.inputs.compaction)
    if run.inputs.must_claim:
        # Before anything is asked or paid for: if the session is lost, this ends the turn.
        await run.flush()
        await trio.lowlevel.checkpoint_if_cancelled()
    await _take_tools(run)
    state = _first_state(run)
    # Of a turn that another engine has begun, the steps are counted on.
    number, attempt = run.budget.steps, 0
    parked = run.step  # set here only if another engine has begun it: see `nursery.parking`
    while True:
        # Only here, inside of the host's scopes, is the host's deadline visible; the frame needs it to name the cause.
        run.state.host_deadline = trio.current_effective_deadline()
        move = None if parked is not None else await _begin_round(run, state)
        if parked is not None:
            number, attempt = parked.number, parked.attempt
            move, parked = await _finish_step(run, state, parked), None
        elif move is None:
            number, attempt = (number, attempt + 1) if run.state.repeats_step else (number + 1, 1)
            move = await _take_step(run, state, number, attempt)
        if isinstance(move, Stop) and move.is_exhausted and run.inputs.settings.on_exhausted == "ask":
            move = await _ask_for_recovery(run, state, move)
        if isinstance(move, Stop):
            _close(run, move)
            return move
        state = await _carry_out(run, move, number)


async def _take_tools(run: TurnRun) -> None:
    """Take the tools as they are now, for the whole turn. A checkpoint if a source holds the first turn, or asks the user.

    If cancelled, the turn has those from before.
    """
    if run.step is not None:
        # Another engine has begun it, and nothing may come between a call and its result.
        return
    tools = run.inputs.services.tools
    await tools.ready()
    await ask_for_sources(run)
    run.registry = tools.registry()
    tools.report_problems()
    if (text := tools.announcement()) is not None:
        nudge(run, text)


# -- before a request ------------------------------------------------------------------------


async def _begin_round(run: TurnRun, state: LoopState) -> Move | None:
    """Promote input, then make room in the window; None: go on to the request. A checkpoint if a hook or the keeper is one."""
    promote(run)
    blocked = await ask_about_prompts(run)
    if blocked is not None:
        return Stop(reason="hook_stopped", detail=blocked)
    # After the hooks: they may have changed the files that the prompt is made of. Before room is made: what it adds counts.
    await prepare_prompt(run)
    return await make_room(run, state) if run.inputs.settings.auto_compact else None


# -- the step -----------------------------------------------------------------------------------


async def _take_step(run: TurnRun, state: LoopState, number: int, attempt: int) -> Move:
    """Build the request, and run the step with it. A schedule point, unless a limit or a hook lets no step begin."""
    # A retry is the same step: it neither counts against the limit nor changes what the step is for.
    wrapped_up = _is_last(run) if attempt == 1 else run.state.wrapping_up
    if run.budget.is_limited:
        over = run.budget.check_next(estimate_next(run, run.deps.models[state.model_index], _request(run, state)))
        if over is not None:
            return Stop(reason=over.reason, detail=over.detail, failure=over.info)
    if attempt == 1:
        exhausted = run.budget.take_step()
        if exhausted is not None:
            return Stop(reason=exhausted.reason, detail=exhausted.detail)
        if wrapped_up:
            nudge(run, WRAP_UP)
    run.state.wrapping_up = wrapped_up
    run.state.patience = patience(run.inputs.settings.retry, state.retry)
    if run.inputs.hooks.request:
        refused = await ask_about_request(run, _request(run, state), number, attempt)
        if refused is not None:
            return Stop(reason="hook_stopped", detail=refused)
    # Built again: a hook may have added to the history. From here to the open step there is no checkpoint, so the
    # request that is sent is the one whose transcript the step's record follows.
    model, request = run.deps.models[state.model_index], _request(run, state)
    step = begin_step(run, model, request, number=number, attempt=attempt, is_last=wrapped_up)
    return await _finish_step(run, state, step)


def reopen_step(run: TurnRun, open_step: OpenStep, received: Received) -> None:
    """Open the step that another engine has left; `run_loop` goes on with it. Not a checkpoint."""
    state = _first_state(run)
    resume_step(run, run.deps.models[state.model_index], _request(run, state), open_step, received)


def _first_state(run: TurnRun) -> LoopState:
    return LoopState(settings=run.inputs.settings, model_count=len(run.deps.models))


async def _finish_step(run: TurnRun, state: LoopState, step: Step) -> Move:
    """Run a step to its end, and return the move that follows. Always a schedule point."""
    outcome = await run_step(run, step)
    # A host that reports no usage leaves the older count, which is better than none.
    if step.parser.usage.prompt:
        run.state.counted = RequestUsage(usage=step.parser.usage, transcript=step.request.transcript)
        problem = run.inputs.services.deferral.check(step.model.info, step.request, step.parser.usage)
        if problem is not None:
            run.notice("warning", "tools_not_deferred", problem)
    if outcome.failure is None:
        outcome = await _judge_answer(run, state, outcome, step)
    elif outcome.failure.kind in {"overflow", "media"} and not outcome.started:
        outcome = attrs.evolve(outcome, room=await make_room_after(run, state, outcome.failure))
    move = transition(state, outcome)
    # Only if the turn would end now, so these hooks come after the first verdict, and it is asked for again.
    if (
        run.inputs.hooks.task_completed
        and isinstance(move, Stop)
        and move.reason == "completed"
        and not run.inputs.is_child
    ):
        verdict, reason = await ask_to_stop(run, run.inputs.hooks.task_completed, step.answer.text, state.stop_blocks)
        outcome = attrs.evolve(outcome, stop_hook=verdict, stop_hook_text=reason, steered=bool(steers(run)))
        move = transition(state, outcome)
    return move


def _request(run: TurnRun, state: LoopState) -> ModelRequest:
    """Build the next request from the record as it stands. Not a checkpoint."""
    model = run.deps.models[state.model_index]
    options = run.inputs.settings.options.over(model.info.options)
    return ModelRequest(
        model=model.info.name,
        system=system_text(run),
        transcript=run.journal.log.state.transcript,
        # The same tools to the end, also where none may be called: a request without them would not begin with the
        # bytes of the one before, and the host's cache would be lost.
        tools=run.registry.schemas_for(
            model.info.name, run.hidden, defers=run.inputs.services.deferral.is_used_with(model.info)
        ),
        tool_choice="none" if run.state.wrapping_up else "auto",
        options=options,
        max_output=min(state.output_cap(options, model.info.unasked_effort), model.info.output),
        output_schema=run.inputs.output_schema,
        reasoning_from=run.journal.log.state.reasoning_from,
        session_id=run.journal.log.session_id,
    )


async def _ask_for_recovery(run: TurnRun, state: LoopState, stop: Stop) -> Move:
    """Ask the user: wait, switch the model, or stop. A checkpoint; if cancelled, the question is withdrawn."""
    # The step stays open meanwhile: if a cancel comes, what was received of it is kept.
    question = RecoveryAsked(
        request_id=RequestId(run.deps.ids.new("req")),
        model=run.deps.models[state.model_index].info.name,
        message=stop.detail,
        reset_at=stop.reset_at,
        failure=stop.failure,
    )
    ask = partial(
        run.inputs.services.questions.ask_recovery, question, run.journal, timeout=run.inputs.settings.question_timeout
    )
    way, model = await while_notifying(run, "recovery", question.message, question.request_id, ask)
    if way == "wait":
        return wait_again(state, stop, run.deps.clock.now())
    if model is None:
        return stop
    # Appended, so that the indexes of the models before it still hold.
    run.deps = attrs.evolve(run.deps, models=(*run.deps.models, model))
    return switch_model(state, stop)


def _is_last(run: TurnRun) -> bool:
    return run.inputs.settings.wrap_up and run.budget.steps_left == 1 and bool(run.registry.names)


async def _judge_answer(run: TurnRun, state: LoopState, outcome: StepOutcome, step: Step) -> StepOutcome:
    """Add to an outcome what is known only now: repetition, steers, stop hooks, the fit of a structured answer."""
    text = step.answer.text
    if outcome.calls == 0:
        outcome = _note_finding(run, outcome, run.state.repetition.check_text(text))
    for entry in step.ledger.cut_calls:
        # Calls that run are looked at before they start; these never do.
        entry.seen, finding = run.state.repetition.check(signature_of(entry.tool_name, entry.arguments))
        entry.seen.note(entry.settlement.value)
        outcome = _note_finding(run, outcome, finding)
    if wants_stop_hooks(outcome) and not steers(run):
        hooks = run.inputs.hooks.sub_agent_stop if run.inputs.is_child else run.inputs.hooks.stop
        verdict, reason = await ask_to_stop(run, hooks, text, state.stop_blocks)
        outcome = attrs.evolve(outcome, stop_hook=verdict, stop_hook_text=reason)
    if run.inputs.check_output is not None and outcome.calls == 0:
        run.state.output, problem = run.inputs.check_output(run.state.answer_prefix + text)
        if problem is not None and step.answer.last_text not in {"", text}:
            # Many models write a sentence first; then the answer is a block of its own.
            run.state.output, problem = run.inputs.check_output(step.answer.last_text)
        outcome = attrs.evolve(outcome, invalid_output=problem)
    # Last, since hooks are checkpoints: a steer that came during them must not be left behind by a turn that ends.
    return attrs.evolve(outcome, steered=bool(steers(run)))


def _note_finding(run: TurnRun, outcome: StepOutcome, finding: Finding | None) -> StepOutcome:
    """Add to an outcome that the model repeats itself: first it gets a nudge, then it is stopped. Not a checkpoint."""
    if finding is None:
        return outcome
    run.journal.append(DoomDetected(kind=finding.kind, action=finding.action, detail=finding.detail))
    # A call that was cut off has not run, so there is nothing to ask the user about.
    if finding.action == "nudge" or (finding.action == "ask" and outcome.cut_calls):
        return attrs.evolve(outcome, monologue=finding.detail)
    return attrs.evolve(outcome, repetition=finding.detail)


# -- the move -------------------------------------------------------------------------------------


def _close(run: TurnRun, move: Move) -> None:
    """Save the open step, or take it back, according to the move. Not a checkpoint."""
    step = run.step
    if step is None:
        return
    if move.keep:
        run.state.keep_answer(step.answer.text)
    close_step(run, step, keep=move.keep, reason=move.reason if isinstance(move, Continue) else "failed")


async def _carry_out(run: TurnRun, move: Continue, number: int) -> LoopState:
    """Carry out a move; return the state for the next round. A checkpoint if there is something to wait for."""
    step = run.step
    if step is not None:
        run.state.repeats_step = not move.keep
    _close(run, move)
    run.journal.append(_continued(run, move, number))
    if step is not None and move.reason in _JOINED and not step.ledger.entries:
        # Not `run.state.answer`: of a step that said nothing, that is the text of an older one.
        run.state.answer_prefix += step.answer.text
    elif step is not None and move.keep:
        run.state.answer_prefix = ""
    if move.nudge is not None:
        nudge(run, move.nudge)
    if move.delay is not None:
        attempt = move.state.retry.attempts_made
        await wait_for_retry(run, move.delay, attempt=attempt, message=move.status, failure=move.failure)
    return move.state


def _continued(run: TurnRun, move: Continue, number: int) -> LoopContinued:
    """Return the event about a move; where another model takes over, with which one, and why."""
    event = LoopContinued(reason=move.reason, step=number)
    if move.reason != "model_fallback":
        return event
    model = run.deps.models[move.state.model_index].info.name
    return attrs.evolve(event, model=model, message=move.status, failure=move.failure)


# The next answer continues this one in the middle of a sentence, so their texts are one.
_JOINED = frozenset({"output_recover", "provider_pause"})
