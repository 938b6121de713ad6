"""Build the history after a summary, and the message that makes the model continue (T11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from engine.compaction.message_origin import is_mid_turn
from engine.compaction.split import Selection
from engine.compaction.verbatim_parts import Pins, without_headings
from engine.core.ids import MessageId, PartId
from engine.core.messages import Message, Origin, TextPart, UserMessage
from engine.files.escaping import inert

# Makes an id of a kind.
NewId = Callable[[str], str]

_BEFORE: Final = (
    "The conversation was too long for the context window. The message before this one is its beginning, and may be "
    "done long ago. This is the record of what happened since; it is not from the user, and needs no answer."
)
_FIRST: Final = (
    "The conversation was too long for the context window. This is the record of what happened in it; it is not from "
    "the user, and needs no answer."
)
_LATEST: Final = "The user's latest message follows this record, word for word: that is what matters now."
_TAIL: Final = "The newest messages follow it unchanged."

GO_ON: Final = (
    "The older part of this conversation was summarised to free space, in the middle of your work; the user has said "
    "nothing new. Continue with the next step as if nothing had happened: don't repeat the record, and don't redo what "
    "is done. If nothing is left to do, say so. If you need to know something from the user, ask."
)
_TOO_LARGE: Final = (
    "The last request was too large for the model's window. What was too long is truncated or cleared above, with a "
    "note in its place; read less at a time."
)


def rebuild_history(
    selection: Selection, summary: str, pins: Pins, new_id: NewId, *, go_on: str = ""
) -> tuple[Message, ...]:
    """Return the history with *summary* in place of its head.

    It begins with the same message as before, so that the provider's cache still
    matches. *go_on* is the text of a final message that makes the model continue;
    empty: no such message.
    """
    # The summary is made inert: text of a tool in it must not look like one of the engine's own tags.
    before = _FIRST if selection.original is None else _BEFORE
    behind = _LATEST if selection.latest is not None else _TAIL
    record = _message(new_id, "summary", f"{before} {behind}\n\n{inert(without_headings(summary))}", *pins.texts())
    messages: list[Message] = [] if selection.original is None else [selection.original]
    messages.append(record)
    if selection.latest is not None:
        messages.append(selection.latest)
    return (*messages, *selection.tail, *continue_message(new_id, go_on))


def continue_message(new_id: NewId, text: str) -> tuple[UserMessage, ...]:
    """Return the message that makes the model continue; none if *text* is empty."""
    return (_message(new_id, "continue", text),) if text else ()


def continue_text(messages: Sequence[Message], *, was_too_large: bool, report: str = "") -> str:
    """Return the text that makes the model continue; empty if there is a message of the user to answer."""
    if not is_mid_turn(messages):
        return ""
    parts = [_TOO_LARGE] if was_too_large else []
    parts.append(GO_ON)
    if report:
        parts.append(report)
    return "\n\n".join(parts)


def parse_summary(message: UserMessage | None) -> str:
    """Return the summary in a message, without the introduction; empty if there is none."""
    if message is None or not message.parts or not isinstance(part := message.parts[0], TextPart):
        return ""
    _, parted, summary = part.text.partition("\n\n")
    return summary if parted else part.text


def _message(new_id: NewId, origin: Origin, *texts: str) -> UserMessage:
    parts = tuple(TextPart(id=PartId(new_id("part")), text=text) for text in texts)
    return UserMessage(id=MessageId(new_id("msg")), parts=parts, origin=origin)
