"""The settings of `engine chat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from engine.core.errors import ConfigError
from engine.core.value_base import Value

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {"editor": ("emacs", "vi"), "keys": ("plain", "extended")}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ChatConfig(Value):
    """The settings of the chat in the terminal.

    Attributes:
        editor: whose keys the prompt has: `emacs`, as a shell, or `vi`.
        keys: `extended` asks the terminal to report keys such as Shift+Enter; it is asked to stop when the chat ends.
    """

    editor: str = "emacs"
    keys: str = "plain"

    def __attrs_post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
