"""Params and results of the methods about open questions, and about the files that turns have changed."""

from __future__ import annotations

from typing import Annotated, Literal

import attrs

from engine.control.protocol.bounds import Bounds, Id, Key, Name, Text
from engine.control.protocol.session_methods import SessionParams
from engine.control.protocol.wire_converter import Params
from engine.core.events import GrantScope
from engine.core.ids import SessionId, TurnId
from engine.core.messages import UserMessage
from engine.journal.state import OpenQuestion


@attrs.frozen(kw_only=True)
class QuestionListParams(Params):
    """Whose questions to list.

    Attributes:
        session_id: only those of this session and its sub-agents; None: all of open sessions, and those of parked turns among
            the newest sessions.
    """

    session_id: Id | None = None


@attrs.frozen(kw_only=True)
class OpenQuestionRow:
    """An open question.

    Attributes:
        session_id: the session at which it is answered: the root of the one that asks.
        path: from there to the session that asks.
        question: the event that asked it.
    """

    session_id: SessionId
    path: tuple[SessionId, ...]
    question: OpenQuestion


@attrs.frozen(kw_only=True)
class QuestionListResult:
    """Open questions.

    Attributes:
        questions: the oldest first.
    """

    questions: tuple[OpenQuestionRow, ...]


@attrs.frozen(kw_only=True)
class RequestParams(SessionParams):
    """The params of a method about one question.

    Attributes:
        request_id: the question.
    """

    request_id: Id


@attrs.frozen(kw_only=True)
class PermissionReplyParams(RequestParams):
    """The answer to a question for permission.

    Attributes:
        answer: allow this call, allow what one of the offers covers, or refuse.
        offer: with "always", the index of the offer; the first is the narrowest.
        scope: with "always", how far it reaches.
        seconds: with "always", for how long; None: as long as the scope.
        feedback: with "reject", for the model, which then continues; empty: the turn ends.
    """

    answer: Literal["once", "always", "reject"]
    offer: Annotated[int, Bounds(0, 1000)] = 0
    scope: GrantScope = "session"
    seconds: Annotated[float, Bounds(0.001, 1_000_000_000)] | None = None
    feedback: str = ""


@attrs.frozen(kw_only=True)
class PermissionReplyResult:
    """The answer counts.

    Attributes:
        seq: the number of its event.
        effect: what it did.
    """

    seq: int
    effect: Literal["allowed", "granted", "refused"]


@attrs.frozen(kw_only=True)
class QuestionAnswerParams(RequestParams):
    """The answer to a tool's question.

    Attributes:
        answers: labels of its choices, or any text; none: decline.
    """

    answers: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RecoveryAnswerParams(RequestParams):
    """How to go on after the model's host has failed.

    Attributes:
        how: wait and try again, use another model, or stop.
        model: with "switch", the model.
    """

    how: Literal["wait", "switch", "stop"]
    model: Name | None = None


@attrs.frozen(kw_only=True)
class AttendParams(Params):
    """A question that a user is looking at.

    Attributes:
        request_id: the question.
        seconds: for how long to show that to others; 0: no longer.
    """

    request_id: Id
    seconds: Annotated[float, Bounds(0, 30)] = 30.0


@attrs.frozen(kw_only=True)
class AttendResult:
    """Who else looks at it.

    Attributes:
        others: the names of their clients.
    """

    others: tuple[str, ...]


@attrs.frozen(kw_only=True)
class UndoParams(SessionParams):
    """A turn to be undone or redone.

    Attributes:
        force: also overwrite what something else has changed since.
        key: makes repeating the request safe.
    """

    force: bool = False
    key: Key


@attrs.frozen(kw_only=True)
class UndoResult:
    """What was undone or redone.

    Attributes:
        turn_id: the turn; of several, the oldest.
        turns: all turns of a rewind, the newest first; empty for an undo or a redo.
        inputs: what the user had said in it, the prompt first; empty for a redo.
        files: the files that were changed, relative to the working directory.
        left: files that have changed, too, but are not in snapshots.
        remarks: remarks about the files.
        seq: the number of the event.
    """

    turn_id: TurnId
    turns: tuple[TurnId, ...] = ()
    inputs: tuple[UserMessage, ...] = ()
    files: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    seq: int


@attrs.frozen(kw_only=True)
class RewindParams(SessionParams):
    """A turn to be undone with all later ones.

    Attributes:
        turn_id: the oldest turn to undo.
        scope: the messages and the changes of files, or only one of them.
        force: also overwrite what something else has changed since.
        key: makes repeating the request safe.
    """

    turn_id: Id
    scope: Literal["both", "conversation", "files"] = "both"
    force: bool = False
    key: Key


@attrs.frozen(kw_only=True)
class RewindPointRow:
    """A prompt to which a session can be rewound.

    Attributes:
        turn_id: its turn.
        prompt: what the user said.
        time: when, in seconds since the epoch.
        files: the files that changed while the turn ran; those of old turns are not listed.
        has_files: whether it changed any.
    """

    turn_id: TurnId
    prompt: str
    time: float
    files: tuple[str, ...] = ()
    has_files: bool = False


@attrs.frozen(kw_only=True)
class RewindPointsResult:
    """The prompts to which a session can be rewound.

    Attributes:
        points: the oldest first.
    """

    points: tuple[RewindPointRow, ...]


@attrs.frozen(kw_only=True)
class RewindPreviewParams(SessionParams):
    """A turn to which a session might be rewound.

    Attributes:
        turn_id: the oldest turn that would be undone.
    """

    turn_id: Id


@attrs.frozen(kw_only=True)
class DiffParams(SessionParams):
    """Whose changes to show.

    Attributes:
        turn_id: the turn; None: the newest that changed files.
    """

    turn_id: Id | None = None


@attrs.frozen(kw_only=True)
class FileDifference:
    """What a turn did to a file.

    Attributes:
        path: relative to the working directory.
        change: whether it was there before and after.
        text: the difference as a unified diff; empty for what is no text.
    """

    path: str
    change: Literal["added", "changed", "removed"]
    text: str = ""


@attrs.frozen(kw_only=True)
class DiffResult:
    """The changes of a turn.

    Attributes:
        files: the files.
    """

    files: tuple[FileDifference, ...]


@attrs.frozen(kw_only=True)
class RewindPreviewResult:
    """What rewinding would do.

    Attributes:
        turns: the turns that would be undone, the newest first.
        files: the files that would change.
        conflicts: files that another program has changed: they are overwritten by force only.
        left: files that have changed, too, but are not in snapshots.
    """

    turns: tuple[TurnId, ...]
    files: tuple[FileDifference, ...] = ()
    conflicts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RestoreParams(SessionParams):
    """Files to restore as they were before a turn.

    Attributes:
        paths: files and folders, relative to the working directory.
        turn_id: the turn; None: the newest that changed files.
        force: also overwrite what something else has changed since.
    """

    paths: tuple[Text, ...]
    turn_id: Id | None = None
    force: bool = False


@attrs.frozen(kw_only=True)
class RestoreResult:
    """What was restored.

    Attributes:
        paths: the files.
    """

    paths: tuple[str, ...]
