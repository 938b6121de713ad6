"""The turn as one call sees it, and what becomes of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from engine.core.events import AnswerKind, SharedContext, Verdict
from engine.core.hooks import Hooks, ToolUse
from engine.core.messages import Settlement
from engine.core.permission_types import Judgement, Opinion, PermissionQuery
from engine.core.settings import Settings
from engine.tools.call_values import Need
from engine.tools.hook_runner import HookRunner
from engine.tools.output.spill import Spills
from engine.tools.registry import Prepared
from engine.tools.tool_context import ToolContext


@attrs.frozen(kw_only=True)
class Outcome:
    """What became of a call.

    Attributes:
        settlement: its terminal state.
        modify: what it does to the shared context.
        stop: the tool demands the end of the turn (C11).
        is_cut: the tool has cut its text itself.
        changed: the files that it has changed; None: it does not tell.
    """

    settlement: Settlement
    modify: Callable[[SharedContext], SharedContext] | None = None
    stop: str | None = None
    is_cut: bool = False
    changed: tuple[str, ...] | None = None


class PermissionCheck(Protocol):
    """What the rules and the user say of one call."""

    def query(self, need: Need, *, read_only: bool) -> PermissionQuery:
        """Return what *need* asks of the rules."""
        ...

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return what the rules say."""
        ...

    @property
    def opinion(self) -> Opinion | None:
        """Who may answer in the user's place."""
        ...

    def record(self, verdict: Verdict, source: str) -> None:
        """Record a verdict and where it came from."""
        ...

    async def question(self, query: PermissionQuery, judgement: Judgement, *, by_rule: bool) -> tuple[AnswerKind, str]:
        """Ask the user for what *judgement* leaves open. A rejection without a word ends the turn.

        What only rules ask about (*by_rule*) is answered as soon as they allow it.
        """
        ...


class CallSite(Protocol):
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
        """Where they are asked."""
        ...

    @property
    def prepared(self) -> Prepared | Settlement:
        """The call ready to run, or what is wrong with it, as resolved among the request's tools when it arrived."""
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
        """Where an output is kept that is too long to be shown; None if the model could not read it there."""
        ...

    def stale(self, prepared: Prepared) -> Settlement | None:
        """Return what to say of a call whose tool has changed since its request; None if it has not."""
        ...

    def change(self, arguments: str, source: str) -> Prepared | Settlement:
        """Validate, and record, the arguments that the hook *source* put in place of others."""
        ...

    @property
    def permission(self) -> PermissionCheck:
        """What the rules and the user say of the call."""
        ...

    async def start(self, prepared: Prepared) -> Settlement | None:
        """Record that the body is entered now; a settlement if that could not be made durable."""
        ...

    def touched(self, need: Need) -> None:
        """The body works on what that right is for."""
        ...

    def reached(self, outcome: Outcome) -> None:
        """The body is over: this stands even if a hook after it is cancelled."""
        ...

    def partial_output(self) -> str:
        """Return what the tool has shown so far."""
        ...

    def replaced(self, text: str, source: str) -> None:
        """Record the result as it was before the hook *source* put another text in its place."""
        ...

    def tell_model(self, text: str, source: str) -> None:
        """Put what a hook says to the model behind the results of this step."""
        ...

    def demand_stop(self, reason: str) -> None:
        """End the turn once the calls of this step are settled (C11)."""
        ...
