"""The tools that `engine run` gives to a model and `engine tools` lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.cli.preload_shell import preload_shell
from engine.cli.terminal.standard_streams import print_note
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.agent_config import AgentConfig
from engine.config.builtin_agents import BUILT_IN
from engine.config.sandbox_config import Sandbox
from engine.core.threads import preload_later
from engine.settings_file.config_file import usual_path
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.builtin.task import Agents, task_tool
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from pathlib import Path

    from engine.config.config import Config
    from engine.permission.programs.program_registry import ProgramRegistry
    from engine.prompt.layers import PromptLayers
    from engine.tools.tool_context import EditDiagnostics
    from engine.tools.tool_source import ToolSource


def knowledge_for(config: Config) -> ProgramRegistry | None:
    """Return the table of programs with what *config* adds; None: it adds nothing."""
    if config.programs is None:
        return None
    # Imported here: the table holds some 700 programs, and most configurations add none.
    from engine.permission.programs.program_registry import extend_registry

    return extend_registry(config.programs)


def tool_sources(config: Config, *, trusts: bool, shows_all: bool = False) -> tuple[ToolSource, ...]:
    """Return the sources of tools: the plugins, and the MCP servers that *config* names. It blocks.

    Args:
        config: the configuration.
        trusts: every project counts as trusted.
        shows_all: clients don't read what is printed when the program starts.
    """
    # Imported here, like all that few users have.
    from engine.cli.plugin_code import plugin_tools

    plugins = plugin_tools(config, trusts=trusts, shows_all=shows_all)
    if not config.mcp.servers:
        return (plugins,)
    from engine.mcp.mcp_servers import McpServers

    return plugins, McpServers(config.mcp)


def edit_diagnostics(config: Config) -> EditDiagnostics | None:
    """Return what reports errors in edited files: the language servers that *config* names; None: it names none."""
    if not config.language_servers:
        return None
    # Imported here: most configurations have none.
    from engine.language_servers.language_servers import LanguageServers

    return LanguageServers(config.language_servers, sandbox=config.sandbox)


def default_tools(
    sandbox: Sandbox | None = None,
    programs: ProgramRegistry | None = None,
    layers: PromptLayers | None = None,
    cwd: Path | None = None,
    agents: Mapping[str, AgentConfig] = BUILT_IN,
) -> tuple[Tool, ...]:
    """Return the built-in tools, `task` with the sub-agents among *agents*, and `skill` if there are skills. It blocks.

    With prompt *layers*, skills are those that the layers find for *cwd*, and the prompt lists them. Without, only
    the user's folder `skills` is searched: a project's skills came with its repository and need trust. Invalid
    skills are reported on standard error. With a *sandbox*, commands run in it; *programs* holds what the
    configuration declares about programs. Raises `ConfigError` as `builtin_tools` does.
    """
    preload_later(preload_shell)
    tools = builtin_tools(sandbox=sandbox, programs=programs)
    if layers is not None and cwd is not None:
        if layers.may_have_skills(str(cwd)):
            # Imported here, as below: few users have skills.
            from engine.tools.builtin.skill import skill_tool

            tools = (*tools, skill_tool(layers.skills_at))
        return _with_task(tools, agents)
    from engine.prompt.skills import find_skills
    from engine.tools.builtin.skill import skill_tool

    skills = find_skills([usual_path().parent / "skills"])
    for path, why in skills.problems:
        print_note(f"skill {escape_control_chars(path)} can't be used: {escape_control_chars(why)}")
    for skill in skills.available:
        for warning in skill.warnings:
            print_note(f"skill {escape_control_chars(str(skill.folder))}: {escape_control_chars(warning)}")
    if skills.available:
        tools = (*tools, skill_tool(skills))
    return _with_task(tools, agents)


def _with_task(tools: tuple[Tool, ...], agents: Mapping[str, AgentConfig]) -> tuple[Tool, ...]:
    # No background jobs: once the command is over, nothing could receive their results.
    task = task_tool(Agents.of_config(agents))
    # Sorted, so that requests begin with the same bytes in every run and the prompt cache matches.
    return tuple(sorted((*tools, task), key=lambda tool: tool.name))
