"""The tables of the configuration file as they are written, and what is made from them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import attrs

from engine.config.agent_config import AgentConfig, Mode
from engine.config.config import HostConfig, ModelConfig, Prices
from engine.config.formatter_config import DEFAULT_MEMORY, DEFAULT_TIMEOUT, FileProgram
from engine.config.instruction_config import MAX_BYTES, NAMES
from engine.config.language_server_config import SERVER_MEMORY, LanguageServer, Setting
from engine.config.mcp_config import (
    CALL_LIMIT,
    CALL_TIMEOUT,
    IDLE_TIMEOUT,
    REQUIRED_WAIT,
    McpOrigin,
    McpServer,
    McpToolLimits,
)
from engine.core.errors import ConfigError
from engine.core.llm_types import CacheLifetime, Effort, ModelOptions
from engine.core.value_base import Value
from engine.permission.rules.profiles import DEFAULT
from engine.permission.rules.rule_file import parse_rule


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HostTable(Value):
    """`[hosts.NAME]`."""

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
    silence: float | None = None
    local: bool | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionsTable(Value):
    """`[permissions]`; `engine.permission.rules.rule_file` reads it."""

    profile: str = DEFAULT
    rules: tuple[str, ...] = ()
    ask_after: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SandboxTable(Value):
    """`[sandbox]`."""

    backend: str = "bwrap"
    network: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InstructionsTable(Value):
    """`[instructions]`."""

    names: tuple[str, ...] = NAMES
    files: tuple[str, ...] = ()
    urls: dict[str, str] = attrs.field(factory=dict[str, str])
    max_bytes: int = MAX_BYTES
    sub_agents: bool = False


# What a plugin's own table may hold.
PluginValue = str | int | float | bool | tuple[str, ...]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PluginsTable(Value):
    """`[plugins]`."""

    disabled: tuple[str, ...] = ()
    override: tuple[str, ...] = ()
    isolated: bool = False
    settings: dict[str, dict[str, PluginValue]] = attrs.field(factory=dict[str, dict[str, PluginValue]])


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SkillsTable(Value):
    """`[skills]`."""

    folders: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class EnvironmentTable(Value):
    """`[environment]`."""

    pass_env: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OptionsTable(Value):
    """What the tables of models and agents share."""

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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelTable(OptionsTable):
    """`[models."host/model"]`."""

    same_as: str | None = None
    context: int | None = None
    output: int | None = None
    prices: Prices = Prices()
    fallback: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AgentTable(OptionsTable):
    """`[agents.NAME]`."""

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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProgramTable(Value):
    """`[formatters.NAME]` and `[checkers.NAME]`."""

    command: tuple[str, ...]
    patterns: tuple[str, ...]
    timeout: float = DEFAULT_TIMEOUT
    memory: int = DEFAULT_MEMORY


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LanguageServerTable(Value):
    """`[language_servers.NAME]`."""

    command: tuple[str, ...]
    patterns: tuple[str, ...]
    language: str = ""
    root_files: tuple[str, ...] = ()
    env: dict[str, str] = attrs.field(factory=dict[str, str])
    initialization_options: dict[str, Setting] = attrs.field(factory=dict[str, Setting])
    settings: dict[str, Setting] = attrs.field(factory=dict[str, Setting])
    memory: int = SERVER_MEMORY


@attrs.frozen(kw_only=True, eq=False, repr=False)
class McpToolTable(Value):
    """`[mcp.servers.NAME.tools.TOOL]`."""

    call_timeout: float | None = None
    call_limit: float | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class McpServerTable(Value):
    """`[mcp.servers.NAME]`."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = attrs.field(factory=dict[str, str])
    folder: str = ""
    url: str = ""
    headers: dict[str, str] = attrs.field(factory=dict[str, str])
    call_timeout: float = CALL_TIMEOUT
    call_limit: float = CALL_LIMIT
    tools: dict[str, McpToolTable] = attrs.field(factory=dict[str, McpToolTable])
    oauth: bool = True
    skills: tuple[str, ...] = ()
    per_session: bool = False
    idle_timeout: float = IDLE_TIMEOUT
    enabled: bool = True


@attrs.frozen(kw_only=True, eq=False, repr=False)
class McpTable(Value):
    """`[mcp]`."""

    required: tuple[str, ...] = ()
    required_wait: float = REQUIRED_WAIT
    servers: dict[str, McpServerTable] = attrs.field(factory=dict[str, McpServerTable])


def make_mcp_server(table: McpServerTable, origin: McpOrigin) -> McpServer:
    """Return the server. Raises `ConfigError`."""
    if table.args and not table.command:
        raise ConfigError("args belong to a command")
    return McpServer(
        command=(table.command, *table.args) if table.command else (),
        env=table.env,
        folder=table.folder and str(Path(table.folder).expanduser()),
        url=table.url,
        headers=table.headers,
        call_timeout=table.call_timeout,
        call_limit=table.call_limit,
        tools={
            name: McpToolLimits(call_timeout=tool.call_timeout, call_limit=tool.call_limit)
            for name, tool in table.tools.items()
        },
        oauth=table.oauth,
        origin=origin,
        skills=table.skills,
        per_session=table.per_session,
        idle_timeout=table.idle_timeout,
    )


def make_language_server(table: LanguageServerTable) -> LanguageServer:
    """Return the server. Raises `ConfigError`."""
    command = (str(Path(table.command[0]).expanduser()), *table.command[1:]) if table.command else ()
    values = attrs.asdict(table, recurse=False)
    values["command"] = command
    return LanguageServer(**values)


def make_host(table: HostTable) -> HostConfig:
    """Return the host. Raises `ConfigError`."""
    values = attrs.asdict(table, recurse=False)
    return HostConfig(**values)


def make_model(table: ModelTable) -> ModelConfig:
    """Return the model. Raises `ConfigError`."""
    # By name, since the table holds the options as well, next to the model's fields.
    return ModelConfig(
        same_as=table.same_as,
        context=table.context,
        output=table.output,
        prices=table.prices,
        options=table.options,
        fallback=table.fallback,
    )


def make_agent(table: AgentTable) -> AgentConfig:
    """Return the agent. Raises `ConfigError`."""
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


def make_program(table: ProgramTable) -> FileProgram:
    """Return the program. Raises `ConfigError`."""
    return FileProgram(command=table.command, patterns=table.patterns, timeout=table.timeout, memory=table.memory)
