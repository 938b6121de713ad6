"""The events that close a turn which a crash cut off. A pure function.

After a crash the journal stops at some instant. Before the next request, every open call
is settled, the open message is closed, and the turn ends; nothing runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import attrs

from engine.core import events as ev
from engine.core.ids import CallId, MessageId, SessionId
from engine.core.messages import CallPart, ReasoningPart, Settlement, TextPart, Usage
from engine.core.value_base import Value
from engine.journal.state import OpenCall, OpenPart, OpenStep, SessionState

CRASHED = "the engine's process ended while this turn was running"
SUPERSEDED = "a new turn began while this one was parked"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RunningAgent(Value):
    """A sub-agent that was running for a call.

    Attributes:
        call_id: the call.
        session_id: its session, which is in the store.
        agent: what it is called; empty: it has no name.
    """

    call_id: CallId
    session_id: SessionId
    agent: str = ""


def running_calls(state: SessionState) -> frozenset[CallId]:
    """Return the calls that are inside their tools."""
    step = None if state.turn is None else state.turn.step
    return frozenset(() if step is None else (call.call_id for call in step.calls if call.state == "running"))


def closing_events(
    state: SessionState,
    results_id: MessageId,
    *,
    superseded: bool = False,
    agents: Iterable[RunningAgent] = (),
) -> list[ev.Durable]:
    """Return the events that close the open turn of *state*; none if there is none.

    With *superseded*, the turn was parked, and a new one begins. The results of its calls mention the sub-agents in
    *agents* that worked for them.
    """
    turn = state.turn
    if turn is None:
        return []
    events: list[ev.Durable] = [
        ev.PermissionAnswered(request_id=request_id, answer="withdrawn") for request_id in turn.requests
    ]
    events += [ev.QuestionAnswered(request_id=request_id, outcome="withdrawn") for request_id in turn.questions]
    if turn.recovery is not None:
        events.append(ev.RecoveryAnswered(request_id=turn.recovery, answer="withdrawn"))
    if turn.step is not None:
        by_call = {agent.call_id: agent for agent in agents}
        ending = _settle_unanswered if superseded else partial(_settle_interrupted, agents=by_call)
        events += _close_step(turn.step, results_id, ending)
    result = ev.TurnResult(
        stop_reason="aborted",
        during="waiting" if turn.step is None or superseded else "tools",
        detail=SUPERSEDED if superseded else CRASHED,
        steps=turn.steps,
    )
    return [*events, ev.TurnEnded(result=result)]


def _close_step(step: OpenStep, results_id: MessageId, ending: Callable[[OpenCall], Settlement]) -> list[ev.Durable]:
    events: list[ev.Durable] = []
    calls = {call.part_id: call for call in step.calls}
    events += [_close_part(step, part, calls.get(part.part_id)) for part in step.parts if part.part is None]
    # Every call gets a result: hosts refuse a request in which one has none.
    events += [
        ev.CallSettled(call_id=call.call_id, settlement=ending(call)) for call in step.calls if call.settlement is None
    ]
    events += [ev.CallDelivered(call_id=call.call_id) for call in step.calls if call.state != "delivered"]
    events.append(
        ev.StepEnded(
            step=step.step,
            message_id=step.message_id,
            results_id=results_id,
            finish=None if step.received is None else step.received.finish,
            usage=Usage() if step.received is None else step.received.usage,
            cost=0.0 if step.received is None else step.received.cost,
        )
    )
    return events


def _close_part(step: OpenStep, part: OpenPart, call: OpenCall | None) -> ev.Durable:
    if call is not None:
        cut = CallPart(id=part.part_id, call_id=call.call_id, tool=call.tool, arguments=part.text, complete=False)
        return ev.PartEnded(message_id=step.message_id, part=cut)
    # Received text is kept, since the user has seen it. An empty part, or one of the provider, could not be sent back.
    if part.text and part.kind == "text":
        return ev.PartEnded(message_id=step.message_id, part=TextPart(id=part.part_id, text=part.text))
    if part.text and part.kind == "reasoning":
        thought = ReasoningPart(id=part.part_id, text=part.text, model=step.model)
        return ev.PartEnded(message_id=step.message_id, part=thought)
    return ev.PartDiscarded(message_id=step.message_id, part_id=part.part_id, reason="failed")


def _settle_interrupted(call: OpenCall, agents: Mapping[CallId, RunningAgent]) -> Settlement:
    if call.state == "running":
        agent = agents.get(call.call_id)
        how_to_resume = ""
        if agent is not None and agent.agent:
            how_to_resume = (
                f"\n\n[{agent.agent}, task_id {agent.session_id}: interrupted. It knows what it did until then: "
                "go on with it by its task_id.]"
            )
        return Settlement(
            status="aborted",
            reason="interrupted_by_crash",
            outcome_unknown=True,
            text="Interrupted: the engine's process ended while this ran. What it did is not known; check before "
            f"running it again.{how_to_resume}",
        )
    return Settlement(
        status="aborted",
        reason="not_executed",
        text="Not executed: the engine's process ended before it could start. The tool itself is fine.",
    )


def _settle_unanswered(call: OpenCall) -> Settlement:
    if call.state == "running":
        return Settlement(
            status="aborted",
            reason="cancelled",
            text="Not answered: the user sent another message while this waited for an answer.",
        )
    return Settlement(
        status="aborted",
        reason="not_executed",
        text="Not executed: the user sent another message before it was allowed. The tool itself is fine.",
    )
