"""`engine worker`: runs the tasks of a fleet until a signal drains it."""

from __future__ import annotations

import argparse
import signal
from collections.abc import AsyncIterator
from typing import Final, final

import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.flags.config_flags import split_continue
from engine.cli.served_engine import ServedSetup
from engine.cli.terminal.exit_codes import DONE, run_command
from engine.cli.terminal.signals import leave_at_once, termination_signals
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import one_line
from engine.core.errors import ConfigError
from engine.core.exception_groups import public
from engine.core.threads import to_thread
from engine.export.format_cost import format_cost
from engine.fleet.worker import Worker, WorkerNews
from engine.process.subreaper import become_subreaper
from engine.session.engine import Engine, engine_runtime
from engine.session.open_store import DATABASES
from engine.tools.shell_environment import marker
from engine.tools.tool_text import counted

_MOST_CHARS: Final = 300


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""

    def run() -> int:
        args = parse_arguments("worker", split_continue(arguments))
        setup = ServedSetup(args)
        check_database(setup.place)
        become_subreaper()
        return trio.run(_work, setup, args)

    return run_command("worker", run)


def check_database(place: str) -> None:
    """Raise `ConfigError` unless the store is a database, which alone has a queue."""
    if not place.startswith(DATABASES):
        raise ConfigError(
            f"a fleet shares a PostgreSQL database, and the store is {place}\nNext: add --store postgresql://HOST/DATABASE"
        )


async def _work(setup: ServedSetup, args: argparse.Namespace) -> int:
    """Work until a signal comes. A checkpoint. Raises `ConfigError`, `StoreError`."""
    try:
        with trio.open_signal_receiver(*termination_signals()) as signals:
            # In a thread: it may look for a model on this machine.
            opening = await to_thread(setup.open_worker_engine)
            async with opening as engine, trio.open_nursery() as nursery:
                worker = Worker(engine, slots=args.slots, attempts=args.attempts, report=_print_news)
                nursery.start_soon(_WorkerSignals(engine, worker, args.drain).watch, signals)
                print_text(f"the worker takes tasks, {counted(args.slots, 'task')} at a time; Ctrl-C drains it\n")
                await worker.run()
                nursery.cancel_scope.cancel(reason="the worker was drained")
    except BaseExceptionGroup as group:
        raise public(group) from None
    return DONE


@final
class _WorkerSignals:
    """What a worker's process does at signals: it drains, stops at once, ends without saving."""

    def __init__(self, engine: Engine, worker: Worker, drain: float) -> None:
        self._sessions = engine_runtime(engine).sessions.by_id
        self._worker = worker
        self._seconds = drain

    async def watch(self, signals: AsyncIterator[int]) -> None:
        """Drain at the first signal, stop turns at the second, exit at the third. Runs until cancelled. A checkpoint."""
        first: int | None = None
        is_hurried = False
        async for number in signals:
            if first is None:
                first = number
                self._drain(self._seconds)
            # A closing terminal and service managers send two different signals for a single request.
            elif number not in {first, signal.SIGINT}:
                continue
            elif not is_hurried:
                is_hurried = True
                self._drain(0)
            else:
                await leave_at_once(number, self._is_ours)

    def _drain(self, seconds: float) -> None:
        if self._worker.running and seconds:
            what = "a task has" if self._worker.running == 1 else f"{self._worker.running} tasks have"
            print_error(f"{what} {seconds:g} s to end; the same signal again stops and gives back what runs")
        self._worker.drain(seconds)

    def _is_ours(self, mark: str) -> bool:
        return any(mark.startswith(marker(session)) for session in self._sessions)


def _print_news(news: WorkerNews) -> None:
    print_text(f"{one_line(_line_of(news), _MOST_CHARS)}\n")


def _line_of(news: WorkerNews) -> str:
    spec, end = news.task.spec, news.end
    if end is None:
        attempt = f", attempt {news.task.attempts}" if news.task.attempts > 1 else ""
        return f"{spec.key}: taken{attempt}, session {spec.session_id}"
    if not end.outcome:
        later = f", in {end.pause:g} s" if end.pause else ""
        return f"{spec.key}: given back{later}: {end.detail}"
    figures = []
    if end.result is not None:
        figures = [counted(end.result.steps, "request"), format_cost(end.result.cost) or "cost unknown"]
    return ", ".join([f"{spec.key}: {end.outcome}", *figures, *([end.detail] if end.detail else [])])
