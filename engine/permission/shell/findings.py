"""The result of a scan while it is collected."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Final

import attrs

from engine.permission.effects.scan_result import PathUse, Scan, ScannedCommand, UnnamedRead

_GLOB_CHARACTERS: Final = frozenset("*?[")
# Programs that change a file or a folder without writing content to it.
_NOT_WRITING_CONTENT: Final = frozenset(["chmod", "chown", "chgrp", "mkdir", "rm", "rmdir", "touch"])
_COMPILERS: Final = frozenset(["gcc", "g++", "cc", "c++", "clang", "clang++", "go", "rustc", "javac", "ld"])
# A step is a command that is simulated; in loops and functions there are several for one command.
# About a second. Scripts that need more are loops in loops, or made to be slow.
MAX_STEPS: Final = 4_000
# A person reads them in a question.
_MAX_REASONS: Final = 8


@attrs.define(eq=False)
class Findings:
    """Commands, files and reasons for opacity, each once and in the order of their discovery."""

    home: str
    is_folder: Callable[[str], bool] | None = None
    steps: int = 0
    trusts_names: bool = False
    _commands: dict[ScannedCommand, None] = attrs.field(factory=dict[ScannedCommand, None], init=False)
    _paths: dict[PathUse, None] = attrs.field(factory=dict[PathUse, None], init=False)
    _unnamed: dict[UnnamedRead, None] = attrs.field(factory=dict[UnnamedRead, None], init=False)
    _executed_files: dict[str, None] = attrs.field(factory=dict[str, None], init=False)
    _reasons: dict[str, None] = attrs.field(factory=dict[str, None], init=False)

    @property
    def is_exhausted(self) -> bool:
        """Whether the scan has taken too many steps, and stops."""
        return self.steps > MAX_STEPS

    def take_step(self) -> bool:
        """Count a step; return whether it may be taken."""
        self.steps += 1
        if self.is_exhausted:
            self.mark_opaque("this script has too many execution paths")
        return not self.is_exhausted

    def mark_opaque(self, reason: str) -> None:
        """Add a reason why the lists may be incomplete."""
        if len(self._reasons) < _MAX_REASONS:
            self._reasons[reason] = None

    def add_command(self, command: ScannedCommand) -> None:
        """Add a command."""
        self._commands[command] = None

    def add_path(self, use: PathUse) -> None:
        """Add a file."""
        self._paths[use] = None

    def add_unnamed(self, read: UnnamedRead) -> None:
        """Add files that are read although no word names them."""
        self._unnamed[read] = None

    def add_executed_file(self, file: str) -> None:
        """Add a file that is executed."""
        self._executed_files[file] = None

    def is_certain_folder(self, folder: str) -> bool:
        """Return whether the shell can certainly enter a folder: it exists, and no earlier command can have removed it."""
        # No command before it may have removed the folder, or replaced it by a link.
        return (
            self.is_folder is not None
            and not self._reasons
            and all(command.reads_only for command in self._commands)
            and not any(use.access == "write" for use in self._paths)
            and self.is_folder(folder)
        )

    def result(self) -> Scan:
        """Return the result of the scan."""
        self._check_executed_files()
        if self.trusts_names and any(_reads_like_option(use.path) for use in self._paths if use.access == "write"):
            self.mark_opaque("it creates a file whose name looks like an option")
        return Scan(
            commands=tuple(self._commands),
            paths=tuple(self._paths),
            unnamed=tuple(self._unnamed),
            opaque=tuple(self._reasons),
            trusts_names=self.trusts_names,
        )

    def _check_executed_files(self) -> None:
        """Mark the scan as opaque if a file is executed that the same script may have written, before or after."""
        # Also files that are written later: a loop or a trap may run them again.
        written = self._written_files()
        is_vague = any(use.is_pattern for use in written)
        # The output of a compiler is as trustworthy as the project's own files that it compiles.
        is_built = all(use.by in _COMPILERS for use in written)
        names = set[str]() if is_built else {posixpath.basename(use.path) for use in written}
        for file in self._executed_files if written else ():
            if is_vague or posixpath.basename(file) in names or _GLOB_CHARACTERS & set(file):
                self.mark_opaque(f"it runs {file[:200]}, which it may have written itself")

    def _written_files(self) -> list[PathUse]:
        return [use for use in self._paths if use.access == "write" and use.by not in _NOT_WRITING_CONTENT]


def _reads_like_option(path: str) -> bool:
    return any(name.startswith("-") or " -" in name for name in path.split("/"))
