"""Where `engine run` writes: the answer or JSON to standard output, and everything else to standard error."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import attrs

from engine.cli.terminal.colours import ColourChoice
from engine.cli.terminal.output import Output
from engine.cli.terminal.standard_streams import standard_output
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.cli.turn.record_types import InitRecord, OutputMode, RunResult
from engine.cli.turn.run_record import record_text
from engine.core import events as ev
from engine.core.messages import TextPart
from engine.journal.state import Resync


@attrs.define(eq=False, repr=False)
class RunOutput:
    """The two streams of a run. Nothing here is a checkpoint.

    Attributes:
        mode: what standard output carries: the answer, one JSON object, or one for each event.
        answer: standard output.
        notes: standard error, with the lines about calls, the questions and the status. The same object as `answer` where
            one terminal shows both: a single writer keeps their order.
        is_streaming: write the answer's text as it comes, not at the end.
        is_value: the answer is a JSON value, which is written once it is whole.
    """

    mode: OutputMode
    answer: Output
    notes: Output
    is_streaming: bool
    is_value: bool = False
    _is_line_open: bool = attrs.field(default=False, init=False)

    @classmethod
    def open(
        cls, mode: OutputMode, *, stream: bool = False, colour: ColourChoice = "auto", is_value: bool = False
    ) -> RunOutput:
        """Return the streams of this process; with *stream*, a pipe gets the text as it comes, too."""
        answer = Output.to(standard_output(), colour)
        shares = mode == "text" and _is_same_terminal(standard_output(), sys.stderr)
        # A person at a terminal reads along. Of a value, a part is of no use, and a retry may replace it.
        is_streaming = not is_value and (stream or answer.is_terminal)
        return cls(mode, answer, answer if shares else Output.to(sys.stderr, colour), is_streaming, is_value)

    @property
    def shows_text(self) -> bool:
        """Whether the text belongs among the notes: one terminal shows both."""
        return self.notes is self.answer and not self.is_value

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The outputs, each once."""
        return (self.answer,) if self.notes is self.answer else (self.answer, self.notes)

    def feed(self, event: ev.Durable | ev.Live | Resync) -> None:
        """Write what standard output gets of *event* at once."""
        if self.mode == "stream-json":
            self.answer.write(_event_line(event))
        elif self.mode == "text" and self.is_streaming and not self.shows_text:
            self._stream(event)

    def finish(self, record: RunResult, answer: str) -> None:
        """Write what comes last: the record as JSON, or the answer if it was not streamed."""
        if self.mode != "text":
            self.answer.write(record_text(record))
        elif not self.is_streaming and answer:
            self.answer.write(f"{answer}\n")

    def answer_of(self, result: ev.TurnResult) -> str:
        """Return the answer: the last message, or the value in it."""
        return (result.output or "") if self.is_value else result.text

    def begin(self, record: InitRecord) -> None:
        """Write the first line of a stream of JSON."""
        if self.mode == "stream-json":
            self.answer.write(record_text(record))

    def _stream(self, event: ev.Durable | ev.Live | Resync) -> None:
        if isinstance(event, ev.TextDelta) and len(event.path) == 1:
            self.answer.write(escape_control_chars(event.text) if self.answer.is_terminal else event.text)
            self._is_line_open = not event.text.endswith("\n")
        elif (
            isinstance(event, (ev.PartReplaced, ev.PartDiscarded))
            or (isinstance(event, ev.PartEnded) and isinstance(event.part, TextPart))
        ) and self._is_line_open:
            self._is_line_open = False
            self.answer.write("\n")


def _event_line(event: ev.Durable | ev.Live | Resync) -> str:
    # Imported here: cattrs is needed for JSON only.
    from engine.journal.codec import encode_event, encode_resync

    return f"{encode_resync(event) if isinstance(event, Resync) else encode_event(event)}\n"


def _is_same_terminal(one: TextIO | None, other: TextIO | None) -> bool:
    try:
        if one is None or other is None or not (one.isatty() and other.isatty()):
            return False
        return os.fstat(one.fileno()).st_rdev == os.fstat(other.fileno()).st_rdev
    except (OSError, ValueError):  # closed, or replaced by a stream without a descriptor
        return False
