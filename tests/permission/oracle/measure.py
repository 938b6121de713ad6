"""Runs many random scripts, scans each, and counts what the scans did not tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import attrs

from engine.permission.effects.scan_result import Scan
from tests.permission.oracle.compare import Verdict, compare
from tests.permission.oracle.run import Done, Sandbox
from tests.permission.oracle.shrink import shrink

KINDS: Final = ("missed", "differing", "unwritten", "crashed")
Scanner = Callable[[str], Scan]


@attrs.frozen(kw_only=True)
class Failure:
    """A script with something that its scan does not list."""

    script: str
    verdict: Verdict


@attrs.define(eq=False)
class Figures:
    """What a run counted."""

    scripts: int = 0
    opaque: int = 0
    programs: int = 0
    writes: int = 0
    reasons: Counter[str] = attrs.field(factory=Counter[str])
    failures: list[Failure] = attrs.field(factory=list[Failure])

    @property
    def opacity(self) -> float:
        """The part of the scripts that were opaque."""
        return self.opaque / max(1, self.scripts)

    def __str__(self) -> str:
        kinds = Counter(kind for failure in self.failures for kind in KINDS if getattr(failure.verdict, kind))
        return (
            f"{self.scripts:,} scripts, {self.programs:,} programs and {self.writes:,} writes in the clear ones, "
            f"{self.opacity:.1%} opaque; not listed: {kinds['missed']} programs, {kinds['unwritten']} writes, "
            f"{kinds['differing']} differing; {kinds['crashed']} crashed"
        )


def measure(sandbox: Sandbox, scan: Scanner, scripts: Iterable[str]) -> Figures:
    """Run and scan *scripts*, and return what was counted."""
    figures = Figures()
    for done in sandbox.run(tuple(scripts)):
        figures.scripts += 1
        try:
            scanned = scan(done.script)
        except Exception as error:
            figures.failures.append(Failure(script=done.script, verdict=Verdict(crashed=repr(error))))
            continue
        if scanned.opaque:
            figures.opaque += 1
            figures.reasons[scanned.opaque[0]] += 1
            continue
        figures.programs += len(done.started)
        figures.writes += len(done.written)
        verdict = compare(scanned, done)
        if not verdict.is_right:
            figures.failures.append(Failure(script=done.script, verdict=verdict))
    return figures


def smallest(sandbox: Sandbox, scan: Scanner, failure: Failure) -> Failure:
    """Return the shortest part of a script whose scan misses the same kind of thing."""

    def compare_again(script: str) -> Verdict:
        try:
            scanned = scan(script)
        except Exception as error:
            return Verdict(crashed=repr(error))
        return compare(scanned, _only(sandbox, script))

    def still_fails(script: str) -> bool:
        verdict = compare_again(script)
        return any(getattr(verdict, kind) and getattr(failure.verdict, kind) for kind in KINDS)

    script = shrink(failure.script, still_fails)
    return Failure(script=script, verdict=compare_again(script))


def _only(sandbox: Sandbox, script: str) -> Done:
    (done,) = sandbox.run((script,))
    return done
