"""Lint rules: report those that have no effect, and those that allow more than they seem to.

A rule that is reported as having no effect certainly has none, for rights without unknown
parts. Not all such rules are reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal

import attrs

from engine.config.config import suggest_names
from engine.core.errors import ConfigError
from engine.core.permission_types import Rule
from engine.permission.programs.tables.names import words_of
from engine.permission.rules.path_pattern import PathPattern, absolute, exact
from engine.permission.rules.rules import LAYERS, PATH_PERMISSIONS, Layer, LayerName, base_permission
from engine.permission.rules.wildcard import Wildcard, wildcard

# An error: the rule cannot be used. A warning: it does not do what it seems to. A hint: it may be a mistake.
Severity = Literal["error", "warning", "hint"]

# The permissions that the built-in tools need.
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
# Programs that run another program named in their arguments.
RUNNERS: Final = words_of(
    """
    sudo doas su env nice ionice nohup timeout time stdbuf setsid xargs parallel watch find ssh eval exec command
    builtin source sh bash dash zsh ksh fish busybox python python2 python3 node deno bun perl ruby php lua awk
    gawk npx bunx uvx pipx docker podman chroot unshare strace gdb script expect tclsh osascript pwsh
    """
)
# In a rule, these separators look as if it covered a whole line.
_BETWEEN_COMMANDS: Final = re.compile(r"(?:^|\s)(?:&&|\|\|?|;|&)(?=\s|$)")
# `git*`, which was probably meant to be `git *`.
_OPEN_WORD: Final = re.compile(r"(?:.*\s)?([\w.-]*\w)\*", re.DOTALL)


@attrs.frozen(kw_only=True)
class LintFinding:
    """A problem with a rule.

    Attributes:
        rule: the rule; its origin says where it was written.
        layer: its layer.
        severity: how serious it is.
        message: the problem, and what to write instead.
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
    """Return the problems of all rules above the defaults, in the order of the rules.

    Args:
        layers: all layers, including the defaults.
        project: the project's folder, absolute and real.
        home: the user's home folder, absolute and real.
        permissions: the names of all permissions that exist.
    """
    # In the order in which the layers are applied.
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
    """A rule with its pattern compiled for commands and names, and for paths, as far as it applies to them."""

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
        """Whether it denies."""
        return self.rule.action == "deny"

    def covers(self, other: _LintRule) -> bool:
        """Return whether it certainly matches everything that *other* matches."""
        own = wildcard(self.rule.permission)
        name = other.rule.permission
        # A rule for `bash` covers `bash:read`, not the other way round.
        if not any(own.covers(wildcard(each)) for each in (name, base_permission(name))):
            return False
        is_command = other.command is None or (self.command is not None and self.command.covers(other.command))
        is_path = other.path is None or (self.path is not None and self.path.covers(other.path))
        return is_command and is_path

    def overlaps(self, other: _LintRule) -> bool:
        """Return whether something may match both."""
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
        """Return the pattern of a rule, compiled for commands and for paths."""
        is_path = base_permission(rule.permission) in PATH_PERMISSIONS
        # `*` applies to paths and commands alike, so it is compiled for both.
        is_several = any(wildcard(rule.permission).overlaps(wildcard(name)) for name in PATH_PERMISSIONS)
        command = path = None
        if not is_path:
            command = _compile(rule.pattern)
        if is_path or is_several:
            path = self._path(rule.pattern)
        return command, path

    def check_alone(self, entry: _LintRule) -> Iterator[LintFinding]:
        """Yield the problems of a rule by itself."""
        rule = entry.rule
        if not entry.is_sound:
            yield _finding(entry, "error", self._pattern_error(rule))
            return
        name = base_permission(rule.permission)
        if not set(name) & set("*?") and name not in self.permissions:
            hint = suggest_names(name, self.permissions)
            yield _finding(entry, "hint", f"no built-in tool needs the permission {name!r}: {hint}")
        if rule.permission == "outside" and self._is_inside(entry):
            yield _finding(entry, "warning", "it matches nothing: outside is only about paths outside of the project")
        if name == "bash":
            yield from _check_command(entry)
        if rule.action == "allow":
            yield from _check_breadth(entry)

    def check_among(
        self, entry: _LintRule, before: Sequence[_LintRule], after: Sequence[_LintRule]
    ) -> Iterator[LintFinding]:
        """Yield why other rules make this one useless."""
        # The last matching rule of a layer wins: a later one that covers this one hides it.
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
        again = "is written twice" if entry.rule.action == later.rule.action else "has no effect"
        return f"it {again}: {_label(later)} has the same pattern, and the last one wins"
    return f"it has no effect: {_label(later)} comes later and matches everything it matches; write general rules first"


def _check_override(entry: _LintRule, below: Sequence[_LintRule]) -> Iterator[LintFinding]:
    plain = entry.rule.action
    if entry.layer == "project":
        yield _finding(entry, "warning", f"a repository cannot lift a deny: it counts as {plain!r}")
    elif not any(other.is_deny and other.overlaps(entry) for other in below):
        yield _finding(entry, "warning", f"it lifts nothing, because no lower layer denies any of it: write {plain!r}")


def _check_denied(entry: _LintRule, below: Sequence[_LintRule]) -> Iterator[LintFinding]:
    for at, other in enumerate(below):
        # Unless another rule lifts a part of that deny.
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
            "it hardly ever matches: rules are matched against each command of a script separately, without '&&', '|' and ';'",
        )


def _check_breadth(entry: _LintRule) -> Iterator[LintFinding]:
    rule = entry.rule
    every = rule.pattern in {"*", "**"}
    name = base_permission(rule.permission)
    if rule.permission == "*" and every:
        yield _finding(entry, "warning", "it allows everything: use the profile 'full' to say so")
    # A rule may allow exactly one script, whose text is known.
    elif name == "opaque" and entry.command is not None and not entry.command.is_plain:
        yield _finding(entry, "warning", "it allows scripts whose effects cannot be determined")
    elif rule.permission == "outside" and every:
        yield _finding(entry, "hint", "it allows the whole machine, wherever 'read' and 'edit' are allowed")
    elif rule.permission == "bash":
        yield from _check_command_breadth(entry)


def _check_command_breadth(entry: _LintRule) -> Iterator[LintFinding]:
    pattern = entry.rule.pattern
    if set(pattern) <= {"*", " "}:
        yield _finding(entry, "warning", "it allows every command, 'rm -rf' among them")
        return
    if pattern[0] in "*?":
        yield _finding(entry, "warning", "it begins with a wildcard, so it matches any program with such arguments")
        return
    words = pattern.split()
    # Only words before the first wildcard are certain.
    fixed = [word for at, word in enumerate(words) if not any(set(each) & set("*?") for each in words[: at + 1])]
    if len(fixed) < len(words) and fixed and _is_runner(fixed):
        runner = " ".join(fixed)
        yield _finding(
            entry, "warning", f"'{runner}' runs other programs: name the one it may run, '{runner} PROGRAM *'"
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
