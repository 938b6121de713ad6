"""What is looked up in a journal, without decoding all of it."""

# pyright: reportPrivateUsage=false
# It reads what a journal shares with its parent.

from __future__ import annotations

from collections.abc import MutableSequence
from copy import copy

from engine.core.events import Durable
from engine.core.ids import RequestId
from engine.journal.event_index import Answered
from engine.journal.log import Journal


def find_answer(journal: Journal, request_id: RequestId) -> Answered | None:
    """Return what settled a question of a session or its sub-agents; None: it is open, or not known here."""
    # At the top: a sub-agent's journal is dropped when it is done.
    return journal._root._answers.find(request_id)


def undecoded_events(journal: Journal) -> MutableSequence[Durable]:
    """Return all durable events of a session; those of a restored one are decoded when they are read."""
    return copy(journal._durable)
