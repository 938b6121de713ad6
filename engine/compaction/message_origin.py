"""Distinguishes messages of the user from those of the engine."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.messages import AssistantMessage, Message, ResultsMessage, UserMessage


def is_user_message(message: Message) -> bool:
    """Return whether the user wrote the message."""
    return isinstance(message, UserMessage) and message.origin in {"user", "steer", "queue"}


def is_mid_turn(messages: Sequence[Message]) -> bool:
    """Return whether the model has started to work on the user's latest message."""
    for message in reversed(messages):
        if is_user_message(message):
            return False
        if isinstance(message, (AssistantMessage, ResultsMessage)):
            return True
    return False
