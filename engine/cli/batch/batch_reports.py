"""Who hears of a batch's events: the display, and the file of predictions."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from engine.batch.attempt_row import AttemptRow
from engine.batch.batch_events import BatchEvent, BatchStarted, TaskEnded
from engine.batch.predictions import PredictionsFile
from engine.cli.batch.batch_display import BatchDisplay, Lanes, open_display
from engine.cli.batch.batch_options import BatchCommand
from engine.core.errors import ConfigError, StoreError
from engine.core.threads import to_thread


@attrs.define(eq=False, repr=False)
class BatchReports:
    """Takes events.

    Attributes:
        display: shows them.
        failure: why the predictions are not complete; None: they are, or there are none.
    """

    display: BatchDisplay
    failure: OSError | None = attrs.field(default=None, init=False)
    _rows: trio.MemorySendChannel[AttemptRow | None] | None = None

    def report(self, event: BatchEvent) -> None:
        """Take an event. Not a checkpoint."""
        self.display.feed(event)
        if self._rows is not None:
            match event:
                case BatchStarted():
                    self._rows.send_nowait(None)
                case TaskEnded():
                    self._rows.send_nowait(event.row)
                case _:
                    pass

    def fail(self, error: OSError) -> None:
        """Write no more predictions. Not a checkpoint."""
        self.failure, self._rows = error, None

    def check(self, path: Path | None) -> None:
        """Raise `StoreError` if the predictions are not complete."""
        if self.failure is not None:
            raise StoreError(
                f"{path}: {self.failure.strerror or self.failure}\nNext: start the same command again, which adds the missing lines"
            )


@asynccontextmanager
async def open_reports(command: BatchCommand, lanes: Lanes, ledger: Path) -> AsyncGenerator[BatchReports]:
    """Open the display, and the file of predictions if there is to be one. A checkpoint on entering and leaving.

    Leaving waits until all rows are in the file. If cancelled, some may be missing: the next run adds them. Raises
    `ConfigError` if the file can't be written.

    Args:
        command: the command line.
        lanes: returns the pace at each host.
        ledger: the file of the rows.
    """
    args = command.args
    path: Path | None = args.predictions
    if path is not None:
        await to_thread(_check_file, path)
    async with open_display(json=args.json, quiet=args.quiet, colour=args.color, lanes=lanes) as display:
        if path is None:
            yield BatchReports(display)
            return
        # None: the batch has begun, and its ledger is this runner's.
        send, receive = trio.open_memory_channel[AttemptRow | None](math.inf)
        reports = BatchReports(display, send)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_predictions, reports, receive, path, ledger)
            with send:
                yield reports


async def _write_predictions(
    reports: BatchReports, rows: trio.MemoryReceiveChannel[AttemptRow | None], path: Path, ledger: Path
) -> None:
    """Write the predictions of *rows* until there are no more. Always a checkpoint."""
    file: PredictionsFile | None = None
    try:
        async for row in rows:
            if row is None:
                # Only now: until then, another runner might write both files.
                file = await to_thread(_open_file, path, ledger)
            elif file is not None:
                await to_thread(file.add, row)
    except OSError as error:
        # The batch goes on: its ledger has all that the file lacks.
        reports.fail(error)
    finally:
        if file is not None:
            file.close()


def _open_file(path: Path, ledger: Path) -> PredictionsFile:
    """Open the file, and add what the ledger has besides. It blocks. Raises `OSError`."""
    file = PredictionsFile.open(path, ledger.parent)
    try:
        file.add_missing(ledger)
    except BaseException:  # re-raised: the descriptor must not stay open
        file.close()
        raise
    return file


def _check_file(path: Path) -> None:
    """Raise `ConfigError` if the file can't be appended to. It blocks."""
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is no file: predictions are read again, and added to\nNext: choose another file")
    try:
        path.open("ab").close()
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}\nNext: choose another file") from error
