"""What the status line tells of a session."""

from __future__ import annotations

import attrs

from engine.core import events as ev
from engine.journal.state import SessionState


@attrs.define(eq=False)
class StatusFacts:
    """The facts.

    Attributes:
        model: its model.
        profile: its permission profile.
        window: the size of the model's context window, in tokens; None: unknown.
        used: tokens of the newest request.
        cost: money spent, sub-agents included.
        turn_since: when the turn began, in seconds since the epoch; None: no turn runs.
        retry_at: when a failed request is sent again; None: none waits.
    """

    model: str = ""
    profile: str = ""
    default_profile: str = ""
    window: int | None = None
    used: int = 0
    cost: float = 0.0
    branch: str = ""
    turn_since: float | None = None
    retry_at: float | None = None
    jobs: int = 0

    def feed(self, event: ev.Durable | ev.Live) -> None:
        """Follow the session; what its sub-agents do counts when they end."""
        if len(event.path) > 1:
            return
        match event:
            case ev.ModelSwitched():
                self.model = event.model
            case ev.SessionConfigured():
                self.profile = event.profile or self.default_profile
            case ev.BackgroundStarted():
                self.jobs += 1
            case ev.BackgroundEnded():
                self.jobs = max(0, self.jobs - 1)
            case _:
                self._turn_event(event)

    def _turn_event(self, event: ev.Durable | ev.Live) -> None:
        match event:
            case ev.TurnStarted():
                self.turn_since, self.retry_at = event.time, None
            case ev.TurnEnded():
                self.turn_since = self.retry_at = None
                self.cost += event.result.cost
            case ev.StepStarted():
                self.retry_at = None
            case ev.StepEnded():
                self.used = event.usage.input + event.usage.output or self.used
            case ev.RetryScheduled():
                self.retry_at = event.next_at
            case _:
                pass

    def replace(self, state: SessionState) -> None:
        """Take what is true now."""
        self.model = state.model or self.model
        self.profile = state.profile or self.default_profile
        self.cost = state.cost
        self.jobs = len(state.background)
        if state.counted is not None:
            self.used = state.counted.usage.input + state.counted.usage.output
