"""Faults planted in copies of the package, each with the scenarios that must find it.

Run as a program with a scenario's name (and a number: one in so many points), it plays that scenario and exits 1 when a
promise is broken, so that each mutant has a process, and a package, of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import attrs


@attrs.frozen(kw_only=True)
class Mutant:
    """One planted fault: in *file*, *old* becomes *new*."""

    file: str
    old: str
    new: str
    scenarios: tuple[str, ...]


MUTANTS: dict[str, Mutant] = {
    "an await between the journal and the settlement": Mutant(
        file="nursery/tool_task.py",
        old="\n    call.settle(outcome)\n",
        new=(
            "\n    from engine.core.events import CallSettled\n"
            "    run.journal.append(CallSettled(call_id=entry.call_id, settlement=outcome.settlement))\n"
            "    await trio.lowlevel.checkpoint()\n"
            "    entry.settlement.settle(outcome.settlement)\n"
        ),
        scenarios=("parallel calls",),
    ),
    "an await before the settlement": Mutant(
        file="nursery/tool_task.py",
        old="\n    call.settle(outcome)\n",
        new="\n    await trio.lowlevel.checkpoint()\n    call.settle(outcome)\n",
        scenarios=("parallel calls",),
    ),
    "an unshielded await before the abort marks": Mutant(
        file="nursery/cleanup.py",
        old="with trio.CancelScope(shield=True, deadline=until):",
        new="with trio.CancelScope(deadline=until):",
        scenarios=("manner cleans_up",),
    ),
    "a swallowed Cancelled in the worker": Mutant(
        file="tools/pipeline.py",
        old="        with ErrorBoundary() as boundary:\n"
        '            returned = await ForeignCall(f"the tool {tool.name}", partial(tool.body, prepared.arguments, context))\n',
        new="        boundary = ErrorBoundary()\n"
        "        try:\n"
        '            returned = await ForeignCall(f"the tool {tool.name}", partial(tool.body, prepared.arguments, context))\n'
        "        except BaseException as error:\n"
        "            return Outcome(settlement=_error_of(error))\n",
        scenarios=("manner plain",),
    ),
    "a swallowed Cancelled at the public border": Mutant(
        file="session/turn.py",
        old="        # The body's own exception propagates unchanged.\n        return False",
        new="        # The body's own exception propagates unchanged.\n        return True",
        scenarios=("manner plain",),
    ),
    "a late settlement that wins": Mutant(
        file="core/deferred.py",
        old="            self.dropped += 1\n            return False\n",
        new="            self.dropped += 1\n",
        scenarios=("question rejected",),
    ),
    "TurnEnded before the flush": Mutant(
        file="journal/log.py",
        old="return self.log.append(last, turn_id=self.turn_id, held=True)",
        new="return self.log.append(last, turn_id=self.turn_id)",
        scenarios=("slow store",),
    ),
    "a queued call started after the cancel": Mutant(
        file="nursery/tool_task.py",
        old="        # checkpoint, and that one may be inside the tool.\n"
        "        await trio.lowlevel.checkpoint_if_cancelled()\n",
        new="        # checkpoint, and that one may be inside the tool.\n",
        scenarios=("question answered", "manner plain"),
    ),
    "a request sent again after a call of it has run": Mutant(
        file="nursery/transition.py",
        old="    if outcome.started:\n",
        new="    if outcome.started and not outcome.started:\n",
        scenarios=("runs before a break",),
    ),
    "results delivered as they come": Mutant(
        file="nursery/call_ledger.py",
        old='        self._trace.point("ledger.settled")\n',
        new="        self.deliver(entry)\n",
        scenarios=("parallel calls",),
    ),
    "a clean-up that forgets what was received": Mutant(
        file="nursery/cleanup.py",
        old="    close_step(run, step, keep=True)\n",
        new="    close_step(run, step, keep=False)\n",
        scenarios=("slow stream",),
    ),
}


def plant(mutant: Mutant, package: Path) -> None:
    """Put the fault into the copy of the package at *package*. Raises if its place is not there exactly once."""
    path = package / mutant.file
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.old) != 1:
        raise LookupError(f"{mutant.file} holds the place of the fault {source.count(mutant.old)} times, not once")
    path.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")


def main(name: str, every: int = 2) -> int:
    """Play a scenario, cancelled at one in *every* points; return 1 and say why if a promise is broken."""
    from engine.testing.cancellation.enumeration import PromiseBroken
    from engine.testing.cancellation.everywhere import cancel_everywhere
    from tests.properties.catalogue import CATALOGUE

    try:
        cancel_everywhere(CATALOGUE[name](), every=every)
    except PromiseBroken as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], *map(int, sys.argv[2:])))
