"""Signals: the first one cancels the turn, the same again leaves at once, without leaving processes."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, NoReturn

from engine.process.orphans import end_processes, find_marked
from engine.tools.call_values import GRACE

_HEEDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heeded_signals() -> Sequence[signal.Signals]:
    """Return the signals to listen to: without those that were ignored on purpose, by `nohup` or a shell's `&`."""
    heeded = [number for number in _HEEDED if signal.getsignal(number) is not signal.SIG_IGN]
    return heeded or [signal.SIGTERM]


async def watch_signals(
    signals: AsyncIterator[int], on_first: Callable[[int], None], is_ours: Callable[[str], bool]
) -> None:
    """Call *on_first* for the first signal; leave the process when one of the kind, or Ctrl-C, comes later.

    Until cancelled. Always a checkpoint.

    Args:
        signals: what `trio.open_signal_receiver` gives.
        on_first: cancels what is running; is told the signal.
        is_ours: whether a process so marked is one of ours to be ended.
    """
    first: int | None = None
    async for number in signals:
        if first is None:
            first = number
            on_first(number)
        # A closing terminal, or a service manager, sends two different ones: these are one wish.
        elif number in {first, signal.SIGINT}:
            await _leave_at_once(number, is_ours)


async def _leave_at_once(number: int, is_ours: Callable[[str], bool]) -> NoReturn:
    """End our processes, and this one, with nothing said or saved. Always a checkpoint until then."""
    await end_processes(lambda: find_marked(is_ours), grace=GRACE)
    os._exit(128 + number)
