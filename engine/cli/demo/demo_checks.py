"""What the demo claims, and whether it holds: observed from outside, by events, processes and requests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from engine.cli.demo.demo_script import usage_of
from engine.cli.terminal.terminal_text import duration
from engine.core.events import CallQueued, CallSettled, CallStarted, Durable, Live, TurnEnded, TurnResult
from engine.core.messages import Settlement, Usage
from engine.journal.state import Resync
from engine.testing.loopback import ReceivedRequest
from engine.tools.call_values import GRACE

# A busy machine may observe the end later than it happened.
_ALLOWANCE: Final = 0.5


@attrs.frozen
class Check:
    """A claim of the demo, whether it holds, and what was observed."""

    claim: str
    is_true: bool
    seen: str = ""


@attrs.define(eq=False)
class CallSeen:
    """A tool call, as its events describe it."""

    tool: str
    arguments: str
    was_started: bool = False
    settlement: Settlement | None = None

    @property
    def exit_code(self) -> object:
        """The exit code of a command."""
        metadata = "" if self.settlement is None else self.settlement.metadata
        facts = cast("Mapping[str, object]", json.loads(metadata or "{}"))
        return facts.get("exit_code")

    @property
    def reason(self) -> str | None:
        """Why it was aborted."""
        return None if self.settlement is None else self.settlement.reason


@attrs.define(eq=False)
class DemoRecord:
    """What was observed in the acts.

    Attributes:
        questions: what asked for permission.
        calls: in the order in which the model asked for them.
        most_at_once: calls that ran at the same time.
        workers: processes of the load test that ran just before the cancel.
        left: those of them that ran just after the turn's end.
        seconds_to_end: from the cancel to the turn's end; None if it did not come to that.
    """

    calls: dict[str, CallSeen] = attrs.field(factory=dict[str, CallSeen], init=False)
    questions: list[str] = attrs.field(factory=list[str], init=False)
    results: list[TurnResult] = attrs.field(factory=list[TurnResult], init=False)
    most_at_once: int = attrs.field(default=0, init=False)
    workers: list[int] = attrs.field(factory=list[int], init=False)
    left: list[int] = attrs.field(factory=list[int], init=False)
    seconds_to_end: float | None = attrs.field(default=None, init=False)

    def feed(self, event: Durable | Live | Resync) -> None:
        """Record an event."""
        match event:
            case CallQueued():
                self.calls[event.call_id] = CallSeen(event.tool, event.arguments)
            case CallStarted():
                self.calls[event.call_id].was_started = True
                # Counted from the events: the engine's own statistics would prove nothing.
                running = [call for call in self.calls.values() if call.was_started and call.settlement is None]
                self.most_at_once = max(self.most_at_once, len(running))
            case CallSettled():
                self.calls[event.call_id].settlement = event.settlement
            case TurnEnded():
                self.results.append(event.result)
            case _:
                pass

    @property
    def time_to_end(self) -> str:
        """The time from the cancel to the end of the turn, as text."""
        return "no turn was cancelled" if self.seconds_to_end is None else duration(self.seconds_to_end)

    def commands(self, command: str) -> list[CallSeen]:
        """Return the calls that ran *command*."""
        return [call for call in self.calls.values() if call.tool == "bash" and command in call.arguments]


def checks_of_work(record: DemoRecord) -> Iterator[Check]:
    """Check what the calls achieved, how they ran, and how the turns ended."""
    tests = [call.exit_code for call in record.commands("sh check")]
    yield Check("the tests failed before the edit and pass after it", tests == [1, 0], f"exit codes {tests}")
    yield Check("read-only calls ran concurrently", record.most_at_once > 1, f"{record.most_at_once} at once")
    reasons = [result.stop_reason for result in record.results]
    details = "; ".join(result.detail for result in record.results if result.detail)
    yield Check(
        "the second turn was cancelled, all others completed",
        reasons == ["completed", "aborted", "completed", "completed", "completed"],
        f"{reasons} {details}",
    )


def checks_of_edits(record: DemoRecord) -> Iterator[Check]:
    """Check the edits, and what asked for permission."""
    edits = [call for call in record.calls.values() if call.tool == "edit"]
    states = [None if call.settlement is None else call.settlement.status for call in edits]
    yield Check(
        "both edits were made, the exact one and the one with the wrong indentation",
        states == ["completed"] * 2,
        f"{states}",
    )
    yield Check(
        "what writes or runs a program asked, and what was allowed for the session did not ask again",
        record.questions == ["sh check", "prices.py", "sh load-test"],
        f"{record.questions}",
    )


def checks_of_cancel(record: DemoRecord, orphans: Sequence[int]) -> Iterator[Check]:
    """Check what the cancel left of the calls and their processes; *orphans* run now."""
    load = next(iter(record.commands("load-test")), None)
    waiting = next(iter(record.commands("the load test is over")), None)
    yield Check(
        "the running command was aborted, the waiting one never started",
        (load is not None and load.reason == "cancelled")
        and (waiting is not None and waiting.reason == "not_executed" and not waiting.was_started),
        f"{load}, {waiting}",
    )
    yield Check(
        f"the cancelled turn ended within the grace period of {duration(GRACE)}",
        record.seconds_to_end is not None and record.seconds_to_end <= GRACE + _ALLOWANCE,
        record.time_to_end,
    )
    yield Check(
        "all workers of the load test were running, and none is left",
        len(record.workers) >= 2 and not record.left and not orphans,
        f"running before: {record.workers}, after: {record.left}, orphans: {orphans}",
    )


def checks_of_requests(usage: Usage, requests: Sequence[ReceivedRequest]) -> Iterator[Check]:
    """Check what the server received: a valid history, and the tokens that it reported."""
    yield Check(
        "in every request each call is followed by exactly one result",
        len(requests) > 0 and all(map(has_each_result, requests)),
        "a call without its result, or a result without its call",
    )
    expected = sum((usage_of(step) for step in range(len(requests))), Usage())
    yield Check("token counts match those of the server", usage == expected, f"{usage}, not {expected}")


def is_running(pid: int) -> bool:
    """Tell whether a process runs, without the engine's own code; a zombie does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process has got the same number
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path("/proc/self/stat").exists()  # no /proc on this system; or the process has just ended
    return state not in {"Z", "X"}


def has_each_result(request: ReceivedRequest) -> bool:
    """Tell whether each assistant message's calls are answered, once and in order, by the message after it."""
    messages = _objects(request.json.get("messages"))
    open_calls: list[object] = []
    for message in messages:
        blocks = _objects(message.get("content"))
        results = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        # The order counts too: some hosts reject results in another order.
        if results != open_calls:
            return False
        open_calls = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    return bool(messages) and not open_calls


def _objects(value: object) -> list[Mapping[str, object]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, object]", item) for item in items if isinstance(item, dict)]
