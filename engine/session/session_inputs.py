"""`SessionInputs`: lets a host queue input, steer the running turn, and change what waits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, final

import attrs
from trio.lowlevel import enable_ki_protection

from engine.core.errors import InputNotFound
from engine.core.events import InputRemoved, TurnEnded
from engine.core.ids import InputId
from engine.core.messages import MediaPart
from engine.nursery.inbox import edit, find_admitted
from engine.nursery.parkable import check_not_parked
from engine.session.answer_types import require_text
from engine.session.turn import ExistingTurn
from engine.session.validation import require_media

if TYPE_CHECKING:
    from engine.journal.state import PendingInput
    from engine.session.live_session import LiveSession


def find_prompted(
    session: LiveSession, input_id: InputId, text: str, attachments: tuple[MediaPart, ...]
) -> ExistingTurn | None:
    """Return the turn of a prompt that was sent before with that id. Not a checkpoint.

    Raises `InputConflict`, `TurnParked`.
    """
    session.check_open()
    journal = session.journal
    admitted = find_admitted(journal, input_id, text, "prompt", attachments)
    if admitted is None or admitted.turn_id is None or admitted.seq is None:
        return None
    run = session.active
    # A turn's first event is its start, the next one the admission of its prompt.
    found = partial(ExistingTurn, turn_id=admitted.turn_id, before=admitted.seq - 2)
    if run is not None and run.journal.turn_id == admitted.turn_id:
        return found(run=run)
    if journal.state.turn is not None and journal.state.turn.turn_id == admitted.turn_id:
        check_not_parked(journal.state)
    ended = (event for event in journal.newest_first() if isinstance(event, TurnEnded))
    return found(result=next(event.result for event in ended if event.turn_id == admitted.turn_id))


@final
@attrs.frozen(eq=False, repr=False)
class SessionInputs:
    """The input of a session that waits: for its turn, or for the next request.

    An id makes sending idempotent, for ever: the same id with the same content is the same input, whatever became of
    it since. Other content raises `InputConflict`.
    """

    _session: LiveSession

    @property
    def waiting(self) -> tuple[PendingInput, ...]:
        """What waits, in the order in which it was sent: queued input, steers, and the engine's own reports."""
        return self._session.journal.snapshot().inbox

    @enable_ki_protection
    def queue(
        self, text: str, *, attachments: Sequence[MediaPart] = (), input_id: str | None = None, by: str = ""
    ) -> InputId:
        """Queue *text* as the prompt of the next turn. Not a checkpoint.

        The next turn runs in the engine's own nursery; watch it with `Session.subscribe`, and cancel it with
        `Session.cancel`. After a turn that did not end by itself (an aborted one, say), queued input waits for the next
        `queue` or prompt.
        """
        session = self._session
        session.check_open()
        media = require_media(attachments)
        admitted = session.input.admit(require_text(text, "input"), "queue", input_id, attachments=media, by=by)
        session.input.start_queued_turn()
        return admitted

    @enable_ki_protection
    def steer(
        self,
        text: str,
        *,
        turn_id: str | None = None,
        attachments: Sequence[MediaPart] = (),
        input_id: str | None = None,
        by: str = "",
    ) -> InputId:
        """Add a user message to the running turn at its next step; running tools are not interrupted. Not a checkpoint.

        Args:
            text: the message.
            turn_id: only if this turn is running; a steer that comes late never reaches the next turn.
            attachments: images and files, made by `engine.attach`.
            input_id: makes it idempotent.
            by: the client of the host that sends it.

        Raises `TurnOver` if the turn is over or ending, or none is running; `TurnParked`.
        """
        self._session.check_open()
        own = None if turn_id is None else require_text(turn_id, "a turn id")
        return self._session.input.steer(require_text(text, "a steer"), own, input_id, require_media(attachments), by)

    @enable_ki_protection
    def edit(self, input_id: str, text: str, *, attachments: Sequence[MediaPart] = ()) -> None:
        """Replace the content of waiting input; it keeps its place. Not a checkpoint.

        Raises `InputNotFound` if the user's input with that id does not wait (any more).
        """
        session = self._session
        session.check_open()
        own = require_text(input_id, "an input id")
        content = require_text(text, "input")
        media = require_media(attachments)
        item = self._find(own)
        if item is None:
            raise InputNotFound(f"no input {own!r} waits: the model has it, it was removed, or it was never sent")
        edit(session.journal, session.deps.ids, item, content, media)

    @enable_ki_protection
    def remove(self, input_id: str) -> bool:
        """Remove waiting input; return whether it was still waiting. Not a checkpoint."""
        session = self._session
        session.check_open()
        item = self._find(require_text(input_id, "an input id"))
        if item is None:
            return False
        session.journal.append(InputRemoved(input_id=item.input_id, message_id=item.message.id))
        return True

    def _find(self, input_id: str) -> PendingInput | None:
        """Return the user's waiting input with that id."""
        # Not from the snapshot: while the end of a turn is held, that is older than what is decided here. The engine's
        # reports are not the user's to change.
        inbox = self._session.journal.state.inbox
        return next((item for item in inbox if item.input_id == input_id and item.message.origin != "engine"), None)
