"""The history after a summary, and how the model goes on with it (T11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from engine.compaction.preserved import Pins, without_headings
from engine.compaction.roles import is_at_work
from engine.compaction.split import Selection
from engine.core.ids import MessageId, PartId
from engine.core.messages import Message, Origin, TextPart, UserMessage
from engine.files.escaping import inert

# Makes an identifier of that kind.
NewId = Callable[[str], str]

_BEFORE: Final = (
    "The conversation was longer than there is room for. What stands in front of this message is what it began with, "
    "and may be done long ago. This is the record of what happened since; it is not from the user, and needs no answer."
)
_FIRST: Final = (
    "The conversation was longer than there is room for. This is the record of what happened in it; it is not from the "
    "user, and needs no answer."
)
_LATEST: Final = "What the user said last follows this record, word for word: that is what counts now."
_TAIL: Final = "The newest messages follow it as they were."

GO_ON: Final = (
    "The older part of this conversation was summarised to make room, in the middle of your work; no user has said "
    "anything new. Go on with the next step, as if nothing had happened: don't repeat the record, and don't do again what "
    "is done. If nothing is left to do, say so. If you need to know something from the user, ask."
)
_TOO_LARGE: Final = (
    "The last request was too large for the model's window. What was too long is cut or cleared above, with a word in "
    "its place; read less of it at a time."
)


def history(selection: Selection, summary: str, pins: Pins, new_id: NewId, *, go_on: str = "") -> tuple[Message, ...]:
    """Return the history with *summary* in the place of its head.

    It begins with the same message as before, so that the host's cache has the
    beginning. *go_on* is what the model is told at the end; empty: nothing.
    """
    before = _FIRST if selection.original is None else _BEFORE
    behind = _LATEST if selection.latest is not None else _TAIL
    record = _message(new_id, "summary", f"{before} {behind}\n\n{inert(without_headings(summary))}", *pins.texts())
    messages: list[Message] = [] if selection.original is None else [selection.original]
    messages.append(record)
    if selection.latest is not None:
        messages.append(selection.latest)
    return (*messages, *selection.tail, *go_on_message(new_id, go_on))


def go_on_message(new_id: NewId, text: str) -> tuple[UserMessage, ...]:
    """Return the message that tells the model to go on; with no *text*, none."""
    return (_message(new_id, "continue", text),) if text else ()


def go_on_text(messages: Sequence[Message], *, was_too_large: bool, report: str = "") -> str:
    """Return what the model is told after a summary that interrupts its work; empty: it has something to answer."""
    if not is_at_work(messages):
        return ""
    parts = [_TOO_LARGE] if was_too_large else []
    parts.append(GO_ON)
    if report:
        parts.append(report)
    return "\n\n".join(parts)


def summary_in(message: UserMessage | None) -> str:
    """Return the summary that a message holds, without what stands before it; empty: it holds none."""
    if message is None or not message.parts or not isinstance(part := message.parts[0], TextPart):
        return ""
    _, parted, summary = part.text.partition("\n\n")
    return summary if parted else part.text


def _message(new_id: NewId, origin: Origin, *texts: str) -> UserMessage:
    parts = tuple(TextPart(id=PartId(new_id("part")), text=text) for text in texts)
    return UserMessage(id=MessageId(new_id("msg")), parts=parts, origin=origin)
