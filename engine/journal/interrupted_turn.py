"""Which turns another engine may go on with after a crash: pure functions.

A turn that was cut off in the middle is different from one that only waits (`engine.nursery.parkable`): its open calls
are settled as interrupted, its open step is saved, and then the model is asked to go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from engine.core.events import (
    Durable,
    InputAdmitted,
    InputPromoted,
    PromptBlocked,
    StepEnded,
    StepStarted,
    TurnResumed,
    TurnStarted,
)
from engine.core.ids import InputId, TurnId
from engine.core.value_base import Value

# So often a turn is resumed without a whole step in between. More would only end one engine after the other.
MOST_RESUMES: Final = 3

GO_ON: Final = (
    "The process that ran you ended in the middle of this task, and another one goes on with it. Calls whose outcome is "
    "unknown may have happened, or not: check before you repeat them. What ran in the background is gone. Go on with "
    "the task."
)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Takeover(Value):
    """An engine takes a session over from one that has died.

    Attributes:
        host: the machine on which that one ran.
        pid: its process there.
        obstacle: why this engine can't go on with a turn of the session; None: it can.
    """

    host: str
    pid: int
    obstacle: str | None = None

    def notice(self, reason: str) -> str:
        """Return what the user reads of a turn that was not resumed."""
        return (
            f"The engine that ran this turn has died (process {self.pid} on {self.host}). Its open calls are settled; the "
            f"turn was not resumed: {reason}. Next: send a prompt to go on"
        )


def why_not_resumed(newest_first: Iterable[Durable], turn_id: TurnId) -> str | None:
    """Return why an interrupted turn is not resumed without its user; None: it may be.

    *newest_first* are the events of its session, before anything is settled.
    """
    has_input = False
    resumes, is_counting, is_closed_by_crash = 0, True, False
    for event in newest_first:
        match event:
            case InputAdmitted() | InputPromoted() if event.turn_id == turn_id:
                has_input = True
            case PromptBlocked() if event.turn_id == turn_id:
                return "a hook has blocked its prompt"
            case TurnResumed() if event.interrupted and is_counting:
                resumes += 1
                is_closed_by_crash = True
            case StepEnded() if is_closed_by_crash:
                # The engine that took over has saved this one: it is as far as the one before had come.
                is_closed_by_crash = False
            case StepEnded():
                is_counting = False
            case TurnStarted() if event.turn_id == turn_id:
                return _reason(event, resumes, has_input=has_input)
            case _:
                pass
    return "its beginning is not in the record"


def _reason(started: TurnStarted, resumes: int, *, has_input: bool) -> str | None:
    if started.resume != "auto":
        return "it is not marked to be resumed"
    if not has_input:
        return "its prompt was lost"
    if resumes >= MOST_RESUMES:
        return f"{resumes} engines in a row have ended at this point of it"
    return None


def unjudged_inputs(newest_first: Iterable[Durable], turn_id: TurnId) -> tuple[InputId, ...]:
    """Return the inputs that came into the transcript after the last request of a turn: hooks may not have seen them."""
    found: list[InputId] = []
    for event in newest_first:
        match event:
            case InputPromoted() if event.turn_id == turn_id:
                found.append(event.input_id)
            case StepStarted() | TurnStarted() if event.turn_id == turn_id:
                break
            case _:
                pass
    return tuple(reversed(found))
