"""What the chat's machine wants done: values that the driver carries out."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from engine.cli.chat.machine.completion import CompletionRequest
from engine.cli.chat.machine.outbox import PromptPart
from engine.core.ids import InputId, RequestId, TurnId
from engine.session.answer_types import Answer, Recovery


@attrs.frozen
class Print:
    """Print these finished lines, once."""

    lines: tuple[str, ...]


@attrs.frozen
class SendPrompt:
    """Start a turn.

    Attributes:
        input_id: the id that the input gets.
        parts: the prompt; parts that still wait in the session are removed there, or left out if they are gone.
    """

    input_id: InputId
    parts: tuple[PromptPart, ...]


@attrs.frozen
class SendSteer:
    """Send a message to the running turn."""

    input_id: InputId
    turn_id: TurnId
    text: str


@attrs.frozen
class SendQueued:
    """Queue a message for after the turn."""

    input_id: InputId
    text: str


@attrs.frozen
class TakeBack:
    """Remove waiting input; its text comes back with the event."""

    input_id: InputId


@attrs.frozen
class SwapWaiting:
    """Swap two messages that wait."""

    first: InputId
    second: InputId


@attrs.frozen
class CancelTurn:
    """Cancel the turn."""

    turn_id: TurnId


@attrs.frozen
class SkipWait:
    """Retry a failed request now."""

    turn_id: TurnId


@attrs.frozen
class ReplyPermission:
    """Answer questions for permission, all in the same way."""

    request_ids: tuple[RequestId, ...]
    answer: Answer


@attrs.frozen
class AnswerTool:
    """Answer a tool's question; without answers, decline it."""

    request_id: RequestId
    answers: tuple[str, ...]


@attrs.frozen
class Recover:
    """Decide how to continue after a failed request."""

    request_id: RequestId
    how: Recovery
    model: str | None = None


@attrs.frozen
class RunCommand:
    """Run a slash command."""

    name: str
    argument: str


@attrs.frozen
class AttachFile:
    """Attach a file to the message.

    Attributes:
        pasted: the text that was pasted, and is inserted if it names no image; None: the user asked for the file.
    """

    path: str
    pasted: str | None = None


@attrs.frozen
class AttachClipboard:
    """Attach the image in the clipboard to the message."""


@attrs.frozen
class Complete:
    """Find what the draft may be completed with."""

    request: CompletionRequest


@attrs.frozen
class RunShell:
    """Run a command of the user's own."""

    command: str


@attrs.frozen
class StopShell:
    """End that command."""


@attrs.frozen
class Suspend:
    """Stop the process, as Ctrl-Z does in a shell."""


@attrs.frozen
class Redraw:
    """Draw the live region again."""


@attrs.frozen
class EditExternally:
    """Open the draft in the user's editor."""


@attrs.frozen
class ShowPager:
    """Show a long text in the user's pager."""

    text: str


@attrs.frozen
class Leave:
    """Leave the chat.

    Attributes:
        at_once: without waiting for the end of the turn.
        when_idle: once the turn has ended by itself, or asks what cannot be answered here.
    """

    at_once: bool = False
    when_idle: bool = False


Answering: TypeAlias = ReplyPermission | AnswerTool | Recover
Send: TypeAlias = SendPrompt | SendSteer | SendQueued
Effect: TypeAlias = (
    Print
    | Send
    | TakeBack
    | SwapWaiting
    | CancelTurn
    | SkipWait
    | Answering
    | RunCommand
    | AttachFile
    | AttachClipboard
    | Complete
    | RunShell
    | StopShell
    | Suspend
    | Redraw
    | EditExternally
    | ShowPager
    | Leave
)


@attrs.frozen
class EffectFailure:
    """Something that was to be done has failed.

    Attributes:
        effect: what.
        message: why, for the user.
        is_turn_over: the turn has just ended.
        removed: waiting input that was removed for a prompt already.
    """

    effect: Effect
    message: str
    is_turn_over: bool = False
    removed: tuple[InputId, ...] = ()
