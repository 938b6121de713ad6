"""A plugin as the rest of the configuration knows it: a name and folders. Values."""

from __future__ import annotations

import attrs

from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Plugin(Value):
    """A plugin of the user's; all paths are real ones. Its MCP servers and hooks are a part of the configuration.

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
