"""Params and results of the methods about turns: to prompt, steer, cancel, wait and compact."""

from __future__ import annotations

from typing import Annotated, Literal

import attrs

from engine.control.protocol.bounds import Bounds, Id, Key, Text
from engine.control.protocol.session_methods import SessionParams, TurnSettings
from engine.control.protocol.wire_converter import Params
from engine.core.context_report import ContextReport
from engine.core.events import TurnResult
from engine.core.ids import InputId, TurnId


@attrs.frozen(kw_only=True)
class Attachment(Params):
    """An image or a file that comes with a prompt: its content, or the reference of an upload.

    Attributes:
        data: the content as base64.
        upload: what the upload was answered with.
        media_type: its type; empty: as the content or the name shows.
        name: its name for the model.
    """

    data: Text | None = None
    upload: Id | None = None
    media_type: str = ""
    name: str = ""

    def __attrs_post_init__(self) -> None:
        if (self.data is None) == (self.upload is None):
            raise ValueError("expected either data or upload")


@attrs.frozen(kw_only=True)
class UploadParams(Params):
    """A piece of a file that is sent before the prompt it goes with. The pieces of a file come in order.

    Attributes:
        size: how many bytes the whole file has; the same in each piece.
        data: the piece, as base64.
        upload: what the first piece was answered with; None: this is the first.
    """

    size: Annotated[int, Bounds(1, 1 << 30)]
    data: Text
    upload: Id | None = None


@attrs.frozen(kw_only=True)
class UploadResult:
    """Where an upload is.

    Attributes:
        upload: its reference. It can be attached once all of it has come, for an hour.
        received: how many bytes have come. Those of an unfinished upload are dropped when its connection ends.
    """

    upload: str
    received: int


@attrs.frozen(kw_only=True)
class PromptParams(SessionParams):
    """A prompt, which starts a turn.

    Attributes:
        text: the prompt.
        attachments: images and files for the model.
        settings: for this turn.
        on_disconnect: "cancel": the turn is cancelled once this client is gone for `linger` seconds.
        linger: see there.
        key: the id of this input: sending the same prompt again starts nothing.
    """

    text: Text
    attachments: tuple[Attachment, ...] = ()
    settings: TurnSettings | None = None
    on_disconnect: Literal["continue", "cancel"] = "continue"
    linger: Annotated[float, Bounds(0, 600)] = 10.0
    key: Key


@attrs.frozen(kw_only=True)
class PromptResult:
    """The turn was started.

    Attributes:
        turn_id: the turn.
        input_id: the prompt.
        seq: the number of the event that admitted it.
        durable: whether it is in the store. False: the store fails or is slow, so a crash now would lose it; or a prompt
            that is cancelled with its connection did not wait for it.
    """

    turn_id: TurnId
    input_id: InputId
    seq: int
    durable: bool = True


@attrs.frozen(kw_only=True)
class QueueParams(SessionParams):
    """Input for the next turn.

    Attributes:
        text: the prompt of that turn.
        attachments: images and files for the model.
        key: the id of this input.
    """

    text: Text
    attachments: tuple[Attachment, ...] = ()
    key: Key


@attrs.frozen(kw_only=True)
class QueueResult:
    """The input is admitted.

    Attributes:
        input_id: its id.
        seq: the number of the event that admitted it.
        position: how many inputs are before it; 0: its turn is next, or has begun.
        durable: whether it is in the store. False: the store fails or is slow, so a crash now would lose it.
    """

    input_id: InputId
    seq: int
    position: int
    durable: bool = True


@attrs.frozen(kw_only=True)
class QueueRemoveParams(SessionParams):
    """Queued input to be removed.

    Attributes:
        input_id: the input.
    """

    input_id: Id


@attrs.frozen(kw_only=True)
class QueueRemoveResult:
    """Whether it was removed.

    Attributes:
        removed: false: its turn has begun, or it was removed before.
    """

    removed: bool


@attrs.frozen(kw_only=True)
class TurnParams(SessionParams):
    """The params of a method about one turn.

    Attributes:
        turn_id: the turn.
    """

    turn_id: Id


@attrs.frozen(kw_only=True)
class SteerParams(TurnParams):
    """A message to the model in the middle of its turn.

    Attributes:
        text: the message.
        attachments: images and files for the model.
        key: the id of this input.
    """

    text: Text
    attachments: tuple[Attachment, ...] = ()
    key: Key


@attrs.frozen(kw_only=True)
class InputResult:
    """Input was admitted.

    Attributes:
        input_id: its id.
        seq: the number of the event that admitted it.
        durable: whether it is in the store. False: the store fails or is slow, so a crash now would lose it.
    """

    input_id: InputId
    seq: int
    durable: bool = True


@attrs.frozen(kw_only=True)
class CancelParams(TurnParams):
    """A turn to be cancelled.

    Attributes:
        reason: shown with the end of the turn.
        key: optional: cancelling a turn twice changes nothing.
    """

    reason: Annotated[str, Bounds(0, 200)] = ""
    key: Key | None = None


@attrs.frozen(kw_only=True)
class CancelResult:
    """What became of the turn.

    Attributes:
        state: it is ending, or it was over already.
        until: when the grace of its tasks is over, at the latest.
    """

    state: Literal["ending", "over"]
    until: float | None = None


@attrs.frozen(kw_only=True)
class ResumeParams(SessionParams):
    """A session to go on with: its turn is parked or was ended by a crash, or input is queued in it.

    Attributes:
        key: makes repeating the request safe.
    """

    key: Key


@attrs.frozen(kw_only=True)
class ResumeResult:
    """The turn goes on.

    Attributes:
        turn_id: the parked turn, or the new one.
        seq: the last event before it.
    """

    turn_id: TurnId
    seq: int


@attrs.frozen(kw_only=True)
class WaitParams(TurnParams):
    """How long to wait for the end of a turn.

    Attributes:
        timeout: in seconds; 0: only look.
    """

    timeout: Annotated[float, Bounds(0, 60)] = 30.0


@attrs.frozen(kw_only=True)
class WaitResult:
    """How the turn ended.

    Attributes:
        state: "over", or "pending" if the time was over before.
        result: how it ended.
    """

    state: Literal["over", "pending"]
    result: TurnResult | None = None


@attrs.frozen(kw_only=True)
class SkipWaitResult:
    """Whether there was something to skip.

    Attributes:
        sent: a failed request is sent again now.
    """

    sent: bool


@attrs.frozen(kw_only=True)
class CompactParams(SessionParams):
    """History to be summarised, in a turn of its own.

    Attributes:
        instructions: what the summary must also take into account.
        since: the first turn that is summarised; None: the older part is.
    """

    instructions: str = ""
    since: Id | None = None


@attrs.frozen(kw_only=True)
class CompactResult:
    """The turn that summarises.

    Attributes:
        turn_id: the turn.
    """

    turn_id: TurnId


@attrs.frozen(kw_only=True)
class ContextResult:
    """What fills the model's window.

    Attributes:
        report: by kind.
    """

    report: ContextReport
