"""An agent in a Markdown file: front matter says how it works, the text below is its system prompt.

The fields are those of `[agents.NAME]` in a configuration file, and those that other
programs have in files of that kind (`disallowedTools`, `permission`, `maxTurns` …).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs

from engine.agents.compat import Warnings, includes_all, translate_model, translate_permissions, translate_tools
from engine.config.agent_config import AgentConfig, Mode
from engine.config.builtin_agents import PLANNING
from engine.core.errors import ConfigError
from engine.core.llm_types import CacheLifetime, Effort, ModelOptions
from engine.core.permission_types import Rule
from engine.files.front_matter import FrontMatterError, YamlSource, parse_document
from engine.permission.rules.rule_file import parse_rule

if TYPE_CHECKING:
    from engine.files.yaml_text import Value

T = TypeVar("T")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
MAX_DESCRIPTION_CHARS: Final = 4_000
# Names with commas between them; those in brackets belong to the name before them.
_NAMES: Final = re.compile(r"(?:[^,(]|\([^)]*\)?)+")
# They say how a program shows it, and nothing of how it works.
_IGNORED: Final = frozenset({"color", "colour", "version", "author", "license", "tags", "title", "icon"})
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "yes": True, "false": False, "no": False}


class AgentFileError(Exception):
    """A file holds no agent that can be used; the text says why."""


@attrs.frozen
class AgentFile:
    """An agent as parsed from a file.

    Attributes:
        name: what the agent is called.
        config: how it works.
        warnings: about fields that are ignored.
        is_disabled: it is there, and is not to be used.
    """

    name: str
    config: AgentConfig
    warnings: tuple[str, ...] = ()
    is_disabled: bool = False


def parse_agent(text: str, stem: str, origin: str, *, is_project: bool = False) -> AgentFile:
    """Parse an agent.

    Args:
        text: what it holds.
        stem: its name, which is the agent's unless it says another.
        origin: where it is, for people: rules tell it.
        is_project: it came with a repository, so it can't lift a deny.

    Raises:
        AgentFileError: for what is no agent.
    """
    try:
        document = parse_document(text)
    except FrontMatterError as error:
        raise AgentFileError(str(error)) from error
    reader = _Reader({**document.fields, **document.others}, origin, is_project)
    try:
        name = reader.name(stem)
        config = reader.config(document.body)
        is_disabled = any([reader.boolean("disable"), reader.boolean("disabled")])
    except (ConfigError, FrontMatterError) as error:
        raise AgentFileError(str(error)) from error
    reader.warn_about_rest()
    return AgentFile(name, config, tuple(reader.warnings), is_disabled)


@attrs.define(eq=False)
class _Reader:
    """Reads fields one after the other, and warns about the rest, which is not parsed."""

    fields: dict[str, str | YamlSource]
    origin: str
    is_project: bool
    warnings: Warnings = attrs.field(factory=list[str], init=False)
    tool_denials: list[Rule] = attrs.field(factory=list[Rule], init=False)

    def name(self, stem: str) -> str:
        """Return what it is called: by its field, or by its file, whose name is *stem*."""
        name = self.text("name") or stem
        if not _NAME.fullmatch(name):
            if not _NAME.fullmatch(stem):
                raise ConfigError(f"an agent's name is up to 64 letters, digits, - and _, not {name[:80]!r}")
            self.warnings.append(f"the name {name[:80]!r} is more than letters, digits, - and _: it is called {stem}")
            return stem
        return name

    def config(self, body: str) -> AgentConfig:
        """Return how the agent works. Raises `ConfigError`."""
        tools, without = self._tools()
        rules, bounds = self._rules()
        return AgentConfig(
            description=" ".join(self.text("description").split())[:MAX_DESCRIPTION_CHARS],
            mode=self._mode(),
            hidden=self.boolean("hidden"),
            model=translate_model(self.text("model"), self.warnings),
            options=self._options(),
            system=body or self.text("prompt") or None,
            rules=rules,
            bounds=bounds,
            tools=tools,
            without=without,
            steps=self._number("steps", "maxSteps", "maxTurns", "max_turns", as_a=int),
            seconds=self._number("seconds", "timeout", as_a=float),
            cost=self._number("cost", as_a=float),
        )

    def text(self, name: str) -> str:
        """Return a field that is a text; empty if there is none."""
        value = self._pop(name, "")
        if isinstance(value, str):
            return value
        raise ConfigError(f"{name} must be a text")

    def boolean(self, name: str) -> bool:
        """Return a field that is true or false; one that is not there is false."""
        text = self.text(name).lower()
        if text and text not in _BOOLEANS:
            raise ConfigError(f"{name} must be true or false, not {text[:40]!r}")
        return _BOOLEANS.get(text, False)

    def _pop(self, name: str, otherwise: T) -> Value | T:
        """Return what a field holds, read now. Raises `FrontMatterError`."""
        value = self.fields.pop(name, None)
        if value is None:
            return otherwise
        return value if isinstance(value, str) else value.parse()

    def warn_about_rest(self) -> None:
        """Warn about the fields that were not read."""
        rest = sorted(name for name in self.fields if name not in _IGNORED)
        if rest:
            self.warnings.append(f"unknown fields, ignored: {', '.join(rest)}")

    def _mode(self) -> Mode:
        mode = self.text("mode") or "all"
        return cast("Mode", mode)  # `AgentConfig` knows the words

    def _options(self) -> ModelOptions:
        effort, cache = self.text("effort") or self.text("reasoningEffort"), self.text("cache")
        return ModelOptions(
            effort=cast("Effort | None", effort or None),
            temperature=self._number("temperature", as_a=float),
            output_cap=self._number("output_cap", as_a=int),
            cache=cast("CacheLifetime | None", cache or None),
        )

    def _number(self, *names: str, as_a: Callable[[str], int | float]) -> int | None:
        number: int | float | None = None
        for name in names:
            text = self.text(name)
            if text:
                try:
                    number = as_a(text)
                except ValueError as error:
                    raise ConfigError(f"{name} must be a number, not {text[:40]!r}") from error
        return cast("int | None", number)

    def _tools(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Return the tools that it has, None: all, and those that it has not."""
        without = [*self._names("without"), *self._names("disallowedTools"), *self._names("disallowed-tools")]
        tools_field = self._pop("tools", None)
        if tools_field is None:
            return None, translate_tools(without, self.warnings)
        if isinstance(tools_field, Mapping):
            return self._switched_tools(tools_field, without)
        names = self._split(tools_field, "tools")
        tools = None if includes_all(names) else translate_tools(names, self.warnings)
        return tools, translate_tools(without, self.warnings)

    def _switched_tools(
        self, switches: Mapping[str, Value], without: Iterable[str]
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Return the same, of tools that are switched on and off."""
        switched_on = translate_tools(
            (name for name, value in switches.items() if _is_true(value) and name != "*"), self.warnings
        )
        switched_off = [name for name, value in switches.items() if not _is_true(value)]
        # A tool's right is mostly its name, so patterns of names are patterns of rights.
        self.tool_denials += [
            Rule(action="deny", permission=name, pattern="*", origin=self.origin)
            for name in switched_off
            if "*" in name and name != "*"
        ]
        refused = translate_tools([*without, *(name for name in switched_off if "*" not in name)], self.warnings)
        return switched_on if "*" in switched_off else None, refused

    def _names(self, field: str) -> Iterable[str]:
        return self._split(self._pop(field, ""), field)

    def _split(self, value: Value, field: str) -> tuple[str, ...]:
        if isinstance(value, str):
            return tuple(name.strip() for name in _NAMES.findall(value) if name.strip())
        if isinstance(value, tuple) and all(isinstance(name, str) for name in value):
            return cast("tuple[str, ...]", value)
        raise ConfigError(f"{field} must be names of tools")

    def _rules(self) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
        """Return its rules, and its bounds."""
        rules = (
            [*translate_permissions(self._pop("permission", ""), self.origin, self.warnings)]
            if "permission" in self.fields
            else []
        )
        bounds: list[Rule] = []
        for field, into in (("rules", rules), ("bounds", bounds)):
            value = self._pop(field, ())
            if not isinstance(value, tuple) or not all(isinstance(rule, str) for rule in value):
                raise ConfigError(f"{field} must be a list of rules, each a text")
            into += [self._without_override(parse_rule(cast("str", rule), self.origin)) for rule in value]
        match self.text("permissionMode"):
            case "" | "default":
                pass
            case "plan":
                bounds += PLANNING
            case mode:
                self.warnings.append(f"permissionMode {mode[:40]!r} is ignored: use `rules` to say what it may do")
        return (*rules, *self.tool_denials), tuple(bounds)

    def _without_override(self, rule: Rule) -> Rule:
        if rule.override and self.is_project:
            self.warnings.append(f"the rule '{rule}' lifts no deny: it came with a project")
            return attrs.evolve(rule, override=False)
        return rule


def _is_true(value: Value) -> bool:
    return isinstance(value, str) and _BOOLEANS.get(value.lower(), False)
