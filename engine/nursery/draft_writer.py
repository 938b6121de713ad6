"""The drafter: while an answer is being received, it hands the text of open parts to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from engine.journal.partial_output import SAVE_INTERVAL

if TYPE_CHECKING:
    from engine.nursery.step import Step


async def keep_drafts(step: Step) -> None:
    """Save what has come, every so often, until the stream is over. Always a checkpoint.

    By the clock and not by what comes: a host that falls silent has sent something before. If
    cancelled, the concluder closes the parts, and what they hold is saved with them.
    """
    journal = step.run.journal.log
    if journal.drafts is None:
        return
    while not step.stream_over.is_set():
        with trio.move_on_after(SAVE_INTERVAL):
            await step.stream_over.wait()
        journal.drafts.save(journal)
