"""What a host may send to a turn: answers to its questions, and texts. Each is validated on arrival."""

from __future__ import annotations

from typing import Literal, cast, get_args

import attrs

from engine.core.errors import ConfigError
from engine.core.events import GrantScope
from engine.core.ids import InputId
from engine.core.value_base import Value
from engine.nursery.questions import PermissionAnswer


@attrs.frozen(eq=False, repr=False)
class Once(Value):
    """Allow this call."""


@attrs.frozen(eq=False, repr=False)
class Always(Value):
    """Allow this call, and from now on what one of its offers covers.

    Attributes:
        offer: the index of the offer; the first is the narrowest.
        scope: for this turn, for this session with its sub-agents, or for all work in this project.
        seconds: the time limit; None: as long as the scope.
    """

    offer: int = 0
    scope: GrantScope = "session"
    seconds: float | None = None


@attrs.frozen(eq=False, repr=False)
class Reject(Value):
    """Refuse this call. Without feedback the turn ends; with it, the model reads the feedback and continues."""

    feedback: str = ""


Answer = Once | Always | Reject
Recovery = Literal["wait", "switch", "stop"]


def require_text(value: object, what: str) -> str:
    """Return *value* if it is a non-blank string. Raises `ConfigError`, which calls it *what*."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} must be a str, not {type(value).__name__}")
    if not value.strip():
        raise ConfigError(f"{what} must not be empty")
    return value


def require_label(value: object) -> str:
    """Return *value* if it can name a client of the host; it may be empty. Raises `ConfigError`."""
    if not isinstance(value, str):
        raise ConfigError(f"by is the name of a client, a str, not {type(value).__name__}")
    return value


def require_input_id(value: object) -> InputId | None:
    """Return *value* as the id of an input, if it is one or None. Raises `ConfigError`."""
    return None if value is None else InputId(require_text(value, "an input id"))


def permission_answer(answer: object) -> PermissionAnswer:
    """Convert a host's answer. Raises `ConfigError` if it is not a valid one."""
    match answer:
        case Once():
            return PermissionAnswer(kind="once")
        case Always():
            return PermissionAnswer(kind="always", offer=_which(answer), scope=_scope(answer), seconds=_seconds(answer))
        case Reject() if isinstance(cast("object", answer.feedback), str):
            return PermissionAnswer(kind="reject", feedback=answer.feedback)
        case _:
            raise ConfigError(
                f"answer with engine.Once(), engine.Always() or engine.Reject(feedback=a str), not {answer!r}"
            )


def _which(answer: Always) -> int:
    offer = cast("object", answer.offer)
    # Not `isinstance`: True is an int as well. A negative index would pick an offer from the end.
    if type(offer) is not int or offer < 0:
        raise ConfigError(f"the offer of an Always is a number from 0, not {offer!r}")
    return offer


def _scope(answer: Always) -> GrantScope:
    if answer.scope not in get_args(GrantScope):
        raise ConfigError(f"the scope of an Always is one of {', '.join(get_args(GrantScope))}, not {answer.scope!r}")
    return answer.scope


def _seconds(answer: Always) -> float | None:
    seconds = cast("object", answer.seconds)
    if seconds is None:
        return None
    # A bool is an int as well; NaN fails the comparison, and None is how a host says "no limit".
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise ConfigError(f"the seconds of an Always are a number above 0, or None, not {seconds!r}")
    return float(seconds)
