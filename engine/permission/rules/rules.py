"""Rules in layers, and the verdict they give on a right.

Within a layer the last rule that matches wins. Across layers, from the defaults up, the rule of
the later layer wins, but a deny stays: an "allow" or "ask" of a higher layer lifts it only if
that rule has `override`. Where no rule matches, the verdict is "ask". The last layer, "required", is the administrator's:
nothing is above it, and no grant answers what it asks.

A part of a right may be unknown before the call runs. An "allow" must match whatever that part
turns out to be; for "ask" and "deny" it is enough that they could match, but a rule that only
could match does not hide earlier rules. Other spellings of a right (`/bin/rm x` is `rm x` too)
are judged separately and the strictest verdict wins, except that an "ask" or "deny" which
matched the right's own pattern is not counted again. So an additional deny, or an additional
spelling, never allows more.

A permission may end with `:read`, for what changes nothing: `bash:read` is a command that only
reads. Rules for `bash` apply to it too; rules for `bash:read` apply to it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, get_args

import attrs

from engine.core.errors import ConfigError
from engine.core.events import Verdict
from engine.core.permission_types import ACTIONS, Confinement, RequiredRight, Rule
from engine.core.value_base import Value
from engine.permission.rules.path_pattern import PathPattern, compile_path
from engine.permission.rules.rule_index import CommandIndex, PathIndex
from engine.permission.rules.wildcard import Wildcard, wildcard

LayerName = Literal["defaults", "project", "system", "user", "profile file", "host", "agent", "required"]

LAYERS: Final[tuple[LayerName, ...]] = get_args(LayerName)
# Permissions whose patterns are paths, not commands or names.
PATH_PERMISSIONS: Final = frozenset({"read", "edit", "outside"})
READING: Final = ":read"

# Few permissions exist; the bound is for a host that makes up names for each call.
_MAX_RULE_LISTS: Final = 1_000


@attrs.frozen(eq=False, repr=False)
class Layer(Value):
    """The rules of one source, the last of which wins."""

    name: LayerName
    rules: tuple[Rule, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.name not in LAYERS:
            raise ConfigError(f"a layer is one of {', '.join(LAYERS)}, not {self.name!r}")

    @property
    def untrusted(self) -> Layer:
        """The layer as it counts from an untrusted source: only denies and asks, and no overrides."""
        kept = (rule for rule in self.rules if rule.action != "allow")
        return Layer(self.name, tuple(attrs.evolve(rule, override=False) for rule in kept))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RuleVerdict(Value):
    """The verdict of a rule, of the defaults, or of a grant on one right.

    Attributes:
        verdict: allow, ask or deny.
        right: the right; None: the verdict is about no right in particular.
        rule: the rule that decided; None: no rule did.
        layer: the layer of that rule.
        spelling: the text that the rule matched.
        reason: who decided, for people, where it was not the rule alone.
        confinement: see `Judgement`.
    """

    verdict: Verdict
    right: RequiredRight | None = None
    rule: Rule | None = None
    layer: LayerName | None = None
    spelling: str = ""
    reason: str = ""
    confinement: Confinement = ""

    @property
    def is_default(self) -> bool:
        """Whether only the defaults apply: no rule of a higher layer and no grant decided it."""
        return not self.reason and self.layer in {None, "defaults"}

    @property
    def is_general(self) -> bool:
        """Whether it is not about this file or this command in particular."""
        return self.rule is None or self.rule.pattern == "*"

    @property
    def source(self) -> str:
        """Who decided, for people."""
        if self.reason:
            return self.reason
        if self.rule is None:
            return "no rule matches, so it is asked about"
        return f"the rule '{self.rule}' of the layer {self.layer}{self.rule.location}"

    @property
    def strictness(self) -> tuple[int, bool]:
        """How strict it is."""
        # A hook may answer what is asked by default: a rule that asks is stricter.
        return ACTIONS.index(self.verdict), not self.is_default


def strictest(verdicts: Iterable[RuleVerdict]) -> RuleVerdict:
    """Return the strictest of several verdicts, the first one among equals; "ask" if there are none.

    Several rights together get it, and so does a sub-agent: its own rules and those of its parents all apply.
    """
    # `max` returns the first of equals: the outermost session and the first right are named as the source.
    return max(verdicts, key=lambda one: one.strictness, default=RuleVerdict(verdict="ask"))


@attrs.frozen(eq=False, repr=False)
class _CompiledRule:
    """A rule with its layer and its compiled pattern."""

    rule: Rule
    layer: LayerName
    pattern: Wildcard | PathPattern

    @property
    def lifts(self) -> bool:
        """Whether it lifts a deny of a lower layer. A project's rule never does: the profile below it is the user's choice."""
        return self.rule.override and self.layer != "project"

    @property
    def is_deny_all(self) -> bool:
        """Whether it denies everything."""
        pattern = self.pattern
        is_every = pattern.is_every if isinstance(pattern, PathPattern) else pattern.pattern == "*"
        return is_every and self.rule.action == "deny"


@attrs.frozen(eq=False, repr=False)
class _RuleList:
    """All rules that apply to one permission, from the lowest layer up."""

    entries: Sequence[_CompiledRule]
    index: CommandIndex | PathIndex

    def matching(self, text: str) -> Iterator[tuple[_CompiledRule, bool]]:
        """Yield the rules that match *text*, the last first, and whether each match is certain."""
        for number in self.index.candidates(text):
            entry = self.entries[number]
            is_sure = entry.pattern.matches(text)
            if is_sure or (entry.rule.action != "allow" and entry.pattern.may_match(text)):
                yield entry, is_sure


@attrs.define(eq=False, repr=False)
class _Group:
    """The rules of one layer that may decide."""

    layer: LayerName
    entries: list[_CompiledRule] = attrs.field(factory=list[_CompiledRule])
    is_sure: bool = False  # the last one certainly matches and hides those before it

    def decide_over(self, below: _CompiledRule | None) -> _CompiledRule:
        """Return the rule that decides: one of this layer, or *below*, which decided the lower layers."""
        own = max(self.entries, key=lambda entry: ACTIONS.index(entry.rule.action))
        if below is None or below.rule.action != "deny" or own.rule.action == "deny":
            return own  # an "allow" here is certain, and an "ask" is at least as strict as what it hides
        return own if self.is_sure and all(entry.lifts for entry in self.entries) else below


@attrs.define(eq=False, repr=False)
class Ruleset:
    """All rules of a session, compiled. Raises `ConfigError` for a pattern that matches nothing.

    Attributes:
        layers: in any order; several of one name follow one another.
        project: the project's folder, absolute and real.
        home: the user's home folder, absolute and real.
    """

    layers: Sequence[Layer]
    project: str
    home: str
    _entries: tuple[tuple[LayerName, Rule], ...] = attrs.field(init=False, repr=False)
    _denies: bool = attrs.field(init=False, repr=False)
    _paths: dict[str, PathPattern | None] = attrs.field(init=False, repr=False, factory=dict[str, "PathPattern | None"])
    _wildcards: dict[str, Wildcard] = attrs.field(init=False, repr=False, factory=dict[str, Wildcard])
    _rule_lists: dict[str, _RuleList] = attrs.field(init=False, repr=False, factory=dict[str, _RuleList])

    def __attrs_post_init__(self) -> None:
        ordered = sorted(self.layers, key=lambda layer: LAYERS.index(layer.name))
        self._entries = tuple((layer.name, rule) for layer in ordered for rule in layer.rules)
        self._denies = any(rule.action == "deny" for _, rule in self._entries)
        for layer, rule in self._entries:
            if layer == "defaults":  # these are tested, and hundreds: each is compiled when a permission needs it
                continue
            try:
                self._check_pattern(rule)
            except ConfigError as error:
                raise ConfigError(f"the rule '{rule}'{rule.location}: {error}") from error

    def judge(self, permission: str, pattern: str, spellings: Sequence[str] = ()) -> RuleVerdict:
        """Return the verdict on one right."""
        right = RequiredRight(permission, pattern, tuple(spellings))
        rules = self._rules_for(permission)
        verdict = _decide(right, pattern, rules.matching(pattern)) or RuleVerdict(verdict="ask", right=right)
        if not spellings:
            return verdict
        return strictest([verdict, *self._judge_spellings(rules, right)])

    def hides(self, permission: str) -> bool:
        """Return whether *permission* is denied for every pattern, so that a tool that needs it need not be offered.

        A tool whose calls may need the `:read` variant instead is hidden only if both are.
        """
        if not self._denies:  # the usual case: no pattern needs to be compiled
            return False
        is_hidden = False
        entries = self._rules_for(permission).entries
        for name in LAYERS:
            layer = [entry for entry in entries if entry.layer == name]
            last = next((entry for entry in reversed(layer) if entry.rule.action != "deny" or entry.is_deny_all), None)
            if last is not None and last.is_deny_all:
                is_hidden = True
            elif any(entry.lifts for entry in layer):
                is_hidden = False
        return is_hidden

    def matching(self, permission: str, text: str) -> Iterator[tuple[LayerName, Rule, bool]]:
        """Yield the rules that match *text*, the last first, and whether each match is certain."""
        for entry, is_sure in self._rules_for(permission).matching(text):
            yield entry.layer, entry.rule, is_sure

    def _judge_spellings(self, rules: _RuleList, right: RequiredRight) -> Iterator[RuleVerdict]:
        for spelling in right.spellings:
            matching = (
                (entry, is_sure)
                for entry, is_sure in rules.matching(spelling)
                if entry.rule.action == "allow" or not entry.pattern.matches(right.pattern)
            )
            verdict = _decide(right, spelling, matching)
            if verdict is not None:
                yield verdict

    def _check_pattern(self, rule: Rule) -> None:
        if base_permission(rule.permission) in PATH_PERMISSIONS:
            self._paths[rule.pattern] = compile_path(rule.pattern, self.project, self.home)
        else:
            self._wildcards[rule.pattern] = Wildcard(rule.pattern)

    def _rules_for(self, permission: str) -> _RuleList:
        matching = self._rule_lists.get(permission)
        if matching is None:
            matching = self._compile(permission)
            if len(self._rule_lists) < _MAX_RULE_LISTS:
                self._rule_lists[permission] = matching
        return matching

    def _compile(self, permission: str) -> _RuleList:
        is_path = base_permission(permission) in PATH_PERMISSIONS
        entries: list[_CompiledRule] = []
        for layer, rule in self._entries:
            if applies_to(rule.permission, permission):
                pattern = self._path(rule.pattern) if is_path else self._wildcard(rule.pattern)
                if pattern is not None:
                    entries.append(_CompiledRule(rule, layer, pattern))
        if is_path:
            paths = [entry.pattern for entry in entries if isinstance(entry.pattern, PathPattern)]
            return _RuleList(entries, PathIndex(paths, self.project))
        return _RuleList(
            entries, CommandIndex([entry.pattern for entry in entries if isinstance(entry.pattern, Wildcard)])
        )

    def _wildcard(self, pattern: str) -> Wildcard:
        if pattern not in self._wildcards:
            self._wildcards[pattern] = Wildcard(pattern)
        return self._wildcards[pattern]

    def _path(self, pattern: str) -> PathPattern | None:
        """Return the pattern as a path pattern; None if it matches no path, as in a rule for many permissions."""
        if pattern not in self._paths:
            try:
                self._paths[pattern] = compile_path(pattern, self.project, self.home)
            except ConfigError:
                self._paths[pattern] = None
        return self._paths[pattern]


def base_permission(permission: str) -> str:
    """Return *permission* without the `:read` suffix."""
    return permission.removesuffix(READING)


def applies_to(pattern: str, permission: str) -> bool:
    """Return whether a rule for the permissions *pattern* applies to *permission*."""
    names = (permission, base_permission(permission))
    # Most rules name one permission, and with many foreign tools each of these is asked for each tool.
    if "*" not in pattern and "?" not in pattern:
        return pattern in names
    return pattern == permission or any(wildcard(pattern).matches(name) for name in names)


def _decide(right: RequiredRight, text: str, matching: Iterable[tuple[_CompiledRule, bool]]) -> RuleVerdict | None:
    """Return the combined verdict of the rules that match *text*, the last one first; None if there are none."""
    groups: list[_Group] = []
    for entry, is_sure in matching:
        if not groups or groups[-1].layer != entry.layer:
            groups.append(_Group(entry.layer))
        # A certain match hides the earlier rules of its layer; possible ones are collected.
        if not groups[-1].is_sure:
            groups[-1].entries.append(entry)
            groups[-1].is_sure = is_sure
    # From the lowest layer up, each layer may overrule those below.
    deciding: _CompiledRule | None = None
    for group in reversed(groups):
        deciding = group.decide_over(deciding)
    if deciding is None:
        return None
    return RuleVerdict(
        verdict=deciding.rule.action, right=right, rule=deciding.rule, layer=deciding.layer, spelling=text
    )
