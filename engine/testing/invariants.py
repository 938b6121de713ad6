"""The promises of the engine as one checker over what a run left behind.

Each function returns what is broken, as sentences; an empty list is a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from engine.core import events as ev
from engine.core.errors import JournalCorrupt
from engine.core.fold import fold
from engine.core.ids import CallId, PartId, SessionId, TurnId
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
)
from engine.core.state import Resync, SessionState
from engine.testing.fake_tools import Trail

Seen = ev.Durable | ev.Live | Resync


@attrs.frozen(kw_only=True)
class Evidence:
    """What a run left behind.

    Attributes:
        events: what a subscriber saw, from before the first turn.
        transcript: what was saved.
        stored: what the store holds.
        state: the session's state.
        trails: what the fake tools really did.
        unique_keys: no key of a fake tool may have been done twice.
    """

    events: Sequence[Seen]
    transcript: Sequence[Message]
    stored: Sequence[ev.Durable]
    state: SessionState
    trails: Sequence[Trail] = ()
    unique_keys: bool = True


def check(evidence: Evidence) -> list[str]:
    """Check all promises at once; return what is broken."""
    return [
        *check_events(evidence.events),
        *check_transcript(evidence.transcript),
        *check_fold(evidence.stored, evidence.state),
        *check_trails(evidence.events, evidence.trails, unique_keys=evidence.unique_keys),
        *check_kept(evidence.events, evidence.transcript, evidence.trails),
    ]


def check_events(events: Sequence[Seen]) -> list[str]:
    """Check the order and the completeness of what a subscriber saw (promises 1, 2, 6, 7)."""
    sessions: dict[SessionId, list[ev.Durable | ev.Live]] = {}
    for event in events:
        if not isinstance(event, Resync):
            sessions.setdefault(event.session_id, []).append(event)
    return [problem for seen in sessions.values() for problem in _check_session(seen)]


def _check_session(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    problems = _check_seq(events)
    problems += _check_parts(events)
    turns: dict[TurnId, list[ev.Durable | ev.Live]] = {}
    for event in events:
        if event.turn_id is not None:
            turns.setdefault(event.turn_id, []).append(event)
    for turn_id, seen in turns.items():
        problems += [f"{turn_id}: {problem}" for problem in _check_turn(seen)]
    return problems


def _check_seq(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    numbers = [event.seq for event in events if event.seq is not None]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))) if numbers else False:
        return [f"the sequence numbers are not consecutive: {numbers}"]
    return []


def _check_parts(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    problems: list[str] = []
    texts: dict[PartId, str] = {}
    ended: set[PartId] = set()
    for event in events:
        match event:
            case ev.PartStarted():
                texts[event.part_id] = ""
            case ev.PartReplaced():
                texts[event.part_id] = ""
            case ev.TextDelta() | ev.ReasoningDelta() | ev.ArgumentsDelta():
                if event.part_id not in texts or event.part_id in ended:
                    problems.append(f"a delta of part {event.part_id} came while it was not open")
                elif event.offset != len(texts[event.part_id]):
                    problems.append(
                        f"a delta of part {event.part_id} begins at {event.offset}, not where the last ended"
                    )
                else:
                    texts[event.part_id] += event.text
            case ev.PartEnded():
                ended.add(event.part.id)
                problems += _check_part_text(event, texts)
            case _:
                pass
    return problems


def _check_part_text(event: ev.PartEnded, texts: dict[PartId, str]) -> list[str]:
    part = event.part
    if isinstance(part, ProviderPart):
        return []
    final = part.arguments if isinstance(part, CallPart) else part.text
    if texts.get(part.id) != final:
        return [f"the deltas of part {part.id} say {texts.get(part.id)!r}, its end says {final!r}"]
    return []


def _check_turn(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    problems: list[str] = []
    started = [event for event in events if isinstance(event, ev.TurnStarted)]
    ended = [event for event in events if isinstance(event, ev.TurnEnded)]
    if len(started) != 1 or not isinstance(events[0], ev.TurnStarted):
        problems.append(f"the turn began {len(started)} times, or something came before its start")
    if len(ended) != 1:
        problems.append(f"the turn ended {len(ended)} times")
    elif not isinstance(events[-1], ev.TurnEnded):
        problems.append(f"{type(events[-1]).__name__} came after the end of the turn")
    elif ended[0].result.stop_reason not in ev.STOP_REASONS:
        problems.append(f"{ended[0].result.stop_reason} is not a stop reason")
    elif ended[0].result.stop_reason == "internal_error":
        problems.append(f"the engine failed: {ended[0].result.detail}")
    problems += [e.text for e in events if isinstance(e, ev.Notice) and e.code == "internal_error"]
    return problems + _check_calls(events) + _check_questions(events) + _check_steps(events)


_MOVES: dict[type[object], str] = {
    ev.CallAnnounced: "announced",
    ev.CallQueued: "queued",
    ev.CallStarted: "started",
    ev.CallSettled: "settled",
    ev.CallDelivered: "delivered",
}
_ORDER = tuple(_MOVES.values())


def _check_calls(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    problems: list[str] = []
    moves: dict[CallId, list[str]] = {}
    for event in events:
        match event:
            case ev.CallAnnounced():
                moves[event.call_id] = ["announced"]
            case ev.CallQueued() | ev.CallStarted() | ev.CallSettled() | ev.CallDelivered():
                moves[event.call_id].append(_MOVES[type(event)])
            case ev.TurnResumed():
                # What waited inside its tool is queued again.
                for seen in moves.values():
                    if seen[-1] == "started":
                        seen.pop()
            case ev.CallJudged() | ev.CallChanged():
                problems += _check_verdict(event, moves[event.call_id][-1])
            case _:
                pass
    return problems + _check_moves(events, moves)


def _check_verdict(event: ev.CallJudged | ev.CallChanged, state: str) -> list[str]:
    during = ("queued", "started") if isinstance(event, ev.CallJudged) else ("queued",)
    if isinstance(event, ev.CallChanged) and event.kind == "result":
        during = ("started",)
    if state in during:
        return []
    return [f"{type(event).__name__} of call {event.call_id} came when it was not {' or '.join(during)}"]


def _check_moves(events: Sequence[ev.Durable | ev.Live], moves: Mapping[CallId, Sequence[str]]) -> list[str]:
    problems: list[str] = []
    announced = [event.call_id for event in events if isinstance(event, ev.CallAnnounced)]
    delivered = [event.call_id for event in events if isinstance(event, ev.CallDelivered)]
    for call_id, seen in moves.items():
        if list(seen) != sorted(set(seen), key=_ORDER.index):
            problems.append(f"call {call_id} went {' → '.join(seen)}")
        if seen[-1] != "delivered":
            problems.append(f"call {call_id} stopped at {seen[-1]}")
    if delivered != announced:
        problems.append(f"calls were announced as {announced} and delivered as {delivered}")
    return problems


def _check_questions(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    requested, answered = list[str](), list[str]()
    for event in events:
        match event:
            case ev.PermissionAsked() | ev.QuestionAsked():
                requested.append(event.request_id)
            case ev.PermissionAnswered() | ev.QuestionAnswered():
                answered.append(event.request_id)
            case ev.TurnResumed():
                requested = [request_id for request_id in requested if request_id in answered]
            case _:
                pass
    if sorted(requested) != sorted(answered):
        return [f"asked {requested}, answered {answered}"]
    return []


def _check_steps(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    steps = [type(event) for event in events if isinstance(event, (ev.StepStarted, ev.StepEnded))]
    if steps != [ev.StepStarted, ev.StepEnded] * (len(steps) // 2):
        return [f"steps began and ended as {[kind.__name__ for kind in steps]}"]
    discarded = {event.part_id for event in events if isinstance(event, ev.PartDiscarded)}
    opened = {event.part_id for event in events if isinstance(event, ev.PartStarted)}
    ended = {event.part.id for event in events if isinstance(event, ev.PartEnded)}
    left = opened - ended - discarded
    return [f"parts {sorted(left)} were left open"] if left else []


def check_transcript(transcript: Iterable[Message]) -> list[str]:
    """Check that the saved transcript makes a valid request for any host (promise 4)."""
    problems: list[str] = []
    waiting: tuple[CallId, ...] = ()
    for message in transcript:
        if waiting and not isinstance(message, ResultsMessage):
            problems.append(f"calls {waiting} have no results behind them")
        match message:
            case UserMessage():
                waiting = ()
                if not message.parts:
                    problems.append(f"user message {message.id} is empty")
            case AssistantMessage():
                waiting = tuple(part.call_id for part in message.calls)
                if not message.parts:
                    problems.append(f"assistant message {message.id} is empty")
            case ResultsMessage():
                answered_calls = tuple(result.call_id for result in message.results)
                if answered_calls != waiting:
                    problems.append(f"results {answered_calls} stand behind calls {waiting}")
                waiting = ()
    if waiting:
        problems.append(f"calls {waiting} have no results behind them")
    return problems


def check_fold(stored: Sequence[ev.Durable], state: SessionState) -> list[str]:
    """Check that the store and the live state agree (promise 6)."""
    try:
        folded = fold(stored)
    except JournalCorrupt as error:
        return [f"the stored events don't follow one another: {error}"]
    problems = [] if folded == state else ["the fold of the stored events differs from the session's state"]
    if folded.turn is not None:
        problems.append("the stored events leave a turn open")
    return problems


@attrs.frozen(kw_only=True)
class Settled:
    """A call's settlement, and when it came."""

    settlement: Settlement
    time: float


def check_trails(events: Sequence[Seen], trails: Sequence[Trail], *, unique_keys: bool) -> list[str]:
    """Check what was recorded against what really happened (promises 1, 9)."""
    problems: list[str] = []
    settled = {
        e.call_id: Settled(settlement=e.settlement, time=e.time) for e in events if isinstance(e, ev.CallSettled)
    }
    for call_id, count in Counter(trail.call_id for trail in trails).items():
        if count > 1:
            problems.append(f"call {call_id} was run {count} times")
    if unique_keys:
        for key, count in Counter(trail.key for trail in trails if trail.key).items():
            if count > 1:
                problems.append(f"the side effect {key} happened {count} times")
    for trail in trails:
        record = settled.get(trail.call_id)
        if record is None:
            problems.append(f"call {trail.call_id} ran but was never settled")
        else:
            problems += _check_trail(trail, record)
    return problems


def _check_trail(trail: Trail, record: Settled) -> list[str]:
    settlement = record.settlement
    what = f"call {trail.call_id} ({trail.manner})"
    if settlement.reason == "not_executed":
        return [f"{what} ran, but is recorded as not executed"]
    if trail.cancelled and settlement.status != "aborted":
        return [f"{what} was cancelled, but is recorded as {settlement.status}"]
    if trail.raised and settlement.status not in {"error", "aborted"}:
        return [f"{what} raised, but is recorded as {settlement.status}"]
    if trail.returned and settlement.status != "completed" and not settlement.outcome_unknown:
        return [f"{what} returned, but is recorded as {settlement.status}"]
    if settlement.outcome_unknown and not trail.running and trail.returned and trail.ended_at < record.time:
        return [f"{what} had returned, but its outcome is recorded as unknown"]
    return []


def check_kept(events: Sequence[Seen], transcript: Sequence[Message], trails: Sequence[Trail]) -> list[str]:
    """Check that what was received, and what was run, is in the transcript (unless the history was replaced)."""
    if any(isinstance(event, ev.HistoryReplaced) for event in events):
        return []
    roots = [e for e in events if not isinstance(e, Resync) and len(e.path) == 1]
    return [*_lost_results(roots, transcript, trails), *_lost_parts(roots)]


def _lost_results(
    roots: Sequence[ev.Durable | ev.Live], transcript: Sequence[Message], trails: Sequence[Trail]
) -> Iterator[str]:
    results = {r.call_id for m in transcript if isinstance(m, ResultsMessage) for r in m.results}
    announced = {e.call_id for e in roots if isinstance(e, ev.CallAnnounced)}
    for trail in trails:
        if trail.call_id in announced and trail.call_id not in results:
            yield f"call {trail.call_id} ran, but is not in the transcript"


def _lost_parts(roots: Sequence[ev.Durable | ev.Live]) -> Iterator[str]:
    ends = [event.result for event in roots if isinstance(event, ev.TurnEnded)]
    if not ends or ends[0].stop_reason != "aborted":
        return
    # Thinking alone makes no message, so a failed answer of nothing else may be taken back.
    finished = {e.part.id for e in roots if isinstance(e, ev.PartEnded) and _has_content(e.part)}
    failed = [e.part_id for e in roots if isinstance(e, ev.PartDiscarded) and e.reason == "failed"]
    lost = [part_id for part_id in failed if part_id in finished]
    if lost:
        yield f"an aborted turn threw away parts {lost}"


def _has_content(part: AssistantPart) -> bool:
    return not isinstance(part, ReasoningPart) and not (isinstance(part, TextPart) and not part.text)
