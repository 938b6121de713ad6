"""Which queued call may start now: a pure rule over the calls in call order (C1, C2).

First in, first out: no call overtakes an earlier one that has not started. Safe calls run together, up to a limit; an
unsafe call runs alone. A call whose arguments are still being received has unknown safety, so it holds back the calls
after it. Without that rule the schedule would depend on how the host cuts the stream into chunks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs

from engine.core.value_base import Value

SlotState = Literal["receiving", "queued", "admitted", "settled"]


@attrs.frozen(eq=False, repr=False)
class Slot(Value):
    """A call as admission sees it."""

    state: SlotState
    safe: bool


def admissible(slots: Iterable[Slot], parallel: int) -> list[int]:
    """Return the indexes of the calls that may start now, in call order."""
    admitted: list[int] = []
    running = 0
    exclusive = False
    for index, slot in enumerate(slots):
        # Settled, not delivered: the next batch need not wait for the results to be put in order.
        if slot.state == "settled":
            continue
        if slot.state == "admitted":
            running += 1
            exclusive = exclusive or not slot.safe
            continue
        # `break`, never `continue`: going on to later calls would let them overtake this one. An unsafe call behind a
        # stream of safe ones would never run alone.
        if slot.state == "receiving" or exclusive:
            break
        if not (running == 0 or (slot.safe and running < parallel)):
            break
        admitted.append(index)
        running += 1
        exclusive = not slot.safe
    return admitted
