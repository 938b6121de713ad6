"""What new events change in the lists: the sums of a batch, one for each session, and the texts to be found.

Only what is new is looked at, and nothing is remembered from one batch to the next:
each value is either the last one or a sum, so any cutting into batches gives the same
rows. (`fold` stays the one projection of what a session *is*; this is an index of it.)
"""

from __future__ import annotations

import re
from typing import Final, Literal

import attrs

from engine.events import (
    CompactionEnded,
    Durable,
    InputAdmitted,
    InputPromoted,
    ModelSwitched,
    PartDiscarded,
    PartEnded,
    PermissionAnswered,
    PermissionAsked,
    PromptBlocked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryAnswered,
    RecoveryAsked,
    SessionCreated,
    StepEnded,
    TurnEnded,
    TurnStarted,
)
from engine.ids import SessionId
from engine.messages import TextPart, Usage

TITLE_CHARS: Final = 100

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")


@attrs.frozen
class Said:
    """A text to be found later."""

    seq: int
    role: Literal["user", "assistant"]
    message_id: str
    part_id: str
    time: float
    text: str


@attrs.frozen
class Unsaid:
    """A text was taken back: all of its message, or one part of it."""

    message_id: str
    part_id: str = ""


@attrs.define(eq=False)
class Change:
    """What a run of events of one session changes in its row.

    Attributes:
        root: the first session of its tree.
        asked: questions that were asked, less those that were answered.
        asked_anew: a turn began or ended, so that none from before is open.
        is_title_lost: a message of the user was taken back, and perhaps the title came of it.
        texts: what was said and unsaid, in order.
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
    asked: int = 0
    asked_anew: bool = False
    stop_reason: str | None = None
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0
    is_title_lost: bool = False
    texts: list[Said | Unsaid] = attrs.field(factory=list["Said | Unsaid"])

    @classmethod
    def of(cls, event: Durable, seq: int) -> Change:
        """Return what begins with *event*, which is not looked at yet."""
        root = event.path[0] if event.path else event.session_id
        return cls(event.session_id, root, seq, seq, event.time, event.time)

    def take(self, event: Durable, seq: int) -> None:
        """Look at the next event."""
        self.last = seq
        self.updated = max(self.updated, event.time)
        match event:
            case SessionCreated():
                self.parent, self.cwd, self.model = event.parent_id, event.context.cwd, event.model
            case InputAdmitted() | InputPromoted() | PromptBlocked() | PartEnded() | PartDiscarded():
                self._take_words(event, seq)
            case TurnStarted() | StepEnded() | TurnEnded():
                self._take_turn(event)
            case PermissionAsked() | QuestionAsked() | RecoveryAsked():
                self.asked += 1
            case PermissionAnswered() | QuestionAnswered() | RecoveryAnswered():
                self.asked -= 1
            case ModelSwitched():
                self.model = event.model
            case CompactionEnded():
                self.usage += event.usage
                self.cost += event.cost
            case _:
                pass

    def _take_turn(self, event: TurnStarted | StepEnded | TurnEnded) -> None:
        match event:
            case StepEnded():
                self.usage += event.usage
                self.cost += event.cost
                if event.kept:
                    self.messages += 1
                else:
                    self.texts.append(Unsaid(event.message_id))
            case TurnStarted():
                self.is_busy, self.asked, self.asked_anew = True, 0, True
            case TurnEnded():
                self.is_busy, self.asked, self.asked_anew = False, 0, True
                self.turns += 1
                self.stop_reason = event.result.stop_reason

    def _take_words(
        self, event: InputAdmitted | InputPromoted | PromptBlocked | PartEnded | PartDiscarded, seq: int
    ) -> None:
        match event:
            case InputAdmitted():
                words = event.message.text
                if words:
                    self.texts.append(Said(seq, "user", event.message.id, "", event.time, words))
                self.title = self.title or title_of(words)
            case InputPromoted():
                self.messages += 1
            case PromptBlocked():
                self.messages -= 1
                self.texts.append(Unsaid(event.message_id))
                self.is_title_lost = True
            case PartEnded():
                if isinstance(event.part, TextPart) and event.part.text:
                    said = Said(seq, "assistant", event.message_id, event.part.id, event.time, event.part.text)
                    self.texts.append(said)
            case PartDiscarded():
                self.texts.append(Unsaid(event.message_id, event.part_id))


def title_of(words: str) -> str:
    """Return the beginning of *words* in one line."""
    line = _CONTROL.sub(" ", storable(words[: 4 * TITLE_CHARS])).strip()
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def storable(text: str) -> str:
    """Return *text* as a database takes it: a surrogate without its partner is no character."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
