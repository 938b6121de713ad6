"""What a plugin in Python is: a function of a `PluginContext` that returns a `Plugin`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ConfigError
from engine.core.hooks import Hooks
from engine.core.lazy import regex
from engine.core.value_base import Value
from engine.tools.tool import Tool

_NAME: Final = regex(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME: Final = 32


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PluginContext(Value):
    """What a plugin gets when it is loaded. It gets nothing of other plugins.

    Attributes:
        name: its name, that of its entry point.
        settings: its own table of the user's configuration, `[plugins.settings.NAME]`.
        folder: a folder for its state, which exists, and which no other plugin gets.
    """

    name: str
    settings: Mapping[str, object]
    folder: Path


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Plugin(Value):
    """What a plugin adds to the engine. It registers nothing itself: only what it returns counts.

    Attributes:
        tools: tools, made with `engine.tool`; models see them as `{plugin}_{tool}`. Each call asks the user, unless a rule about
            the right `plugin:PLUGIN/TOOL` allows it.
        hooks: called after the configured ones.
        commands: absolute paths of folders with commands.
        agents: absolute paths of folders with agents.
        skills: absolute paths of folders with skills.
    """

    tools: tuple[Tool, ...] = ()
    hooks: Hooks = Hooks()
    commands: tuple[str | os.PathLike[str], ...] = ()
    agents: tuple[str | os.PathLike[str], ...] = ()
    skills: tuple[str | os.PathLike[str], ...] = ()


# What an entry point of the group `engine.plugins` names.
MakePlugin = Callable[[PluginContext], Plugin]


def check_plugin_name(name: object) -> str:
    """Return the name of a plugin. Raises `ConfigError` if it can't be one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ConfigError(
            f"a plugin's name must be at most {_MAX_NAME} lower-case letters, digits and single dashes, not {name!r}"
        )
    return name
