"""A section of the prompt: one layer of the text at the start of every request."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

import attrs

from engine.core.value_base import Value

# How often it may change: with the engine, with the conversation (what it is about), with each step of it.
Stability = Literal["static", "conversation", "step"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptSection(Value):
    """One layer of the text at the start of every request.

    Attributes:
        name: what it is: `base`, `environment`, `instructions:/path/AGENTS.md`.
        text: what the model reads.
        source: where it comes from, for messages.
        stability: how often it may change. A change never alters the text in place: a message informs the model.
    """

    name: str
    text: str
    source: str = ""
    stability: Stability = "conversation"

    @property
    def digest(self) -> str:
        """A hash of its text: sections with the same text are equal."""
        return sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
