"""Programs that a user has run on files which were edited: formatters and checkers. Values."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final, cast

import attrs

from engine.core.errors import ConfigError

# Seconds, if nobody says otherwise.
PATIENCE: Final = 10.0
_PLACE: Final = "{path}"


def is_time(_: object, field: attrs.Attribute[float], value: object) -> None:
    """Raise `ConfigError` unless *value* is a time that one can wait."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ConfigError(f"{field.name} must be a finite number of seconds above 0, not {value!r}")


def _are_texts(_: object, field: attrs.Attribute[tuple[str, ...]], value: object) -> None:
    items = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if not items or not all(isinstance(item, str) and item for item in items):
        raise ConfigError(f"{field.name} must hold texts, at least one, not {value!r}")


@attrs.frozen
class FileProgram:
    """A program that is run on a file: as a formatter it puts it into shape, as a checker it tells what is wrong in it.

    Attributes:
        command: the program and its arguments. `{path}` stands for the file; without it, the file comes last.
        patterns: which files it is for: wildcards for the name, like `*.py`.
        timeout: seconds that it may take: a formatter for each file, a checker for all that one call has changed.
    """

    command: tuple[str, ...] = attrs.field(validator=_are_texts)
    patterns: tuple[str, ...] = attrs.field(validator=_are_texts)
    timeout: float = attrs.field(default=PATIENCE, validator=is_time)

    @property
    def name(self) -> str:
        """What it is called in notes."""
        return PurePosixPath(self.command[0]).name

    def is_for(self, name: str) -> bool:
        """Tell whether it is for files of that *name*."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def argv(self, path: str) -> list[str]:
        """Return the command line for a file."""
        command = [part.replace(_PLACE, path) for part in self.command]
        return command if any(_PLACE in part for part in self.command) else [*command, path]
