"""Variables of the shell itself, and which ones make it, or the programs it runs, do something else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from engine.permission.programs.environment import is_dangerous_setting
from engine.permission.shell.state import ValueKind

# Locales in which every character means what it looks like.
_LOCALE: Final = re.compile(r"(?:C|POSIX|[a-z]{2}_[A-Z]{2}|C)?(?:\.(?:UTF|utf)-?8)?|[a-z]{2}_[A-Z]{2}")

# Variables that say something else than what was assigned to them.
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
_SHELL_VARIABLES: Final = frozenset(
    ["PWD", "OLDPWD", "IFS", "FUNCNEST", "histchars", "COMP_WORDBREAKS", "DIRSTACK", "UID", "EUID", "PPID"]
)


def is_dangerous(name: str, value: str | None) -> bool:
    """Tell whether setting a variable may change what later commands do; a value of None is unknown."""
    if name not in _SHELL_VARIABLES and SPECIAL_VARIABLES.get(name) is ValueKind.NUMBER:
        # The shell evaluates what is assigned to it.
        return value is None or not value.isdecimal()
    if name in ("LANG", "LC_ALL", "LC_CTYPE"):
        return value is None or not _LOCALE.fullmatch(value)
    return name in _SHELL_VARIABLES or is_dangerous_setting(name, value)
