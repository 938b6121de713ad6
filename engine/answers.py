"""What a host may say to a turn: answers to its questions, and words; each checked where it comes in."""

from __future__ import annotations

from typing import Literal, cast

import attrs

from engine.errors import ConfigError
from engine.nursery.questions import Given


@attrs.frozen
class Once:
    """Allow this call."""


@attrs.frozen
class Always:
    """Allow this call and what its narrowest offer covers, for this session."""


@attrs.frozen
class Reject:
    """Refuse. Without feedback the turn ends; with it, the model reads it and goes on."""

    feedback: str = ""


Answer = Once | Always | Reject
Recovery = Literal["wait", "switch", "stop"]


def worded(value: object, what: str) -> str:
    """Return *value* if it is a text that says something. Raises `ConfigError` that names *what* it is."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} must be a str, not {type(value).__name__}")
    if not value.strip():
        raise ConfigError(f"{what} must not be empty")
    return value


def given(answer: object) -> Given:
    """Return what *answer* says, for the questions. Raises `ConfigError` for what is none."""
    match answer:
        case Once():
            return "once", ""
        case Always():
            return "always", ""
        case Reject() if isinstance(cast("object", answer.feedback), str):
            return "reject", answer.feedback
        case _:
            raise ConfigError(
                f"answer with engine.Once(), engine.Always() or engine.Reject(feedback=a str), not {answer!r}"
            )
