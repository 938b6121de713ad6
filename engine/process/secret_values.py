"""Secrets that this process holds outside its environment: keys from a file, a keyring or a command.

They are process-wide, as the environment is: a command of any engine here might find one (in a file, in a process) and
print it. `redact` hides them, and no variable that holds a copy of one is passed on to a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_VALUES: Final[dict[str, str]] = {}

# The secrets by what they are, such as "the key of openai".
SECRET_VALUES: Final[Mapping[str, str]] = MappingProxyType(_VALUES)


def remember_secret(name: str, value: str) -> None:
    """Hide *value*, which is *name*, from now on."""
    _VALUES[name] = value
