"""Check the engine's promises against the record of a run.

Each function returns the problems that it found, as sentences; an empty list is a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import attrs

from engine.core import events as ev
from engine.core.errors import JournalCorrupt
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
from engine.journal.fold import fold
from engine.journal.state import Resync, SessionState
from engine.testing.fake_tools import Trail

Seen = ev.Durable | ev.Live | Resync


@attrs.frozen(kw_only=True)
class Evidence:
    """The record of a run.

    Attributes:
        events: the events that a subscriber received, from before the first turn.
        transcript: the session's transcript.
        stored: the events in the store.
        state: the session's state.
        trails: what the fake tools really did.
        unique_keys: the side effect of a fake tool's key may happen only once.
    """

    events: Sequence[Seen]
    transcript: Sequence[Message]
    stored: Sequence[ev.Durable]
    state: SessionState
    trails: Sequence[Trail] = ()
    unique_keys: bool = True


def check(evidence: Evidence) -> list[str]:
    """Check all promises at once."""
    return [
        *check_events(evidence.events),
        *check_transcript(evidence.transcript),
        *check_fold(evidence.stored, evidence.state),
        *check_trails(evidence.events, evidence.trails, unique_keys=evidence.unique_keys),
        *check_kept(evidence.events, evidence.transcript, evidence.trails),
    ]


def check_events(events: Sequence[Seen]) -> list[str]:
    """Check that a subscriber received every event, and in order (promises 1, 2, 6, 7)."""
    # A watcher also gets the events of children; the order is guaranteed within one session only.
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
        # Queued input and other events between turns belong to none.
        if event.turn_id is not None:
            turns.setdefault(event.turn_id, []).append(event)
    for turn_id, seen in turns.items():
        problems += [f"{turn_id}: {problem}" for problem in _check_turn(seen)]
    return problems


def _check_seq(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    numbers = [event.seq for event in events if event.seq is not None]
    # They need not begin at 1: a watcher may subscribe late.
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
            case ev.PartReplaced():  # a retry begins the part again, at offset 0
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
    if isinstance(part, ProviderPart):  # comes as a whole, without deltas
        return []
    final = part.arguments if isinstance(part, CallPart) else part.text
    if texts.get(part.id) != final:
        return [f"the deltas of part {part.id} say {texts.get(part.id)!r}, its end says {final!r}"]
    return []


def _check_turn(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    started = [event for event in events if isinstance(event, ev.TurnStarted)]
    problems: list[str] = []
    if len(started) != 1 or not isinstance(events[0], ev.TurnStarted):
        problems.append(f"the turn began {len(started)} times, or something came before its start")
    problems += _check_turn_end(events)
    problems += [e.text for e in events if isinstance(e, ev.Notice) and e.code == "internal_error"]
    return problems + _check_calls(events) + _check_questions(events) + _check_steps(events)


def _check_turn_end(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    """Check that a turn ended exactly once, with its last event, for a known reason."""
    ended = [event for event in events if isinstance(event, ev.TurnEnded)]
    if len(ended) != 1:
        return [f"the turn ended {len(ended)} times"]
    if not isinstance(events[-1], ev.TurnEnded):
        return [f"{type(events[-1]).__name__} came after the end of the turn"]
    result = ended[0].result
    if result.stop_reason not in ev.STOP_REASONS:
        return [f"{result.stop_reason} is not a stop reason"]
    problems = [f"the engine failed: {result.detail}"] if result.stop_reason == "internal_error" else []
    return problems + _check_turn_ending(events)


def _check_turn_ending(events: Sequence[ev.Durable | ev.Live]) -> list[str]:
    """Check that the end of a turn was announced once at most, and before a call was settled because of it."""
    announced = [index for index, event in enumerate(events) if isinstance(event, ev.TurnEnding)]
    if len(announced) > 1:
        return [f"the end of the turn was announced {len(announced)} times"]
    # Events from a store alone have no live ones.
    return [
        f"call {event.call_id} was cancelled before the end of the turn was announced"
        for event in events[: sum(announced)]
        if isinstance(event, ev.CallSettled) and event.settlement.reason == "cancelled"
    ]


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
                # Any other event of an unannounced call is a KeyError here, and so a problem of the run.
                moves[event.call_id] = ["announced"]
            case ev.CallQueued() | ev.CallStarted() | ev.CallSettled() | ev.CallDelivered():
                moves[event.call_id].append(_MOVES[type(event)])
            case ev.TurnResumed():
                # The call that was waiting inside its tool is queued again.
                for seen in moves.values():
                    if seen[-1] == "started":
                        seen.pop()
            case ev.CallJudged() | ev.CallChanged():
                problems += _check_verdict(event, moves[event.call_id][-1])
            case _:
                pass
    return problems + _check_moves(events, moves)


def _check_verdict(event: ev.CallJudged | ev.CallChanged, state: str) -> list[str]:
    # A tool may ask for more permissions while it runs; hooks change arguments before it, and its result after it.
    during = ("queued", "started") if isinstance(event, ev.CallJudged) else ("queued",)
    if isinstance(event, ev.CallChanged) and event.kind == "result":
        during = ("started",)
    if state in during:
        return []
    return [f"{type(event).__name__} of call {event.call_id} came when it was not {' or '.join(during)}"]


def _check_moves(events: Sequence[ev.Durable | ev.Live], moves: Mapping[CallId, Sequence[str]]) -> list[str]:
    problems: list[str] = []
    announced = [event.call_id for event in events if isinstance(event, ev.CallAnnounced)]
    # Results are delivered in call order, no matter in which order the calls ended.
    delivered = [event.call_id for event in events if isinstance(event, ev.CallDelivered)]
    for call_id, seen in moves.items():
        # In order and without repetition; a call may skip "queued" and "started".
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
            case ev.TurnResumed():  # open questions are asked again, with new ids
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
    # A part that failed halfway is discarded instead of ended.
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
        if isinstance(message, ResultsMessage):
            results = tuple(result.call_id for result in message.results)
            if results != waiting:
                problems.append(f"results {results} stand behind calls {waiting}")
            waiting = ()
            continue
        problems += _without_results(waiting)
        waiting = tuple(part.call_id for part in message.calls) if isinstance(message, AssistantMessage) else ()
        if not message.parts:
            kind = "user" if isinstance(message, UserMessage) else "assistant"
            problems.append(f"{kind} message {message.id} is empty")
    return problems + _without_results(waiting)


def _without_results(waiting: Sequence[CallId]) -> list[str]:
    """Report the calls that *waiting* holds: the next message should have been their results."""
    return [f"calls {waiting} have no results behind them"] if waiting else []


def check_fold(stored: Sequence[ev.Durable], state: SessionState) -> list[str]:
    """Check that the store and the live state agree (promise 6)."""
    try:
        folded = fold(stored)
    except JournalCorrupt as error:
        return [f"the stored events don't follow one another: {error}"]
    problems = [] if folded == state else ["the fold of the stored events differs from the session's state"]
    # The turn has ended by now, so the store must have its end.
    if folded.turn is not None:
        problems.append("the stored events leave a turn open")
    return problems


@attrs.frozen(kw_only=True)
class Settled:
    """A call's settlement and its time."""

    settlement: Settlement
    time: float


def check_trails(events: Sequence[Seen], trails: Sequence[Trail], *, unique_keys: bool) -> list[str]:
    """Compare the settlements of calls with what their tools really did (promises 1, 9)."""
    problems = _check_repeats(trails, unique_keys=unique_keys)
    settled = {
        e.call_id: Settled(settlement=e.settlement, time=e.time) for e in events if isinstance(e, ev.CallSettled)
    }
    for trail in trails:
        record = settled.get(trail.call_id)
        if record is None:
            problems.append(f"call {trail.call_id} ran but was never settled")
        else:
            problems += _check_trail(trail, record)
    return problems


def _check_repeats(trails: Sequence[Trail], *, unique_keys: bool) -> list[str]:
    """Check that no call, and no side effect with a key, happened twice."""
    calls = Counter(trail.call_id for trail in trails)
    keys = Counter(trail.key for trail in trails if trail.key and unique_keys)
    return [
        *(f"call {call_id} was run {count} times" for call_id, count in calls.items() if count > 1),
        *(f"the side effect {key} happened {count} times" for key, count in keys.items() if count > 1),
    ]


def _check_trail(trail: Trail, record: Settled) -> list[str]:
    settlement = record.settlement
    what = f"call {trail.call_id} ({trail.manner})"
    if settlement.reason == "not_executed":
        return [f"{what} ran, but is recorded as not executed"]
    if settlement.status not in _possible_statuses(trail, settlement):
        how = "was cancelled" if trail.cancelled else "raised" if trail.raised else "returned"
        return [f"{what} {how}, but is recorded as {settlement.status}"]
    # The engine may give up on a call at the instant at which it returns, but not later.
    if settlement.outcome_unknown and trail.returned and not trail.running and trail.ended_at < record.time:
        return [f"{what} had returned, but its outcome is recorded as unknown"]
    return []


def _possible_statuses(trail: Trail, settlement: Settlement) -> Collection[str]:
    """Return the statuses that a call with this trail may have."""
    if trail.cancelled:
        return ("aborted",)
    if trail.raised:
        return ("error", "aborted")
    if trail.returned and not settlement.outcome_unknown:
        return ("completed",)
    return (settlement.status,)


def check_kept(events: Sequence[Seen], transcript: Sequence[Message], trails: Sequence[Trail]) -> list[str]:
    """Check that no result of a call and no finished part was lost."""
    # A compaction takes messages out of the transcript on purpose.
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
        # Calls of sub-agents are in their own transcripts.
        if trail.call_id in announced and trail.call_id not in results:
            yield f"call {trail.call_id} ran, but is not in the transcript"


def _lost_parts(roots: Sequence[ev.Durable | ev.Live]) -> Iterator[str]:
    result = next((event.result for event in roots if isinstance(event, ev.TurnEnded)), None)
    if result is None or result.stop_reason != "aborted":
        return
    finished = {e.part.id for e in roots if isinstance(e, ev.PartEnded) and _has_content(e.part)}
    failed = {e.part_id for e in roots if isinstance(e, ev.PartDiscarded) and e.reason == "failed"}
    if lost := sorted(finished & failed):
        yield f"an aborted turn threw away parts {lost}"


def _has_content(part: AssistantPart) -> bool:
    """Tell whether a part makes a message; reasoning or an empty text alone does not, and may be discarded."""
    return not isinstance(part, ReasoningPart) and not (isinstance(part, TextPart) and not part.text)
