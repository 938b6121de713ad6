"""What the program around an agent decides: which engine, and which commands its user has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs

from engine.session.engine import Engine


@attrs.frozen
class EditorCommand:
    """A custom command that the editor offers.

    Attributes:
        name: what follows the slash.
        description: what it does.
    """

    name: str
    description: str


class EditorHost(Protocol):
    """What the program around it decides: which engine, and which commands its user has."""

    def open_engine(self) -> AbstractAsyncContextManager[Engine]:
        """Return the engine to use. It blocks. Raises `ConfigError` if no model can be used."""
        ...

    def commands(self, cwd: str) -> Sequence[EditorCommand]:
        """Return the custom commands in that folder. It blocks."""
        ...

    def expand(self, text: str, cwd: str) -> str:
        """Return a prompt with a custom command at its beginning expanded. It blocks. Raises `ConfigError`."""
        ...
