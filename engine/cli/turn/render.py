"""Render events as lines of text: what the user sees of a turn.

A `Renderer` takes events and returns text. It does no I/O and knows no terminal,
so the same lines appear in a test, in a file and on a screen. Text of the model
is streamed; each call gets a line when it ends, and one before that if it takes
long.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, assert_never, cast

import attrs

from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.colours import Colour, Palette
from engine.cli.terminal.terminal_text import (
    UNICODE,
    WORDS,
    Symbols,
    duration,
    escape_control_chars,
    escape_unseen,
    one_line,
)
from engine.cli.turn.answer_view import AnswerView
from engine.core import events as ev
from engine.core.ids import CallId, InputId, PartId, RequestId
from engine.core.messages import Settlement, TextPart
from engine.core.value_base import Value
from engine.journal.state import Resync
from engine.tools.tool_text import main_argument

if TYPE_CHECKING:
    from engine.cli.text.styled_text import Theme as StyleCodes

_MIN_WIDTH: Final = 20
# Of the diff of a call.
_DIFF_LINES: Final = 20
# No warnings, but what a user waits for.
_NEWS: Final = frozenset({"job_ended"})
# Notices about code, for who writes tools: `-vv` logs them.
_FOR_DEVELOPERS: Final = frozenset({"loop_blocked"})

# Reasons for another step that the user should see; the others are ordinary.
CONTINUED: Final[Mapping[ev.ContinueReason, str]] = {
    "overflow_prune_retry": "The context was full. Old results were cleared.",
    "reactive_compact_retry": "Retrying.",
    "output_escalate": "Answer cut off. Retrying with a higher output limit.",
    "output_recover": "Answer cut off. Asking for the rest.",
    "resume_after_break": "Connection lost. Continuing from the saved part.",
    "empty_retry": "Empty answer. Asking again.",
    "signature_retry": "The provider rejected earlier reasoning. Retrying without it.",
    "model_fallback": "Continuing with the next model.",
}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Margins(Value):
    """The text before each line: of the model's text, of a call, of a note."""

    model: str = ""
    call: str = ""
    note: str = ""


@attrs.define(eq=False, repr=False)
class _Call:
    """What the line of a call shows."""

    tool: str
    depth: int
    arguments: str = ""
    started: float | None = None
    last_output: str = ""
    is_announced: bool = False


@attrs.define(kw_only=True, eq=False, repr=False)
class Renderer:
    """Renders events as text.

    Attributes:
        plain: a line reports that a call is running; otherwise `status` does.
        shows_text: the model's text is among the lines.
        palette: paints the symbols of calls.
        theme: how the diffs of calls look, if there are colours; None: in the usual ones.
        surroundings: what the words about a failure need besides its facts.
    """

    symbols: Symbols = UNICODE
    margins: Margins = attrs.field(factory=Margins)
    width: int = 100
    plain: bool = True
    shows_text: bool = True
    palette: Palette = Palette()
    theme: StyleCodes | None = None
    surroundings: Surroundings = Surroundings()
    _calls: dict[CallId, _Call] = attrs.field(factory=dict[CallId, _Call], init=False)
    # The user was asked about them, and has seen what they do.
    _asked: set[CallId] = attrs.field(factory=set[CallId], init=False)
    _steers: set[InputId] = attrs.field(factory=set[InputId], init=False)
    _permissions: dict[RequestId, ev.PermissionAsked] = attrs.field(
        factory=dict[RequestId, ev.PermissionAsked], init=False
    )
    _shown_parts: set[PartId] = attrs.field(factory=set[PartId], init=False)
    _answer: AnswerView = attrs.field(init=False)
    _now: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self._answer = AnswerView(
            margin=self.margins.model, width=self.width, is_markdown=not self.plain, is_styled=self.palette.is_on
        )

    def feed(self, event: ev.Durable | ev.Live | Resync) -> str:
        """Return the text that *event* adds; often none."""
        if not isinstance(event, Resync):
            self._now = event.time
        match event:
            case ev.TextDelta() | ev.PartStarted() | ev.PartEnded() | ev.PartReplaced() | ev.PartDiscarded():
                return self._part(event)
            case (
                ev.CallAnnounced()
                | ev.CallQueued()
                | ev.CallStarted()
                | ev.CallProgress()
                | ev.CallHeartbeat()
                | ev.CallSettled()
            ):
                return self._call(event)
            case ev.InputAdmitted() | ev.InputPromoted():
                return self._input(event)
            case (
                ev.LoopContinued()
                | ev.RetryScheduled()
                | ev.ModelSwitched()
                | ev.SessionConfigured()
                | ev.DoomDetected()
                | ev.PromptUpdated()
                | ev.Notice()
            ):
                return self._note(_event_note(event, self.surroundings))
            case ev.HistoryReplaced() | ev.CompactionStarted() | ev.CompactionEnded():
                from engine.cli.turn.compaction_notices import compaction_note

                return self._note(compaction_note(event))
            case ev.PermissionAsked() | ev.PermissionAnswered():
                return self._permission(event)
            case Resync():
                return self._resync(event)
            case (
                ev.SessionCreated()
                | ev.SessionTitled()
                | ev.TurnResumed()
                | ev.SnapshotTaken()
                | ev.TurnUndone()
                | ev.TurnRedone()
                | ev.BackgroundStarted()
                | ev.BackgroundEnded()
                | ev.InputEdited()
                | ev.InputRemoved()
                | ev.PromptBlocked()
                | ev.NudgeAdded()
                | ev.PromptSet()
                | ev.TurnStarted()
                | ev.StepStarted()
                | ev.StepReceived()
                | ev.StepEnded()
                | ev.TurnEnding()
                | ev.TurnEnded()
                | ev.ReasoningDelta()
                | ev.ArgumentsDelta()
                | ev.CallJudged()
                | ev.CallChanged()
                | ev.CallDelivered()
                | ev.ContextChanged()
                | ev.QuestionAsked()
                | ev.QuestionAnswered()
                | ev.RecoveryAsked()
                | ev.RecoveryAnswered()
            ):
                return ""
            case _:
                assert_never(event)

    def end_line(self) -> str:
        """Return the end of the line that is being written, if there is one."""
        return self._answer.end()

    @property
    def is_line_open(self) -> bool:
        """Whether a line of the answer is open."""
        return self._answer.is_line_open

    @property
    def status(self) -> str:
        """The status line: the text that is being written, or the running calls; empty if there is neither."""
        if text := self._answer.preview(self._now):
            return text
        running = [call for call in self._calls.values() if call.started is not None]
        # The status line replaces itself, which would erase a line of text that is still open.
        if not running or self._answer.is_line_open:
            return ""
        # The oldest one: users wonder about the call that takes longest.
        call = running[0]
        more = f"  (+{len(running) - 1} more)" if len(running) > 1 else ""
        output = f"  {self.symbols.note} {call.last_output}" if call.last_output else ""
        seconds = int(self._now - (call.started or self._now))
        line = f"{self._head(call, self.symbols.running)}  running {seconds} s{more}{output}"
        return one_line(line, self.width - 1, self.symbols.cut)

    # -- the answer -----------------------------------------------------------------------

    def _part(self, event: ev.TextDelta | ev.PartStarted | ev.PartEnded | ev.PartReplaced | ev.PartDiscarded) -> str:
        # A sub-agent's text is for its parent agent only.
        if len(event.path) > 1 or not self.shows_text:
            return ""
        match event:
            case ev.TextDelta():
                text = self._answer.feed(event.text)
                if text:
                    self._shown_parts.add(event.part_id)
                return text
            case ev.PartEnded():
                return self.end_line() if isinstance(event.part, TextPart) else ""
            case ev.PartReplaced() | ev.PartDiscarded():
                self._answer.discard()
                # A part without visible text needs no note.
                if event.part_id not in self._shown_parts:
                    return ""
                self._shown_parts.discard(event.part_id)
                return self._note("Retrying; ignore the partial answer above.")
            case ev.PartStarted():
                return ""
            case _:
                assert_never(event)

    # -- calls ------------------------------------------------------------------------------

    def _call(
        self,
        event: ev.CallAnnounced | ev.CallQueued | ev.CallStarted | ev.CallProgress | ev.CallHeartbeat | ev.CallSettled,
    ) -> str:
        if isinstance(event, ev.CallAnnounced):
            self._calls[event.call_id] = _Call(event.tool, max(0, len(event.path) - 1))
            return ""
        call = self._calls.get(event.call_id)
        # A watcher that starts late has not seen the announcement.
        if call is None:
            return ""
        match event:
            case ev.CallQueued():
                call.tool, call.arguments = event.tool, event.arguments
            case ev.CallStarted():
                call.started = event.time
            case ev.CallProgress():
                call.last_output = _last_line(event.message or event.output) or call.last_output
            case ev.CallHeartbeat():
                return self._running() if self.plain else ""
            case ev.CallSettled():
                del self._calls[event.call_id]
                lines = self._settled(call, event.settlement, event.time) + self._diff(event)
                self._asked.discard(event.call_id)
                return lines
            case _:
                assert_never(event)
        return ""

    def _running(self) -> str:
        """Return a line for each running call that has none so far."""
        lines, symbol = "", self.symbols.running
        for call in self._calls.values():
            if call.started is not None and not call.is_announced:
                call.is_announced = True
                # Where signs are words, the first one says it.
                lines += self._line(call, symbol, "" if symbol == WORDS.running else "running")
        return lines

    def _settled(self, call: _Call, settlement: Settlement, time: float) -> str:
        symbol, state = self._state(settlement)
        took = "" if call.started is None else duration(time - call.started)
        return self._line(call, symbol, state, took)

    def _diff(self, event: ev.CallSettled) -> str:
        """Return the beginning of what a call has changed in files, unless the user was asked about that."""
        # A sub-agent's changes are its own affair.
        if event.call_id in self._asked or len(event.path) > 1 or event.settlement.failed:
            return ""
        diff = _fact(event.settlement, "diff")
        if not diff:
            return ""
        # Imported here: the first request need not wait for it.
        from engine.cli.text.diff_view import diff_lines
        from engine.cli.text.styled_text import PALETTE, PLAIN, paint

        codes = (self.theme or PALETTE) if self.palette.is_on else PLAIN
        lines = diff_lines(diff, _DIFF_LINES)
        # Below the line of the call, which says whose it is.
        margin = " " * len(self.margins.call)
        return "".join(f"{margin}  {paint(line, codes)}".rstrip() + "\n" for line in lines)

    def _state(self, settlement: Settlement) -> tuple[str, str]:
        match settlement.status:
            case "completed":
                return (self.symbols.failed if settlement.failed else self.symbols.done), _summary(settlement)
            case "error" | "denied":
                # The text often begins with the status already: "Denied: …".
                text = settlement.text.strip() or settlement.status
                has_status = text.lower().startswith(settlement.status)
                return self.symbols.failed, text if has_status else f"{settlement.status}: {text}"
            case "aborted":
                if settlement.reason == "interrupted_by_crash":
                    return self.symbols.stopped, "aborted: the engine's process ended; what it did is not known"
                reason = (settlement.reason or "cancelled").replace("_", " ")
                unknown = ", would not stop" if settlement.outcome_unknown else ""
                return self.symbols.stopped, f"aborted: {reason}{unknown}"

    def _head(self, call: _Call, symbol: str) -> str:
        room = max(_MIN_WIDTH, self.width // 2)
        what = one_line(main_argument(call.arguments), room, self.symbols.cut)
        return f"{self.margins.call}{'  ' * call.depth}{symbol} {escape_control_chars(call.tool):<5} {what}".rstrip()

    def _line(self, call: _Call, symbol: str, state: str, took: str = "") -> str:
        head = self._head(call, symbol)
        room = max(_MIN_WIDTH, self.width - len(head) - len(took) - 4)
        parts = filter(None, (head, one_line(state, room, self.symbols.cut), took))
        # Painted last: escape sequences have no width. The symbol comes first, after the margin.
        line = "  ".join(parts).replace(symbol, self.palette.paint(symbol, self._colour(symbol)), 1)
        return f"{self.end_line()}{line}\n"

    def _colour(self, symbol: str) -> Colour:
        colours: dict[str, Colour] = {self.symbols.done: "green", self.symbols.failed: "red"}
        return colours.get(symbol, "cyan" if symbol == self.symbols.running else "yellow")

    # -- the rest ---------------------------------------------------------------------------

    def _input(self, event: ev.InputAdmitted | ev.InputPromoted) -> str:
        if isinstance(event, ev.InputAdmitted):
            # The prompt itself needs no note: the user has just typed it.
            if event.mode == "steer":
                self._steers.add(event.input_id)
            return ""
        if event.input_id not in self._steers:
            return ""
        self._steers.discard(event.input_id)
        return self._note("the model reads your message now")

    def _resync(self, event: Resync) -> str:
        for question in event.open_questions:
            self.feed(question)
        return self._note("The output above may be incomplete.")

    def _permission(self, event: ev.PermissionAsked | ev.PermissionAnswered) -> str:
        """Return the line about an answer; the question itself is shown where it can be answered."""
        if isinstance(event, ev.PermissionAsked):
            self._permissions[event.request_id] = event
            self._asked.add(event.call_id)
            return ""
        # Imported here: most turns ask nothing.
        from engine.permission.question_text import answer_text

        return self._note(escape_unseen(answer_text(self._permissions.pop(event.request_id, None), event)))

    def _note(self, text: str) -> str:
        if not text:
            return ""
        return f"{self._answer.break_line()}{self.margins.note}{self.symbols.note} {' '.join(escape_control_chars(text).split())}\n"


def _summary(settlement: Settlement) -> str:
    """Return the one-line summary in the metadata of a result."""
    return _fact(settlement, "summary")


def _fact(settlement: Settlement, name: str) -> str:
    """Return a text in the metadata of a result; empty if there is none."""
    try:
        facts: object = json.loads(settlement.metadata or "{}")
    except ValueError:
        return ""
    # Tools of the host may put any JSON there.
    value = cast("dict[str, object]", facts).get(name, "") if isinstance(facts, dict) else ""
    return value if isinstance(value, str) else ""


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return escape_control_chars(lines[-1]).strip() if lines else ""


def _prompt_note(event: ev.PromptUpdated) -> str:
    """Return the note about a changed prompt; none for a new date, say."""
    added = [section.source or section.name for section in event.sections if section.name not in _UNREPORTED_SECTIONS]
    gone = [name.partition(":")[2] or name for name in event.removed if name not in _UNREPORTED_SECTIONS]
    changes = [f"{what} {', '.join(names)}" for what, names in (("added", added), ("removed", gone)) if names]
    return f"the prompt was updated: {'; '.join(changes)}" if changes else ""


# These change by themselves all the time; a note for each change would be noise.
_UNREPORTED_SECTIONS: Final = frozenset({"environment", "git", "date"})


def _by(client: str) -> str:
    return f", set by {client}" if client else ""


def _event_note(
    event: ev.LoopContinued
    | ev.RetryScheduled
    | ev.ModelSwitched
    | ev.SessionConfigured
    | ev.DoomDetected
    | ev.PromptUpdated
    | ev.Notice,
    surroundings: Surroundings,
) -> str:
    """Return the note about an event; often none."""
    match event:
        case ev.LoopContinued() | ev.RetryScheduled():
            return _retry_note(event, surroundings)
        case ev.ModelSwitched():
            return f"from the next turn on, the model is {event.model}{_by(event.by)}"
        case ev.SessionConfigured():
            profile = f"{event.profile!r}" if event.profile else "the engine's again"
            return f"the permission profile is {profile}{_by(event.by)}"
        case ev.DoomDetected():
            return f"going in circles: {event.detail}"
        case ev.PromptUpdated():
            return _prompt_note(event)
        case ev.Notice():
            is_shown = event.level == "warning" or event.code in _NEWS
            return event.text if is_shown and event.code not in _FOR_DEVELOPERS else ""
        case _:
            assert_never(event)


def _retry_note(event: ev.LoopContinued | ev.RetryScheduled, surroundings: Surroundings) -> str:
    """Return the note about another request, or another model."""
    if isinstance(event, ev.LoopContinued) and not event.model:
        return CONTINUED.get(event.reason, "")
    # Imported here: hardly any turn needs them.
    from engine.cli.problems.problem import fallback_line, retry_line

    return (
        fallback_line(event, surroundings) if isinstance(event, ev.LoopContinued) else retry_line(event, surroundings)
    )
