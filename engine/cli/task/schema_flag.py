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

    try:
        return answer_schema(_read(argument))
    except ConfigError as error:
        raise ConfigError(f"--schema: {error}") from error


def _read(argument: str) -> str:
    if argument.lstrip().startswith("{"):
        return argument
    try:
        if argument == FROM_STDIN:
            return "" if sys.stdin is None else sys.stdin.read()
        return Path(argument).expanduser().read_text()
    except OSError as error:
        raise ConfigError(f"can't read {escape_on_one_line(argument)}: {error.strerror}") from error
    except (UnicodeDecodeError, RuntimeError) as error:
        raise ConfigError(f"can't read {escape_on_one_line(argument)}: {error}") from error
