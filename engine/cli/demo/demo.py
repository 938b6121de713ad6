"""`engine demo`: four acts of real work, offline and unattended, and a check of every claim about them.

A server on the loopback speaks a real wire format to the real provider; the turn
loop, the tools and the processes are real as well. Only the model is a script.
"""

from __future__ import annotations

import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

import attrs
import platformdirs
import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.demo.demo_checks import (
    Check,
    DemoRecord,
    checks_of_cancel,
    checks_of_edits,
    checks_of_requests,
    checks_of_work,
    is_running,
)
from engine.cli.demo.demo_script import ACTS, WORKERS, Act, answer, write_repository
from engine.cli.questions.permission_answers import Reply, outcome_of
from engine.cli.questions.permission_view import PermissionView
from engine.cli.terminal.exit_codes import BROKEN_PIPE, DONE, FAILED, run_command
from engine.cli.terminal.output import Output
from engine.cli.terminal.signals import termination_signals, watch_signals
from engine.cli.terminal.standard_streams import print_error
from engine.cli.terminal.terminal_text import UNICODE, duration
from engine.cli.turn.render import Margins
from engine.cli.turn.screen import Screen
from engine.cli.turn.turn_summary import Tally
from engine.core.errors import ConfigError, StoreError
from engine.core.events import CallHeartbeat, Durable, Live, PermissionAsked, TurnEnded
from engine.core.messages import Usage
from engine.core.settings import RetryPolicy, Settings
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.export.trace_page import render_trace
from engine.export.trace_text import ASCII_LANES, LaneSymbols, trace_lines
from engine.journal.state import Resync
from engine.process.kill_tree import find_marked
from engine.providers.registry import resolve
from engine.session.engine import Engine, open_engine
from engine.session.engine_options import PermissionOptions
from engine.session.session import Session
from engine.session.turn import Turn
from engine.snapshots.snapshot_dir import write_atomically
from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.call_values import GRACE

_MODEL: Final = "anthropic/claude-sonnet-4-5"
_RUNNING_FOR: Final = 0.75
_TIME_TO_OPEN: Final = 4.0

_INTRODUCTION: Final = """\
This is the real engine at work: real tools and real processes in a scratch folder, a real HTTP
connection to a server on this machine that speaks Anthropic's wire format. Only the model is a
script. No key, no network.
"""


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code: 0 only if every check passed."""

    def run() -> int:
        args = parse_arguments("demo", arguments)
        page: Path | None = args.html
        if page is not None and page.exists():
            raise ConfigError(f"{page} exists already\nNext: choose another name for --html")
        return trio.run(_demo, page, args.serve)

    return run_command("demo", run)


async def _demo(page: Path | None, serves: bool) -> int:  # noqa: FBT001  # trio.run passes no keywords
    """Run the demo and clean up. Always a checkpoint; after a signal it ends early and leaves nothing behind."""
    interrupted_by: int | None = None
    with (
        trio.open_signal_receiver(*termination_signals()) as signals,
        tempfile.TemporaryDirectory(prefix="engine-demo-") as folder,
    ):
        # Everything is in a temporary folder, so the demo can't touch the user's files.
        demo = _Demo(Path(folder), page, serves, Output.to(sys.stdout))
        async with trio.open_nursery() as nursery:

            def interrupt(number: int) -> None:
                nonlocal interrupted_by
                # Once all is played, a signal is how the server ends.
                if demo.passed is None:
                    interrupted_by = number
                nursery.cancel_scope.cancel(reason="interrupted")

            demo.output.on_failure(lambda: nursery.cancel_scope.cancel(reason="the output was closed"))
            nursery.start_soon(watch_signals, signals, interrupt, demo.tally.is_ours)
            nursery.start_soon(demo.output.run)
            await demo.run(nursery)
            await demo.output.drain()
            nursery.cancel_scope.cancel(reason="the demo is over")
    if interrupted_by is not None:
        # Even an interrupted demo proves its claim that no process is left.
        left = find_marked(demo.tally.is_ours)
        print_error(f"engine demo: interrupted, {len(left)} processes still running")
        return 128 + interrupted_by
    if demo.output.is_reader_gone:
        return BROKEN_PIPE
    return DONE if demo.passed else FAILED


@attrs.define(eq=False)
class _Demo:
    """Plays the acts, shows them, and checks them.

    Attributes:
        passed: whether every check passed; None before that is known.
    """

    _folder: Path
    _page: Path | None
    _serves: bool
    output: Output
    passed: bool | None = attrs.field(default=None, init=False)
    tally: Tally = attrs.field(factory=Tally, init=False)
    _screen: Screen = attrs.field(init=False)
    _record: DemoRecord = attrs.field(factory=DemoRecord, init=False)
    _cancelled_at: float | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        margins = Margins(model="model  ", call="tool   ", note="       ")
        self._screen = Screen.on(self.output, margins=margins, plain=True)

    async def run(self, nursery: trio.Nursery) -> None:
        """Play all acts, and check them. Always a checkpoint; the servers run in *nursery*."""
        self._screen.add_lines(_INTRODUCTION)
        write_repository(self._shop)
        server = ScriptedServer(lambda request: answer(len(server.requests) - 1, request, is_served=self._serves))
        url = await nursery.start(server.serve)
        model = resolve(_MODEL, {"ANTHROPIC_API_KEY": "none-is-needed", "ANTHROPIC_BASE_URL": url})
        # A retry would hide a request that the script refuses.
        settings = Settings(retry=RetryPolicy(attempts=0))
        permissions = PermissionOptions(profile="ask")
        async with (
            aclosing(model),
            open_engine(model=model, tools=builtin_tools(), settings=settings, permissions=permissions) as eng,
        ):
            session = await eng.create_session(cwd=self._shop)
            if self._serves:
                await self._open_page(nursery, eng)
            for act in ACTS:
                await self._play(session, act)
            passed = self._sum_up(session.state.usage, server.requests)
            journal = session.events()
            self._show_lanes(journal)
            self._write_page(journal)
            self.passed = passed
            if self._serves:
                self._screen.add_lines("\nThe page stays open until you press Ctrl-C here.\n")
                await trio.sleep_forever()

    async def _open_page(self, nursery: trio.Nursery, eng: Engine) -> None:
        """Serve the page of the engine, and open it in a browser. A checkpoint."""
        # Imported here: most runs serve nothing.
        from engine.cli.page_link import open_in_browser
        from engine.control.listen import serve

        served = await nursery.start(serve, eng)
        # Each link works once.
        opened, printed = served.link(), served.link()
        if opened is not None:
            await to_thread(open_in_browser, self._folder, opened)
        self._screen.add_lines(
            f"\nThe engine's page opens in your browser, and at\n  {printed}\n"
            f"Watch the session there: it starts in {_TIME_TO_OPEN:.0f} s.\n"
        )
        await trio.sleep(_TIME_TO_OPEN)

    @property
    def _shop(self) -> Path:
        return self._folder / "shop"

    def _show_lanes(self, journal: Sequence[Durable]) -> None:
        symbols = LaneSymbols() if self._screen.symbols is UNICODE else ASCII_LANES
        lines = "".join(f"{line}\n" for line in trace_lines([journal], self.output.width, symbols))
        self._screen.add_lines(f"\nWhat ran when (engine trace draws it for any session)\n\n{lines}")

    def _write_page(self, journal: Sequence[Durable]) -> None:
        """Draw what ran when as a page. Raises `StoreError` if the user has named the file."""
        text = render_trace([journal], "The demo", engine=__version__, at=time.time())
        page = self._page or platformdirs.user_cache_path("engine") / "demo.html"
        try:
            if self._page is None:
                page.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(page, text.encode())
            else:
                with page.open("x", encoding="utf-8") as file:
                    file.write(text)
        except OSError as error:
            if self._page is not None:
                raise StoreError(
                    f"{page} can't be written: {error.strerror}\nNext: choose another name for --html"
                ) from error
            return  # a home folder that can't be written to is no reason to fail
        self._screen.add_lines(f"\nThe same as a page, with all details:\n  {page}\n")

    async def _play(self, session: Session, act: Act) -> None:
        watch = "".join(f"       {line}\n" for line in textwrap.wrap(f"Watch: {act.watch}", self.output.width - 10))
        self._screen.add_lines(f"\n{act.title}\n\n{watch}\n")
        if not act.prompt:
            await self._compact(session)
            return
        self._screen.add_lines(f"you    {act.prompt}\n")
        async with session.prompt(act.prompt) as turn:
            async for event in turn:
                self._show(event)
                if isinstance(event, PermissionAsked):
                    await self._answer(turn, event)
                elif act.is_cancelled:
                    self._cancel_in_the_middle(turn, event)

    def _show(self, event: Durable | Live | Resync) -> None:
        self.tally.feed(event)
        self._record.feed(event)
        self._screen.show(event)

    async def _compact(self, session: Session) -> None:
        """Summarise the history. Always a checkpoint."""
        self._screen.add_lines("you    session.context.compact()\n")
        events = session.subscribe()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.context.compact)
            async for event in events:
                self._show(event)
                if isinstance(event, TurnEnded):
                    break

    async def _answer(self, turn: Turn, event: PermissionAsked) -> None:
        """Show a question and answer it, as a user would. A checkpoint."""
        view = PermissionView.of(event)
        first, *rest = view.lines(self._screen.symbols)
        choices = view.choices()
        # What the script asks for again is allowed for the session, so that the second time shows the difference.
        kind = "once" if "load-test" in view.detail else "session"
        choice = next((choice for choice in choices if choice.kind == kind), choices[0])
        outcome = outcome_of(choice)
        assert isinstance(outcome, Reply)
        lines = [f"ask    {first}", *(f"       {line}" for line in rest)]
        lines.append(f"you    [{choice.key}] {choice.label}  (the demo answers)")
        self._screen.add_lines("".join(f"{line.rstrip()}\n" for line in lines))
        self._record.questions.append(", ".join(event.patterns))
        await turn.reply(event.request_id, outcome.answer)

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
            self._screen.add_lines(
                f"       {note} The turn ended {duration(seconds)} after the cancel. {self.tally.cancelled} "
                f"{len(record.left)} workers left.\n"
            )

    def _pids(self) -> list[int]:
        try:
            return [int(line) for line in (self._shop / WORKERS).read_text(encoding="ascii").split()]
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
        yield from checks_of_work(self._record)
        yield from checks_of_edits(self._record)
        yield from checks_of_cancel(self._record, [process.pid for process in find_marked(self.tally.is_ours)])
        yield from checks_of_requests(usage, requests)
