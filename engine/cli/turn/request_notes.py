"""A line for each request to a model (`-v`): the model, its tokens, what it cost, how long it took."""

from __future__ import annotations

from typing import Final

import attrs

from engine.cli.terminal.terminal_text import duration, escape_on_one_line
from engine.core import events as ev
from engine.core.ids import MessageId
from engine.core.messages import Usage
from engine.journal.state import Resync
from engine.tools.tool_text import counted

# The answer goes on while these come. What comes later of a step is the work of its calls.
_OF_ANSWER: Final = (*ev.DELTA_TYPES, ev.PartEnded)


@attrs.define
class _Request:
    model: str
    started: float
    answered: float


@attrs.define(eq=False, repr=False)
class RequestNotes:
    """Makes the lines from the events of a turn and of its sub-agents."""

    _open: dict[MessageId, _Request] = attrs.field(factory=dict[MessageId, _Request], init=False)

    def feed(self, event: ev.Durable | ev.Live | Resync) -> str:
        """Return the line about the request that ends with *event*; empty: none does. Not a checkpoint."""
        match event:
            case ev.StepStarted():
                self._open[event.message_id] = _Request(event.model, event.time, event.time)
            case ev.StepEnded() if event.message_id in self._open:
                request = self._open.pop(event.message_id)
                seconds = request.answered - request.started
                return _line(request.model, event.usage, event.cost, f", {duration(seconds)}")
            case ev.CompactionEnded() if event.model:
                return _line(event.model, event.usage, event.cost, ", summary")
            case _:
                if isinstance(event, _OF_ANSWER) and event.message_id in self._open:
                    self._open[event.message_id].answered = event.time
        return ""


def _line(model: str, usage: Usage, cost: float, rest: str) -> str:
    prompt = usage.input + usage.cache_read + usage.cache_write
    price = f"${cost:.4f}" if cost else "cost unknown"
    return f"request to {escape_on_one_line(model)}: {counted(prompt, 'token')} in, {usage.output:,} out, {price}{rest}"
