"""Agents in files: looked for in folders, each file read by itself, so that a broken one breaks no other.

Everything here blocks, so it runs at start-up, or in a thread.
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

if TYPE_CHECKING:
    from engine.agents.markdown_file import AgentFile

PROJECT_FOLDERS: Final = (".engine/agents", ".claude/agents", ".opencode/agents", ".opencode/agent")
MAX_AGENTS: Final = 200
MAX_BYTES: Final = 200_000
_MAX_ENTRIES: Final = 2_000
_MAX_DEPTH: Final = 3


@attrs.frozen(kw_only=True)
class AgentFolder:
    """A folder that may hold agents.

    Attributes:
        folder: where it is.
        within: the folder that links must not lead out of; None: no limit.
    """

    folder: Path
    within: Path | None = None


@attrs.frozen(kw_only=True)
class LoadedAgent:
    """An agent in a file.

    Attributes:
        name: what it is called.
        config: how it works.
        path: the file.
        warnings: about fields that are ignored.
    """

    name: str
    config: AgentConfig
    path: Path
    warnings: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class LoadedAgents:
    """Agents loaded from files.

    Attributes:
        agents: sorted by name.
        problems: why others can't be used, by the path of their file.
        not_trusted: folders of an untrusted project, which were not read.
    """

    agents: tuple[LoadedAgent, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    not_trusted: tuple[str, ...] = ()

    def merge_into(self, config: Config) -> Config:
        """Return a configuration with these; what it says itself of an agent goes before what a file says."""
        both = {agent.name: agent.config for agent in self.agents}
        for name, own in config.agents.items():
            both[name] = own.over(both[name]) if name in both else own
        return attrs.evolve(config, agents=both)

    @property
    def problems_and_warnings(self) -> Iterator[tuple[str, str]]:
        """Problems and warnings by path: of files that can't be used, and of those that can in part."""
        yield from self.problems
        for agent in self.agents:
            for warning in agent.warnings:
                yield str(agent.path), warning


def agent_folders(
    user: Iterable[Path], project: str, is_trusted: Callable[[str], bool]
) -> tuple[tuple[AgentFolder, ...], tuple[str, ...]]:
    """Return where agents are looked for, and the folders that hold some perhaps and are not trusted. It blocks.

    Args:
        user: the user's own folders, the one that counts most first.
        project: the project's folder, real; empty: there is none.
        is_trusted: tells whether that is trusted.
    """
    places = tuple(AgentFolder(folder=folder) for folder in user)
    root = Path(project)
    there = [root / name for name in PROJECT_FOLDERS if project and (root / name).is_dir()]
    if not there:
        return places, ()
    if not is_trusted(project):
        return places, tuple(map(str, there))
    return (*places, *(AgentFolder(folder=folder, within=root) for folder in there)), ()


def load_agents(
    places: Iterable[AgentFolder], *, tools: Sequence[str] = (), not_trusted: tuple[str, ...] = ()
) -> LoadedAgents:
    """Return the agents in these folders; of two of one name, the first. It blocks, and never fails.

    With *tools*, the names of the available tools, an agent with other tools gets a warning.
    """
    agents: dict[str, LoadedAgent] = {}
    disabled: set[str] = set()
    problems: list[tuple[str, str]] = []
    for place in places:
        for path in _files(place, problems):
            file = _load_one(path, place, agents, disabled, problems)
            if file is None:
                continue
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
    """Return the agents with models of hosts that are known: *check* raises `ConfigError` for any other. Not a checkpoint."""
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
    """Return where each agent comes from, by name: the *config* before what was found was added to it, a file, or nowhere."""
    files = {agent.name: str(agent.path) for agent in loaded.agents}
    configured = dict.fromkeys(config.agents, config.source or "the configuration")
    return {**dict.fromkeys(BUILT_IN, "built in"), **files, **configured}


def _keep_deny_bounds(one: AgentFile) -> tuple[AgentConfig, tuple[str, ...]]:
    """Return a project's agent without rules that lift the bounds of a built-in one, and the warnings about them."""
    if one.name not in BUILT_IN or not BUILT_IN[one.name].bounds:
        return one.config, ()
    kept = tuple(rule for rule in one.config.bounds if rule.action == "deny")
    lifted = (
        f"the bound '{rule}' is ignored: it came with a project" for rule in one.config.bounds if rule not in kept
    )
    return attrs.evolve(one.config, bounds=kept), tuple(lifted)


def _unknown_tools(config: AgentConfig, tools: Sequence[str]) -> Iterator[str]:
    unknown = [name for name in config.tools or () if name not in tools] if tools else []
    if unknown:
        yield f"there is no tool {', '.join(unknown)} here: it works without"


def _files(place: AgentFolder, problems: list[tuple[str, str]]) -> list[Path]:
    """Return the files of a folder and those below it, sorted."""
    paths: list[Path] = []
    try:
        real = Path(os.path.realpath(place.folder))
        if place.within is not None and not real.is_relative_to(os.path.realpath(place.within)):
            raise ValueError("it leads out of the project by a link")
        for folder, names, files in os.walk(real):
            depth = len(Path(folder).relative_to(real).parts)
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

    if path.is_symlink():
        raise AgentFileError("it is a link: name the folder that it really is in, or copy it")
    # Not blocking: it may be a pipe without a writer.
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
