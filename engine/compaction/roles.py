"""Who has said something: a person, or somebody else."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.messages import AssistantMessage, Message, ResultsMessage, UserMessage


def is_users(message: Message) -> bool:
    """Tell whether a person said it."""
    return isinstance(message, UserMessage) and message.origin in {"user", "steer", "queue"}


def is_at_work(messages: Sequence[Message]) -> bool:
    """Tell whether the model has begun with what the user said last: whether it would be interrupted."""
    for message in reversed(messages):
        if is_users(message):
            return False
        if isinstance(message, (AssistantMessage, ResultsMessage)):
            return True
    return False
