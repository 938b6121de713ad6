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
        trigger: the window is full, a request was too large, or the user asked for it.
        messages: how many messages the history has.
    """

    trigger: CompactionTrigger
    messages: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompactionEnded(EventBase):
    """A compaction is over. If the history was summarised, a `HistoryReplaced` comes before this; else it is unchanged.

    Attributes:
        outcome: whether it succeeded.
        detail: why it failed, or a remark about the summary.
        messages: how many messages the history has now.
        before: tokens that the next request would have had, estimated; 0: unknown.
        after: tokens that it has now.
        source: how many messages were summarised.
        digest: a hash of those messages.
        model: the model that wrote the summary; empty: none did.
        usage: tokens of its requests.
        cost: money for its requests.
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
    """Another history replaces the old one: a shorter one, or the one that a fork or an import begins with.

    With "restore", it is the history from before the last compaction, and the messages since then.
    """

    kind: Literal["prune", "collapse", "compact", "restore", "fork", "import"]
    messages: tuple[Message, ...]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SnapshotTaken(EventBase):
    """The files of the project were recorded, so that the turn can be undone to this state.

    Attributes:
        step: the step that just ended; 0: before the first change of the turn.
        tree: identifies this state of the files.
    """

    step: int
    tree: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnUndone(EventBase):
    """The newest turn that was not undone yet is undone: its messages, and its changes of files.

    Attributes:
        undone: the turn.
        keep: how many messages at the beginning of the transcript stay.
        messages: messages to append to those, if a compaction within the turn had replaced them.
        files: the files that were restored or removed, relative to the working directory.
        rewind: the oldest turn that was undone together with this one; None: it was undone by itself.
    """

    undone: TurnId
    keep: int
    messages: tuple[Message, ...] = ()
    files: tuple[str, ...] = ()
    rewind: TurnId | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnRedone(EventBase):
    """The turn that was undone last is restored, with its messages and its changes of files.

    Attributes:
        redone: the turn.
        files: the files that were changed again.
    """

    redone: TurnId
    files: tuple[str, ...] = ()
