"""What a scan has found so far."""

from __future__ import annotations

from typing import Final

import attrs

from engine.permission.scanned import Command, PathUse, Scan

# Steps of the scan: commands that were looked at, in loops and functions more than once.
MAX_STEPS: Final = 4_000
_MAX_REASONS: Final = 8


@attrs.define(eq=False)
class Findings:
    """Commands, files and doubts, each once, in the order in which they were found."""

    home: str
    steps: int = 0
    _commands: dict[Command, None] = attrs.field(factory=dict[Command, None], init=False)
    _paths: dict[PathUse, None] = attrs.field(factory=dict[PathUse, None], init=False)
    _doubts: dict[str, None] = attrs.field(factory=dict[str, None], init=False)

    @property
    def is_exhausted(self) -> bool:
        """Whether the scan has taken so many steps that it is given up."""
        return self.steps > MAX_STEPS

    def step(self) -> bool:
        """Count a step; return whether it may be taken."""
        self.steps += 1
        if self.is_exhausted:
            self.doubt("there are too many ways through this script")
        return not self.is_exhausted

    def doubt(self, reason: str) -> None:
        """Say why the lists may not be all there is."""
        if len(self._doubts) < _MAX_REASONS:
            self._doubts[reason] = None

    def command(self, command: Command) -> None:
        """Add a command."""
        self._commands[command] = None

    def path(self, use: PathUse) -> None:
        """Add a file."""
        self._paths[use] = None

    def written(self) -> list[PathUse]:
        """Return the files that may have been written so far."""
        return [use for use in self._paths if use.access == "write"]

    def scan(self) -> Scan:
        """Return all that was found."""
        return Scan(commands=tuple(self._commands), paths=tuple(self._paths), opaque=tuple(self._doubts))
