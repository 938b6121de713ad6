"""Read the user's configuration file: TOML, validated strictly, into a `Config`.

The file is the one that `--config` or `$ENGINE_CONFIG` names, or the one in the
user's configuration folder. A file in the working directory is never read: it may have come with a repository, and
could send keys to another server.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import attrs

from engine.config.agent_config import AgentConfig, Mode
from engine.config.config import CompactionConfig, Config, Defaults, HostConfig, ModelConfig, Prices, suggest_names
from engine.config.formatter_config import DEFAULT_MEMORY, DEFAULT_TIMEOUT, FileProgram
from engine.config.instruction_config import MAX_BYTES, NAMES, Instructions
from engine.config.sandbox_config import SECRETS, BackendSetting, Sandbox
from engine.core.arguments import structure
from engine.core.errors import ConfigError, InvalidArguments
from engine.core.llm_types import CacheLifetime, Effort, ModelOptions
from engine.permission.rules.rule_file import Permissions, parse_rule, read_permissions
from engine.providers.auth.auth_file import AuthFile
from engine.providers.hosts.host_config import host_named

VARIABLE = "ENGINE_CONFIG"
_SECTIONS = (
    "hosts",
    "models",
    "agents",
    "defaults",
    "compaction",
    "hooks",
    "formatters",
    "checkers",
    "permissions",
    "sandbox",
    "programs",
    "instructions",
    "skills",
    "environment",
)
# Names under which users may try to put an API key into this file. Keys belong in the environment.
_KEY_WORDS = frozenset({"api_key", "apikey", "api-key", "key_value", "token", "secret", "password"})

T = TypeVar("T", bound=attrs.AttrsInstance)
V = TypeVar("V")


@attrs.frozen(kw_only=True)
class _HostTable:
    like: str | None = None
    title: str | None = None
    base_url: str | None = None
    wire: str | None = None
    key: str | None = None
    key_command: tuple[str, ...] = ()
    auth: str | None = None
    path: str | None = None
    headers: dict[str, str] = attrs.field(factory=dict[str, str])
    quirks: dict[str, str | bool | int | float | tuple[str, ...]] = attrs.field(
        factory=dict[str, str | bool | int | float | tuple[str, ...]]
    )
    parallel: int | None = None
    local: bool | None = None


@attrs.frozen(kw_only=True)
class _SandboxTable:
    backend: str = "bwrap"
    network: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] | None = None


@attrs.frozen(kw_only=True)
class _InstructionsTable:
    names: tuple[str, ...] = NAMES
    files: tuple[str, ...] = ()
    urls: dict[str, str] = attrs.field(factory=dict[str, str])
    max_bytes: int = MAX_BYTES
    sub_agents: bool = False


@attrs.frozen(kw_only=True)
class _SkillsTable:
    folders: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class _EnvironmentTable:
    pass_env: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class _OptionsTable:
    effort: str | None = None
    temperature: float | None = None
    output_cap: int | None = None
    cache: str | None = None

    @property
    def options(self) -> ModelOptions:
        """The options; `ModelOptions` validates the values."""
        return ModelOptions(
            effort=cast("Effort | None", self.effort),
            temperature=self.temperature,
            output_cap=self.output_cap,
            cache=cast("CacheLifetime | None", self.cache),
        )


@attrs.frozen(kw_only=True)
class _ModelTable(_OptionsTable):
    same_as: str | None = None
    context: int | None = None
    output: int | None = None
    prices: Prices = Prices()
    fallback: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class _AgentTable(_OptionsTable):
    description: str = ""
    mode: str | None = None
    hidden: bool = False
    model: str | None = None
    fallback: tuple[str, ...] | None = None
    system: str | None = None
    rules: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    steps: int | None = None
    seconds: float | None = None
    cost: float | None = None


@attrs.frozen(kw_only=True)
class _ProgramTable:
    command: tuple[str, ...]
    patterns: tuple[str, ...]
    timeout: float = DEFAULT_TIMEOUT
    memory: int = DEFAULT_MEMORY


def load_config(path: str | Path | None, env: Mapping[str, str]) -> Config:
    """Read the user's configuration; an empty `Config` if there is no file. Not a checkpoint.

    Args:
        path: the file; None: the one that `$ENGINE_CONFIG` names, or the default one.
        env: the environment.

    Raises:
        ConfigError: a file that was named can't be read, or the content is invalid.
    """
    named = path or env.get(VARIABLE, "").strip()
    try:
        file = Path(named).expanduser() if named else usual_path()
    except RuntimeError as error:  # `~name` of an unknown user
        raise ConfigError(f"can't read the configuration file {named}: {error}") from error
    auth_file = str(AuthFile.default().path)
    try:
        text = file.read_bytes()
    except FileNotFoundError as error:
        if named:
            raise ConfigError(f"the configuration file {file} does not exist") from error
        return Config(auth_file=auth_file)
    except OSError as error:
        raise ConfigError(f"can't read the configuration file {file}: {error.strerror}") from error
    return attrs.evolve(read_config(text, str(file)), auth_file=auth_file)


def usual_path() -> Path:
    """Return the default path of the user's configuration file."""
    # Imported here: not needed when a file is named.
    from platformdirs import user_config_path

    return user_config_path("engine", appauthor=False) / "config.toml"


def read_config(text: bytes, source: str) -> Config:
    """Parse *text*, a TOML document; *source* names it in errors. Raises `ConfigError`."""
    try:
        document = tomllib.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source} is not UTF-8") from error
    except ValueError as error:  # also raised for numbers with too many digits
        raise ConfigError(f"{source} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{source} is nested too deeply") from error
    for section in document:
        if section not in _SECTIONS:
            raise ConfigError(f"{source}: unknown section [{section}]: {suggest_names(section, _SECTIONS)}")
    reader = _Reader(source, document)
    permissions = _permissions(document, text.decode("utf-8"), source)
    config = reader.made(
        "",
        lambda: Config(
            hosts=dict(reader.tables("hosts", _HostTable, _host)),
            models=dict(reader.tables("models", _ModelTable, _model)),
            agents=dict(reader.tables("agents", _AgentTable, _agent)),
            defaults=reader.table("[defaults]", document.get("defaults", {}), Defaults),
            compaction=reader.table("[compaction]", document.get("compaction", {}), CompactionConfig),
            hooks=_hooks(document),
            formatters=dict(reader.tables("formatters", _ProgramTable, _program)),
            checkers=dict(reader.tables("checkers", _ProgramTable, _program)),
            profile=permissions.profile,
            rules=permissions.rules,
            sandbox=_sandbox(reader),
            programs=_programs(reader),
            instructions=_instructions(reader),
            skills=reader.table("[skills]", document.get("skills", {}), _SkillsTable).folders,
            pass_env=reader.table("[environment]", document.get("environment", {}), _EnvironmentTable).pass_env,
            source=source,
        ),
    )
    for name in config.hosts:
        reader.made(f"[hosts.{_quoted(name)}]", partial(host_named, name, config))
    return config


def _hooks(document: Mapping[str, object]) -> Mapping[str, object]:
    """Return the section with hooks, validated. Raises `ConfigError`."""
    if "hooks" not in document:
        return {}
    # Imported here: most configurations have none.
    from engine.tools.claude_hooks.load import check_hooks

    check_hooks({"hooks": document["hooks"]})
    return cast("Mapping[str, object]", document["hooks"])


def _permissions(document: Mapping[str, object], text: str, source: str) -> Permissions:
    """Return the section with rules. Raises `ConfigError`."""
    if "permissions" not in document:
        return Permissions()
    return read_permissions(document["permissions"], text, source)


def _sandbox(reader: _Reader) -> Sandbox | None:
    """Return the sandbox for commands. Raises `ConfigError`."""
    if "sandbox" not in reader.document:
        return None
    table = reader.table("[sandbox]", reader.document["sandbox"], _SandboxTable)
    hidden = SECRETS if table.hidden is None else table.hidden
    return reader.made(
        "[sandbox]",
        lambda: Sandbox(
            backend=cast("BackendSetting", table.backend), network=table.network, writable=table.writable, hidden=hidden
        ),
    )


def _programs(reader: _Reader) -> Mapping[str, object] | None:
    """Return the tables of programs, validated. Raises `ConfigError`."""
    if "programs" not in reader.document:
        return None
    tables = reader.document["programs"]
    if not isinstance(tables, dict):
        raise ConfigError(f"{reader.source}: programs must contain tables: [programs.NAME]")
    # Imported here: the table holds some 700 programs, and most configurations add none.
    from engine.permission.programs.program_registry import extend_registry

    programs = cast("dict[str, object]", tables)
    reader.made("[programs]", lambda: extend_registry(programs))
    return programs


def _instructions(reader: _Reader) -> Instructions:
    """Return which files hold instructions. Raises `ConfigError`."""
    table = reader.table("[instructions]", reader.document.get("instructions", {}), _InstructionsTable)
    return reader.made("[instructions]", lambda: Instructions(**attrs.asdict(table, recurse=False)))


def _host(table: _HostTable) -> HostConfig:
    values = attrs.asdict(table, recurse=False)
    return HostConfig(**values)


def _model(table: _ModelTable) -> ModelConfig:
    # By name, since the table holds the options as well, next to the model's fields.
    return ModelConfig(
        same_as=table.same_as,
        context=table.context,
        output=table.output,
        prices=table.prices,
        options=table.options,
        fallback=table.fallback,
    )


def _agent(table: _AgentTable) -> AgentConfig:
    return AgentConfig(
        description=table.description,
        mode=cast("Mode", "all" if table.mode is None else table.mode),
        hidden=table.hidden,
        model=table.model,
        options=table.options,
        fallback=table.fallback,
        system=table.system,
        rules=tuple(parse_rule(rule, "the agent's own") for rule in table.rules),
        bounds=tuple(parse_rule(rule, "the agent's bounds") for rule in table.bounds),
        tools=table.tools,
        without=table.without,
        steps=table.steps,
        seconds=table.seconds,
        cost=table.cost,
    )


def _program(table: _ProgramTable) -> FileProgram:
    return FileProgram(command=table.command, patterns=table.patterns, timeout=table.timeout, memory=table.memory)


@attrs.frozen
class _Reader:
    """Reads tables; its errors name the file and the section."""

    source: str
    document: Mapping[str, object]

    def tables(self, section: str, shape: type[T], make: Callable[[T], V]) -> Iterator[tuple[str, V]]:
        """Convert each table of a section; yield the results by name."""
        tables = self.document.get(section, {})
        if not isinstance(tables, dict):
            raise ConfigError(f"{self.source}: {section} must contain tables: [{section}.NAME]")
        for name, value in cast("dict[str, object]", tables).items():
            where = f"[{section}.{_quoted(name)}]"
            table = self.table(where, value, shape)
            yield name, self.made(where, partial(make, table))

    def table(self, where: str, value: object, shape: type[T]) -> T:
        """Convert a table to *shape*."""
        if not isinstance(value, dict):
            raise ConfigError(f"{self.source}, {where}: must be a table, not {type(value).__name__}")
        values = cast("dict[str, object]", value)
        if any(_is_date(each) for each in _leaves(values)):
            raise ConfigError(f"{self.source}, {where}: contains a date or time; quote it if it is text")
        try:
            return structure(shape, values)
        except InvalidArguments as error:
            advice = "\nkeys belong in the environment: `key` names the variable" if _KEY_WORDS & values.keys() else ""
            # TOML has no null, which the schema of an optional field allows.
            message = str(error).replace(" or null", "")
            raise ConfigError(f"{self.source}, {where}: {message}{advice}") from error

    def made(self, where: str, make: Callable[[], V]) -> V:
        """Return what *make* returns; add the file and section to its errors."""
        try:
            return make()
        except ConfigError as error:
            if str(error).startswith(self.source):
                raise
            raise ConfigError(f"{self.source}{f', {where}' if where else ''}: {error}") from error


def _quoted(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else f'"{name}"'


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for each in cast("dict[str, object]", value).values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _leaves(each)
    else:
        yield value


def _is_date(value: object) -> bool:
    return isinstance(value, (dt.date, dt.time))
