"""What a user configures: hosts, models and agents of their own. Values; `config_file` reads them from a file.

A program that embeds the engine may build a `Config` in code instead, and need not have a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import get_args

import attrs

from engine.config.agent_config import AgentConfig as AgentConfig  # noqa: PLC0414  # it is one of the values here
from engine.config.builtin_agents import BUILT_IN
from engine.config.formatter_config import FileProgram
from engine.config.host_values import AuthKind, WireName
from engine.config.instruction_config import Instructions
from engine.config.sandbox_config import Sandbox
from engine.core.errors import ConfigError
from engine.core.llm_types import ModelOptions
from engine.core.permission_types import Rule

_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AGENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
# Lower case is allowed to a variable, but then it might as well be a key.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_KEY_HEADERS = re.compile(r"authorization|cookie|(.*[-_])?(api[-_]?key|token|secret|password)", re.IGNORECASE)

# As HTTP has them; those that say where a request ends are not the user's.
_HEADER = re.compile(r"(?!(?:content-length|transfer-encoding|connection)$)[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.IGNORECASE)

_KEYS_BELONG = "a key belongs in the environment, where no backup and no repository takes it along"

# What a quirk may be: `engine.providers.wire.quirks` says which one is what.
QuirkValue = str | bool | int | float | tuple[str, ...] | None


@attrs.frozen(kw_only=True)
class HostConfig:
    """A host of the user's own, or what is to be different about one that is known.

    Attributes:
        like: the known host it is like: what is not said here is as there.
        title: its name for people.
        base_url: where it is.
        wire: the wire format it speaks.
        key: the environment variable that holds its key; `""`: it needs none.
        auth: how the key is shown.
        path: the request's path below the base URL, if it is not the usual one.
        headers: to be sent besides; `$NAME` stands for what that environment variable holds, and is kept secret.
        quirks: what is particular, by the names in `engine.providers.wire.quirks`.
        parallel: requests at once, at most; 0: no limit.
        local: it runs on this machine and may not be running.
    """

    like: str | None = None
    title: str | None = None
    base_url: str | None = None
    wire: WireName | None = None
    key: str | None = None
    auth: AuthKind | None = None
    path: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    quirks: Mapping[str, QuirkValue] = attrs.field(factory=dict[str, QuirkValue])
    parallel: int | None = None
    local: bool | None = None

    def __attrs_post_init__(self) -> None:
        for name, allowed in (("wire", get_args(WireName)), ("auth", get_args(AuthKind))):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        # What may be a key must not be shown.
        if self.key and not _VARIABLE.fullmatch(self.key):
            raise ConfigError(f"key is the name of a variable: {_KEYS_BELONG}")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
                raise ConfigError(f"header {name!r} can't be sent: its name, or what it holds")
            if _KEY_HEADERS.fullmatch(name) and not _VARIABLE.fullmatch(value.removeprefix("$")):
                raise ConfigError(f"header {name} is the name of a variable after a '$': {_KEYS_BELONG}")
        if self.path and not self.path.startswith("/"):  # it would be a part of the host's name
            raise ConfigError(f"path must begin with '/', not {self.path!r}")
        if self.base_url and "@" in self.base_url:
            raise ConfigError(f"base_url holds a password: {_KEYS_BELONG}")
        if self.parallel is not None and self.parallel < 0:
            raise ConfigError(f"parallel must be a whole number, 0 for no limit, not {self.parallel}")


@attrs.frozen(kw_only=True)
class Prices:
    """What a million tokens cost; None: as the catalogue says."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None

    def __attrs_post_init__(self) -> None:
        for field in attrs.fields(Prices):
            value = getattr(self, field.name)
            if value is not None and not value >= 0:
                raise ConfigError(f"prices.{field.name} must be a number of at least 0, not {value!r}")


@attrs.frozen(kw_only=True)
class ModelConfig:
    """What is to be different about a model.

    Attributes:
        same_as: the name of the model it really is, `host/model`: limits, prices and family are that one's. For a
            deployment with a name of its own.
        context: tokens of the window.
        output: tokens of the longest answer.
        prices: per million tokens.
        options: how it is to work.
        fallback: models to go on with, one after the other, when this one fails for good.
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


@attrs.frozen(kw_only=True)
class CompactionConfig:
    """How room is made in a model's window.

    Attributes:
        auto: by itself, before it is full; else a request that is too large ends the turn.
        model: who writes summaries; None: the session's own model.
        clear: clear old results first, where that is enough.
        reserve: tokens of the window to keep free; None: the usual.
        tail: tokens of the end of the history that a summary leaves as they are; None: the usual.
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


@attrs.frozen(kw_only=True)
class Defaults:
    """What is used where nobody says otherwise.

    Attributes:
        model: the model.
        agent: the agent.
        titles: the model that gives sessions their titles; None: nobody does.
    """

    model: str | None = None
    agent: str | None = None
    titles: str | None = None


@attrs.frozen(kw_only=True)
class Config:
    """All that a user configures.

    What is asked for goes before it: a flag before the agent, the agent before the model,
    the model before its host.

    Attributes:
        hosts: by name.
        models: by name, `host/model`.
        agents: by name; one with the name of one that is built in says what is different about it.
        defaults: what is used where nobody says otherwise.
        compaction: how room is made in a model's window.
        hooks: commands at fixed points, as `engine.tools.claude_hooks.load.load_hooks` takes them.
        formatters: programs that put a file into shape before a tool writes it, run in their order.
        checkers: programs that tell what is wrong in a file after a tool has changed it.
        profile: what may be done where no rule says otherwise; None: nobody picks one.
        rules: what may be done, and what may not.
        sandbox: where commands run; None: in no sandbox.
        programs: how programs read their arguments, by name, as `engine.permission.programs.registry.knowledge_of` takes them.
        instructions: which files hold instructions for the agent.
        skills: further folders with skills.
        source: the file it is from, for people; empty: none.
    """

    hosts: Mapping[str, HostConfig] = attrs.field(factory=dict[str, HostConfig])
    models: Mapping[str, ModelConfig] = attrs.field(factory=dict[str, ModelConfig])
    agents: Mapping[str, AgentConfig] = attrs.field(factory=dict[str, AgentConfig])
    defaults: Defaults = Defaults()
    compaction: CompactionConfig = CompactionConfig()
    hooks: Mapping[str, object] = attrs.field(factory=dict[str, object])
    formatters: Mapping[str, FileProgram] = attrs.field(factory=dict[str, FileProgram])
    checkers: Mapping[str, FileProgram] = attrs.field(factory=dict[str, FileProgram])
    profile: str | None = None
    rules: tuple[Rule, ...] = ()
    sandbox: Sandbox | None = None
    programs: Mapping[str, object] | None = None
    instructions: Instructions = attrs.field(factory=Instructions)
    skills: tuple[str, ...] = ()
    source: str = ""

    def __attrs_post_init__(self) -> None:
        for name in self.hosts:
            if not _HOST_NAME.fullmatch(name):
                raise ConfigError(f"a host's name is letters, digits, '.', '-' and '_', not {name!r}")
        for name in self.agents:
            if not _AGENT_NAME.fullmatch(name):
                raise ConfigError(f"an agent's name is up to 64 letters, digits, - and _, not {name!r}")
        for name in (*self.models, *_models_named(self)):
            if "/" not in name.strip("/") and not name.startswith("local:"):
                raise ConfigError(f"a model's name is written host/model, not {name!r}")
        if self.defaults.agent is not None:
            self.check_primary(None)

    def agent(self, name: str | None) -> AgentConfig:
        """Return the agent called *name*; None: the default one, or one that changes nothing. Raises `ConfigError`."""
        name = name or self.defaults.agent
        if name is None:
            return AgentConfig()
        found = self.all_agents.get(name)
        if found is None:
            raise ConfigError(f"there is no agent {name!r}: {known(name, self.all_agents)}")
        return found

    def check_primary(self, name: str | None) -> None:
        """Raise `ConfigError` if there is no agent called *name*, or only for sub-agents."""
        if self.agent(name).mode == "subagent":
            raise ConfigError(f"the agent {name or self.defaults.agent!r} is only for sub-agents: nobody talks to it")

    @property
    def all_agents(self) -> Mapping[str, AgentConfig]:
        """All agents by name, sorted: those that are built in, with what is said differently of them, and the others."""
        own = self.agents
        both = {name: own[name].over(base) if name in own else base for name, base in BUILT_IN.items()}
        return dict(sorted((both | {name: one for name, one in own.items() if name not in BUILT_IN}).items()))

    def model_for(self, agent: str | None = None) -> str | None:
        """Return the model that an agent works with; None: nobody says."""
        return self.agent(agent).model or self.defaults.model

    def options_for(self, model: str, agent: str | None = None) -> ModelOptions:
        """Return how *model* is to work for *agent*. What a flag says goes `over` it."""
        return self.agent(agent).options.over(self.models.get(model, ModelConfig()).options)

    def chain(self, model: str, agent: str | None = None) -> tuple[str, ...]:
        """Return *model* and those to go on with, each one once. A fallback's own fallback does not count."""
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


def known(name: str, names: Iterable[str]) -> str:
    """Return a hint for somebody who wrote *name* and meant one of *names*."""
    names = sorted(names)
    # Imported here: most names are right.
    from difflib import get_close_matches

    if close := get_close_matches(name, names, n=3, cutoff=0.6):
        return f"did you mean {' or '.join(close)}?"
    return f"known: {', '.join(names)}" if names else "none is configured"
