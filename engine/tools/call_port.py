"""The port between a call's pipeline and its turn, and the outcome of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from engine.core.events import AnswerKind, SharedContext, Verdict
from engine.core.hooks import Hooks, ToolUse
from engine.core.messages import Settlement
from engine.core.permission_types import Judgement, Opinion, PermissionQuery
from engine.core.settings import Settings
from engine.core.value_base import Value
from engine.tools.call_values import Need
from engine.tools.hook_runner import HookRunner
from engine.tools.output.spill import Spills
from engine.tools.registry import Prepared
from engine.tools.tool_context import ToolContext


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Outcome(Value):
    """The outcome of a call.

    Attributes:
        settlement: its terminal state.
        modify: changes the shared context, applied when the batch is over (C4).
        stop: the tool ends the turn, for this reason (C11).
        is_cut: the tool has truncated its text itself.
        changed: the files that it has changed; None: unknown.
        produced: what makes it the same as the outcome of another call; None: its text.
        engine_failed: the engine could not run the call, so it says nothing about what the model does.
    """

    settlement: Settlement
    modify: Callable[[SharedContext], SharedContext] | None = None
    stop: str | None = None
    is_cut: bool = False
    changed: tuple[str, ...] | None = None
    produced: str | None = None
    engine_failed: bool = False


class PermissionCheck(Protocol):
    """The rules and the user, for one call."""

    def query(self, need: Need, *, read_only: bool) -> PermissionQuery:
        """Return the query to the rules for *need*."""
        ...

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return the rules' verdict."""
        ...

    @property
    def opinion(self) -> Opinion | None:
        """What may answer in the user's place."""
        ...

    def note_use(self, query: PermissionQuery) -> None:
        """Note that the call runs with what *query* was about."""
        ...

    def record(self, verdict: Verdict, source: str) -> None:
        """Record a verdict and where it came from."""
        ...

    async def question(self, query: PermissionQuery, judgement: Judgement, *, by_rule: bool) -> tuple[AnswerKind, str]:
        """Ask the user about what *judgement* leaves open. A rejection without feedback ends the turn.

        If only rules ask (*by_rule*), the question is answered as soon as the rules allow the call.
        """
        ...


class CallPort(Protocol):
    """The turn, as one call's pipeline sees it."""

    @property
    def settings(self) -> Settings:
        """The turn's settings."""
        ...

    @property
    def hooks(self) -> Hooks:
        """The host's hooks."""
        ...

    @property
    def hook_runner(self) -> HookRunner:
        """Runs the hooks of this turn."""
        ...

    @property
    def prepared(self) -> Prepared | Settlement:
        """The call ready to run, or an error, as resolved among the request's tools when the call arrived."""
        ...

    @property
    def use(self) -> ToolUse:
        """The call, as hooks see it."""
        ...

    @property
    def context(self) -> ToolContext:
        """The call, as its tool sees it."""
        ...

    @property
    def spills(self) -> Spills | None:
        """Stores outputs that are too long to show; None if the model could not read them there."""
        ...

    def stale(self, prepared: Prepared) -> Settlement | None:
        """Return an error if the call's tool was replaced since its request; None if not."""
        ...

    def change(self, arguments: str, source: str) -> Prepared | Settlement:
        """Validate and record the arguments that the hook *source* has substituted."""
        ...

    @property
    def permission(self) -> PermissionCheck:
        """The rules and the user, for this call."""
        ...

    async def start(self, prepared: Prepared) -> Settlement | None:
        """Record that the body starts; a settlement if the record could not be made durable."""
        ...

    def touched(self, need: Need) -> None:
        """Note that the body works on the files of *need*: their folders' instructions may apply."""
        ...

    def reached(self, outcome: Outcome) -> None:
        """Record the body's outcome, which stands even if a hook after it is cancelled."""
        ...

    def partial_output(self) -> str:
        """Return the output that the tool has reported so far."""
        ...

    def replaced(self, text: str, source: str) -> None:
        """Record the result as it was before the hook *source* replaced it."""
        ...

    def tell_model(self, text: str, source: str) -> None:
        """Append a hook's text for the model after the results of this step."""
        ...

    def demand_stop(self, reason: str) -> None:
        """End the turn once the calls of this step are settled (C11)."""
        ...
