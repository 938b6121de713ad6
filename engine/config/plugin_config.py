"""Plugins as the rest of the configuration knows them: names and folders, and what the user says about them. Values."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PluginFolders(Value):
    """The folders of a plugin of the user's; all paths are real ones. Its MCP servers and hooks are a part of the configuration.

    Attributes:
        name: its name, which is a part of the names of what it has.
        folder: where it is.
        skills: its folders of skills.
        commands: its folders of commands.
        agents: its folders of agents.
    """

    name: str
    folder: str
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PluginOptions(Value):
    """What the user says about plugins.

    Attributes:
        disabled: the names of plugins that are not loaded.
        override: the names that tools of plugins may take from other tools, such as `"web_search"`.
        isolated: run the user's own tool files in processes of their own, too.
        settings: a table for each plugin that is a package, by its name, which it gets as it is.
    """

    disabled: tuple[str, ...] = ()
    override: tuple[str, ...] = ()
    isolated: bool = False
    settings: Mapping[str, Mapping[str, object]] = attrs.field(factory=dict[str, Mapping[str, object]])
