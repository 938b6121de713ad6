"""How a verdict changes by what else is known: consequences of an allowed command, a sandbox, an opaque script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import attrs

from engine.core.permission_types import PermissionQuery, RequiredRight, Rule
from engine.permission.requested_rights import OUTSIDE
from engine.permission.rules.rules import READING, Ruleset, RuleVerdict, applies_to

# The right to run a script whose effects cannot be determined before it runs.
OPAQUE: Final = "opaque"
# The right to run a command without a box.
UNSANDBOXED: Final = "unsandboxed"
# The right to do in a sandbox what would be asked about otherwise.
SANDBOXED: Final = "sandboxed"

# The permissions that a script may need.
_SCRIPT_PERMISSIONS: Final = ("bash", "edit", "read", OUTSIDE)


def allow_consequence(verdict: RuleVerdict, causes: Sequence[RuleVerdict | None]) -> RuleVerdict:
    """Return *verdict*, or "allow" if a rule or a grant allows each of its *causes*.

    Allowing a command does not allow what lies outside of the project, nor files that a rule names.
    """
    if verdict.right is None or verdict.right.permission == OUTSIDE or not verdict.is_general:
        return verdict
    allowed = [cause for cause in causes if cause is not None and cause.verdict == "allow" and not cause.is_default]
    return attrs.evolve(allowed[0], right=verdict.right) if allowed and len(allowed) == len(causes) else verdict


def relax_for_sandbox(verdicts: Iterable[RuleVerdict], sandboxed: RuleVerdict) -> Iterator[RuleVerdict]:
    """Yield the verdicts for a sandboxed call: where only the defaults ask, *sandboxed* may allow.

    Not about files that a default names: secrets, and what runs later by itself, outside of the sandbox.
    """
    for verdict in verdicts:
        is_asked = verdict.verdict == "ask" and verdict.is_default and verdict.is_general
        is_relaxed = is_asked and sandboxed.verdict == "allow"
        yield attrs.evolve(sandboxed, right=verdict.right, confinement="sandboxed") if is_relaxed else verdict


def confine_reading(
    verdicts: Iterable[RuleVerdict], judge_unconfined: Callable[[], RuleVerdict]
) -> Iterator[RuleVerdict]:
    """Yield the verdicts: what only the defaults allow as reading is confined, unless it may run unconfined as well."""
    for verdict in verdicts:
        is_reading = verdict.right is not None and verdict.right.permission.endswith(READING)
        is_free = is_reading and verdict.verdict == "allow" and verdict.is_default
        # Judged only where it matters: most calls are not of this kind.
        is_confined = is_free and judge_unconfined().verdict != "allow"
        yield attrs.evolve(verdict, confinement="reading") if is_confined else verdict


def judge_opaque_script(query: PermissionQuery, ruleset: Ruleset) -> RuleVerdict:
    """Judge a script that cannot be analysed: allow it only if no rule forbids anything it might do."""
    verdict = ruleset.judge(OPAQUE, query.detail or query.opaque)
    restriction = _restriction(ruleset) if verdict.verdict == "allow" else None
    if restriction is None:
        return verdict
    reason = f"the rule '{restriction}'{restriction.location}, because the script cannot be checked against it"
    return RuleVerdict(verdict="ask", right=verdict.right, reason=reason)


def judge_any_file(right: RequiredRight, ruleset: Ruleset) -> RuleVerdict:
    """Judge the reading of files that nothing names: ask if a rule above the defaults may forbid one of them.

    Those that look like secrets are looked for, and are rights of their own.
    """
    for layer, rule, _ in ruleset.matching(right.permission, right.pattern):
        if layer != "defaults" and rule.action != "allow":
            return RuleVerdict(verdict="ask", right=right, rule=rule, layer=layer)
    return RuleVerdict(verdict="allow", right=right, layer="defaults")


def _restriction(ruleset: Ruleset) -> Rule | None:
    """Return a rule above the defaults that denies, or asks about, something which a script may do."""
    for layer in ruleset.layers:
        for rule in () if layer.name == "defaults" else layer.rules:
            if rule.action != "allow" and any(applies_to(rule.permission, name) for name in _SCRIPT_PERMISSIONS):
                return rule
    return None
