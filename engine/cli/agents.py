"""`engine agents`: list agents and sub-agents, and where each is defined."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Final, cast

import attrs

from engine.agents.discovery import LoadedAgents, agent_sources
from engine.cli.agent_files import load_user_agents, report_untrusted
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.default_tools import default_tools
from engine.cli.flags.arg_types import similar_name_hint
from engine.cli.flags.completion_names import keep_names
from engine.cli.flags.config_flags import load_user_config
from engine.cli.terminal.exit_codes import USAGE_ERROR, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars, two_columns
from engine.config.agent_config import AgentConfig

_MODES: Final = {
    "primary": "agent",
    "subagent": "sub-agent",
    "all": "agent and sub-agent",
}


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_command("agents", lambda: _list(parse_arguments("agents", arguments)))


def _list(args: argparse.Namespace) -> int:
    user_config = load_user_config(args)
    tools = tuple(tool.name for tool in default_tools())
    # Those two tools are there only if they are configured, but an agent may name them anyway.
    discovered = load_user_agents(user_config, args.cwd, trusts=args.trust, tools=(*tools, "skill", "web_search"))
    config = discovered.merge_into(user_config)
    agents, origins = config.all_agents, agent_sources(user_config, discovered)
    keep_names("agents", ((name, agent.description) for name, agent in agents.items()))
    for path, why in discovered.problems_and_warnings:
        print_error(f"{escape_control_chars(path)}: {escape_control_chars(why)}")
    report_untrusted(discovered)
    name: str | None = args.name
    if name is not None:
        if name not in agents:
            print_error(f"engine agents: unknown agent {name!r}{similar_name_hint(name, agents)}\nNext: engine agents")
            return USAGE_ERROR
        agents = {name: agents[name]}
    if args.json:
        return print_text(_as_json(agents, origins, discovered))
    return print_text(_as_list(agents, origins) if name is None else _as_details(name, agents[name], origins))


def _as_json(agents: Mapping[str, AgentConfig], origins: Mapping[str, str], discovered: LoadedAgents) -> str:
    warnings = {agent.name: list(agent.warnings) for agent in discovered.agents}
    documents = [
        {"name": name, **agent_document(agent), "source": origins[name], "warnings": warnings.get(name, [])}
        for name, agent in agents.items()
    ]
    return json.dumps(documents, indent=2, ensure_ascii=False) + "\n"


def agent_document(agent: AgentConfig) -> dict[str, object]:
    """Return the definition of an agent for JSON output."""
    return {
        "description": agent.description,
        "mode": agent.mode,
        "hidden": agent.hidden,
        "model": agent.model,
        "fallback": None if agent.fallback is None else list(agent.fallback),
        **attrs.asdict(agent.options),
        "tools": None if agent.tools is None else list(agent.tools),
        "without": list(agent.without),
        "rules": [str(rule) for rule in agent.rules],
        "bounds": [str(rule) for rule in agent.bounds],
        "steps": agent.steps,
        "seconds": agent.seconds,
        "cost": agent.cost,
        "system": agent.system,
    }


def _as_list(agents: Mapping[str, AgentConfig], origins: Mapping[str, str]) -> str:
    rows: list[tuple[str, str]] = []
    for name, agent in agents.items():
        description = escape_control_chars(agent.description) or "(no description: used only by name)"
        rows.append((name, f"{description} ({', '.join(_kind(agent))}; {escape_control_chars(origins[name])})"))
    return f"{two_columns(rows)}\n\n`engine agents NAME` shows one agent's definition; `engine run --agent NAME` uses it.\n"


def _kind(agent: AgentConfig) -> Iterator[str]:
    yield _MODES[agent.mode]
    if agent.hidden:
        yield "hidden"
    if agent.model is not None:
        yield escape_control_chars(agent.model)


def _as_details(name: str, agent: AgentConfig, origins: Mapping[str, str]) -> str:
    lines = [
        f"{name}: {escape_control_chars(agent.description) or '(no description)'}",
        f"  from: {escape_control_chars(origins[name])}",
    ]
    for field, value in agent_document(agent).items():
        # Unset fields would hide the few that are set.
        if field not in {"description", "system"} and value not in (None, [], False):
            shown = ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)
            lines.append(f"  {field}: {escape_control_chars(shown)}")
    text = "\n".join(escape_control_chars(line) for line in (agent.system or "").splitlines())
    return "\n".join(lines) + (f"\n\n{text}\n" if text else "\n")
