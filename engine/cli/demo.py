"""`engine demo`: three turns of real work, offline and unattended, and a check of every claim about them.

A server on the loopback speaks a real wire format to the real provider; the turn
loop, the tools and the processes are real as well. Only the model is a script.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final, cast

import attrs
import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.demo_script import PROMPTS, WORKERS, answer, usage_of, write_repository
from engine.cli.terminal.exit_codes import BROKEN_PIPE, DONE, FAILED, run_command
from engine.cli.terminal.output import Output
from engine.cli.terminal.signals import termination_signals, watch_signals
from engine.cli.terminal.standard_streams import print_error
from engine.cli.terminal.terminal_text import duration
from engine.cli.turn.render import Margins
from engine.cli.turn.screen import Screen
from engine.cli.turn.turn_summary import Tally
from engine.core.errors import ConfigError, StoreError
from engine.core.events import CallHeartbeat, CallQueued, CallSettled, CallStarted, Durable, Live, TurnEnded, TurnResult
from engine.core.messages import Settlement, Usage
from engine.core.settings import RetryPolicy, Settings
from engine.core.version import __version__
from engine.export.trace_page import render_trace
from engine.journal.state import Resync
from engine.permission.allow_all import AllowAll
from engine.process.kill_tree import find_marked
from engine.providers.registry import resolve
from engine.session.engine import open_engine
from engine.session.engine_options import PermissionOptions
from engine.session.session import Session
from engine.session.turn import Turn
from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.call_values import GRACE

_MODEL: Final = "anthropic/claude-sonnet-4-5"
_RUNNING_FOR: Final = 0.75
# A busy machine may observe the end later than it happened.
_ALLOWANCE: Final = 0.5

_INTRODUCTION: Final = """\
This is the real engine at work: real tools and real processes in a scratch folder, a real HTTP connection to a
server on this machine that speaks Anthropic's wire format. Only the model is a script. No key, no network.
"""


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code: 0 only if every check passed."""

    def run() -> int:
        page: Path | None = parse_arguments("demo", arguments).html
        if page is not None and page.exists():
            raise ConfigError(f"{page} exists already")
        return trio.run(_demo, page)

    return run_command("demo", run)


async def _demo(page: Path | None) -> int:
    """Run the demo and clean up. Always a checkpoint; after a signal it ends early and leaves nothing behind."""
    interrupted_by: int | None = None
    with (
        trio.open_signal_receiver(*termination_signals()) as signals,
        tempfile.TemporaryDirectory(prefix="engine-demo-") as folder,
    ):
        passed = False
        # Everything is in a temporary folder, so the demo can't touch the user's files.
        demo = _Demo(Path(folder), page, Output.to(sys.stdout))
        async with trio.open_nursery() as nursery:

            def interrupt(number: int) -> None:
                nonlocal interrupted_by
                interrupted_by = number
                nursery.cancel_scope.cancel(reason="interrupted")

            demo.output.on_failure(lambda: nursery.cancel_scope.cancel(reason="the output was closed"))
            nursery.start_soon(watch_signals, signals, interrupt, demo.tally.is_ours)
            nursery.start_soon(demo.output.run)
            passed = await demo.run(nursery)
            await demo.output.drain()
            nursery.cancel_scope.cancel(reason="the demo is over")
    if interrupted_by is not None:
        # Even an interrupted demo proves its claim that no process is left.
        left = find_marked(demo.tally.is_ours)
        print_error(f"engine demo: interrupted, {len(left)} processes still running")
        return 128 + interrupted_by
    if demo.output.is_reader_gone:
        return BROKEN_PIPE
    return DONE if passed else FAILED


@attrs.frozen
class Check:
    """A claim of the demo, whether it holds, and what was observed."""

    claim: str
    is_true: bool
    seen: str = ""


@attrs.define(eq=False)
class _Call:
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
class _Record:
    """What was observed in the three turns.

    Attributes:
        calls: in the order in which the model asked for them.
        most_at_once: calls that ran at the same time.
        workers: processes of the load test that ran just before the cancel.
        left: those of them that ran just after the turn's end.
        seconds_to_end: from the cancel to the turn's end; None if it did not come to that.
    """

    calls: dict[str, _Call] = attrs.field(factory=dict[str, _Call], init=False)
    results: list[TurnResult] = attrs.field(factory=list[TurnResult], init=False)
    most_at_once: int = attrs.field(default=0, init=False)
    workers: list[int] = attrs.field(factory=list[int], init=False)
    left: list[int] = attrs.field(factory=list[int], init=False)
    seconds_to_end: float | None = attrs.field(default=None, init=False)

    def feed(self, event: Durable | Live | Resync) -> None:
        """Record an event."""
        match event:
            case CallQueued():
                self.calls[event.call_id] = _Call(event.tool, event.arguments)
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

    def commands(self, command: str) -> list[_Call]:
        """Return the calls that ran *command*."""
        return [call for call in self.calls.values() if call.tool == "bash" and command in call.arguments]


@attrs.define(eq=False)
class _Demo:
    """Plays the three turns, shows them, and checks them."""

    _folder: Path
    _page: Path | None
    output: Output
    tally: Tally = attrs.field(factory=Tally, init=False)
    _screen: Screen = attrs.field(init=False)
    _record: _Record = attrs.field(factory=_Record, init=False)
    _cancelled_at: float | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        margins = Margins(model="model  ", call="tool   ", note="       ")
        self._screen = Screen.on(self.output, margins=margins, plain=True)

    async def run(self, nursery: trio.Nursery) -> bool:
        """Play all turns; return whether every check passed. Always a checkpoint; the server runs in *nursery*."""
        self._screen.add_lines(_INTRODUCTION)
        write_repository(self._folder)
        server = ScriptedServer(lambda request: answer(len(server.requests) - 1, request))
        url = await nursery.start(server.serve)
        model = resolve(_MODEL, {"ANTHROPIC_API_KEY": "none-is-needed", "ANTHROPIC_BASE_URL": url})
        # A retry would hide a request that the script refuses.
        settings = Settings(retry=RetryPolicy(attempts=0))
        async with (
            aclosing(model),
            open_engine(
                model=model,
                tools=builtin_tools(),
                settings=settings,
                permissions=PermissionOptions(approver=AllowAll()),
            ) as eng,
        ):
            session = await eng.create_session(cwd=self._folder)
            await self._play(session, "A bug to fix", PROMPTS[0])
            await self._play(
                session, "A command that would take minutes, cancelled while it runs", PROMPTS[1], cancel=True
            )
            await self._play(session, "The same session continues", PROMPTS[2])
            usage = session.state.usage
            journal = session.events()
        passed = self._sum_up(usage, server.requests)
        if self._page is not None:
            self._write_page(self._page, journal)
        return passed

    def _write_page(self, page: Path, journal: Sequence[Durable]) -> None:
        """Draw what ran when in the three turns. Raises `StoreError`."""
        try:
            with page.open("x", encoding="utf-8") as file:
                file.write(render_trace([journal], "The demo", engine=__version__, at=time.time()))
        except OSError as error:
            raise StoreError(f"{page} can't be written: {error.strerror}") from error
        self._screen.add_lines(f"\nwhat ran when           {page}\n")

    async def _play(self, session: Session, title: str, prompt: str, *, cancel: bool = False) -> None:
        self._screen.add_lines(f"\n{title}\n\nyou    {prompt}\n")
        async with session.prompt(prompt) as turn:
            async for event in turn:
                self.tally.feed(event)
                self._record.feed(event)
                self._screen.show(event)
                if cancel:
                    self._cancel_in_the_middle(turn, event)

    def _cancel_in_the_middle(self, turn: Turn, event: Durable | Live | Resync) -> None:
        record = self._record
        # A heartbeat says that the command runs; its workers need some time to start.
        if isinstance(event, CallHeartbeat) and event.elapsed >= _RUNNING_FOR and self._cancelled_at is None:
            record.workers = [pid for pid in self._pids() if is_running(pid)]
            self._screen.add_lines(f"you    turn.cancel(), while {len(record.workers)} workers are running\n")
            self.tally.mark_cancel()
            self._cancelled_at = trio.current_time()
            turn.cancel()
        elif isinstance(event, TurnEnded) and self._cancelled_at is not None:
            seconds = record.seconds_to_end = trio.current_time() - self._cancelled_at
            record.left = [pid for pid in record.workers if is_running(pid)]
            note = self._screen.symbols.note
            summary = f"the turn ended {duration(seconds)} after the cancel: {self.tally.cancelled}"
            self._screen.add_lines(f"       {note} {summary}, {len(record.left)} workers left\n")

    def _pids(self) -> list[int]:
        try:
            return [int(line) for line in (self._folder / WORKERS).read_text(encoding="ascii").split()]
        except FileNotFoundError:
            return []

    def _sum_up(self, usage: Usage, requests: Sequence[ReceivedRequest]) -> bool:
        """Check every claim, print the summary, and return whether all checks passed."""
        checks = list(self._checks(usage, requests))
        symbols = self._screen.symbols
        self._screen.add_lines("\nChecks\n\n")
        for check in checks:
            mark = symbols.done if check.is_true else symbols.failed
            self._screen.add_lines(
                f"{mark} {check.claim}" + ("" if check.is_true else f"  FAILED: {check.seen}") + "\n"
            )
        self._screen.add_lines(
            f"\ncalls                   {self.tally.states}\n"
            f"cancel to end of turn   {self._record.time_to_end} (grace period: {duration(GRACE)})\n"
            f"processes left          {len(self._record.left)}\n"
            f"tokens                  {usage.total:,} in {len(requests)} requests, as the server counted them\n"
        )
        passed = all(check.is_true for check in checks)
        if not passed:
            self._screen.add_lines("\nSome checks failed: see above.\n")
        return passed

    def _checks(self, usage: Usage, requests: Sequence[ReceivedRequest]) -> Iterator[Check]:
        yield from _checks_of_work(self._record)
        yield from _checks_of_cancel(self._record, [process.pid for process in find_marked(self.tally.is_ours)])
        yield from _checks_of_requests(usage, requests)


def _checks_of_work(record: _Record) -> Iterator[Check]:
    """Check what the calls achieved, how they ran, and how the turns ended."""
    tests = [call.exit_code for call in record.commands("sh check")]
    yield Check("the tests failed before the edit and pass after it", tests == [1, 0], f"exit codes {tests}")
    yield Check("read-only calls ran concurrently", record.most_at_once > 1, f"{record.most_at_once} at once")
    reasons = [result.stop_reason for result in record.results]
    details = "; ".join(result.detail for result in record.results if result.detail)
    yield Check(
        "the first and the third turn completed, the second was cancelled",
        reasons == ["completed", "aborted", "completed"],
        f"{reasons} {details}",
    )


def _checks_of_cancel(record: _Record, orphans: Sequence[int]) -> Iterator[Check]:
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


def _checks_of_requests(usage: Usage, requests: Sequence[ReceivedRequest]) -> Iterator[Check]:
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
