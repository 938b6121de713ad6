"""The summary of a turn: how its calls ended, a sentence for the user, and the exit code."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from engine.cli.terminal.exit_codes import STOP_CODES
from engine.cli.terminal.terminal_text import duration
from engine.core.events import CallAnnounced, CallSettled, Durable, Live, TurnResult, TurnStarted
from engine.core.ids import CallId, SessionId
from engine.core.messages import Settlement, Usage
from engine.journal.state import Resync
from engine.tools.shell_environment import is_of_hook, marker
from engine.tools.tool_text import counted

_STATES: Final = ("completed", "failed", "error", "denied", "aborted", "not executed", "would not stop")


@attrs.define(eq=False, repr=False)
class Tally:
    """Counts the calls of a turn and of its sub-agents by how they ended. It keeps no results: a chat may last for days."""

    unsettled: set[CallId] = attrs.field(factory=set[CallId], init=False)
    _ends: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _sessions: set[SessionId] = attrs.field(factory=set[SessionId], init=False)
    _open_at_cancel: frozenset[CallId] = attrs.field(default=frozenset(), init=False)
    _cancelled_ends: Counter[str] = attrs.field(factory=Counter[str], init=False)

    def feed(self, event: Durable | Live | Resync) -> None:
        """Record a call's progress from *event*."""
        # Sub-agents have turns and calls in sessions of their own, and count too.
        if isinstance(event, TurnStarted):
            self._sessions.add(event.session_id)
        elif isinstance(event, CallAnnounced):
            self._sessions.add(event.session_id)
            self.unsettled.add(event.call_id)
        elif isinstance(event, CallSettled):
            self.unsettled.discard(event.call_id)
            end = state_of(event.settlement)
            self._ends[end] += 1
            if event.call_id in self._open_at_cancel:
                self._cancelled_ends[end] += 1

    def mark_cancel(self) -> None:
        """Record that the turn is cancelled now: `cancelled` reports the calls that are open at this moment."""
        self._open_at_cancel = frozenset(self.unsettled)
        self._cancelled_ends.clear()

    def is_ours(self, mark: str) -> bool:
        """Tell whether a process with this mark belongs to a call or a hook of one of these sessions."""
        return any(mark.startswith(marker(session)) for session in self._sessions)

    def is_of_call(self, mark: str) -> bool:
        """Tell whether a process with this mark belongs to a call: a hook may run until this process ends."""
        return self.is_ours(mark) and not is_of_hook(mark)

    @property
    def states(self) -> str:
        """How all calls ended: `3 completed, 1 failed`."""
        return ", ".join(f"{self._ends[state]} {state}" for state in _STATES if self._ends[state])

    @property
    def settled(self) -> int:
        """How many calls have ended."""
        return self._ends.total()

    @property
    def cancelled(self) -> str:
        """How the calls that were open at the cancel ended, as sentences."""
        counts = self._cancelled_ends
        if not counts:  # the cancel came while the model was streaming
            return "No tool call was running."
        stopped, unstopped = counts["aborted"] + counts["not executed"], counts["would not stop"]
        finished = counts.total() - stopped - unstopped
        sentences = (
            f"{counted(count, 'tool call')} {how}."
            for count, how in ((stopped, "stopped"), (finished, "finished"), (unstopped, "would not stop"))
            if count
        )
        return " ".join(sentences)


def state_of(settlement: Settlement) -> str:
    """Return how a call ended in one or two words."""
    # "failed" is the command's own report; "error" is one of the tool.
    if settlement.status == "completed":
        return "failed" if settlement.failed else "completed"
    if settlement.status == "aborted" and settlement.reason == "not_executed":
        return "not executed"
    if settlement.status == "aborted" and settlement.outcome_unknown and settlement.reason != "interrupted_by_crash":
        return "would not stop"
    return settlement.status


def closing_line(result: TurnResult, tally: Tally, seconds: float | None) -> str:
    """Return how long a turn took and what it used; *seconds* None: it is not known how long it took."""
    took = "" if seconds is None else duration(seconds)
    if result.stop_reason == "completed":
        begin = f"Done in {took}" if took else "Done"
    else:
        begin = f"Stopped after {took}" if took else "Stopped"
    used = [
        counted(result.steps, "request"),
        counted(tally.settled, "tool call"),
        counted(result.usage.total, "token") + _from_cache(result.usage),
        # Local models and unknown prices cost nothing that could be shown.
        *([f"${_money(result.cost)}"] if result.cost else []),
    ]
    return " · ".join((begin, *used))


def _money(dollars: float) -> str:
    # A single answer often costs less than a cent.
    return f"{dollars:.2f}" if dollars >= 0.1 else f"{dollars:.4f}"


def _from_cache(usage: Usage) -> str:
    """Return the share of the prompts that came from a cache, if the provider reported one."""
    if not usage.cache_read and not usage.cache_write:
        return ""
    return f" ({usage.cache_share:.0%} of the prompts from the cache)"


def exit_code(result: TurnResult, interrupted_by: int | None) -> int:
    """Return the code for the stop reason; 128 plus the signal's number if a signal cancelled the turn."""
    if result.stop_reason == "aborted" and interrupted_by is not None:
        return 128 + interrupted_by
    return STOP_CODES[result.stop_reason]
