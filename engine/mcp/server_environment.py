"""The environment of a server's process: little, and nothing secret that its configuration doesn't name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from engine.core.errors import ConfigError
from engine.process.procfs import ENVIRONMENT_MARKER

_INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", ENVIRONMENT_MARKER)
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def environment_for(own: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server.

    Args:
        own: what the configuration gives it.
        variables: the engine's environment.

    Raises:
        ConfigError: a value names a variable that is not set.
    """
    # Functions that a shell has exported are code.
    inherited = {name: variables[name] for name in _INHERITED if not variables.get(name, "()").startswith("()")}
    return inherited | expand_variables(own, variables)


def expand_variables(values: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return *values* with each `${VAR}` replaced. Raises `ConfigError`, with the name of a variable that is not set."""

    def value_of(match: re.Match[str]) -> str:
        value = variables.get(match[1])
        if value is None:
            raise ConfigError(f"the variable {match[1]} is not set")
        return value

    return {name: _VARIABLE.sub(value_of, value) for name, value in values.items()}
