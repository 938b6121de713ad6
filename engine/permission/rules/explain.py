"""Explain to a person why the rules give their verdict on a right."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from engine.core.permission_types import UNKNOWN, RequiredRight, Rule
from engine.permission.rules.rules import LAYERS, LayerName, Ruleset, RuleVerdict


@attrs.frozen
class _Match:
    """A rule that matches a spelling of a right.

    Attributes:
        rule: the rule.
        layer: its layer.
        spelling: the text that it matches.
        is_sure: whether it matches no matter what the unknown parts are.
        hidden_by: a later rule of the same layer that certainly matches too.
    """

    rule: Rule
    layer: LayerName
    spelling: str
    is_sure: bool
    hidden_by: Rule | None


def explain(rules: Ruleset, right: RequiredRight) -> str:
    """Return which rule of which layer decides, which others match, and why those do not decide."""
    verdict = rules.judge(right.permission, right.pattern, right.spellings)
    lines = [f"{verdict.verdict}: {right.permission} {shown(right.pattern)}", f"  by {_source(right, verdict)}"]
    others = [match for match in _matches(rules, right) if match.rule is not verdict.rule]
    if others:
        lines.append("  these match as well:")
        lines += [f"  - '{match.rule}' of {_location(match)}: {_why_not(match, right, verdict)}" for match in others]
    return "\n".join(lines)


def shown(text: str) -> str:
    """Return a pattern or a text on one line, with `…` for unknown parts."""
    return repr(text.replace(UNKNOWN, "…")) if not text.isprintable() else text.replace(UNKNOWN, "…")


def _matches(rules: Ruleset, right: RequiredRight) -> Iterator[_Match]:
    """Yield each matching rule with the first spelling that it matches."""
    seen: set[int] = set()
    # In the order in which the spellings are judged.
    for spelling in (right.pattern, *right.spellings):
        hiding: dict[LayerName, Rule] = {}
        for layer, rule, is_sure in rules.matching(right.permission, spelling):
            if id(rule) not in seen:
                yield _Match(rule, layer, spelling, is_sure, hiding.get(layer))
            seen.add(id(rule))
            if is_sure:
                hiding.setdefault(layer, rule)


def _source(right: RequiredRight, verdict: RuleVerdict) -> str:
    spelled = "" if verdict.spelling in {"", right.pattern} else f", because it is {shown(verdict.spelling)} too"
    return verdict.source + spelled


def _location(match: _Match) -> str:
    return f"the layer {match.layer}{match.rule.location}"


def _why_not(match: _Match, right: RequiredRight, verdict: RuleVerdict) -> str:
    if match.hidden_by is not None:
        return f"'{match.hidden_by}' comes after it in the same layer"
    if match.spelling != verdict.spelling:
        if match.spelling != right.pattern and match.rule.action == "allow":
            return f"it matches only {shown(match.spelling)}, and an allow must match the right as it stands"
        return f"the strictest verdict of all spellings counts, and this one matches {shown(match.spelling)}"
    if match.layer == verdict.layer:
        return "it may match as well, and the stricter verdict counts"
    if verdict.layer is None or LAYERS.index(match.layer) < LAYERS.index(verdict.layer):
        return f"the layer {verdict.layer} is above it"
    if match.rule.override and match.layer == "project":
        return "a rule of a repository never lifts a deny of the user"
    if match.rule.override:
        return "it may not match, and only a certain match lifts a deny"
    return f"a deny of a lower layer stays, unless a rule says '{match.rule.action}!'"
