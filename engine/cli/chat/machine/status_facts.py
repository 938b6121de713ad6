"""What the status line tells of a session."""

from __future__ import annotations

from typing import Final

import attrs

from engine.core import events as ev
from engine.core.llm_types import ModelInfo
from engine.core.messages import Usage
from engine.journal.state import SessionState

_LETTERS_OF_TOKEN: Final = 4


@attrs.frozen(kw_only=True)
class StatusSetup:
    """What the user has chosen.

    Attributes:
        default_profile: the permission profile of a session that has none of its own.
        fields: those that the status line has.
        cost_limit: the most that a turn may cost; None: there is no limit.
        warn_cost: a prompt that costs more is only sent once it is confirmed.
        sends_after_cancel: what waits is sent as soon as a turn is cancelled here.
    """

    default_profile: str = ""
    fields: tuple[str, ...] = ("state", "profile", "model", "context", "cost", "branch", "jobs")
    cost_limit: float | None = None
    warn_cost: float | None = None
    sends_after_cancel: bool = False


@attrs.define(eq=False)
class StatusFacts:
    """The facts.

    Attributes:
        setup: what the user has chosen.
        model: its model.
        profile: its permission profile.
        effort: the effort that is asked of the model.
        info: the model's limits and prices; None: unknown.
        used: tokens of the newest request.
        cost: money spent, sub-agents included.
        turn_since: when the turn began, in seconds since the epoch; None: no turn runs.
        activity: what the turn does, and when it began to do that; None: it is not known.
        sign_of_life: when the newest event came.
        retry_at: when a failed request is sent again; None: none waits.
        custom: the line of the user's own program.
    """

    setup: StatusSetup = StatusSetup()
    model: str = ""
    profile: str = ""
    effort: str = ""
    agent: str = ""
    folder: str = ""
    title: str = ""
    info: ModelInfo | None = None
    used: int = 0
    cost: float = 0.0
    branch: str = ""
    turn_since: float | None = None
    activity: tuple[str, float | None] = ("Working", None)
    sign_of_life: float = 0.0
    retry_at: float | None = None
    jobs: int = 0
    custom: str = ""
    # What the steps of the turn have cost, if all of them were seen; None: they were not.
    _turn_cost: float | None = attrs.field(default=None, init=False)

    @property
    def percent(self) -> int:
        """How full the window is."""
        return 0 if self.info is None else self.used * 100 // self.info.context

    def feed(self, event: ev.Durable | ev.Live) -> None:
        """Follow the session and, for what is spent, its sub-agents."""
        self.sign_of_life = event.time
        if isinstance(event, ev.StepEnded):
            self._spend(event.cost)
        if len(event.path) > 1:
            return
        match event:
            case ev.ModelSwitched():
                self.model = event.model
            case ev.SessionConfigured():
                self.profile = event.profile or self.setup.default_profile
            case ev.SessionTitled():
                self.title = event.title
            case ev.BackgroundStarted():
                self.jobs += 1
            case ev.BackgroundEnded():
                self.jobs = max(0, self.jobs - 1)
            case _:
                self._turn_event(event)

    def _turn_event(self, event: ev.Durable | ev.Live) -> None:
        match event:
            case ev.TurnStarted():
                self._turn_cost = 0.0
                self.turn_since, self.retry_at = event.time, None
                _begin(self, "Working", event.time)
            case ev.TurnEnded():
                self.turn_since = self.retry_at = None
                self.activity = ("Working", None)
                if self._turn_cost is not None:
                    # What is not a step's: summaries, and what sub-agents have spent unseen.
                    self.cost += event.result.cost - self._turn_cost
                self._turn_cost = None
            case ev.StepStarted():
                self.retry_at = None
                _begin(self, "Waiting", event.time)
            case ev.StepEnded():
                self.used = event.usage.prompt + event.usage.output or self.used
            case ev.RetryScheduled():
                self.retry_at = event.next_at
            case ev.ReasoningDelta():
                _begin(self, "Thinking", event.time)
            case ev.TextDelta():
                _begin(self, "Writing", event.time)
            case ev.CallStarted():
                _begin(self, "Running tools", event.time)
            case _:
                pass

    def _spend(self, cost: float) -> None:
        self.cost += cost
        if self._turn_cost is not None:
            self._turn_cost += cost

    def replace(self, state: SessionState) -> None:
        """Take what is true now."""
        self.model = state.model or self.model
        self.profile = state.profile or self.setup.default_profile
        self.agent, self.title, self.folder = state.agent, state.title, state.context.cwd
        self.cost, self._turn_cost = state.cost, None
        self.turn_since = self.turn_since if state.turn is not None else None
        self.jobs = len(state.background)
        if state.counted is not None:
            self.used = state.counted.usage.prompt + state.counted.usage.output


def _begin(facts: StatusFacts, activity: str, time: float) -> None:
    # Each request is waited for anew; all else goes on, as tools that run side by side do.
    if activity != facts.activity[0] or activity == "Waiting":
        facts.activity = activity, time


def prompt_cost(facts: StatusFacts, text: str) -> float:
    """Return what the first request of a prompt costs, at least: its input without a cache. 0: unknown."""
    tokens = facts.used + len(text) // _LETTERS_OF_TOKEN
    return 0.0 if facts.info is None else facts.info.cost(Usage(input=tokens))
