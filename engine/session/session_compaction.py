"""What a host may want to know and do about a session's history: what fills the window, and taking a summary back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.errors import SessionBusy, SessionError
from engine.core.events import HistoryReplaced
from engine.core.protocols import Deps
from engine.core.settings import Settings
from engine.core.threads import to_thread
from engine.journal.log import Journal
from engine.nursery.context_window import Counted, view_from
from engine.nursery.transition import LoopState
from engine.tools.registry import Registry

if TYPE_CHECKING:
    from engine.core.context_report import ContextReport


def report_on(
    journal: Journal,
    deps: Deps,
    registry: Registry,
    *,
    settings: Settings,
    hidden: frozenset[str],
    counted: Counted | None,
) -> ContextReport:
    """Return what fills the window of a session's next request. Not a checkpoint."""
    # Imported here: most sessions are never asked.
    from engine.compaction.manager import Keeper
    from engine.compaction.report import build_report

    state = journal.state
    view = view_from(
        state,
        deps.models[0].info,
        registry,
        loop=LoopState(settings=settings),
        hidden=hidden,
        system=settings.system if state.prompt is None else state.prompt.text,
        counted=counted,
    )
    sections = () if state.prompt is None else state.prompt.sections
    if isinstance(deps.keeper, Keeper):
        return deps.keeper.report(view, sections)
    return build_report(view, sections=sections)


async def take_back(journal: Journal, deps: Deps) -> None:
    """Put back the history from before the last compaction, with what came since behind it. A checkpoint.

    If cancelled, nothing has happened. Raises `SessionError` if there is none, or the session went on meanwhile.
    """
    # Imported here: it is seldom done.
    from engine.compaction.undo import undo_compaction

    before = journal.seq
    await deps.store.flushed(journal.session_id, before)
    found = await to_thread(undo_compaction, await deps.store.load(journal.session_id))
    if isinstance(found, str):
        raise SessionError(found)
    if journal.seq != before or journal.state.turn is not None:
        raise SessionBusy(f"session {journal.session_id} went on meanwhile: try again")
    journal.append(HistoryReplaced(kind="restore", messages=found))
