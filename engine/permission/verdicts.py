"""What is said of a right, by a rule or by somebody's "always", and what becomes of it where something else is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from engine.core.events import Right, Verdict
from engine.core.permission_types import PermissionQuery, Rule
from engine.permission.requested_rights import OUTSIDE
from engine.permission.rules.rules import Decision, Ruleset, holds_for

# The right to do what nobody can tell before it is done.
OPAQUE: Final = "opaque"
# The right to do in a sandbox what would be asked about otherwise.
SANDBOXED: Final = "sandboxed"

# What a script that can't be seen through might do.
_DONE_BY_SCRIPTS: Final = ("bash", "edit", "read", OUTSIDE)


@attrs.frozen
class Word:
    """What is said of a right, and by whom.

    Attributes:
        right: which.
        verdict: what is said.
        source: by whom.
        is_default: nobody has said it, it holds where nobody has said anything.
        is_general: what says it is not about this file or this command in particular.
    """

    right: Right
    verdict: Verdict
    source: str
    is_default: bool = attrs.field(kw_only=True)
    is_general: bool = attrs.field(default=False, kw_only=True)


def following(word: Word, before: Sequence[Word | None]) -> Word:
    """Return what is said of a consequence: where somebody has allowed what it comes of, it is allowed as well.

    Who allowed a command has said nothing of what lies beyond the project, nor of files that the defaults name.
    """
    if word.right.permission == OUTSIDE or not word.is_general:
        return word
    known = [one for one in before if one is not None and one.verdict == "allow" and not one.is_default]
    return attrs.evolve(known[0], right=word.right) if known and len(known) == len(before) else word


def boxed(words: Iterable[Word], decision: Decision) -> Iterator[Word]:
    """Yield words as they are for a sandbox: what would be asked by default, *decision* about sandboxes may allow."""
    for word in words:
        is_allowed = word.verdict == "ask" and word.is_default and decision.action == "allow"
        inside = attrs.evolve(word, verdict="allow", source=decision.source, is_default=decision.is_default)
        yield inside if is_allowed else word


def darkness(query: PermissionQuery, ruleset: Ruleset) -> Word:
    """Return what is said of what nobody can see through: it is allowed only where nothing is forbidden that it might do."""
    right = Right(permission=OPAQUE, pattern=query.detail or query.opaque)
    decision = ruleset.judge(right.permission, right.pattern)
    restriction = _restriction(ruleset) if decision.action == "allow" else None
    if restriction is not None:
        why = f"the rule '{restriction}'{restriction.place}, which nobody can tell whether it is heeded"
        return Word(right, "ask", why, is_default=False)
    return Word(right, decision.action, decision.source, is_default=decision.is_default)


def _restriction(ruleset: Ruleset) -> Rule | None:
    """Return a rule of somebody's own that forbids something which a script may do, or asks about it."""
    for layer in ruleset.layers:
        for rule in () if layer.name == "defaults" else layer.rules:
            if rule.action != "allow" and any(holds_for(rule.permission, name) for name in _DONE_BY_SCRIPTS):
                return rule
    return None
