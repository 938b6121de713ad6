"""Parse the section `[permissions]` of a configuration file.

Example::

    [permissions]
    profile = "ask"
    rules = [
        "allow bash git status",
        "allow bash npm run *",
        "deny read *.pem",
        "ask edit docs/**",
        "allow! bash git push *",
    ]

A rule is an action, a permission, and a pattern, which is the rest of the text. The last
matching rule wins, so general rules come first. Only `allow!` and `ask!` lift a deny of a
lower layer. Patterns for paths are as in `.gitignore`; elsewhere `*` matches any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import attrs

from engine.config.config import suggest_names
from engine.core.errors import ConfigError
from engine.core.events import Verdict
from engine.core.lazy import regex
from engine.core.permission_types import ACTIONS, Rule
from engine.core.value_base import Value
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.profiles import PROFILES, ProfileName
from engine.permission.rules.rules import PATH_PERMISSIONS, READING, base_permission
from engine.permission.rules.wildcard import Wildcard

if TYPE_CHECKING:
    from engine.permission.rules.toml_positions import TomlPath

TABLE: Final = ("permissions",)
_KEYS: Final = ("rules", "profile", "ask_after")
_PARTS: Final = regex(r"\s*(\S+)\s+(\S+)\s+(\S.*?)\s*", re.DOTALL)
_FOREIGN: Final = "mcp:github/*"
_FORM: Final = "a rule is written 'ACTION PERMISSION PATTERN', for example 'allow bash git status'"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Permissions(Value):
    """The permissions in a file.

    Attributes:
        profile: the selected defaults; None: the file selects none.
        rules: the rules, in the order of the file.
        ask_after: permissions of foreign tools, as in `RuleLayers`.
    """

    profile: ProfileName | None = None
    rules: tuple[Rule, ...] = ()
    ask_after: tuple[str, ...] = ()


def read_permissions(
    section: object, text: str, source: str, *, table: Sequence[str] = TABLE, has_profile: bool = True
) -> Permissions:
    """Parse a whole section.

    Args:
        section: the section as TOML values.
        text: the document, for line numbers in errors.
        source: the file's name.
        table: the keys that lead to the section.
        has_profile: whether it may select a profile.

    Raises:
        ConfigError: lists every problem, each with its line and what to write instead.
    """
    from engine.permission.rules.toml_positions import value_lines

    reader = _Reader(source, tuple(table), value_lines(text))
    permissions = reader.permissions(section, _KEYS if has_profile else _KEYS[:1])
    if reader.problems:
        raise ConfigError("\n".join(reader.problems))
    return permissions


def parse_rule(text: str, origin: str = "") -> Rule:
    """Parse one rule. Raises `ConfigError`, which says what to write instead."""
    parts = _PARTS.fullmatch(text)
    if parts is None:
        words = text.split()
        is_short = len(words) == 2 and words[0].removesuffix("!") in ACTIONS
        raise ConfigError(f"{_FORM}" + (f"; to match everything, '{' '.join(words)} *'" if is_short else ""))
    word, permission, pattern = parts.groups()
    rule = Rule(
        action=_action(word), permission=permission, pattern=pattern, override=word.endswith("!"), origin=origin
    )
    # Whether a path pattern is valid does not depend on the project.
    if base_permission(permission) in PATH_PERMISSIONS:
        PathPattern(pattern, "/project", "/home")
    else:
        Wildcard(pattern)
    return rule


def _action(word: str) -> Verdict:
    name = word.removesuffix("!")
    for action in ACTIONS:
        if action == name:
            return action
    raise ConfigError(f"there is no action {name!r}: {suggest_names(name.lower(), ACTIONS)}; {_FORM}")


@attrs.define(eq=False, repr=False)
class _Reader:
    """Parses a section and collects all problems."""

    source: str
    table: tuple[str, ...]
    lines: Mapping[TomlPath, int]
    problems: list[str] = attrs.field(init=False, factory=list[str])

    def permissions(self, section: object, keys: Sequence[str]) -> Permissions:
        """Return the permissions, without the parts that are invalid."""
        if not isinstance(section, dict):
            self._report((), f"must be a table, not {_type_name(section)}: [{'.'.join(self.table)}]")
            return Permissions()
        values = cast("dict[str, object]", section)
        for key in values:
            if key not in keys:
                self._report((key,), f"there is no key {key!r}: {suggest_names(key, keys)}")
        profile = self._profile(values["profile"]) if "profile" in values and "profile" in keys else None
        return Permissions(
            profile=profile,
            rules=tuple(self._rules(values.get("rules", []))),
            ask_after=tuple(self._ask_after(values.get("ask_after", []))),
        )

    def _profile(self, value: object) -> ProfileName | None:
        for name in PROFILES:
            if name == value:
                return name
        self._report(("profile",), f"there is no profile {value!r}: {suggest_names(str(value), PROFILES)}")
        return None

    def _rules(self, value: object) -> Iterator[Rule]:
        if not isinstance(value, list):
            self._report(
                ("rules",), f'must be an array of texts, not {_type_name(value)}: rules = ["allow bash git status"]'
            )
            return
        for index, text in enumerate(cast("list[object]", value)):
            path = ("rules", index)
            if not isinstance(text, str):
                self._report(path, f"must be a text, not {_type_name(text)}: {_FORM}")
                continue
            try:
                yield parse_rule(text, self._location(path))
            except ConfigError as error:
                self._report(path, f"the rule {text!r}: {error}")

    def _ask_after(self, value: object) -> Iterator[str]:
        if not isinstance(value, list):
            self._report(
                ("ask_after",), f'must be an array of texts, not {_type_name(value)}: ask_after = ["{_FOREIGN}"]'
            )
            return
        for index, text in enumerate(cast("list[object]", value)):
            try:
                permission = Rule(permission=str(text), pattern="*", action="ask").permission
            except ConfigError:
                permission = ""
            if isinstance(text, str) and ":" in permission.removesuffix(READING):
                yield text
            else:
                self._report(
                    ("ask_after", index),
                    f"{text!r} is not the permission of tools of a server: '{_FOREIGN}', for example",
                )

    def _report(self, path: TomlPath, message: str) -> None:
        prefix = (
            "" if message.startswith(("the rule", "there is")) else ".".join(map(str, (*self.table, *path[:1]))) + " "
        )
        self.problems.append(f"{self._location(path)}: {prefix}{message}")

    def _location(self, path: TomlPath) -> str:
        line = self.lines.get((*self.table, *path))
        return self.source if line is None else f"{self.source}:{line}"


def _type_name(value: object) -> str:
    names = {"dict": "a table", "list": "an array", "str": "a text", "bool": "true or false"}
    names |= dict.fromkeys(("int", "float"), "a number")
    return names.get(type(value).__name__, "a date or a time")
