"""`engine agents`: who works here, for whom, and where that is said."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Final, cast

import attrs

from engine.agents.discovery import LoadedAgents, agent_sources
from engine.cli import say
from engine.cli.agent_files import find_user_agents
from engine.cli.default_tools import offered_tools
from engine.cli.output import complain
from engine.cli.terminal_text import visible
from engine.config.agent_config import AgentConfig
from engine.core.errors import ConfigError, StoreError
from engine.settings_file.config_file import load_config

USAGE_ERROR: Final = 2
_PIPE_WIDTH: Final = 100
_MODES: Final = {
    "primary": "you talk to it",
    "subagent": "others send for it",
    "all": "you talk to it, others send for it",
}


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="engine agents",
        allow_abbrev=False,
        description="List the agents: those that `engine run --agent NAME` takes, and those that they send for. "
        "With a NAME: all that is said of one.",
        epilog="Exit codes: 0 listed, 2 wrong usage.",
    )
    parser.add_argument("name", nargs="?", help="one agent, whole")
    parser.add_argument("--cwd", default=".", help="the folder that they would work in; default: this one")
    parser.add_argument("--trust", action="store_true", help="read the project's own, as if it were trusted")
    parser.add_argument("--config", metavar="FILE", help="default: $ENGINE_CONFIG, or the usual place")
    parser.add_argument("--json", action="store_true", help="as JSON")
    try:
        given = parser.parse_args(arguments)
        return _list(parser, given)
    except SystemExit as error:  # argparse has said what is wrong, or has helped
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except (ConfigError, StoreError) as error:
        complain(f"engine agents: {error}")
        return USAGE_ERROR


def _list(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    cwd = Path(given.cwd)
    with suppress(RuntimeError):  # `~somebody`, who has no home here
        cwd = cwd.expanduser()
    if not cwd.is_dir():
        parser.error(f"--cwd: {given.cwd} is no folder")
    own = load_config(given.config, os.environ)
    tools = tuple(tool.name for tool in offered_tools())
    found = find_user_agents(own, cwd.resolve(), trusts=given.trust, tools=(*tools, "skill", "web_search"))
    config = found.merge_into(own)
    agents, where = config.all_agents, agent_sources(own, found)
    for path, why in found.problems_and_warnings:
        complain(f"{visible(path)}: {visible(why)}")
    for folder in found.not_trusted:
        complain(f"{visible(folder)} was not read: the project is not trusted (`engine permissions trust`)")
    name: str | None = given.name
    if name is not None:
        if name not in agents:
            close = get_close_matches(name, agents, n=3)
            complain(f"engine agents: there is no agent {name!r}{f': did you mean {close[0]}?' if close else ''}")
            return USAGE_ERROR
        agents = {name: agents[name]}
    if given.json:
        return say(_as_json(agents, where, found))
    return say(_as_list(agents, where) if name is None else _whole(name, agents[name], where))


def _as_json(agents: Mapping[str, AgentConfig], where: Mapping[str, str], found: LoadedAgents) -> str:
    warnings = {agent.name: list(agent.warnings) for agent in found.agents}
    documents = [
        {"name": name, **facts(agent), "source": where[name], "warnings": warnings.get(name, [])}
        for name, agent in agents.items()
    ]
    return json.dumps(documents, indent=2, ensure_ascii=False) + "\n"


def facts(agent: AgentConfig) -> dict[str, object]:
    """Return what is said of an agent, for clients."""
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


def _as_list(agents: Mapping[str, AgentConfig], where: Mapping[str, str]) -> str:
    width = max((len(name) for name in agents), default=0)
    room = max(30, _width() - width - 4)
    lines: list[str] = []
    for name, agent in agents.items():
        told = visible(agent.description) or "(no description: only if it is named)"
        first, *more = textwrap.wrap(f"{told} ({', '.join(_kind(agent))}; {visible(where[name])})", room)
        lines += [f"  {name:<{width}}  {first}", *(f"  {'':<{width}}  {line}" for line in more)]
    return "\n".join(lines) + "\n\n`engine agents NAME` shows all of one; `engine run --agent NAME` lets it work.\n"


def _kind(agent: AgentConfig) -> Iterator[str]:
    yield _MODES[agent.mode]
    if agent.hidden:
        yield "hidden"
    if agent.model is not None:
        yield visible(agent.model)


def _whole(name: str, agent: AgentConfig, where: Mapping[str, str]) -> str:
    lines = [f"{name}: {visible(agent.description) or '(no description)'}", f"  from: {visible(where[name])}"]
    for field, value in facts(agent).items():
        if field not in {"description", "system"} and value not in (None, [], False):
            told = ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)
            lines.append(f"  {field}: {visible(told)}")
    text = "\n".join(visible(line) for line in (agent.system or "").splitlines())
    return "\n".join(lines) + (f"\n\n{text}\n" if text else "\n")


def _width() -> int:
    return shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns if sys.stdout.isatty() else _PIPE_WIDTH
