"""`--schema`: what the answer must fit, from a file, from standard input or as it stands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.core.errors import ConfigError

if TYPE_CHECKING:
    from engine.session.structured_output import OutputSpec

FROM_STDIN: Final = "-"


def load_schema(argument: str) -> OutputSpec:
    """Return what the answer must fit. It blocks. Raises `ConfigError`."""
    # Imported here: most runs answer in text.
    from engine.session.structured_output import answer_schema

    text = _read(argument)
    try:
        return answer_schema(text)
    except ConfigError as error:
        raise ConfigError(f"--schema: {error}\nNext: correct the schema") from error


def _read(argument: str) -> str:
    if argument.lstrip().startswith("{"):
        return argument
    try:
        if argument == FROM_STDIN:
            return "" if sys.stdin is None else sys.stdin.read()
        return Path(argument).expanduser().read_text()
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"--schema: can't read {escape_on_one_line(argument)}: {reason}\nNext: choose another file"
        ) from error
