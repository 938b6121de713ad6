"""Events that replace the history or restore files: compaction, snapshots, undo and redo."""

from __future__ import annotations

from typing import Literal

import attrs

from engine.core._event_base import EventBase
from engine.core.ids import TurnId
from engine.core.messages import Message, Usage

CompactionTrigger = Literal["full", "overflow", "manual"]
CompactionOutcome = Literal["compacted", "failed", "cancelled"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompactionStarted(EventBase):
    """The history is about to be summarised.

    Attributes:
        trigger: the window is full, a request was too large, or somebody asked for it.
        messages: how many there are.
    """

    trigger: CompactionTrigger
    messages: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompactionEnded(EventBase):
    """It was summarised, and a `HistoryReplaced` stands before this; or it is as it was.

    Attributes:
        outcome: how it went.
        detail: why it failed, or what else is to be known of it.
        messages: how many there are now.
        before: what the next request would have taken of the window, estimated; 0: nobody knows.
        after: what it takes now.
        source: so many messages are summarised.
        digest: of what they said.
        model: who was asked for the summary; empty: nobody was.
        usage: what that has taken.
        cost: of that.
    """

    outcome: CompactionOutcome
    detail: str = ""
    messages: int = 0
    before: int = 0
    after: int = 0
    source: int = 0
    digest: str = ""
    model: str = ""
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HistoryReplaced(EventBase):
    """Another history takes the place of the old: a shorter one, or the one that a fork or an import begins with.

    With "restore", it is the one from before the last compaction, and what was said since.
    """

    kind: Literal["prune", "collapse", "compact", "restore", "fork", "import"]
    messages: tuple[Message, ...]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SnapshotTaken(EventBase):
    """The files of the project were noted as they are: the turn can be undone to here.

    Attributes:
        step: the one that is over; 0: before the first change of the turn.
        tree: what names this state of the files.
    """

    step: int
    tree: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnUndone(EventBase):
    """The newest turn that was not undone yet is taken back: its messages, and its changes of files.

    Attributes:
        undone: the turn.
        keep: so many of the first messages of the transcript stay.
        messages: they follow those: where a compaction within the turn had replaced what was there before it.
        files: what was put back, or removed, relative to the working directory.
    """

    undone: TurnId
    keep: int
    messages: tuple[Message, ...] = ()
    files: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnRedone(EventBase):
    """The turn that was undone last counts again, with its messages and its changes of files.

    Attributes:
        redone: the turn.
        files: what was changed again.
    """

    redone: TurnId
    files: tuple[str, ...] = ()
