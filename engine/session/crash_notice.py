"""What worked in the background when the engine went away: the next one that opens the session tells of it."""

from __future__ import annotations

from trio.lowlevel import enable_ki_protection

from engine.agents.reports import render_lost
from engine.core.events import BackgroundEnded
from engine.core.protocols import IdSource
from engine.journal.log import Journal
from engine.nursery.inbox import report


@enable_ki_protection
def report_lost_work(journal: Journal, ids: IdSource) -> None:
    """Take in, for the model at the next request, what is gone. Not a checkpoint."""
    for work in journal.state.background:
        text, display = render_lost(work)
        report(journal, ids, text, "steer", display=display)
        # After its report: cut off between the two, it is told twice rather than never.
        journal.append(BackgroundEnded(work_id=work.work_id))
