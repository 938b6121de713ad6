"""The display of `engine batch`: a live region on a terminal, a line each half minute elsewhere, events for programs."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal, TypeAlias

import attrs
import trio

from engine.batch.batch_events import BatchEvent, BatchStarted, TaskEnded
from engine.batch.batch_progress import BatchProgress
from engine.batch.event_lines import event_line
from engine.cli.batch.progress_lines import MOST_SHOWN, counts_line, ended_line, running_rows, started_line
from engine.cli.chat.display.live_region import LiveRegion, RegionFrame
from engine.cli.chat.display.terminal_mode import reflow_of
from engine.cli.terminal.colours import ColourChoice
from engine.cli.terminal.output import Output
from engine.cli.terminal.standard_streams import print_error, standard_output
from engine.cli.terminal.terminal_text import symbols_for
from engine.cli.text.styled_text import PALETTE, PLAIN, cell_width, clip_line, line_of, paint, plain_text
from engine.pace.pace_port import LaneStatus

Lanes: TypeAlias = Callable[[], Sequence[LaneStatus]]
DisplayMode: TypeAlias = Literal["live", "lines", "json", "none"]

_REDRAW_SECONDS: Final = 0.5
_LINE_SECONDS: Final = 30.0
# At the end, a terminal that is halted or a reader that has stopped must not keep the command.
_DRAIN_SECONDS: Final = 2.0
# The counts, and a free row.
_OTHER_ROWS: Final = 2


@attrs.define(eq=False, repr=False)
class BatchDisplay:
    """Shows a batch."""

    _output: Output
    _mode: DisplayMode
    _region: LiveRegion
    _lanes: Lanes = tuple
    _progress: BatchProgress = attrs.field(factory=BatchProgress, init=False)
    # Lines to be printed above the region.
    _lines: list[str] = attrs.field(factory=list[str], init=False)
    _printed: str = attrs.field(default="", init=False)

    def feed(self, event: BatchEvent) -> None:
        """Take note of *event*. Not a checkpoint."""
        if self._mode == "json":
            self._output.write(event_line(event, time.time()))
        self._progress.feed(event, trio.current_time())
        if isinstance(event, BatchStarted) and self._mode in {"live", "lines"}:
            self.note(started_line(event))
        if self._mode == "live" and isinstance(event, TaskEnded) and self._progress.tasks < MOST_SHOWN:
            line = ended_line(event, symbols_for(self._output.encoding), max(1, self._region.columns - 1))
            self._lines.append(paint(line, PALETTE if self._output.palette.is_on else PLAIN))

    def note(self, text: str) -> None:
        """Show a line that is no event, for people. Not a checkpoint."""
        match self._mode:
            case "live":
                self._lines.append(text)
                self._draw()
            case "lines":
                self._output.write(f"{text}\n")
            case "json" | "none":
                print_error(text)

    async def run(self) -> None:
        """Show it again and again, until cancelled. Always a checkpoint."""
        # Not at each event: 200 jobs make hundreds in a second.
        while True:
            await trio.sleep(_LINE_SECONDS if self._mode == "lines" else _REDRAW_SECONDS)
            self._show()

    def finish(self) -> None:
        """Show the last state; nothing that is drawn again stays. Not a checkpoint."""
        self._show()
        if self._mode == "live":
            self._output.write(self._region.clear() + f"{self._counts()}\n")

    def _show(self) -> None:
        # Before the batch begins, there is nothing to count.
        if not self._progress.name:
            return
        match self._mode:
            case "live":
                self._draw()
            case "lines":
                # One that says nothing new is left out, at the end say.
                if (line := self._counts()) != self._printed:
                    self._printed = line
                    self._output.write(f"{line}\n")
            case "json" | "none":
                pass

    def _draw(self) -> None:
        size = shutil.get_terminal_size((self._region.columns, 24))
        if size.columns != self._region.columns:
            self._output.write(self._region.resize(size.columns, reflow_of(os.environ)))
        width, room = max(1, size.columns - 1), max(0, size.lines // 2 - _OTHER_ROWS)
        counts = plain_text(clip_line(line_of(self._counts()), width))
        rows = (*running_rows(self._progress, trio.current_time(), width, room), counts)
        self._output.write(self._region.draw(self._lines, RegionFrame(rows, len(rows) - 1, cell_width(counts))))
        self._lines.clear()

    def _counts(self) -> str:
        return counts_line(self._progress, trio.current_time(), symbols_for(self._output.encoding), self._lanes())


@asynccontextmanager
async def open_display(
    *, json: bool = False, quiet: bool = False, colour: ColourChoice = "auto", lanes: Lanes = tuple
) -> AsyncGenerator[BatchDisplay]:
    """Show a batch while the block runs. A checkpoint on entering and leaving, which waits two seconds at most for a reader.

    Args:
        json: write each event to standard output, as a line of JSON.
        quiet: show nothing but notes.
        colour: whether there are colours.
        lanes: returns the pace at each host.
    """
    output = Output.to(standard_output() if json else sys.stderr, colour)
    mode: DisplayMode = "json" if json else "none" if quiet else "live" if output.has_status else "lines"
    display = BatchDisplay(output, mode, LiveRegion(output.width), lanes)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.run)
        nursery.start_soon(display.run)
        try:
            yield display
        finally:
            display.finish()
            with trio.move_on_after(_DRAIN_SECONDS):
                await output.drain()  # noqa: ASYNC102  # if cancelled, the display is over at once
            nursery.cancel_scope.cancel(reason="the batch has ended")
