"""Room in the model's window: made before each request, and after one that was too large.

The context keeper decides what the history should be; here it is put in place, in one synchronous stretch with its event,
so that a cancel leaves either the old history or the new one. The request for a summary runs in the turn's loop, so
whatever ends the turn ends that request too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, assert_never, cast

import attrs
from trio.lowlevel import enable_ki_protection

from engine.compaction.message_origin import is_mid_turn
from engine.core.compaction_types import Compaction, CompactionRequest, NotCompacted
from engine.core.errors import ConfigError
from engine.core.events import CompactionEnded, CompactionStarted, HistoryReplaced, StopReason
from engine.core.exception_groups import describe
from engine.core.foreign_calls import call_foreign, call_foreign_now
from engine.core.llm_types import ModelInfo
from engine.core.messages import AssistantMessage, Message, ResultsMessage, Usage, UserMessage
from engine.core.protocols import ContextView, Model
from engine.journal.state import SessionState
from engine.nursery.hook_points import ask_about_compaction, run_compaction_hooks
from engine.nursery.inbox import steers
from engine.nursery.loop_state import LoopState, Move, Stop
from engine.nursery.request_prefix import system_text
from engine.nursery.retry import Failure
from engine.nursery.running_turn import RequestUsage
from engine.nursery.transition import after_compaction
from engine.tools.registry import Registry

if TYPE_CHECKING:
    from engine.nursery.running_turn import TurnRun

Room = Literal["none", "collapsed", "compacted"]

# A summary that failed so often is not asked for again in that turn: each attempt costs a request as large as the window.
FAILURES = 2

_KEEPER: Final = "the context keeper"


async def make_room(run: TurnRun, state: LoopState) -> Move | None:
    """Prune, collapse, compact, check the blocking limit, in this order; None: go on to the request. A checkpoint."""
    keeper = run.deps.keeper
    # Cheapest first: old results cost nothing to drop, a summary costs a request. A step looks at a new view if the one
    # before has changed the history: that may have made enough room.
    view = view_of(run, state)
    if _replace(run, "prune", await call_foreign(_KEEPER, keeper.prune, view)):
        view = view_of(run, state)
    if _replace(run, "collapse", await call_foreign(_KEEPER, keeper.collapse, view, forced=False)):
        view = view_of(run, state)
    if run.state.failed_compactions < FAILURES and call_foreign_now(_KEEPER, keeper.wants_compaction, view):
        move = await _compact_before(run, state)
        if move is not None:
            return move
        view = view_of(run, state)
    if not call_foreign_now(_KEEPER, keeper.is_blocked, view):
        return None
    # Last resort: none of the steps above made enough room, so all that can be cleared is cleared.
    await _clear(run, state)
    view = view_of(run, state)
    if not call_foreign_now(_KEEPER, keeper.is_blocked, view):
        return None
    return Stop(
        reason="blocking_limit", detail=f"the next request can't fit into the model's window: {_report(run, view)}"
    )


async def _compact_before(run: TurnRun, state: LoopState) -> Move | None:
    was_at_work = _is_at_work(run)
    # A model that loses its place after each summary could go on for ever, so this has a limit of its own.
    may_go_on = state.continued < run.inputs.settings.auto_continue
    request = await ask_about_compaction(run, CompactionRequest(trigger="full", continues=may_go_on))
    if request is None:
        return None
    made = await _compact(run, state, request)
    match made:
        case Compaction():
            if was_at_work and may_go_on and not request.continues:
                return Stop(reason="hook_stopped", detail="a hook ends the turn after the history was summarised")
            # A steer that came meanwhile is the user's own word to go on.
            is_over = was_at_work and not may_go_on and not steers(run)
            return after_compaction(state, is_continued=made.is_continued, is_over=is_over)
        case NotCompacted():
            return await _after_failed_compaction(run, state, made)
        case None:
            return None
        case _:
            assert_never(made)


async def _after_failed_compaction(run: TurnRun, state: LoopState, made: NotCompacted) -> Stop | None:
    """Return the end of the turn if nothing can help; None: go on with the history. A checkpoint if clearing is one."""
    # The next attempt would find the same history; any other failure may be over in the next round.
    if made.reason == "ineffective":
        if await _clear(run, state):
            return None
        return Stop(reason="compaction_ineffective", detail=made.detail)
    run.state.failed_compactions += 1
    run.notice("warning", "compaction_failed", f"the history could not be summarised and is as it was: {made.detail}")
    return None


async def _clear(run: TurnRun, state: LoopState) -> bool:
    """Clear old results as far as possible, as after a request that was refused; return whether that helps. A checkpoint."""
    return _replace(run, "collapse", await _collapse(run, view_of(run, state)))


async def _collapse(run: TurnRun, view: ContextView) -> Sequence[Message] | None:
    return await call_foreign(_KEEPER, run.deps.keeper.collapse, view, forced=True)


async def make_room_after(run: TurnRun, state: LoopState, failure: Failure) -> Room:
    """Ask the context keeper about a request that was too large; return what it has done. A checkpoint.

    It is asked before the move: if it can do nothing, the same request is not sent again to fail again.
    """
    if not run.inputs.settings.auto_compact:
        return "none"
    # The step stays open meanwhile: if a cancel comes, what was received of it is kept.
    kind: Literal["overflow", "media"] = "media" if failure.kind == "media" else "overflow"
    if kind == "overflow" and not state.collapsed:
        view = attrs.evolve(view_of(run, state), failure=kind)
        if _replace(run, "collapse", await _collapse(run, view)):
            return "collapsed"
    if not _may_compact_after(run, state, kind):
        return "none"
    request = await ask_about_compaction(run, CompactionRequest(trigger="overflow"))
    if request is None:
        return "none"
    made = await _compact(run, state, request, kind)
    if isinstance(made, NotCompacted):
        run.notice("warning", "compaction_failed", f"no room could be made: {made.detail}")
    return "compacted" if isinstance(made, Compaction) else "none"


def _may_compact_after(run: TurnRun, state: LoopState, kind: Literal["overflow", "media"]) -> bool:
    """Return whether an overflow may be answered by a summary: once in a turn, and if the turn may go on after it."""
    may_go_on = not _is_at_work(run) or state.continued < run.inputs.settings.auto_continue or bool(steers(run))
    if state.reactive_compacted or not may_go_on:
        return False
    view = attrs.evolve(view_of(run, state), failure=kind)
    return call_foreign_now(_KEEPER, run.deps.keeper.wants_compaction, view)


async def compact_only(run: TurnRun, request: CompactionRequest) -> Stop:
    """Summarise the history because the host asks for it, and do nothing else. A checkpoint."""
    state = LoopState(settings=run.inputs.settings, model_count=len(run.deps.models))
    approved = await ask_about_compaction(run, request)
    made = None if approved is None else await _compact(run, state, approved)
    match made:
        case Compaction():
            return Stop(reason="completed", detail=made.remark)
        case NotCompacted():
            reason: StopReason = "compaction_ineffective" if made.reason == "ineffective" else "provider_error"
            return Stop(reason=reason, detail=made.detail)
        case None:
            return Stop(reason="hook_stopped", detail="a hook, or the context keeper, left the history as it is")
        case _:
            assert_never(made)


async def _compact(
    run: TurnRun, state: LoopState, request: CompactionRequest, failure: Literal["none", "overflow", "media"] = "none"
) -> Compaction | NotCompacted | None:
    """Let the keeper summarise. A checkpoint; if cancelled, the history is as it was."""
    # Imported here: in most turns nothing is summarised.
    from engine.nursery.side_request import Asker

    models: tuple[Model, ...] = (run.deps.models[state.model_index],)
    # The turn's own model stands behind the configured one: a small model may be down, or its window too small.
    if run.deps.summariser is not None and run.deps.summariser is not models[0]:
        models = (run.deps.summariser, *models)
    asker = Asker(run=run, models=models)
    run.journal.append(CompactionStarted(trigger=request.trigger, messages=len(run.journal.log.state.transcript)))
    # What is recorded if a cancel comes before there is a result.
    ended = CompactionEnded(outcome="cancelled")
    try:
        # Steps that only read have not waited for the store. A kill during a long request must not lose them.
        await run.flush()
        view = attrs.evolve(view_of(run, state), failure=failure)
        made = await call_foreign(_KEEPER, run.deps.keeper.compact, view, asker, request)
        # No checkpoint between the answer and the new history.
        ended = _put_in_place(run, made)
    except Exception as error:
        ended = CompactionEnded(outcome="failed", detail=describe(error))
        raise
    finally:
        # Also on a cancel: what the request has cost by then belongs into the record.
        run.journal.append(attrs.evolve(ended, model=asker.asked, usage=asker.usage, cost=asker.cost))
    # Outside of the `try`: the compaction is in the record, even if a cancel comes in a hook.
    if isinstance(made, Compaction):
        await run_compaction_hooks(run, request.trigger)
    return made


@enable_ki_protection
def _put_in_place(run: TurnRun, made: Compaction | NotCompacted | None) -> CompactionEnded:
    """Put a shorter history in place of the old one; return how it ended. Not a checkpoint."""
    messages = len(run.journal.log.state.transcript)
    if made is None:
        return CompactionEnded(outcome="failed", detail="there was nothing to summarise", messages=messages)
    if isinstance(made, NotCompacted):
        return CompactionEnded(outcome="failed", detail=made.detail, messages=messages)
    _replace(run, "compact", made.messages)
    return CompactionEnded(
        outcome="compacted",
        detail=made.remark,
        messages=len(made.messages),
        before=made.before,
        after=made.after,
        source=made.source,
        digest=made.digest,
    )


def view_of(run: TurnRun, state: LoopState) -> ContextView:
    """Return what the keeper may look at: the next request as it would be now. Not a checkpoint."""
    return view_from(
        run.journal.log.state,
        run.deps.models[state.model_index].info,
        run.registry,
        loop=state,
        # Tools that are not offered take no room.
        hidden=run.hidden,
        system=system_text(run),
        counted=run.state.counted,
    )


def view_from(
    session: SessionState,
    info: ModelInfo,
    registry: Registry,
    *,
    loop: LoopState,
    hidden: frozenset[str],
    system: str,
    counted: RequestUsage | None,
) -> ContextView:
    """Return what the keeper may look at in a session. Not a checkpoint."""
    # An engine that has sent nothing yet has only the record to go by.
    counted = counted or _counted_in(session)
    return ContextView(
        transcript=session.transcript,
        model=info,
        last_usage=Usage() if counted is None else counted.usage,
        counted=None if counted is None else counted.transcript,
        system=system,
        tools=registry.schemas_for(info.name, hidden),
        max_output=min(loop.output_cap(loop.settings.options.over(info.options), info.unasked_effort), info.output),
        shared=session.context,
        protected=registry.protected,
        read_only=registry.read_only,
    )


def _counted_in(session: SessionState) -> RequestUsage | None:
    counted = session.counted
    if counted is None:
        return None
    return RequestUsage(usage=counted.usage, transcript=session.transcript.first(counted.messages))


def _is_at_work(run: TurnRun) -> bool:
    """Return whether the model is in the middle of its work, so that a summary interrupts it."""
    return is_mid_turn(run.journal.log.state.transcript[:])


def _report(run: TurnRun, view: ContextView) -> str:
    """Return what fills the window, for a person."""
    # Imported here: hardly any turn ends so.
    from engine.compaction.compaction_policy import report_of

    # By the keeper's own figures: with others, the message might say that there is room.
    return report_of(run.deps.keeper, view).brief


def _replace(run: TurnRun, kind: Literal["prune", "collapse", "compact"], messages: Sequence[Message] | None) -> bool:
    if messages is None:
        return False
    # A keeper is foreign code, and a wrong type must not get into the record.
    replacement = cast("Sequence[object]", messages)
    if not all(isinstance(message, (UserMessage, AssistantMessage, ResultsMessage)) for message in replacement):
        raise ConfigError(f"the context keeper's {kind} must return messages or None, not {messages!r}")
    run.journal.append(HistoryReplaced(kind=kind, messages=tuple(messages)))
    return True
