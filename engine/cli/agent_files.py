"""Load the user's agents: those of the configuration and those in files."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from engine.agents.discovery import AgentFolder, LoadedAgents, agent_folders, drop_unknown_models, load_agents
from engine.cli.flags.config_flags import load_user_config
from engine.cli.plugin_code import with_packages
from engine.cli.terminal.standard_streams import print_note
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.config import Config
from engine.permission.project_root import find_project_root
from engine.permission.user_policy import UserFiles
from engine.settings_file.config_file import usual_path

# Where other programs keep agents; the folder of the configuration is searched as well.
_USER_FOLDERS = ("~/.claude/agents", "~/.config/opencode/agents", "~/.config/opencode/agent")


def load_user_agents(config: Config, cwd: Path, *, trusts: bool, tools: tuple[str, ...] = ()) -> LoadedAgents:
    """Return the agents in the user's files, and in the project's if it is trusted. It blocks.

    Args:
        config: the user's configuration.
        cwd: the working directory.
        trusts: the project counts as trusted in this run.
        tools: the names of the tools, if an agent that names another one should be reported.
    """
    files = UserFiles.default()
    user = (usual_path().parent / "agents", *(Path(folder).expanduser() for folder in _USER_FOLDERS))

    def is_trusted(folder: str) -> bool:
        return trusts or files.trust.is_trusted(folder)

    places, not_trusted = agent_folders(user, find_project_root(str(cwd), home=str(files.home)), is_trusted)
    plugins = (
        AgentFolder(folder=Path(folder), within=Path(plugin.folder), plugin=plugin.name)
        for plugin in config.plugins
        for folder in plugin.agents
    )
    agents = load_agents([*places, *plugins], tools=tools, not_trusted=not_trusted)
    # Agents for other programs often name models that are unknown here: they keep the default model then.
    if not any(agent.config.model for agent in agents.agents):
        return agents
    # Imported here: providers take long to import, and few agents name a model.
    from engine.providers.registry import split_name

    return drop_unknown_models(agents, lambda model: None if model.startswith("local:") else split_name(model, config))


def report_untrusted(agents: LoadedAgents, report: Callable[[str], None] = print_note) -> None:
    """Print or *report* the folders that were ignored because their project is not trusted."""
    for folder in agents.not_trusted:
        report(
            f"{escape_control_chars(folder)} was ignored: the project is not trusted (`engine permissions trust` trusts it)"
        )


def config_with_agents(args: argparse.Namespace, report: Callable[[str], None] = print_note) -> Config:
    """Return the user's configuration, including agents in files and folders of plugins. It blocks. Raises `ConfigError`.

    What can't be used is printed, or reported to *report*.
    """
    config = with_packages(load_user_config(args, report))
    discovered = load_user_agents(config, args.cwd, trusts=args.trust)
    # One broken file must not stop the command: the agent is left out.
    for path, why in discovered.problems:
        report(f"agent {escape_control_chars(path)} can't be used: {escape_control_chars(why)}")
    report_untrusted(discovered, report)
    return discovered.merge_into(config)
