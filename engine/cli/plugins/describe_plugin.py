"""What a plugin has, as lines for people; those of two versions can be compared. It blocks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from engine.agents.discovery import AgentFolder, load_agents
from engine.config.plugin_config import PluginFolders
from engine.plugins.launchers import unpinned
from engine.plugins.plugin_bundle import Bundle
from engine.prompt.commands import find_commands
from engine.prompt.skills import SkillFolder, find_skills


def describe_plugin(bundle: Bundle) -> list[str]:
    """Return what a plugin has: what runs by itself first."""
    # Where the copy is differs with each version, and says nothing.
    lines = (*_hooks(bundle.hooks), *_servers(bundle.servers), *describe_folders(bundle.plugin))
    return [line.replace(bundle.plugin.folder, "PLUGIN") for line in lines]


def warnings_about(bundle: Bundle) -> list[str]:
    """Return what a user should know: parts that are not used, and servers whose version is not fixed."""
    lines = [f"not used: {one}" for one in bundle.ignored]
    lines += folder_warnings(bundle.plugin)
    for name, table in bundle.servers.items():
        package = unpinned(_command(table))
        if package:
            lines.append(f"MCP server {name} fetches {package} in whatever version there is: its code may change")
    return [line.replace(f"{bundle.plugin.folder}/", "") for line in lines]


def describe_folders(plugin: PluginFolders) -> list[str]:
    """Return which skills, commands and agents a plugin has."""
    return list(_texts(plugin))


def folder_warnings(plugin: PluginFolders) -> list[str]:
    """Return what is wrong with its skills, commands and agents."""
    skills = find_skills(_skill_folders(plugin))
    commands = find_commands(plugin.commands, plugin=plugin)
    agents = load_agents(_agent_folders(plugin))
    problems = (*skills.problems, *commands.problems, *agents.problems_and_warnings)
    return [f"{path}: {why}" for path, why in problems]


def _hooks(hooks: Mapping[str, object]) -> Iterator[str]:
    for event, groups in hooks.items():
        for group in cast("Sequence[Mapping[str, object]]", groups):
            for hook in cast("Sequence[Mapping[str, object]]", group["hooks"]):
                args = cast("Sequence[str]", hook.get("args") or ())
                matcher = f" {group['matcher']}" if group.get("matcher") else ""
                yield f"hook {event}{matcher} runs: {' '.join([str(hook['command']), *map(shlex.quote, args)])}"


def _servers(servers: Mapping[str, object]) -> Iterator[str]:
    for name, table in servers.items():
        values = cast("Mapping[str, object]", table)
        passed = {
            **cast("Mapping[str, str]", values.get("env") or {}),
            **cast("Mapping[str, str]", values.get("headers") or {}),
        }
        what = f"connects to {values['url']}" if "url" in values else f"runs: {shlex.join(_command(table))}"
        # Its values are in the plugin's file: they are no secrets, but may name variables that hold one.
        gets = f" (with {', '.join(f'{key}={text}' for key, text in passed.items())})" if passed else ""
        yield f"MCP server {name} {what}{gets}"


def _command(table: object) -> list[str]:
    values = cast("Mapping[str, object]", table)
    return [str(values["command"]), *cast("Sequence[str]", values.get("args") or ())] if "command" in values else []


def _texts(plugin: PluginFolders) -> Iterator[str]:
    for skill in find_skills(_skill_folders(plugin)).available:
        yield f"skill {skill.name}: {skill.description}"
    for command in find_commands(plugin.commands, plugin=plugin).available:
        yield f"command /{command.name}: {command.description or '(no description)'}"
    for agent in load_agents(_agent_folders(plugin)).agents:
        yield f"agent {agent.name}: {agent.config.description or '(no description)'}"


def _skill_folders(plugin: PluginFolders) -> list[SkillFolder]:
    return [SkillFolder(folder, plugin=plugin.name) for folder in plugin.skills]


def _agent_folders(plugin: PluginFolders) -> list[AgentFolder]:
    return [AgentFolder(folder=Path(one), within=Path(plugin.folder), plugin=plugin.name) for one in plugin.agents]
