"""Parse an agent in a Markdown file: its settings in front matter, its system prompt in the text below.

The fields are those of `[agents.NAME]` in the configuration file, and those that other programs use in such files
(`disallowedTools`, `permission`, `maxTurns`, …).
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
# The caller's model reads it with each request.
MAX_DESCRIPTION_CHARS: Final = 4_000
# Names separated by commas; a bracket belongs to the name before it: `Bash(git add, git commit), Read`.
_NAMES: Final = re.compile(r"(?:[^,(]|\([^)]*\)?)+")
# Fields for display only, which need no warning.
_IGNORED: Final = frozenset({"color", "colour", "version", "author", "license", "tags", "title", "icon"})
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "yes": True, "false": False, "no": False}


class AgentFileError(Exception):
    """A file does not define a usable agent; the message says why."""


@attrs.frozen
class AgentFile:
    """An agent as parsed from a file.

    Attributes:
        name: its name.
        config: its configuration.
        warnings: about fields that are ignored.
        is_disabled: the file disables the agent of this name.
    """

    name: str
    config: AgentConfig
    warnings: tuple[str, ...] = ()
    is_disabled: bool = False


def parse_agent(text: str, stem: str, origin: str, *, is_project: bool = False) -> AgentFile:
    """Parse an agent file.

    Args:
        text: the file's content.
        stem: the file's name without its suffix: the agent's name unless a field sets another one.
        origin: the file's path, for messages.
        is_project: whether it came with a project, so that it can't lift a deny.

    Raises:
        AgentFileError: it does not define a usable agent.
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
    """Takes known fields one by one, and warns about the rest, whose values are never parsed."""

    fields: dict[str, str | YamlSource]
    origin: str
    is_project: bool
    warnings: Warnings = attrs.field(factory=list[str], init=False)
    tool_denials: list[Rule] = attrs.field(factory=list[Rule], init=False)

    def name(self, stem: str) -> str:
        """Return the agent's name: its field, or else the file's name *stem*."""
        name = self.text("name") or stem
        if not _NAME.fullmatch(name):
            if not _NAME.fullmatch(stem):
                raise ConfigError(f"an agent's name is up to 64 letters, digits, - and _, not {name[:80]!r}")
            self.warnings.append(f"the name {name[:80]!r} is more than letters, digits, - and _: it is called {stem}")
            return stem
        return name

    def config(self, body: str) -> AgentConfig:
        """Return the agent's configuration. Raises `ConfigError`."""
        tools, without = self._tools()
        rules, bounds = self._rules()
        return AgentConfig(
            description=" ".join(self.text("description").split())[:MAX_DESCRIPTION_CHARS],
            mode=self._mode(),
            hidden=self.boolean("hidden"),
            model=translate_model(self.text("model"), self.warnings),
            options=self._options(),
            # In OpenCode's JSON style the prompt is a field.
            system=body or self.text("prompt") or None,
            rules=rules,
            bounds=bounds,
            tools=tools,
            without=without,
            # Names in Engine, OpenCode, Claude Code and others.
            steps=self._number("steps", "maxSteps", "maxTurns", "max_turns", as_a=int),
            seconds=self._number("seconds", "timeout", as_a=float),
            cost=self._number("cost", as_a=float),
        )

    def text(self, name: str) -> str:
        """Return a text field; empty if it is missing."""
        value = self._pop(name, "")
        if isinstance(value, str):
            return value
        raise ConfigError(f"{name} must be a text")

    def boolean(self, name: str) -> bool:
        """Return a boolean field; False if it is missing."""
        text = self.text(name).lower()
        if text and text not in _BOOLEANS:
            raise ConfigError(f"{name} must be true or false, not {text[:40]!r}")
        return _BOOLEANS.get(text, False)

    def _pop(self, name: str, otherwise: T) -> Value | T:
        """Remove a field and return its value. Raises `FrontMatterError`."""
        value = self.fields.pop(name, None)
        if value is None:
            return otherwise
        # YAML is parsed only here: a field that is ignored may contain anything.
        return value if isinstance(value, str) else value.parse()

    def warn_about_rest(self) -> None:
        """Warn about the fields that were not read."""
        rest = sorted(name for name in self.fields if name not in _IGNORED)
        if rest:
            self.warnings.append(f"unknown fields, ignored: {', '.join(rest)}")

    def _mode(self) -> Mode:
        mode = self.text("mode") or "all"
        return cast("Mode", mode)  # `AgentConfig` validates it

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
        """Return the tools that the agent has (None: all), and those that it has not."""
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
        """Return the same for OpenCode's form, a map of tools to true or false."""
        switched_on = translate_tools(
            (name for name, value in switches.items() if _is_true(value) and name != "*"), self.warnings
        )
        switched_off = [name for name, value in switches.items() if not _is_true(value)]
        # A pattern such as `mcp_*: false` can't be a list of tools. Rights are mostly named like their tools, so it
        # becomes a rule.
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
        """Return the rules, and the bounds, which hold until a plan is approved."""
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
        # Claude Code's modes. "acceptEdits" and "bypassPermissions" would grant rights, so they are ignored.
        match self.text("permissionMode"):
            case "" | "default":
                pass
            case "plan":
                bounds += PLANNING
            case mode:
                self.warnings.append(f"permissionMode {mode[:40]!r} is ignored: use `rules` to say what it may do")
        return (*rules, *self.tool_denials), tuple(bounds)

    def _without_override(self, rule: Rule) -> Rule:
        # Only the user may lift what a lower layer denies.
        if rule.override and self.is_project:
            self.warnings.append(f"the rule '{rule}' lifts no deny: it came with a project")
            return attrs.evolve(rule, override=False)
        return rule


def _is_true(value: Value) -> bool:
    return isinstance(value, str) and _BOOLEANS.get(value.lower(), False)
