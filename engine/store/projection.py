"""Projects new events onto the lists and the search: per batch, one `SessionChange` for each session.

No state is kept between batches: each value is a latest value or a sum, so the rows don't depend on how events are
batched. (`fold` defines what a session *is*; this is an index.)
"""

from __future__ import annotations

import math
from typing import Final, Literal

import attrs

from engine.core import events as ev
from engine.core.ids import SessionId
from engine.core.lazy import regex
from engine.core.messages import AssistantMessage, AssistantPart, Message, TextPart, Usage, UserMessage
from engine.core.value_base import Value

TITLE_CHARS: Final = 100
# Spending is summed by quarters of an hour: every time zone's offset is a multiple of that, so a day in any zone is a
# sum of slots.
SLOT_SECONDS: Final = 900
# All other events change only `seq` and `updated` of a row, so a rebuild need not decode them.
PROJECTED_TYPES: Final[tuple[type[ev.Durable], ...]] = (
    ev.SessionCreated,
    ev.SessionTitled,
    ev.InputAdmitted,
    ev.InputPromoted,
    ev.InputEdited,
    ev.InputRemoved,
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

# A clock may be arbitrarily wrong, but a slot must fit into a database integer.
_MOST_SLOTS: Final = 1 << 40

_CONTROL: Final = regex(r"[\x00-\x1f\x7f-\x9f\s]+")
# As `engine.cli.task` joins them with the words of a task.
_ADDED: Final = regex(r'\n\n<(?:file path="|stdin>\n)')


@attrs.frozen(eq=False, repr=False)
class IndexedText(Value):
    """A searchable text."""

    seq: int
    role: Literal["user", "assistant", "title"]
    message_id: str
    part_id: str
    time: float
    text: str


@attrs.frozen(eq=False, repr=False)
class RemovedText(Value):
    """A text to remove from the index: of a whole message, or of one part."""

    message_id: str
    part_id: str = ""


@attrs.frozen(eq=False, repr=False)
class NewTitle(Value):
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


@attrs.define
class SpendingChange:
    """What consecutive events of one session have spent.

    Attributes:
        usage: the sum of tokens.
        cost: the sum of money.
        step_model: the model of the newest step; None: no step began.
        amounts: by slot and model; the model None stands for that of a step which began in an earlier batch.
    """

    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0
    step_model: str | None = None
    amounts: dict[tuple[int, str | None], SpentAmount] = attrs.field(
        factory=dict["tuple[int, str | None]", SpentAmount]
    )

    def add(self, time: float, model: str | None, usage: Usage, cost: float, *, steps: int = 0) -> None:
        """Add what one step, or one request outside of steps, has spent."""
        self.usage += usage
        self.cost += cost
        if steps or cost or usage.total:
            amount = self.amounts.setdefault((slot_of(time), model), SpentAmount())
            amount.steps += steps
            amount.usage += usage
            amount.cost += cost


@attrs.define
class TextChange:
    """What consecutive events of one session change in the search index and the title.

    Attributes:
        first_prompt: the beginning of the first prompt, the title of a session without another one.
        is_first_prompt_lost: a user message was removed, which may have been the first one.
        new_title: the newest title in effect.
        changes: texts added and removed, and new titles, in order.
    """

    first_prompt: str = ""
    is_first_prompt_lost: bool = False
    new_title: NewTitle | None = None
    changes: list[IndexedText | RemovedText | NewTitle] = attrs.field(
        factory=list["IndexedText | RemovedText | NewTitle"]
    )

    def add_title(self, event: ev.SessionTitled, seq: int) -> None:
        """Add a title, unless it is a model's and the user has set one."""
        is_replaceable = self.new_title is None or self.new_title.by == "model"
        if event.by == "model" and not (event.title and is_replaceable):
            return
        # Only the newest title is searchable.
        if self.new_title is not None:
            self.changes.remove(self.new_title)
        self.new_title = NewTitle(seq, event.time, make_title(event.title), event.by)
        self.changes.append(self.new_title)

    def add_prompt(self, message: UserMessage, time: float, seq: int) -> None:
        """Add what the user wrote. The engine's own messages are not searchable."""
        if message.origin in {"user", "steer", "queue"} and message.text:
            self.changes.append(IndexedText(seq, "user", message.id, "", time, message.text))
            self.first_prompt = self.first_prompt or make_title(message.text)

    def add_part(self, message_id: str, part: AssistantPart, time: float, seq: int) -> None:
        """Add what the model wrote, if it is text."""
        if isinstance(part, TextPart) and part.text:
            self.changes.append(IndexedText(seq, "assistant", message_id, part.id, time, part.text))

    def remove(self, message_id: str, part_id: str = "") -> None:
        """Remove the texts of a message, or of one part."""
        self.changes.append(RemovedText(message_id, part_id))


@attrs.define(eq=False, repr=False)
class SessionChange:
    """What consecutive events of one session change in its row.

    Attributes:
        root: the first session of its tree.
        open_questions: the questions asked minus those answered.
        is_questions_reset: a turn began or ended, so no earlier question is open.
    """

    session_id: SessionId
    root: str
    last: int
    created: float
    updated: float
    parent: str | None = None
    cwd: str = ""
    model: str = ""
    forked_from: str | None = None
    agent: str = ""
    messages: int = 0
    turns: int = 0
    is_busy: bool | None = None
    open_questions: int = 0
    is_questions_reset: bool = False
    stop_reason: str | None = None
    spending: SpendingChange = attrs.field(factory=SpendingChange)
    texts: TextChange = attrs.field(factory=TextChange)

    @classmethod
    def of(cls, event: ev.Durable, seq: int) -> SessionChange:
        """Return an empty change that starts at *event*, without adding it."""
        root = event.path[0] if event.path else event.session_id
        return cls(event.session_id, root, seq, event.time, event.time)

    def add(self, event: ev.Durable, seq: int) -> None:
        """Add the next event."""
        self.last = seq
        self.updated = max(self.updated, event.time)
        match event:
            case ev.SessionCreated() | ev.SessionTitled() | ev.ModelSwitched() | ev.HistoryReplaced():
                self._add_heading(event, seq)
            case ev.InputAdmitted() | ev.InputPromoted() | ev.PromptBlocked() | ev.PartEnded() | ev.PartDiscarded():
                self._add_text(event, seq)
            case ev.InputEdited():
                self.texts.remove(event.message.id)
                self.texts.add_prompt(event.message, event.time, seq)
            case ev.InputRemoved():
                self.texts.remove(event.message_id)
            case ev.TurnStarted() | ev.TurnResumed() | ev.StepStarted() | ev.StepEnded() | ev.TurnEnded():
                self._add_turn(event)
            case ev.PermissionAsked() | ev.QuestionAsked() | ev.RecoveryAsked():
                self.open_questions += 1
            case ev.PermissionAnswered() | ev.QuestionAnswered() | ev.RecoveryAnswered():
                self.open_questions -= 1
            case ev.CompactionEnded():
                self.spending.add(event.time, event.model, event.usage, event.cost)
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
                self.spending.add(event.time, event.model, event.usage, event.cost)
                self.texts.add_title(event, seq)
            case ev.ModelSwitched():
                self.model = event.model
            case ev.HistoryReplaced():
                if event.kind in {"fork", "import"}:
                    for message in event.messages:
                        self._add_message(message, event.time, seq)

    def _add_message(self, message: Message, time: float, seq: int) -> None:
        """Add a message of an imported history."""
        match message:
            case UserMessage():
                self.messages += 1
                self.texts.add_prompt(message, time, seq)
            case AssistantMessage():
                self.messages += 1
                for part in message.parts:
                    self.texts.add_part(message.id, part, time, seq)
            case _:
                pass

    def _add_turn(self, event: ev.TurnStarted | ev.TurnResumed | ev.StepStarted | ev.StepEnded | ev.TurnEnded) -> None:
        match event:
            case ev.StepStarted():
                self.spending.step_model = event.model
            case ev.StepEnded():
                self.spending.add(event.time, self.spending.step_model, event.usage, event.cost, steps=1)
                if event.kept:
                    self.messages += 1
                else:
                    self.texts.remove(event.message_id)
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
                self.texts.add_prompt(event.message, event.time, seq)
            case ev.InputPromoted():
                self.messages += 1
            case ev.PromptBlocked():
                self.messages -= 1
                self.texts.remove(event.message_id)
                self.texts.is_first_prompt_lost = True
            case ev.PartEnded():
                self.texts.add_part(event.message_id, event.part, event.time, seq)
            case ev.PartDiscarded():
                self.texts.remove(event.message_id, event.part_id)


def slot_of(time: float) -> int:
    """Return the number of the quarter-hour that contains *time*."""
    return int(max(-_MOST_SLOTS, min(time // SLOT_SECONDS, _MOST_SLOTS))) if math.isfinite(time) else 0


def make_title(words: str) -> str:
    """Return the beginning of *words* as one line, without files and input that the command line has added."""
    line = _CONTROL.sub(" ", storable(_ADDED.split(words[: 4 * TITLE_CHARS], maxsplit=1)[0])).strip()
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def storable(text: str) -> str:
    """Replace lone surrogates, which no database accepts."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
