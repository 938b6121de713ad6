"""The user's configuration: hosts, models, agents and more.

`engine.settings_file` reads it from a file. A program that embeds the engine may build a `Config` in code instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, get_args

import attrs

from engine.config.agent_config import AgentConfig as AgentConfig  # noqa: PLC0414  # it is one of the values here
from engine.config.builtin_agents import BUILT_IN
from engine.config.chat_config import ChatConfig
from engine.config.formatter_config import FileProgram
from engine.config.host_values import AuthKind, WireName
from engine.config.instruction_config import Instructions
from engine.config.language_server_config import LanguageServer
from engine.config.mcp_config import McpConfig
from engine.config.plugin_config import PluginFolders, PluginOptions
from engine.config.rule_layers import RuleLayers
from engine.config.sandbox_config import Sandbox
from engine.config.store_config import StoreConfig
from engine.config.telemetry_config import TelemetryConfig
from engine.core.errors import ConfigError
from engine.core.llm_types import ModelOptions
from engine.core.permission_types import Rule
from engine.core.value_base import Value

# Texts, which `re` compiles when they are first used: most engines are configured without what they check.
_HOST_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_AGENT_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
# Upper case only: a name in lower case might be a key that was pasted by mistake.
_VARIABLE = r"[A-Z_][A-Z0-9_]{0,63}"
# A name, and not a pattern or `NAME=value`.
_PASSED = r"[A-Za-z_][A-Za-z0-9_]*"
_KEY_HEADERS = r"(?i)authorization|cookie|(.*[-_])?(api[-_]?key|token|secret|password)"

# HTTP header names, except those that delimit a request.
_HEADER = r"(?i)(?!(?:content-length|transfer-encoding|connection)$)[A-Za-z0-9!#$%&'*+.^_`|~-]+"

_KEYS_BELONG = "keys belong in environment variables, not in a file that is backed up or committed"

# The values of quirks; `engine.providers.wire.quirks` defines them.
QuirkValue = str | bool | int | float | tuple[str, ...] | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HostConfig(Value):
    """A host that the user adds, or changes to a built-in host.

    Attributes:
        like: the built-in host whose settings are the defaults.
        title: its display name.
        base_url: its base URL.
        wire: its wire format.
        key: the environment variable with its API key; `""`: it needs none.
        key_command: a program that prints the API key, and its arguments; used if nothing else has the key.
        auth: how the key is sent.
        path: the request's path below the base URL, if not the default.
        headers: additional headers; `$NAME` is replaced by that environment variable, and kept secret.
        quirks: deviations from the wire format, by the names in `engine.providers.wire.quirks`.
        parallel: the maximum number of concurrent requests; 0: no limit.
        silence: for how many seconds it may send nothing.
        local: it runs on this machine, and may not be running.
    """

    like: str | None = None
    title: str | None = None
    base_url: str | None = None
    wire: WireName | None = None
    key: str | None = None
    key_command: tuple[str, ...] = ()
    auth: AuthKind | None = None
    path: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    quirks: Mapping[str, QuirkValue] = attrs.field(factory=dict[str, QuirkValue])
    parallel: int | None = None
    silence: float | None = None
    local: bool | None = None

    def __attrs_post_init__(self) -> None:
        for name, allowed in (("wire", get_args(WireName)), ("auth", get_args(AuthKind))):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        self._check_keys()
        if self.key_command and not self.key_command[0]:
            raise ConfigError("key_command must begin with the name of a program")
        if self.path and not self.path.startswith("/"):  # without the slash it would become part of the host's name
            raise ConfigError(f"path must begin with '/', not {self.path!r}")
        if self.parallel is not None and self.parallel < 0:
            raise ConfigError(f"parallel must be a whole number, 0 for no limit, not {self.parallel}")
        if self.silence is not None and not 0 < self.silence < math.inf:
            raise ConfigError(f"silence must be a number of seconds above 0, not {self.silence}")

    def _check_keys(self) -> None:
        """Raise `ConfigError` if a field holds a key instead of the name of its variable. The key is not printed."""
        if self.key and not re.fullmatch(_VARIABLE, self.key):
            raise ConfigError(f"key must be the name of a variable: {_KEYS_BELONG}")
        for name, value in self.headers.items():
            if not re.fullmatch(_HEADER, name) or not (value.isascii() and value.isprintable()):
                raise ConfigError(f"header {name!r} has an invalid name or value")
            if re.fullmatch(_KEY_HEADERS, name) and not re.fullmatch(_VARIABLE, value.removeprefix("$")):
                raise ConfigError(f"header {name} must be '$' and the name of a variable: {_KEYS_BELONG}")
        if self.base_url and "@" in self.base_url:
            raise ConfigError(f"base_url holds a password: {_KEYS_BELONG}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Prices(Value):
    """Prices of a million tokens; None: those of the catalogue."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None

    def __attrs_post_init__(self) -> None:
        for field in attrs.fields(Prices):
            value = getattr(self, field.name)
            if value is not None and not value >= 0:
                raise ConfigError(f"prices.{field.name} must be a number of at least 0, not {value!r}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelConfig(Value):
    """Changes to a model's settings.

    Attributes:
        same_as: the model, `host/model`, that it really is, for a deployment with a name of its own: limits, prices and
            family are taken from there.
        context: the size of the context window in tokens.
        output: the maximum number of tokens in an answer.
        prices: per million tokens.
        options: its model options.
        fallback: models to switch to, in order, when this one fails permanently.
    """

    same_as: str | None = None
    context: int | None = None
    output: int | None = None
    prices: Prices = Prices()
    options: ModelOptions = ModelOptions()
    fallback: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        for name in ("context", "output"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be a whole number above 0, not {value}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompactionConfig(Value):
    """The settings of compaction.

    Attributes:
        auto: compact before the window is full; otherwise a request that is too large ends the turn.
        model: the model that writes summaries; None: the session's own.
        clear: clear old results first, and do no more if that is enough.
        reserve: tokens of the window to keep free; None: the default.
        tail: tokens of the newest messages that a summary leaves unchanged; None: the default.
    """

    auto: bool = True
    model: str | None = None
    clear: bool = True
    reserve: int | None = None
    tail: int | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("reserve", "tail"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} must be a whole number of tokens, not {value}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Defaults(Value):
    """The defaults.

    Attributes:
        model: the model.
        agent: the agent.
        titles: the model that writes session titles; None: none are written.
        max_steps: the most requests of a task; None: no limit, here and below.
        max_tokens: the most tokens.
        max_cost: the most dollars.
        max_seconds: the longest time.
        headless_cost: the most dollars of a task that no user watches, unless another limit is set; 0: no limit.
    """

    model: str | None = None
    agent: str | None = None
    titles: str | None = None
    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    headless_cost: float = 10.0

    def __attrs_post_init__(self) -> None:
        for name in ("max_steps", "max_tokens", "max_cost", "max_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} must be a number above 0, not {value!r}")
        if not self.headless_cost >= 0:
            raise ConfigError(f"headless_cost must be a number of at least 0, not {self.headless_cost!r}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Config(Value):
    """The user's configuration.

    Precedence: a flag overrides the agent, the agent overrides the model, the model
    overrides its host.

    Attributes:
        hosts: by name.
        models: by name, `host/model`.
        agents: by name; the name of a built-in agent changes that agent.
        defaults: the defaults.
        compaction: the settings of compaction.
        hooks: command hooks, as `engine.tools.claude_hooks.load.load_hooks` takes them.
        formatters: programs that format a file before a tool writes it, in order.
        checkers: programs that check a file after a tool has changed it.
        language_servers: by name; they are asked for the errors in files that a tool has changed.
        profile: the permission profile, for calls that no rule matches; None: not set.
        rules: the permission rules.
        rule_layers: the permission rules of other files, and the administrator's limits.
        sandbox: the sandbox for commands; None: no sandbox.
        mcp: the MCP servers; `engine.mcp.McpServers` runs them.
        programs: how programs read their arguments, by name, in the form that
            `engine.permission.programs.program_registry` expects.
        instructions: which files hold instructions for the agent.
        skills: further folders with skills.
        plugins: the plugins, with their folders of skills, commands and agents.
        plugin_options: which plugins are not loaded, and what others may do.
        pass_env: variables of the environment that processes of tools get although they hold secrets.
        chat: the settings of the chat in the terminal.
        telemetry: where traces and metrics go.
        store: how a database with sessions is shared with other engines.
        keys: the keys of actions in the chat that are not the default ones, as `engine.config.chat_keys` takes them.
        source: the file it was read from; empty: none.
        auth_file: the file with the keys that `engine auth add` has stored; empty: none is used.
    """

    hosts: Mapping[str, HostConfig] = attrs.field(factory=dict[str, HostConfig])
    models: Mapping[str, ModelConfig] = attrs.field(factory=dict[str, ModelConfig])
    agents: Mapping[str, AgentConfig] = attrs.field(factory=dict[str, AgentConfig])
    defaults: Defaults = Defaults()
    compaction: CompactionConfig = CompactionConfig()
    hooks: Mapping[str, object] = attrs.field(factory=dict[str, object])
    formatters: Mapping[str, FileProgram] = attrs.field(factory=dict[str, FileProgram])
    checkers: Mapping[str, FileProgram] = attrs.field(factory=dict[str, FileProgram])
    language_servers: Mapping[str, LanguageServer] = attrs.field(factory=dict[str, LanguageServer])
    profile: str | None = None
    rules: tuple[Rule, ...] = ()
    rule_layers: RuleLayers = RuleLayers()
    sandbox: Sandbox | None = None
    mcp: McpConfig = McpConfig()
    programs: Mapping[str, object] | None = None
    instructions: Instructions = attrs.field(factory=Instructions)
    skills: tuple[str, ...] = ()
    plugins: tuple[PluginFolders, ...] = ()
    plugin_options: PluginOptions = PluginOptions()
    pass_env: tuple[str, ...] = ()
    chat: ChatConfig = ChatConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    store: StoreConfig = StoreConfig()
    keys: Mapping[str, object] = attrs.field(factory=dict[str, object])
    source: str = ""
    auth_file: str = ""

    def __attrs_post_init__(self) -> None:
        for name in self.hosts:
            if not re.fullmatch(_HOST_NAME, name):
                raise ConfigError(f"a host's name must consist of letters, digits, '.', '-' and '_', not {name!r}")
        for name in self.agents:
            if not re.fullmatch(_AGENT_NAME, name):
                raise ConfigError(f"an agent's name must consist of at most 64 letters, digits, - and _, not {name!r}")
        for name in (*self.models, *_models_named(self)):
            if "/" not in name.strip("/") and not name.startswith("local:"):
                raise ConfigError(f"a model's name must have the form host/model, not {name!r}")
        for variable in self.pass_env:
            if not re.fullmatch(_PASSED, variable):
                raise ConfigError(f"pass_env names variables, such as 'GH_TOKEN', not {variable!r}")
        if self.defaults.agent is not None:
            self.check_primary(None)

    @property
    def key_variables(self) -> frozenset[str]:
        """The variables that hold the keys of the hosts configured here; their names do not matter."""
        hosts = self.hosts.values()
        in_headers = {value[1:] for host in hosts for value in host.headers.values() if value.startswith("$")}
        return frozenset({host.key for host in hosts if host.key} | in_headers)

    def agent(self, name: str | None) -> AgentConfig:
        """Return the agent *name*; for None, the default agent, or one without settings. Raises `ConfigError`."""
        name = name or self.defaults.agent
        if name is None:
            return AgentConfig()
        agent = self.all_agents.get(name)
        if agent is None:
            hint = suggest_names(name, self.all_agents)
            nearest = nearest_name(name, self.all_agents)
            raise ConfigError(f"unknown agent {name!r}: {hint}", field="agent", nearest=nearest)
        return agent

    def check_primary(self, name: str | None) -> None:
        """Raise `ConfigError` if there is no agent *name*, or it can only be a sub-agent."""
        if self.agent(name).mode == "subagent":
            raise ConfigError(f"the agent {name or self.defaults.agent!r} can only be used as a sub-agent")

    @property
    def all_agents(self) -> Mapping[str, AgentConfig]:
        """All agents by name, sorted: the built-in ones with the user's changes, and the user's own."""
        own = self.agents
        both = {name: own[name].over(base) if name in own else base for name, base in BUILT_IN.items()}
        return dict(sorted((both | {name: one for name, one in own.items() if name not in BUILT_IN}).items()))

    def model_for(self, agent: str | None = None) -> str | None:
        """Return the model of an agent; None: not set."""
        return self.agent(agent).model or self.defaults.model

    def options_for(self, model: str, agent: str | None = None) -> ModelOptions:
        """Return the options of *model* for *agent*. The caller puts flags `over` them."""
        return self.agent(agent).options.over(self.models.get(model, ModelConfig()).options)

    def chain(self, model: str, agent: str | None = None) -> tuple[str, ...]:
        """Return *model* and its fallbacks, without duplicates. Fallbacks of a fallback are ignored."""
        fallback = self.agent(agent).fallback
        if fallback is None:
            fallback = self.models.get(model, ModelConfig()).fallback
        return tuple(dict.fromkeys((model, *fallback)))


def _models_named(config: Config) -> Iterable[str]:
    yield from filter(None, (config.defaults.model, config.defaults.titles, config.compaction.model))
    for agent in config.agents.values():
        yield from agent.fallback or ()
        if agent.model:
            yield agent.model
    for model in config.models.values():
        yield from model.fallback
        if model.same_as:
            yield model.same_as


# What a line of a terminal holds.
_MOST_NAMES: Final = 6


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return the most similar of *names*; empty: none is similar."""
    from difflib import get_close_matches

    return "".join(get_close_matches(name, sorted(names), n=1, cutoff=0.6))


def suggest_names(name: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown *name*: similar names, or the first of *names*."""
    names = sorted(names)
    # Imported here: needed only for errors.
    from difflib import get_close_matches

    if close := get_close_matches(name, names, n=3, cutoff=0.6):
        return f"did you mean {' or '.join(close)}?"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"known: {', '.join(names[:_MOST_NAMES])}{more}" if names else "none is configured"
