"""Measures a turn from its events: seconds by phase, steps, denials, the model that answered."""

from __future__ import annotations

import time
from typing import Final

import attrs

from engine.batch.batch_status import Phase
from engine.core import events as ev
from engine.core.ids import CallId, RequestId
from engine.journal.state import Resync

_REQUIRED_SERVER: Final = "the required MCP server"


@attrs.define(eq=False, repr=False)
class TurnMeter:
    """What an attempt's time was spent on. Times are from the monotonic clock.

    Attributes:
        phase: what it does now.
        times: seconds by phase, without those of the one that lasts.
        steps: how many steps have ended.
        tokens: what they have used.
        cost: what they have cost, as far as that is known.
        denied: how many calls were denied, those of sub-agents too.
        model: that answered last, or was asked.
        missing_server: the notice that a required MCP server is not there; empty: there was none.
    """

    phase: Phase = "setup"
    times: dict[Phase, float] = attrs.field(factory=dict[Phase, float], init=False)
    steps: int = attrs.field(default=0, init=False)
    tokens: int = attrs.field(default=0, init=False)
    cost: float = attrs.field(default=0.0, init=False)
    denied: int = attrs.field(default=0, init=False)
    model: str = attrs.field(default="", init=False)
    missing_server: str = attrs.field(default="", init=False)
    _since: float = attrs.field(factory=time.monotonic, init=False)
    _questions: set[RequestId] = attrs.field(factory=set[RequestId], init=False)
    _calls: set[CallId] = attrs.field(factory=set[CallId], init=False)

    def enter(self, phase: Phase) -> bool:
        """Begin a phase, if it is another one; return whether it is. Not a checkpoint."""
        if phase == self.phase:
            return False
        self.stop()
        self.phase = phase
        return True

    def stop(self) -> None:
        """Add the time of the phase that lasts. Not a checkpoint."""
        now = time.monotonic()
        self.times[self.phase] = self.times.get(self.phase, 0.0) + now - self._since
        self._since = now

    def feed(self, event: ev.Durable | ev.Live | Resync) -> bool:
        """Take in an event of the turn; return whether the phase is another one now. Not a checkpoint."""
        match event:
            case ev.CallSettled():
                self.denied += event.settlement.status == "denied"
            case ev.StepEnded():
                self.steps += 1
                self.tokens += event.usage.total
                self.cost += event.cost
            case ev.Notice() if _REQUIRED_SERVER in event.text:
                self.missing_server = event.text
            case _:
                pass
        # A sub-agent's steps are the time of the call that runs it.
        if isinstance(event, Resync) or len(event.path) > 1:
            return False
        phase = self._phase_after(event)
        return phase is not None and self.enter(phase)

    def _phase_after(self, event: ev.Durable | ev.Live) -> Phase | None:
        match event:
            case ev.StepStarted():
                self.model = event.model
                self._calls.clear()
                return "model"
            case ev.RetryScheduled():
                return "wait"
            case ev.CallStarted():
                self._calls.add(event.call_id)
            case ev.CallSettled():
                self._calls.discard(event.call_id)
            case ev.PermissionAsked() | ev.QuestionAsked() | ev.RecoveryAsked():
                self._questions.add(event.request_id)
            case ev.PermissionAnswered() | ev.QuestionAnswered() | ev.RecoveryAnswered():
                self._questions.discard(event.request_id)
            case ev.StepReceived() | ev.StepEnded():
                pass
            case _:
                return None
        if self._calls:
            return "tools"
        return "questions" if self._questions else "model"
