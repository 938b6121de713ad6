"""From events to lines: what a person reads of a turn.

A `Renderer` takes events and returns text; it does no I/O and knows no terminal,
so that the same lines come out in a test, in a file and on a screen. The text
streams as it comes; each call has one line when it is settled, and another one
before, if it takes so long that one would wonder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, assert_never, cast

import attrs

from engine.cli.compaction_notices import note_of
from engine.cli.terminal_text import UNICODE, Symbols, duration, one_line, visible
from engine.core.events import (
    ArgumentsDelta,
    BackgroundEnded,
    BackgroundStarted,
    CallAnnounced,
    CallChanged,
    CallDelivered,
    CallHeartbeat,
    CallJudged,
    CallProgress,
    CallQueued,
    CallSettled,
    CallStarted,
    CompactionEnded,
    CompactionStarted,
    ContextChanged,
    ContinueReason,
    DoomDetected,
    Durable,
    HistoryReplaced,
    InputAdmitted,
    InputPromoted,
    Live,
    LoopContinued,
    ModelSwitched,
    Notice,
    NudgeAdded,
    PartDiscarded,
    PartEnded,
    PartReplaced,
    PartStarted,
    PermissionAnswered,
    PermissionAsked,
    PromptBlocked,
    PromptSet,
    PromptUpdated,
    QuestionAnswered,
    QuestionAsked,
    ReasoningDelta,
    RecoveryAnswered,
    RecoveryAsked,
    RetryScheduled,
    SessionCreated,
    SessionTitled,
    SnapshotTaken,
    StepEnded,
    StepReceived,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnRedone,
    TurnResumed,
    TurnStarted,
    TurnUndone,
)
from engine.core.ids import CallId, InputId, PartId
from engine.core.messages import Settlement, TextPart
from engine.core.state import Resync

# The argument that tells calls of one tool apart best.
_TELLING: Final = ("command", "path", "pattern", "query", "url", "prompt")
_LEAST_WIDTH: Final = 20

# Why the loop goes on, where a person would wonder; the other reasons are its daily work.
CONTINUED: Final[Mapping[ContinueReason, str]] = {
    "overflow_prune_retry": "the context was full; old results were cleared",
    "reactive_compact_retry": "asking again",
    "output_escalate": "the answer was too long; asking again with more room",
    "output_recover": "the answer was cut off; it goes on",
    "resume_after_break": "the connection broke; going on from what was done",
    "signature_retry": "the host refused old reasoning; asking again without it",
    "model_fallback": "going on with the next model",
}


@attrs.frozen(kw_only=True)
class Margins:
    """What stands before each line: of the model's text, of a call, of a note."""

    model: str = ""
    call: str = ""
    note: str = ""


@attrs.define(eq=False)
class _Call:
    """A call, as far as a line tells it."""

    tool: str
    depth: int
    arguments: str = ""
    started: float | None = None
    last_output: str = ""
    is_announced: bool = False


@attrs.define(eq=False, kw_only=True)
class Renderer:
    """Makes text of events.

    Attributes:
        plain: say that a call is running in a line of its own; else `status` says it.
    """

    symbols: Symbols = UNICODE
    margins: Margins = attrs.field(factory=Margins)
    width: int = 100
    plain: bool = True
    _calls: dict[CallId, _Call] = attrs.field(factory=dict[CallId, _Call], init=False)
    _steers: set[InputId] = attrs.field(factory=set[InputId], init=False)
    _shown_parts: set[PartId] = attrs.field(factory=set[PartId], init=False)
    _is_line_open: bool = attrs.field(default=False, init=False)
    _now: float = attrs.field(default=0.0, init=False)

    def feed(self, event: Durable | Live | Resync) -> str:
        """Return the text that *event* adds; often none."""
        if not isinstance(event, Resync):
            self._now = event.time
        match event:
            case TextDelta() | PartStarted() | PartEnded() | PartReplaced() | PartDiscarded():
                return self._part(event)
            case CallAnnounced() | CallQueued() | CallStarted() | CallProgress() | CallHeartbeat() | CallSettled():
                return self._call(event)
            case InputAdmitted() | InputPromoted():
                return self._input(event)
            case LoopContinued() | RetryScheduled() | ModelSwitched() | DoomDetected() | Notice():
                return self._note(_told(event))
            case HistoryReplaced() | CompactionStarted() | CompactionEnded():
                return self._note(note_of(event))
            case PromptUpdated():
                return self._note(_told_of(event))
            case Resync():
                return self._note("some of the text above may be missing")
            case (
                SessionCreated()
                | SessionTitled()
                | TurnResumed()
                | SnapshotTaken()
                | TurnUndone()
                | TurnRedone()
                | BackgroundStarted()
                | BackgroundEnded()
                | PromptBlocked()
                | NudgeAdded()
                | PromptSet()
                | TurnStarted()
                | StepStarted()
                | StepReceived()
                | StepEnded()
                | TurnEnded()
                | ReasoningDelta()
                | ArgumentsDelta()
                | CallJudged()
                | CallChanged()
                | CallDelivered()
                | ContextChanged()
                | PermissionAsked()
                | PermissionAnswered()
                | QuestionAsked()
                | QuestionAnswered()
                | RecoveryAsked()
                | RecoveryAnswered()
            ):
                return ""
            case _:
                assert_never(event)

    def end_line(self) -> str:
        """Return what ends the open line, if there is one."""
        if not self._is_line_open:
            return ""
        self._is_line_open = False
        return "\n"

    @property
    def status(self) -> str:
        """What is going on right now, in one line; empty if nothing is, or a line is open."""
        running = [call for call in self._calls.values() if call.started is not None]
        if not running or self._is_line_open:
            return ""
        call = running[0]
        more = f"  (+{len(running) - 1} more)" if len(running) > 1 else ""
        said = f"  {self.symbols.note} {call.last_output}" if call.last_output else ""
        seconds = int(self._now - (call.started or self._now))
        line = f"{self._head(call, self.symbols.running)}  running {seconds} s{more}{said}"
        return one_line(line, self.width - 1, self.symbols.cut)

    # -- the answer -----------------------------------------------------------------------

    def _part(self, event: TextDelta | PartStarted | PartEnded | PartReplaced | PartDiscarded) -> str:
        if len(event.path) > 1:  # a sub-agent's words are for the agent
            return ""
        match event:
            case TextDelta():
                self._shown_parts.add(event.part_id)
                return self._stream(visible(event.text))
            case PartEnded():
                return self.end_line() if isinstance(event.part, TextPart) else ""
            case PartReplaced() | PartDiscarded():
                if event.part_id not in self._shown_parts:
                    return ""
                self._shown_parts.discard(event.part_id)
                return self._note("the text above was taken back; what follows replaces it")
            case PartStarted():
                return ""
            case _:
                assert_never(event)

    def _stream(self, text: str) -> str:
        pieces: list[str] = []
        for line in text.splitlines(keepends=True):
            # The margin waits for the text, so that no line consists of it alone.
            margin = "" if self._is_line_open else self.margins.model if line != "\n" else self.margins.model.rstrip()
            pieces.append(margin + line)
            self._is_line_open = not line.endswith("\n")
        return "".join(pieces)

    # -- calls ------------------------------------------------------------------------------

    def _call(
        self, event: CallAnnounced | CallQueued | CallStarted | CallProgress | CallHeartbeat | CallSettled
    ) -> str:
        if isinstance(event, CallAnnounced):
            self._calls[event.call_id] = _Call(event.tool, max(0, len(event.path) - 1))
            return ""
        call = self._calls.get(event.call_id)
        if call is None:
            return ""
        match event:
            case CallQueued():
                call.tool, call.arguments = event.tool, event.arguments
            case CallStarted():
                call.started = event.time
            case CallProgress():
                call.last_output = _last_line(event.message or event.output) or call.last_output
            case CallHeartbeat():
                return self._running() if self.plain else ""
            case CallSettled():
                del self._calls[event.call_id]
                return self._settled(call, event.settlement, event.time)
            case _:
                assert_never(event)
        return ""

    def _running(self) -> str:
        """Return a line for each running call that has none yet."""
        lines = ""
        for call in self._calls.values():
            if call.started is not None and not call.is_announced:
                call.is_announced = True
                lines += self._line(self._head(call, self.symbols.running), "running")
        return lines

    def _settled(self, call: _Call, settlement: Settlement, time: float) -> str:
        symbol, state = self._state(settlement)
        took = "" if call.started is None else duration(time - call.started)
        return self._line(self._head(call, symbol), state, took)

    def _state(self, settlement: Settlement) -> tuple[str, str]:
        match settlement.status:
            case "completed":
                return (self.symbols.failed if settlement.failed else self.symbols.done), _summary(settlement)
            case "error" | "denied":
                said = settlement.text.strip() or settlement.status
                is_told = said.lower().startswith(settlement.status)
                return self.symbols.failed, said if is_told else f"{settlement.status}: {said}"
            case "aborted":
                reason = (settlement.reason or "cancelled").replace("_", " ")
                unknown = ", would not stop" if settlement.outcome_unknown else ""
                return self.symbols.stopped, f"aborted: {reason}{unknown}"

    def _head(self, call: _Call, symbol: str) -> str:
        room = max(_LEAST_WIDTH, self.width // 2)
        what = one_line(telling_argument(call.arguments), room, self.symbols.cut)
        return f"{self.margins.call}{'  ' * call.depth}{symbol} {visible(call.tool):<5} {what}".rstrip()

    def _line(self, head: str, state: str, took: str = "") -> str:
        room = max(_LEAST_WIDTH, self.width - len(head) - len(took) - 4)
        told = filter(None, (head, one_line(state, room, self.symbols.cut), took))
        return f"{self.end_line()}{'  '.join(told)}\n"

    # -- the rest ---------------------------------------------------------------------------

    def _input(self, event: InputAdmitted | InputPromoted) -> str:
        if isinstance(event, InputAdmitted):
            if event.mode == "steer":
                self._steers.add(event.input_id)
            return ""
        if event.input_id not in self._steers:
            return ""
        self._steers.discard(event.input_id)
        return self._note("the model reads your message now")

    def _note(self, text: str) -> str:
        if not text:
            return ""
        return f"{self.end_line()}{self.margins.note}{self.symbols.note} {' '.join(visible(text).split())}\n"


def telling_argument(arguments: str) -> str:
    """Return what tells a call from others of the same tool: its command, its path."""
    try:
        parsed: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(parsed, dict):
        return arguments
    values = cast("dict[str, object]", parsed)
    for name in (*_TELLING, *values):
        value = values.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return arguments if values else ""


def _summary(settlement: Settlement) -> str:
    """Return what a tool's metadata says of its result in one line."""
    try:
        facts: object = json.loads(settlement.metadata or "{}")
    except ValueError:
        return ""
    summary = cast("dict[str, object]", facts).get("summary", "") if isinstance(facts, dict) else ""
    return summary if isinstance(summary, str) else ""


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return visible(lines[-1]).strip() if lines else ""


def _told_of(event: PromptUpdated) -> str:
    """Return the note that a change of the prompt is worth: that it is another day, say, is worth none."""
    fresh = [section.source or section.name for section in event.sections if section.name not in _DULL]
    gone = [name.partition(":")[2] or name for name in event.removed if name not in _DULL]
    told = [f"{what}: {', '.join(names)}" for what, names in (("is new", fresh), ("holds no longer", gone)) if names]
    return f"the model was told what {'; what '.join(told)}" if told else ""


_DULL: Final = frozenset({"environment", "git", "date"})


def _told(
    event: LoopContinued | RetryScheduled | ModelSwitched | DoomDetected | Notice,
) -> str:
    """Return the note that an event is worth; often none."""
    match event:
        case LoopContinued():
            return CONTINUED.get(event.reason, "")
        case RetryScheduled():
            wait = duration(event.next_at - event.time)
            return f"{event.message}; trying again in {wait} (retry {event.attempt})"
        case ModelSwitched():
            return f"from the next turn on, the model is {event.model}"
        case DoomDetected():
            return f"going in circles: {event.detail}"
        case Notice():
            return event.text if event.level == "warning" else ""
        case _:
            assert_never(event)
