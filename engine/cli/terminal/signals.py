"""Signals: the first one cancels the turn; a second one exits at once, without leaving processes behind."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

from engine.cli.terminal.keyboard import restore_terminals
from engine.core.foreign_calls import note_continued
from engine.process.kill_tree import end_processes, find_marked
from engine.process.subreaper import find_adopted, is_subreaper
from engine.tools.call_values import GRACE

_TERMINATION: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def termination_signals() -> Sequence[signal.Signals]:
    """Return the signals to catch, without those that the parent ignores on purpose (`nohup`, a shell's `&`)."""
    active = [number for number in _TERMINATION if signal.getsignal(number) is not signal.SIG_IGN]
    # At least one, or there would be no way to end the turn cleanly.
    return active or [signal.SIGTERM]


def _note_continued(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # a handler of signals gets both
    note_continued()


@contextmanager
def continue_noted() -> Generator[None]:
    """Let the engine know in the block when this process has been stopped: that is no fault of any code."""
    # Not a receiver of trio's: what blocked would be reported before its task runs.
    before = signal.signal(signal.SIGCONT, _note_continued)
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, before)


async def watch_signals(
    signals: AsyncIterator[int], on_first: Callable[[int], None], is_ours: Callable[[str], bool]
) -> None:
    """Call *on_first* for the first signal; exit the process at the same signal again, or at Ctrl-C.

    Runs until cancelled. Always a checkpoint.

    Args:
        signals: from `trio.open_signal_receiver`.
        on_first: cancels the work; gets the signal's number.
        is_ours: whether a process with this mark belongs to this run and must be ended.
    """
    first: int | None = None
    async for number in signals:
        if first is None:
            first = number
            on_first(number)
        # A closing terminal and service managers send two different signals for a single request.
        elif number in {first, signal.SIGINT}:
            await leave_at_once(number, is_ours)


async def leave_at_once(number: int, is_ours: Callable[[str], bool]) -> NoReturn:
    """End the run's processes and then this one, without saving or printing. Always a checkpoint."""
    # The user asked twice: nothing may delay the exit except ending the processes.
    await end_processes(lambda: [*find_marked(is_ours), *(find_adopted() if is_subreaper() else ())], grace=GRACE)
    restore_terminals()
    os._exit(128 + number)
