"""Files with names for shell completion, which must not start Python when a key is pressed.

Each is a list of lines, a name and after a tab what it is. They are hints: writing them never fails a command.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from engine.cli.terminal.terminal_text import escape_control_chars, one_line

NameKind = Literal["sessions", "models", "agents", "grants"]

# More would make a shell slow.
MAX_NAMES: Final = 500
_MAX_DESCRIPTION: Final = 60


def names_folder() -> Path:
    """Return where the files are: the completion scripts find it by the same rule."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache else Path.home() / ".cache") / "engine" / "completion"


def keep_names(kind: NameKind, names: Iterable[tuple[str, str]]) -> None:
    """Replace the names of *kind*, each with what it is. It blocks. Errors are ignored."""
    rows = [
        f"{name}\t{one_line(description, _MAX_DESCRIPTION)}\n"
        for name, description in list(names)[:MAX_NAMES]
        # A name with a blank or a control character would have to be quoted in each shell.
        if name == escape_control_chars(name) and len(name.split()) == 1
    ]
    # RuntimeError: there is no home folder.
    with suppress(OSError, RuntimeError, UnicodeError):
        folder = names_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = folder / f".{kind}.{os.getpid()}"
        # Titles of sessions are private.
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.writelines(rows)
            part.replace(folder / kind)
        finally:
            part.unlink(missing_ok=True)
