"""Language servers as they are configured. Values."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Final

import attrs

from engine.config.formatter_config import are_texts, is_size
from engine.core.errors import ConfigError
from engine.core.lazy import regex
from engine.core.value_base import Value

# In megabytes.
SERVER_MEMORY: Final = 2_048

_VARIABLE: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*")
# What the protocol calls a file's language, where that is not its suffix.
_LANGUAGES: Final[Mapping[str, str]] = {
    ".bash": "shellscript",
    ".cc": "cpp",
    ".cs": "csharp",
    ".cxx": "cpp",
    ".ex": "elixir",
    ".exs": "elixir",
    ".h": "c",
    ".hpp": "cpp",
    ".hs": "haskell",
    ".js": "javascript",
    ".jsx": "javascriptreact",
    ".kt": "kotlin",
    ".m": "objective-c",
    ".md": "markdown",
    ".mjs": "javascript",
    ".py": "python",
    ".pyi": "python",
    ".rb": "ruby",
    ".rs": "rust",
    ".sh": "shellscript",
    ".ts": "typescript",
    ".tsx": "typescriptreact",
    ".yml": "yaml",
}

# A setting as editors write it: `"python.analysis.typeCheckingMode" = "strict"`.
Setting = str | bool | int | float | tuple[str, ...]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LanguageServer(Value):
    """A language server, which is asked for the errors in files that a tool has changed.

    Attributes:
        command: the program, which is found in PATH or has an absolute path, and its arguments.
        patterns: wildcards for the names of its files, such as `*.py`.
        language: the language of its files, by the protocol's name for it; empty: what their suffix says.
        root_files: names of files such as `go.mod`: the server works in the nearest folder that has one of them, within
            the project. Empty: in the project's folder.
        env: variables that the program gets besides the engine's own.
        initialization_options: what the server is sent at its start; a dot in a name leads into a table.
        settings: what the server gets when it asks for its configuration; likewise.
        memory: the megabytes that its processes may use together.
    """

    command: tuple[str, ...] = attrs.field(validator=are_texts)
    patterns: tuple[str, ...] = attrs.field(validator=are_texts)
    language: str = ""
    root_files: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    initialization_options: Mapping[str, Setting] = attrs.field(factory=dict[str, Setting])
    settings: Mapping[str, Setting] = attrs.field(factory=dict[str, Setting])
    memory: int = attrs.field(default=SERVER_MEMORY, validator=is_size)

    def __attrs_post_init__(self) -> None:
        program = self.command[0]
        if "/" in program and not program.startswith("/"):
            # It would be looked for in the project, which may be anyone's.
            raise ConfigError(f"command must name a program in PATH, or have an absolute path, unlike {program!r}")
        if any("\0" in part for part in self.command):
            raise ConfigError("command can't hold a NUL")
        for name in self.root_files:
            if not name or "/" in name:
                raise ConfigError(f"root_files must be names of files, without a folder, unlike {name!r}")
        for name, value in self.env.items():
            if not _VARIABLE.fullmatch(name) or "\0" in value:
                raise ConfigError(f"env.{name} has an invalid name or value")

    def is_for(self, name: str) -> bool:
        """Return whether files named *name* are its own."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def language_of(self, name: str) -> str:
        """Return the language of a file named *name*, as the protocol calls it."""
        suffix = PurePath(name).suffix.lower()
        return self.language or _LANGUAGES.get(suffix, suffix.removeprefix(".") or "plaintext")
