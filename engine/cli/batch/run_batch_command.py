"""`engine batch`: many tasks, each in a folder and a session of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import attrs
import platformdirs
import trio

from engine.batch.batch_identity import batch_identity
from engine.batch.batch_scheduler import BatchOptions, BatchOutcome, run_batch
from engine.batch.task_file import TaskList
from engine.cli.batch.batch_engine import BatchEngine
from engine.cli.batch.batch_options import BatchCommand
from engine.cli.batch.batch_place import BatchPlace, open_place
from engine.cli.batch.batch_reports import BatchReports, open_reports
from engine.cli.batch.batch_text import exit_code, outcome_line, outcome_text
from engine.cli.flags.config_flags import split_continue
from engine.cli.problems.raised import lines_of_error
from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.exit_codes import check_output, run_command
from engine.cli.terminal.signals import continue_noted, termination_signals, watch_signals
from engine.cli.terminal.standard_streams import print_note, print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.core.exception_groups import public
from engine.process.crash_cleanup import owner
from engine.process.subreaper import become_subreaper


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    around = Surroundings(env=os.environ, command="batch")

    def run() -> int:
        check_output()
        command = BatchCommand.parse(split_continue(arguments))
        setup = BatchEngine(command)
        every = setup.read_tasks()
        tasks = every if command.shard is None else command.shard.part(every)
        for bad in tasks.bad:
            print_note(f"line {bad.line}: {escape_control_chars(bad.message)}")
        setup.prepare_process()
        become_subreaper()
        batch_id = batch_identity(command.results, command.name)
        work = platformdirs.user_cache_path("engine", appauthor=False) / "batch" / batch_id
        others = frozenset(task.id for task in every.tasks).difference(task.id for task in tasks.tasks)
        options = attrs.evolve(command.options(setup.config_hash, work, setup.spending), others=others)
        return trio.run(_run, setup, tasks, options, partial(open_place, setup, arguments, batch_id, work))

    return run_command("batch", run, explain=lambda error: lines_of_error(error, around))


async def _run(
    setup: BatchEngine,
    tasks: TaskList,
    options: BatchOptions,
    open_here: Callable[[], AbstractAsyncContextManager[BatchPlace]],
) -> int:
    """Run the batch, and print what became of it. Always a checkpoint."""
    interrupted_by: int | None = None
    outcome: BatchOutcome | None = None
    reports: BatchReports | None = None
    stop = trio.Event()

    def interrupt(number: int) -> None:
        nonlocal interrupted_by
        interrupted_by = number
        stop.set()
        (print_note if reports is None else reports.display.note)("stopping; Ctrl-C once more exits at once")

    failure: BaseException | None = None
    with continue_noted(), trio.open_signal_receiver(*termination_signals()) as signals:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch_signals, signals, interrupt, _is_ours)
                ledger = options.results / options.ledger_name
                async with open_reports(setup.command, setup.pace_status, ledger) as reports, open_here() as place:
                    fitted = place.fit(options, setup.command.args.jobs)
                    outcome = await run_batch(tasks, place.runner, fitted, stop=stop, report=reports.report)
                nursery.cancel_scope.cancel(reason="the batch is over")
        except BaseExceptionGroup as group:
            failure = public(group)
    if failure is not None:
        raise failure
    assert outcome is not None
    assert reports is not None
    code = exit_code(outcome, interrupted_by)
    name, results = setup.command.name, setup.command.results
    is_json = setup.command.args.json
    print_text(outcome_line(name, results, outcome, code) if is_json else outcome_text(name, results, outcome))
    reports.check(setup.command.args.predictions)
    return code


def _is_ours(mark: str) -> bool:
    """Tell whether a process with this mark was started by this one."""
    own = owner()
    return bool(own) and mark.endswith(f"@{own}")
