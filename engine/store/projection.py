"""Projects new events onto the lists and the search: per batch, one `SessionChange` for each session.

Nothing is remembered between batches: each value is a last one or a sum, so the rows don't
depend on how events are batched. (`fold` defines what a session *is*; this is an index.)
"""

from __future__ import annotations

import math
import re
from typing import Final, Literal

import attrs

from engine.core import events as ev
from engine.core.ids import SessionId
from engine.core.messages import AssistantMessage, Message, TextPart, Usage, UserMessage

TITLE_CHARS: Final = 100
# Spending is summed by quarters of an hour: in every time zone, a day begins with one.
SLOT_SECONDS: Final = 900
# Any other event changes only the number and the time in a row.
PROJECTED_TYPES: Final[tuple[type[ev.Durable], ...]] = (
    ev.SessionCreated,
    ev.SessionTitled,
    ev.InputAdmitted,
    ev.InputPromoted,
    ev.PromptBlocked,
    ev.PartEnded,
    ev.PartDiscarded,
    ev.TurnStarted,
    ev.TurnResumed,
    ev.StepStarted,
    ev.StepEnded,
    ev.TurnEnded,
    ev.PermissionAsked,
    ev.QuestionAsked,
    ev.RecoveryAsked,
    ev.PermissionAnswered,
    ev.QuestionAnswered,
    ev.RecoveryAnswered,
    ev.ModelSwitched,
    ev.CompactionEnded,
    ev.HistoryReplaced,
)

_MOST_SLOTS: Final = 1 << 40

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")


@attrs.frozen
class IndexedText:
    """A searchable text."""

    seq: int
    role: Literal["user", "assistant", "title"]
    message_id: str
    part_id: str
    time: float
    text: str


@attrs.frozen
class RemovedText:
    """A text to remove from the search: of a whole message, or of one part."""

    message_id: str
    part_id: str = ""


@attrs.frozen
class NewTitle:
    """A new title of the session; empty: the title was removed."""

    seq: int
    time: float
    title: str
    by: Literal["user", "model"]


@attrs.define
class SpentAmount:
    """Tokens and money spent by steps and other requests."""

    steps: int = 0
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0


@attrs.define(eq=False)
class SessionChange:
    """What consecutive events of one session change in its row.

    Attributes:
        root: the first session of its tree.
        asked: questions that were asked, less those that were answered.
        asked_anew: a turn began or ended, so that none from before is open.
        title: the beginning of the first prompt.
        is_title_lost: a message of the user was removed, and the title may have come from it.
        titled: the newest title that counts.
        step_model: that of the step which began last; None: none has.
        spent: by slot and model; model None: that of a step which began in an earlier batch.
        texts: texts added and removed, and new titles, in order.
    """

    session_id: SessionId
    root: str
    first: int
    last: int
    created: float
    updated: float
    parent: str | None = None
    cwd: str = ""
    model: str = ""
    title: str = ""
    messages: int = 0
    turns: int = 0
    is_busy: bool | None = None
    open_questions: int = 0
    is_questions_reset: bool = False
    stop_reason: str | None = None
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0
    is_title_lost: bool = False
    titled: NewTitle | None = None
    forked_from: str | None = None
    agent: str = ""
    step_model: str | None = None
    spent: dict[tuple[int, str | None], SpentAmount] = attrs.field(factory=dict["tuple[int, str | None]", SpentAmount])
    texts: list[IndexedText | RemovedText | NewTitle] = attrs.field(
        factory=list["IndexedText | RemovedText | NewTitle"]
    )

    @classmethod
    def of(cls, event: ev.Durable, seq: int) -> SessionChange:
        """Return an empty change that starts at *event*, without adding it."""
        root = event.path[0] if event.path else event.session_id
        return cls(event.session_id, root, seq, seq, event.time, event.time)

    def add(self, event: ev.Durable, seq: int) -> None:
        """Add the next event."""
        self.last = seq
        self.updated = max(self.updated, event.time)
        match event:
            case ev.SessionCreated() | ev.SessionTitled() | ev.ModelSwitched() | ev.HistoryReplaced():
                self._add_heading(event, seq)
            case ev.InputAdmitted() | ev.InputPromoted() | ev.PromptBlocked() | ev.PartEnded() | ev.PartDiscarded():
                self._add_text(event, seq)
            case ev.TurnStarted() | ev.TurnResumed() | ev.StepStarted() | ev.StepEnded() | ev.TurnEnded():
                self._add_turn(event)
            case ev.PermissionAsked() | ev.QuestionAsked() | ev.RecoveryAsked():
                self.open_questions += 1
            case ev.PermissionAnswered() | ev.QuestionAnswered() | ev.RecoveryAnswered():
                self.open_questions -= 1
            case ev.CompactionEnded():
                self._spend(event.time, event.model, event.usage, event.cost)
            case _:
                pass

    def _add_heading(
        self, event: ev.SessionCreated | ev.SessionTitled | ev.ModelSwitched | ev.HistoryReplaced, seq: int
    ) -> None:
        match event:
            case ev.SessionCreated():
                self.parent, self.cwd, self.model = event.parent_id, event.context.cwd, event.model
                self.forked_from, self.agent = event.forked_from, event.agent
            case ev.SessionTitled():
                self._spend(event.time, event.model, event.usage, event.cost)
                is_free = self.titled is None or self.titled.by == "model"
                if event.by == "user" or (event.title and is_free):
                    self._add_title(NewTitle(seq, event.time, make_title(event.title), event.by))
            case ev.ModelSwitched():
                self.model = event.model
            case ev.HistoryReplaced():
                if event.kind in {"fork", "import"}:
                    for message in event.messages:
                        self._add_message(message, event.time, seq)

    def _add_title(self, titled: NewTitle) -> None:
        if self.titled is not None:
            self.texts.remove(self.titled)
        self.titled = titled
        self.texts.append(titled)

    def _add_message(self, message: Message, time: float, seq: int) -> None:
        """Add a message of an imported history."""
        match message:
            case UserMessage():
                self.messages += 1
                if message.origin in {"user", "steer", "queue"} and message.text:
                    self.texts.append(IndexedText(seq, "user", message.id, "", time, message.text))
                    self.title = self.title or make_title(message.text)
            case AssistantMessage():
                self.messages += 1
                for part in message.parts:
                    if isinstance(part, TextPart) and part.text:
                        self.texts.append(IndexedText(seq, "assistant", message.id, part.id, time, part.text))
            case _:
                pass

    def _spend(self, time: float, model: str | None, usage: Usage, cost: float, *, steps: int = 0) -> None:
        self.usage += usage
        self.cost += cost
        if steps or cost or usage.total:
            amount = self.spent.setdefault((slot_of(time), model), SpentAmount())
            amount.steps += steps
            amount.usage += usage
            amount.cost += cost

    def _add_turn(self, event: ev.TurnStarted | ev.TurnResumed | ev.StepStarted | ev.StepEnded | ev.TurnEnded) -> None:
        match event:
            case ev.StepStarted():
                self.step_model = event.model
            case ev.StepEnded():
                self._spend(event.time, self.step_model, event.usage, event.cost, steps=1)
                if event.kept:
                    self.messages += 1
                else:
                    self.texts.append(RemovedText(event.message_id))
            case ev.TurnStarted() | ev.TurnResumed():
                self.is_busy, self.open_questions, self.is_questions_reset = True, 0, True
            case ev.TurnEnded():
                self.is_busy, self.open_questions, self.is_questions_reset = False, 0, True
                self.turns += 1
                self.stop_reason = event.result.stop_reason

    def _add_text(
        self, event: ev.InputAdmitted | ev.InputPromoted | ev.PromptBlocked | ev.PartEnded | ev.PartDiscarded, seq: int
    ) -> None:
        match event:
            case ev.InputAdmitted():
                # The engine's own reports are not searchable.
                words = "" if event.message.origin == "engine" else event.message.text
                if words:
                    self.texts.append(IndexedText(seq, "user", event.message.id, "", event.time, words))
                self.title = self.title or make_title(words)
            case ev.InputPromoted():
                self.messages += 1
            case ev.PromptBlocked():
                self.messages -= 1
                self.texts.append(RemovedText(event.message_id))
                self.is_title_lost = True
            case ev.PartEnded():
                if isinstance(event.part, TextPart) and event.part.text:
                    text = IndexedText(seq, "assistant", event.message_id, event.part.id, event.time, event.part.text)
                    self.texts.append(text)
            case ev.PartDiscarded():
                self.texts.append(RemovedText(event.message_id, event.part_id))


def slot_of(time: float) -> int:
    """Return the number of the quarter of an hour in which *time* is."""
    return int(max(-_MOST_SLOTS, min(time // SLOT_SECONDS, _MOST_SLOTS))) if math.isfinite(time) else 0


def make_title(words: str) -> str:
    """Return the beginning of *words* in one line."""
    line = _CONTROL.sub(" ", storable(words[: 4 * TITLE_CHARS])).strip()
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def storable(text: str) -> str:
    """Replace lone surrogates, which no database accepts."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
