"""Load agents from files, each one separately, so that a broken file affects no other agent.

Everything here blocks, so it runs at start-up or in a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from engine.config.agent_config import AgentConfig
from engine.config.builtin_agents import BUILT_IN
from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.core.value_base import Value

if TYPE_CHECKING:
    from engine.agents.markdown_file import AgentFile

# In order of precedence. The other programs' folders let their users keep what they have.
PROJECT_FOLDERS: Final = (".engine/agents", ".claude/agents", ".opencode/agents", ".opencode/agent")
# The model reads a line about each agent that it may start.
MAX_AGENTS: Final = 200
MAX_BYTES: Final = 200_000
# Bounds for a folder that turns out to be something else, such as a home folder.
_MAX_ENTRIES: Final = 2_000
_MAX_DEPTH: Final = 3


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AgentFolder(Value):
    """A folder that may hold agents.

    Attributes:
        folder: where it is.
        within: the folder that links must not lead out of; None: no limit.
        plugin: the plugin that it belongs to, which is a part of its agents' names; empty: none.
    """

    folder: Path
    within: Path | None = None
    plugin: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoadedAgent(Value):
    """An agent in a file.

    Attributes:
        name: its name.
        config: how it works.
        path: the file.
        warnings: about fields that are ignored.
    """

    name: str
    config: AgentConfig
    path: Path
    warnings: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoadedAgents(Value):
    """Agents loaded from files.

    Attributes:
        agents: sorted by name.
        problems: why other files can't be used, by path.
        not_trusted: agent folders of an untrusted project, which were not read.
    """

    agents: tuple[LoadedAgent, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    not_trusted: tuple[str, ...] = ()

    def merge_into(self, config: Config) -> Config:
        """Return *config* with these agents added; its own settings of an agent override those of the file."""
        both = {agent.name: agent.config for agent in self.agents}
        for name, own in config.agents.items():
            both[name] = own.over(both[name]) if name in both else own
        return attrs.evolve(config, agents=both)

    @property
    def problems_and_warnings(self) -> Iterator[tuple[str, str]]:
        """Problems and warnings by path: of files that are not used, and of those that are."""
        yield from self.problems
        for agent in self.agents:
            for warning in agent.warnings:
                yield str(agent.path), warning


def agent_folders(
    user: Iterable[Path], project: str, is_trusted: Callable[[str], bool]
) -> tuple[tuple[AgentFolder, ...], tuple[str, ...]]:
    """Return the folders to load agents from, and those that are skipped because the project isn't trusted. It blocks.

    Args:
        user: the user's own folders, in order of precedence.
        project: the project's real path; empty: there is no project.
        is_trusted: whether a project is trusted.
    """
    # The user's come first: a project must not replace an agent that the user calls by name.
    places = tuple(AgentFolder(folder=folder) for folder in user)
    root = Path(project)
    there = [root / name for name in PROJECT_FOLDERS if project and (root / name).is_dir()]
    if not there:
        return places, ()
    if not is_trusted(project):
        return places, tuple(map(str, there))
    # A link out of the project could show the model any file of the user's as a "system prompt".
    return (*places, *(AgentFolder(folder=folder, within=root) for folder in there)), ()


def load_agents(
    places: Iterable[AgentFolder], *, tools: Sequence[str] = (), not_trusted: tuple[str, ...] = ()
) -> LoadedAgents:
    """Load the agents in these folders; of two with the same name, the first counts. It blocks, and never fails.

    If *tools*, the names of the available tools, is not empty, an agent that names others gets a warning.
    """
    agents: dict[str, LoadedAgent] = {}
    disabled: set[str] = set()
    problems: list[tuple[str, str]] = []
    for place in places:
        for path in _files(place, problems):
            file = _load_one(path, place, agents, disabled, problems)
            if file is None:
                continue
            if place.plugin:
                config, lifted = _without_allowances(file.config)
            else:
                config, lifted = (file.config, ()) if place.within is None else _keep_deny_bounds(file)
            warnings = (*file.warnings, *lifted, *_unknown_tools(config, tools))
            agents[file.name] = LoadedAgent(name=file.name, config=config, path=path, warnings=warnings)
    return LoadedAgents(
        agents=tuple(sorted(agents.values(), key=lambda agent: agent.name)),
        problems=tuple(problems),
        not_trusted=not_trusted,
    )


def _load_one(
    path: Path,
    place: AgentFolder,
    agents: Mapping[str, LoadedAgent],
    disabled: set[str],
    problems: list[tuple[str, str]],
) -> AgentFile | None:
    """Return the agent in a file; None if it is disabled, or can't be used."""
    from engine.agents.markdown_file import AgentFileError
    # Imported here: most users have no agents in files.

    try:
        file = _read(path, place)
        if place.plugin:
            file = attrs.evolve(file, name=f"{place.plugin}_{file.name}")
        if file.is_disabled and file.name in BUILT_IN:
            raise AgentFileError(
                f"{file.name} is built in, so it stays: a rule `deny task {file.name}` keeps others from it"
            )
        if file.is_disabled or file.name in disabled:
            # Of two of one name the first counts, also with this.
            disabled.add(file.name)
            return None
        if file.name in agents:
            raise AgentFileError(f"{agents[file.name].path} has that name already")
        if len(agents) == MAX_AGENTS:
            raise AgentFileError(f"there are {MAX_AGENTS} agents already")
    except (AgentFileError, OSError) as error:
        problems.append((str(path), _error_text(error)))
        return None
    return file


def drop_unknown_models(loaded: LoadedAgents, check: Callable[[str], object]) -> LoadedAgents:
    """Drop models for which *check* raises `ConfigError`, with a warning. Not a checkpoint."""
    agents: list[LoadedAgent] = []
    for agent in loaded.agents:
        model = agent.config.model
        try:
            if model is not None:
                check(model)
            agents.append(agent)
        except ConfigError as error:
            warning = f"the model {model!r}: {error}: it uses its caller's model"
            config = attrs.evolve(agent.config, model=None)
            agents.append(attrs.evolve(agent, config=config, warnings=(*agent.warnings, warning)))
    return attrs.evolve(loaded, agents=tuple(agents))


def agent_sources(config: Config, loaded: LoadedAgents) -> dict[str, str]:
    """Return where each agent is defined, for people: built in, a file, or *config* as it was before `merge_into`."""
    files = {agent.name: str(agent.path) for agent in loaded.agents}
    configured = dict.fromkeys(config.agents, config.source or "the configuration")
    return {**dict.fromkeys(BUILT_IN, "built in"), **files, **configured}


def _keep_deny_bounds(one: AgentFile) -> tuple[AgentConfig, tuple[str, ...]]:
    """Return a project's agent, without rules that would lift the bounds of a built-in agent; and warnings about those.

    Otherwise a cloned repository could redefine the planning agent as one that edits.
    """
    if one.name not in BUILT_IN or not BUILT_IN[one.name].bounds:
        return one.config, ()
    kept = tuple(rule for rule in one.config.bounds if rule.action == "deny")
    lifted = (
        f"the bound '{rule}' is ignored: it came with a project" for rule in one.config.bounds if rule not in kept
    )
    return attrs.evolve(one.config, bounds=kept), tuple(lifted)


def _without_allowances(config: AgentConfig) -> tuple[AgentConfig, tuple[str, ...]]:
    """Return a plugin's agent without rules that allow, and warnings about those: an agent's rules are above the user's."""
    rules = tuple(rule for rule in config.rules if rule.action != "allow")
    bounds = tuple(rule for rule in config.bounds if rule.action == "deny")
    lifted = (rule for rule in (*config.rules, *config.bounds) if rule not in {*rules, *bounds})
    warnings = tuple(f"the rule '{rule}' is ignored: it came with a plugin" for rule in lifted)
    return attrs.evolve(config, rules=rules, bounds=bounds), warnings


def _unknown_tools(config: AgentConfig, tools: Sequence[str]) -> Iterator[str]:
    unknown = [name for name in config.tools or () if name not in tools] if tools else []
    if unknown:
        yield f"there is no tool {', '.join(unknown)} here: it works without"


def _files(place: AgentFolder, problems: list[tuple[str, str]]) -> list[Path]:
    """Return the Markdown files of a folder and its subfolders, sorted."""
    paths: list[Path] = []
    try:
        real = Path(os.path.realpath(place.folder))
        if place.within is not None and not real.is_relative_to(os.path.realpath(place.within)):
            raise ValueError("it leads out of the project by a link")
        for folder, names, files in os.walk(real):
            depth = len(Path(folder).relative_to(real).parts)
            # `os.walk` skips the folders that are removed from this list.
            names[:] = sorted(n for n in names if not n.startswith(".") and depth + 1 < _MAX_DEPTH)
            paths += [Path(folder, name) for name in sorted(files) if name.endswith(".md") and not name.startswith(".")]
            if len(paths) > _MAX_ENTRIES:
                raise ValueError(f"it holds more than {_MAX_ENTRIES:,} files")
    except (OSError, ValueError) as error:
        problems.append((str(place.folder), _error_text(error)))
        return []
    return paths


def _read(path: Path, place: AgentFolder) -> AgentFile:
    from engine.agents.markdown_file import AgentFileError, parse_agent

    # Also within the project: a link and its target would be one agent with two names.
    if path.is_symlink():
        raise AgentFileError("it is a link: name the folder that it really is in, or copy it")
    # Non-blocking: it may be a pipe without a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise AgentFileError("it is no regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise AgentFileError(f"it is larger than {MAX_BYTES:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise AgentFileError(f"it is not UTF-8 (byte {error.start:,})") from error
    return parse_agent(text, path.stem, str(path), is_project=place.within is not None)


def _error_text(error: BaseException) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
