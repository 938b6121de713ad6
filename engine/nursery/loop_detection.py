"""Detects a model that goes in circles: a pure function of what happened since the last user input (T6).

It compares calls across all steps, with their results: the same call with a changed result is progress. It finds blocks of
one to twelve calls that repeat three times, streaks of errors, repeated text without calls, and calls that are nearly equal;
the last kind only ever leads to a nudge. The other findings escalate: nudge, then ask, then stop.
"""

from __future__ import annotations

import hashlib
import json

import attrs

from engine.core.events import DoomAction, DoomKind
from engine.core.messages import Settlement
from engine.core.value_base import Value

# Twice is common in good work: a test is run, something is changed elsewhere, and it is run again.
REPEATS = 3
# Read, edit, test, read the log. Longer circles are left to the limit of steps.
PERIODS = tuple(range(1, 13))
# Of the same tool. A model that searches for a file fails a few times on its way.
ERROR_STREAK = 5
# Errors of whichever tools.
ANY_ERRORS = 12
# How similar two argument texts are, as difflib has it: a changed number or path passes, a changed command does not.
NEAR = 0.9
# The comparison takes quadratic time, and longer arguments are contents of files.
NEAR_MAX_CHARS = 400
WINDOW = REPEATS * max(PERIODS)


@attrs.frozen(kw_only=True)
class Signature:
    """A call's identity: its tool, and its arguments with their keys sorted."""

    tool: str
    arguments: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Finding(Value):
    """A repetition, and the action that it calls for."""

    kind: DoomKind
    action: DoomAction
    detail: str


@attrs.define(eq=False, repr=False)
class SeenCall:
    """One call of the window.

    Attributes:
        result: a digest of its result; None until it has one.
    """

    signature: Signature
    result: str | None = None
    is_error: bool = False

    def note(self, settlement: Settlement, produced: str | None = None) -> None:
        """Take the result, unless there is one already: what the call *produced*, or else its text."""
        if self.result is None:
            self.result = digest(f"{settlement.status}:{settlement.text if produced is None else produced}")
            self.is_error = settlement.status == "error"


def signature_of(tool: str, arguments: str) -> Signature:
    """Return the identity of a call; arguments that are not JSON are compared as text."""
    # Models write the same arguments with other spaces and in another order.
    try:
        canonical = json.dumps(json.loads(arguments or "{}"), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        canonical = arguments
    return Signature(tool=tool, arguments=canonical)


def digest(text: str) -> str:
    """Return a digest of a result: the window must not hold megabytes."""
    # A lone surrogate, which a tool may return, must not raise here.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


@attrs.define(eq=False, repr=False)
class RepetitionDetector:
    """The calls and texts since the last user input."""

    _calls: list[SeenCall] = attrs.field(factory=list[SeenCall], init=False)
    _texts: list[str] = attrs.field(factory=list[str], init=False)
    _level: int = attrs.field(default=0, init=False)
    _near_nudged: set[str] = attrs.field(factory=set[str], init=False)
    _allowed: set[Signature] = attrs.field(factory=set[Signature], init=False)

    def reset(self) -> None:
        """Start over, after input from the user."""
        self._calls.clear()
        self._texts.clear()
        self._near_nudged.clear()
        self._allowed.clear()
        self._level = 0

    def forget(self, seen: SeenCall) -> None:
        """Take a call out of the window, as if it had not been made."""
        self._calls = [call for call in self._calls if call is not seen]

    def allow(self, signature: Signature) -> None:
        """Ignore that call from now on: the user has answered "always"."""
        self._allowed.add(signature)

    def check(self, signature: Signature) -> tuple[SeenCall, Finding | None]:
        """Add a call *before* it starts; return its place in the window, and the repetition that it makes, if any."""
        finding = None if signature in self._allowed else self._find(signature)
        seen = SeenCall(signature)
        self._calls.append(seen)
        del self._calls[:-WINDOW]
        return seen, finding

    def check_text(self, text: str) -> Finding | None:
        """Add the text of a step without calls; return the repetition that it makes, if any."""
        if not text.strip():
            return None
        self._texts.append(digest(text.strip()))
        if len(self._texts) >= REPEATS and len(set(self._texts[-REPEATS:])) == 1:
            return self._escalated("monologue", f"the same text {REPEATS} times")
        return None

    def _find(self, signature: Signature) -> Finding | None:
        # From short to long: four equal calls are a circle of one, not of two.
        for period in PERIODS:
            if self._repeats(signature, period):
                what = "the same call" if period == 1 else f"the same {period} calls"
                return self._escalated(
                    "repeat", f"{what} for the {REPEATS}rd time, with the same results: {signature.tool}"
                )
        if self._is_error_streak(signature):
            return self._escalated("errors", f"{ERROR_STREAK} errors of {signature.tool} in a row")
        if len(self._calls) >= ANY_ERRORS and all(seen.is_error for seen in self._calls[-ANY_ERRORS:]):
            return self._escalated("errors", f"{ANY_ERRORS} errors in a row")
        if signature.tool not in self._near_nudged and self._is_near(signature):
            self._near_nudged.add(signature.tool)
            return Finding(kind="near_repeat", action="nudge", detail=f"nearly the same call of {signature.tool} again")
        return None

    def _escalated(self, kind: DoomKind, detail: str) -> Finding:
        actions: tuple[DoomAction, ...] = ("nudge", "ask", "stop")
        action = actions[min(self._level, 2)]
        self._level += 1
        return Finding(kind=kind, action=action, detail=detail)

    def _repeats(self, signature: Signature, period: int) -> bool:
        needed = REPEATS * period - 1
        # The comparison that nearly always fails comes first: this runs for every call, with every period.
        if len(self._calls) < needed or self._calls[-period].signature != signature:
            return False
        recent = self._calls[-needed:]
        if any(seen.signature != recent[i % period].signature for i, seen in enumerate(recent)):
            return False
        if signature != recent[(len(recent)) % period].signature:
            return False
        # Equal calls of one message start together: a result that is not there yet can't be progress.
        return all(
            earlier.result is None or later.result is None or earlier.result == later.result
            for earlier, later in zip(recent, recent[period:], strict=False)
        )

    def _is_error_streak(self, signature: Signature) -> bool:
        recent = self._calls[-ERROR_STREAK:]
        return len(recent) == ERROR_STREAK and all(
            seen.is_error and seen.signature.tool == signature.tool for seen in recent
        )

    def _is_near(self, signature: Signature) -> bool:
        recent = self._calls[-(REPEATS - 1) :]
        is_same = len(recent) == REPEATS - 1 and all(
            seen.signature.tool == signature.tool
            # Three files with similar names, read at the same time, are no circle: so here a result must be there.
            and seen.result is not None
            and seen.result == recent[0].result
            for seen in recent
        )
        # Last, since it takes longest: this runs for every call.
        return is_same and all(is_near(seen.signature.arguments, signature.arguments) for seen in recent)


def is_near(one: str, other: str) -> bool:
    """Return whether two argument texts differ in little."""
    if one == other:
        return True
    if max(len(one), len(other)) > NEAR_MAX_CHARS:
        return False
    # Imported here: most turns never compare two texts.
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, one, other, autojunk=False)
    # Cheapest first; each of the first two is an upper bound of the next.
    return matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR and matcher.ratio() >= NEAR
