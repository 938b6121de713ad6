"""`SessionContext`: lets a host report, compact and restore what fills the model's window in a session."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, final

import attrs

from engine.core.compaction_types import CompactionRequest
from engine.core.errors import NothingToUndo, SessionBusy, SessionError
from engine.core.events import HistoryReplaced, TurnResult, TurnStarted
from engine.core.foreign_calls import call_foreign
from engine.core.settings import Settings
from engine.core.threads import to_thread
from engine.journal.fold import fold
from engine.session.answer_types import require_text
from engine.session.turn import Turn, new_turn
from engine.session.turn_start import begin_turn, report_context
from engine.session.validation import require_settings

if TYPE_CHECKING:
    from engine.core.context_report import ContextReport
    from engine.session.live_session import LiveSession


@final
@attrs.frozen(eq=False, repr=False)
class SessionContext:
    """What fills the model's window."""

    _session: LiveSession

    def report(self) -> ContextReport:
        """Return what would fill the window in the next request. Not a checkpoint."""
        return report_context(self._session)

    async def compact(
        self, instructions: str = "", *, since: str | None = None, settings: Settings | None = None
    ) -> TurnResult:
        """Summarise the older part of the history now, or everything *since* a turn. Always a checkpoint.

        It runs as a turn of its own, without a prompt.
        *instructions*: what the summary must also take into account. The result says "completed", or why the history is
        unchanged. Raises `SessionBusy`, and `NothingToUndo` if there is no such turn. If cancelled, the history is
        unchanged.
        """
        start = 0 if since is None else await messages_before(self._session, since)
        async with compaction_turn(self._session, instructions, settings, start=start) as turn:
            await turn.wait()
        return turn.result

    async def undo_compaction(self) -> None:
        """Restore the history from before the last compaction, followed by what came since. A checkpoint.

        The next prompt may have to summarise it again. Raises `SessionBusy` while a turn runs, `SessionError` if there
        is no compaction to undo. If cancelled, nothing has happened.
        """
        session = self._session
        session.check_open()
        session.check_idle()
        # Imported here: seldom used.
        from engine.compaction.undo_compaction import undo_compaction

        journal, store = session.journal, session.deps.store
        # The old history is only in the store, so everything must be there first.
        before = journal.seq
        await call_foreign("the store", store.flushed, session.id, before)
        messages = await to_thread(undo_compaction, await call_foreign("the store", store.load, session.id))
        if isinstance(messages, str):
            raise SessionError(messages)
        # There were two checkpoints since the check above; a prompt may have begun.
        if journal.seq != before or journal.state.turn is not None:
            raise SessionBusy(f"session {session.id} has changed in the meantime: try again")
        journal.append(HistoryReplaced(kind="restore", messages=messages))


async def messages_before(session: LiveSession, turn_id: str) -> int:
    """Return how many messages of the present history are older than a turn. A checkpoint. Raises `NothingToUndo`."""
    messages = await to_thread(_messages_before, session, turn_id)
    # While the events were read, a turn may have changed the history.
    session.check_open()
    session.check_idle()
    if messages is None or messages > len(session.journal.state.transcript):
        raise NothingToUndo(f"there is no turn {turn_id!r} in the history: it may have been undone or summarised")
    return messages


def _messages_before(session: LiveSession, turn_id: str) -> int | None:
    """Return how many messages of the present history a turn found. It blocks."""
    events = session.journal.events()
    begin = next(
        (at for at, event in enumerate(events) if isinstance(event, TurnStarted) and event.turn_id == turn_id), None
    )
    if begin is None:
        return None
    before, now = fold(events[:begin]).transcript, session.journal.state.transcript
    # If an older part was replaced since, the turn's place is no longer known.
    return len(before) if all(mine is its or mine == its for mine, its in zip(before, now, strict=False)) else None


def compaction_turn(
    session: LiveSession, instructions: str, settings: Settings | None = None, *, start: int = 0
) -> Turn:
    """Return a turn that summarises what follows *start* messages; enter it to start it. Not a checkpoint.

    Raises `ConfigError`.
    """
    text = require_text(instructions, "instructions") if instructions else ""
    request = CompactionRequest(trigger="manual", instructions=text, start=start)
    own = require_settings(settings, session.config.settings)
    return new_turn(session, partial(begin_turn, session, request, settings=own))
