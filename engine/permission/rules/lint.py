"""What is odd about rules: those that can't have a say, and those that say more than they look.

What is said to be without effect is so for certain, as far as the words of a right are
known; there may be more that has none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal

import attrs

from engine.config.config import known
from engine.core.errors import ConfigError
from engine.core.permission_types import Rule
from engine.permission.rules.path_pattern import PathPattern, absolute, exact
from engine.permission.rules.rules import LAYERS, PATH_PERMISSIONS, Layer, LayerName, base_permission
from engine.permission.rules.wildcard import Wildcard, wildcard

# An error keeps a rule from being used at all; a warning says that it does not do what it seems to; a hint is a hint.
Severity = Literal["error", "warning", "hint"]

# What the built-in tools need.
PERMISSIONS: Final = (
    "read",
    "edit",
    "outside",
    "bash",
    "opaque",
    "web",
    "task",
    "skill",
    "question",
    "todo",
    "bash_output",
    "bash_stop",
    "context",
)
# They run whatever they are told to.
RUNNERS: Final = frozenset(
    [
        "sudo",
        "doas",
        "su",
        "env",
        "nice",
        "ionice",
        "nohup",
        "timeout",
        "time",
        "stdbuf",
        "setsid",
        "xargs",
        "parallel",
        "watch",
        "find",
        "ssh",
        "eval",
        "exec",
        "command",
        "builtin",
        "source",
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "fish",
        "busybox",
        "python",
        "python2",
        "python3",
        "node",
        "deno",
        "bun",
        "perl",
        "ruby",
        "php",
        "lua",
        "awk",
        "gawk",
        "npx",
        "bunx",
        "uvx",
        "pipx",
        "docker",
        "podman",
        "chroot",
        "unshare",
        "strace",
        "gdb",
        "script",
        "expect",
        "tclsh",
        "osascript",
        "pwsh",
    ]
)

_BETWEEN_COMMANDS: Final = re.compile(r"(?:^|\s)(?:&&|\|\|?|;|&)(?=\s|$)")
_OPEN_WORD: Final = re.compile(r"(?:.*\s)?([\w.-]*\w)\*", re.DOTALL)


@attrs.frozen(kw_only=True)
class LintFinding:
    """Something odd about a rule.

    Attributes:
        rule: which one; its origin says where it stands.
        layer: the layer that it stands in.
        severity: how odd it is.
        words: what is odd, and what to write instead.
    """

    rule: Rule
    layer: LayerName
    severity: Severity
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: '{self.rule}' of the layer {self.layer}{self.rule.location}: {self.message}"


def lint(
    layers: Sequence[Layer], project: str, home: str, *, permissions: Collection[str] = PERMISSIONS
) -> tuple[LintFinding, ...]:
    """Return what is odd about the rules, but those of the defaults, in their order.

    Args:
        layers: the layers, the defaults among them.
        project: the project's folder, absolute and real.
        home: the same of the user's home.
        permissions: the names of all permissions that there are.
    """
    ordered = sorted(layers, key=lambda layer: LAYERS.index(layer.name))
    linter = _Linter(project, home, tuple(permissions))
    entries = [_LintRule(rule, layer.name, *linter.patterns(rule)) for layer in ordered for rule in layer.rules]
    findings: list[LintFinding] = []
    for at, entry in enumerate(entries):
        if entry.layer != "defaults":
            findings += linter.check_alone(entry)
            if entry.is_sound:
                findings += linter.check_among(entry, entries[:at], entries[at + 1 :])
    return tuple(findings)


@attrs.frozen(eq=False)
class _LintRule:
    """A rule, and what its pattern is for commands and names, and for paths, as far as it may be asked about them."""

    rule: Rule
    layer: LayerName
    command: Wildcard | None
    path: PathPattern | None

    @property
    def is_sound(self) -> bool:
        """Whether it can match anything."""
        return self.command is not None or self.path is not None

    @property
    def is_deny(self) -> bool:
        """Whether it forbids."""
        return self.rule.action == "deny"

    def covers(self, other: _LintRule) -> bool:
        """Tell whether it surely matches all that *other* matches."""
        own = wildcard(self.rule.permission)
        name = other.rule.permission
        if not any(own.covers(wildcard(each)) for each in (name, base_permission(name))):
            return False
        is_command = other.command is None or (self.command is not None and self.command.covers(other.command))
        is_path = other.path is None or (self.path is not None and self.path.covers(other.path))
        return is_command and is_path

    def overlaps(self, other: _LintRule) -> bool:
        """Tell whether there may be something that both match."""
        names = {self.rule.permission, base_permission(self.rule.permission)}
        others = {other.rule.permission, base_permission(other.rule.permission)}
        if not any(wildcard(one).overlaps(wildcard(two)) for one in names for two in others):
            return False
        is_command = self.command is not None and other.command is not None and self.command.overlaps(other.command)
        return is_command or (self.path is not None and other.path is not None and self.path.overlaps(other.path))


@attrs.frozen(eq=False)
class _Linter:
    project: str
    home: str
    permissions: tuple[str, ...]

    def patterns(self, rule: Rule) -> tuple[Wildcard | None, PathPattern | None]:
        """Return what a rule's pattern is for commands and for paths."""
        is_path = base_permission(rule.permission) in PATH_PERMISSIONS
        is_several = any(wildcard(rule.permission).overlaps(wildcard(name)) for name in PATH_PERMISSIONS)
        command = path = None
        if not is_path:
            command = _compile(rule.pattern)
        if is_path or is_several:
            path = self._path(rule.pattern)
        return command, path

    def check_alone(self, entry: _LintRule) -> Iterator[LintFinding]:
        """Yield what is odd about a rule by itself."""
        rule = entry.rule
        if not entry.is_sound:
            yield _finding(entry, "error", self._pattern_error(rule))
            return
        name = base_permission(rule.permission)
        if not set(name) & set("*?") and name not in self.permissions:
            hint = known(name, self.permissions)
            yield _finding(entry, "hint", f"no tool that is known needs the permission {name!r}: {hint}")
        if rule.permission == "outside" and self._is_inside(entry):
            yield _finding(entry, "warning", "it matches nothing: it is asked about paths outside of the project alone")
        if name == "bash":
            yield from _check_command(entry)
        if rule.action == "allow":
            yield from _check_breadth(entry)

    def check_among(
        self, entry: _LintRule, before: Sequence[_LintRule], after: Sequence[_LintRule]
    ) -> Iterator[LintFinding]:
        """Yield what makes a rule useless among the others."""
        later = next((other for other in after if other.layer == entry.layer and other.covers(entry)), None)
        if later is not None:
            yield _finding(entry, "warning", _hidden_by(entry, later))
            return
        below = [other for other in before if other.layer != entry.layer]
        if entry.rule.override:
            yield from _check_override(entry, below)
        elif not entry.is_deny:
            yield from _check_denied(entry, below)

    def _path(self, pattern: str) -> PathPattern | None:
        try:
            return PathPattern(pattern, self.project, self.home)
        except ConfigError:
            return None

    def _pattern_error(self, rule: Rule) -> str:
        try:
            if base_permission(rule.permission) in PATH_PERMISSIONS:
                PathPattern(rule.pattern, self.project, self.home)
            else:
                Wildcard(rule.pattern)
        except ConfigError as error:
            return str(error)
        return "it matches nothing"

    def _is_inside(self, entry: _LintRule) -> bool:
        inside = PathPattern(exact("."), self.project, self.home)
        return entry.path is not None and inside.covers(entry.path) and absolute(self.project, ".") != "/"


def _compile(pattern: str) -> Wildcard | None:
    try:
        return Wildcard(pattern)
    except ConfigError:
        return None


def _finding(entry: _LintRule, severity: Severity, message: str) -> LintFinding:
    return LintFinding(rule=entry.rule, layer=entry.layer, severity=severity, message=message)


def _label(entry: _LintRule) -> str:
    return f"'{entry.rule}'{entry.rule.location}"


# -- among others -----------------------------------------------------------------------


def _hidden_by(entry: _LintRule, later: _LintRule) -> str:
    if (entry.rule.permission, entry.rule.pattern) == (later.rule.permission, later.rule.pattern):
        again = "stands there twice" if entry.rule.action == later.rule.action else "has no effect"
        return f"it {again}: {_label(later)} is for the same, and the last one wins"
    return f"it has no effect: {_label(later)} comes later, and matches all that it matches; put what is general first"


def _check_override(entry: _LintRule, below: Sequence[_LintRule]) -> Iterator[LintFinding]:
    plain = entry.rule.action
    if entry.layer == "project":
        yield _finding(entry, "warning", f"a repository lifts no deny: it counts as {plain!r}")
    elif not any(other.is_deny and other.overlaps(entry) for other in below):
        yield _finding(entry, "warning", f"it lifts nothing, as no layer below denies any of it: write {plain!r}")


def _check_denied(entry: _LintRule, below: Sequence[_LintRule]) -> Iterator[LintFinding]:
    for at, other in enumerate(below):
        # Unless something takes that deny back again, in part at least.
        if (
            other.is_deny
            and other.covers(entry)
            and not any(
                (more.layer == other.layer or more.rule.override) and not more.is_deny and more.overlaps(entry)
                for more in below[at + 1 :]
            )
        ):
            verb = "allows" if entry.rule.action == "allow" else "asks about"
            message = (
                f"it {verb} nothing: {_label(other)} of the layer {other.layer} denies all of it, and a deny stays"
            )
            advice = "" if entry.layer == "project" else f"; '{entry.rule.action}!' would lift it"
            yield _finding(entry, "warning", message + advice)
            return


# -- by itself --------------------------------------------------------------------------


def _check_command(entry: _LintRule) -> Iterator[LintFinding]:
    if _BETWEEN_COMMANDS.search(entry.rule.pattern):
        yield _finding(
            entry,
            "warning",
            "it hardly ever matches: rules are asked about each command of a script by itself, without '&&', '|' and ';'",
        )


def _check_breadth(entry: _LintRule) -> Iterator[LintFinding]:
    rule = entry.rule
    every = rule.pattern in {"*", "**"}
    name = base_permission(rule.permission)
    if rule.permission == "*" and every:
        yield _finding(entry, "warning", "it allows everything: the profile 'full' says so by its name")
    elif name == "opaque" and entry.command is not None and not entry.command.is_plain:
        yield _finding(entry, "warning", "it allows scripts of which nobody can tell what they do")
    elif rule.permission == "outside" and every:
        yield _finding(entry, "hint", "it allows the whole machine, as far as 'read' and 'edit' do")
    elif rule.permission == "bash":
        yield from _check_command_breadth(entry)


def _check_command_breadth(entry: _LintRule) -> Iterator[LintFinding]:
    pattern = entry.rule.pattern
    if set(pattern) <= {"*", " "}:
        yield _finding(entry, "warning", "it allows every command, 'rm -rf' among them")
        return
    if pattern[0] in "*?":
        yield _finding(entry, "warning", "it begins with a wildcard, so any program will do that is given such words")
        return
    words = pattern.split()
    fixed = [word for at, word in enumerate(words) if not any(set(each) & set("*?") for each in words[: at + 1])]
    if len(fixed) < len(words) and fixed and _is_runner(fixed):
        runner = " ".join(fixed)
        yield _finding(
            entry, "warning", f"'{runner}' runs whatever it is told to: name what it may run, '{runner} PROGRAM *'"
        )
        return
    open_word = _OPEN_WORD.fullmatch(pattern)
    if open_word is not None:
        word = open_word.group(1)
        yield _finding(
            entry, "hint", f"it matches '{word}x' too: write '{pattern[:-1]} *' for '{word}' and its arguments"
        )


def _is_runner(words: Sequence[str]) -> bool:
    program, *rest = words
    return program.rpartition("/")[2] in RUNNERS and all(word.startswith("-") for word in rest)
