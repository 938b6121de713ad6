"""Formatters and checkers: programs that run on edited files. Values."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final, cast

import attrs

from engine.core.errors import ConfigError
from engine.core.value_base import Value

# In seconds.
DEFAULT_TIMEOUT: Final = 10.0
# In megabytes: enough for a type checker and a large project.
DEFAULT_MEMORY: Final = 4_096
_PLACE: Final = "{path}"


def is_time(_: object, field: attrs.Attribute[float], value: object) -> None:
    """Raise `ConfigError` unless *value* is a finite positive number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ConfigError(f"{field.name} must be a finite number of seconds above 0, not {value!r}")


def is_size(_: object, field: attrs.Attribute[int], value: object) -> None:
    """Raise `ConfigError` unless *value* is a positive number of megabytes."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{field.name} must be a whole number of megabytes above 0, not {value!r}")


def are_texts(_: object, field: attrs.Attribute[tuple[str, ...]], value: object) -> None:
    """Raise `ConfigError` unless *value* is a tuple of texts, of at least one."""
    items = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if not items or not all(isinstance(item, str) and item for item in items):
        raise ConfigError(f"{field.name} must hold at least one string, none of them empty, not {value!r}")


@attrs.frozen(eq=False, repr=False)
class FileProgram(Value):
    """A program that runs on a file: a formatter changes it, a checker reports problems.

    Attributes:
        command: the program and its arguments. `{path}` is replaced by the file; without it, the file comes last.
        patterns: wildcards for the names of its files, such as `*.py`.
        timeout: in seconds; a formatter's is per file, a checker's for all files that one call has changed.
        memory: the megabytes that each of its processes may use.
    """

    command: tuple[str, ...] = attrs.field(validator=are_texts)
    patterns: tuple[str, ...] = attrs.field(validator=are_texts)
    timeout: float = attrs.field(default=DEFAULT_TIMEOUT, validator=is_time)
    memory: int = attrs.field(default=DEFAULT_MEMORY, validator=is_size)

    @property
    def name(self) -> str:
        """The program's name in notes."""
        return PurePosixPath(self.command[0]).name

    def is_for(self, name: str) -> bool:
        """Return whether it runs on files named *name*."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def argv(self, path: str) -> list[str]:
        """Return the command line for a file."""
        command = [part.replace(_PLACE, path) for part in self.command]
        return command if any(_PLACE in part for part in self.command) else [*command, path]
