"""The inbox: input that was admitted durably and waits for its place in the transcript (T5).

Its wire form is decided at admission and persisted, so the same message has the same bytes in every later request: a
host's cache ends at the first byte that differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs
from trio.lowlevel import enable_ki_protection

from engine.core.errors import InputConflict
from engine.core.events import InputAdmitted, InputEdited, InputMode, InputPromoted, NudgeAdded
from engine.core.ids import InputId, MessageId, PartId, TurnId
from engine.core.messages import MediaPart, Origin, TextPart, UserMessage
from engine.core.protocols import IdSource
from engine.journal.log import Journal
from engine.journal.state import PendingInput

if TYPE_CHECKING:
    from engine.nursery.running_turn import TurnRun

# In tags and with a reason to go on: models tend to take a message in the middle of their work for a new task.
STEER = (
    "<user-message>\n{text}\n</user-message>\nThe user sent this while you were working. Address it, then go on "
    "with what you were doing."
)
_ORIGINS: dict[InputMode, Origin] = {"prompt": "user", "steer": "steer", "queue": "queue"}


@enable_ki_protection
def admit(
    journal: Journal,
    ids: IdSource,
    text: str,
    mode: InputMode,
    *,
    attachments: tuple[MediaPart, ...] = (),
    input_id: InputId | None = None,
    turn_id: TurnId | None = None,
    by: str = "",
) -> InputId:
    """Admit *text*; return its id. The same id with the same content is the same input. Not a checkpoint.

    Raises `InputConflict` for an id that was used with other content, or for another kind of input.
    """
    if input_id is not None and find_admitted(journal, input_id, text, mode, attachments) is not None:
        return input_id
    new_id = InputId(ids.new("input")) if input_id is None else input_id
    message = _message(ids, text, mode, attachments)
    # Admitted in one event with its final form: from here on nothing but its place is open.
    journal.append(InputAdmitted(input_id=new_id, mode=mode, message=message, by=by), turn_id=turn_id)
    return new_id


def find_admitted(
    journal: Journal, input_id: InputId, text: str, mode: InputMode, attachments: tuple[MediaPart, ...]
) -> InputAdmitted | None:
    """Return the input that was admitted with that id, whatever became of it; None: there is none.

    Raises `InputConflict` if its content was another one.
    """
    earlier = journal.admitted(input_id)
    if earlier is None:
        return None
    # A client that got no reply sends its input again; one that reuses an id has a bug that must show.
    if earlier.message.text != text:
        raise InputConflict(f"input {input_id!r} was sent before with another text")
    if tuple(part for part in earlier.message.parts if not isinstance(part, TextPart)) != attachments:
        raise InputConflict(f"input {input_id!r} was sent before with other attachments")
    if earlier.mode != mode:
        raise InputConflict(f"input {input_id!r} was sent before as a {earlier.mode}, not as a {mode}")
    return earlier


@enable_ki_protection
def edit(journal: Journal, ids: IdSource, item: PendingInput, text: str, attachments: tuple[MediaPart, ...]) -> None:
    """Change waiting input. Not a checkpoint."""
    message = attrs.evolve(_message(ids, text, item.mode, attachments), id=item.message.id)
    journal.append(InputEdited(input_id=item.input_id, message=message))


def _message(ids: IdSource, text: str, mode: InputMode, attachments: tuple[MediaPart, ...]) -> UserMessage:
    wire = STEER.format(text=text) if mode == "steer" else text
    part = TextPart(id=PartId(ids.new("part")), text=wire)
    return UserMessage(
        id=MessageId(ids.new("msg")),
        # Models answer best if a question comes after the picture that it is about.
        parts=(*attachments, part),
        origin=_ORIGINS[mode],
        display=text if wire != text else None,
    )


@enable_ki_protection
def report(
    journal: Journal,
    ids: IdSource,
    text: str,
    mode: Literal["steer", "queue"],
    *,
    display: str,
    turn_id: TurnId | None = None,
) -> None:
    """Admit a report of the engine: the model reads *text*, and can tell it from the user's words. Not a checkpoint."""
    message = attrs.evolve(engine_message(ids, text), display=display)
    journal.append(InputAdmitted(input_id=InputId(ids.new("input")), mode=mode, message=message), turn_id=turn_id)


def steers(run: TurnRun) -> list[PendingInput]:
    """Return the input that the next request must hold, in the order of its admission. Not a checkpoint."""
    # From the record and not from a queue in memory: an engine that goes on with the session finds the same.
    return [item for item in run.journal.log.state.inbox if item.mode != "queue"]


@enable_ki_protection
def promote(run: TurnRun, queued: PendingInput | None = None) -> None:
    """Put all steers into the transcript, in the order of their admission, then *queued*. Not a checkpoint."""
    # Steers first: they were sent before the queued input had its turn.
    waiting = steers(run)
    for item in [*waiting, *([] if queued is None or queued in waiting else [queued])]:
        run.journal.append(InputPromoted(input_id=item.input_id))
        if item.message.origin != "engine":
            run.state.unseen.append(item.message)
        # The user may well ask for the same thing again: what counts as a repetition starts over.
        run.state.repetition.reset()


@enable_ki_protection
def nudge(run: TurnRun, *texts: str) -> None:
    """Add a message of the engine to the transcript, for the next request. Not a checkpoint."""
    run.journal.append(NudgeAdded(message=engine_message(run.deps.ids, *texts)))


def engine_message(ids: IdSource, *texts: str) -> UserMessage:
    """Return a message of the engine, a part for each text."""
    parts = tuple(TextPart(id=PartId(ids.new("part")), text=text) for text in texts)
    return UserMessage(id=MessageId(ids.new("msg")), parts=parts, origin="engine")
