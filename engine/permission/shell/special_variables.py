"""The shell's own variables, and which variables change what the shell, or a program, does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from engine.permission.programs.environment_variables import is_dangerous_setting
from engine.permission.shell.shell_state import ValueKind

# In others (SJIS, Big5) a backslash can be a part of a character, and quoting works differently.
# Locales with ordinary character sets.
_LOCALE: Final = re.compile(r"(?:C|POSIX|[a-z]{2}_[A-Z]{2}|C)?(?:\.(?:UTF|utf)-?8)?|[a-z]{2}_[A-Z]{2}")

# Variables whose value is not the one that was assigned.
SPECIAL_VARIABLES: Final[Mapping[str, ValueKind]] = {
    **dict.fromkeys(
        ["RANDOM", "SRANDOM", "SECONDS", "LINENO", "BASHPID", "EPOCHSECONDS", "UID", "EUID", "PPID", "OPTIND"],
        ValueKind.NUMBER,
    ),
    **dict.fromkeys(
        [
            "_",
            "EPOCHREALTIME",
            "OLDPWD",
            "DIRSTACK",
            "FUNCNAME",
            "GROUPS",
            "PIPESTATUS",
            "COMP_WORDBREAKS",
            "COLUMNS",
            "LINES",
            "REPLY",
            "MAPFILE",
            "OPTARG",
            "BASH_COMMAND",
            "COPROC",
        ],
        ValueKind.UNKNOWN,
    ),
}
# Assigning these changes how the shell works.
_SHELL_VARIABLES: Final = frozenset(
    ["PWD", "OLDPWD", "IFS", "FUNCNEST", "histchars", "COMP_WORDBREAKS", "DIRSTACK", "UID", "EUID", "PPID"]
)


def is_dangerous(name: str, value: str | None) -> bool:
    """Return whether setting a variable may change what later commands do; a value of None is unknown."""
    if name not in _SHELL_VARIABLES and SPECIAL_VARIABLES.get(name) is ValueKind.NUMBER:
        # The shell evaluates the assigned value.
        return value is None or not value.isdecimal()
    if name in ("LANG", "LC_ALL", "LC_CTYPE"):
        return value is None or not _LOCALE.fullmatch(value)
    return name in _SHELL_VARIABLES or is_dangerous_setting(name, value)
