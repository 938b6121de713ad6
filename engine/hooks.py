"""Hooks: a host's own functions at fixed points of a turn, in one frozen record.

A hook is an async callable; it runs in the call's, or the turn's, own cancel scope
and has a deadline (`Settings.hook_timeout`). One that raises or hangs is reported in
a `Notice`; a `before_tool` hook that fails denies the call, the others let it be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import attrs

from engine.ids import CallId, SessionId
from engine.messages import Settlement


@attrs.frozen(kw_only=True)
class ToolUse:
    """What a tool hook looks at; `settlement` is there after the tool only."""

    session_id: SessionId
    call_id: CallId
    tool: str
    arguments: str
    settlement: Settlement | None = None


@attrs.frozen(kw_only=True)
class ToolDecision:
    """What a tool hook wants.

    Attributes:
        verdict: `"deny"` is final; `"ask"` makes it a question; `"allow"` says that
            this hook has no objection, and overrules no rule.
        reason: for the model, if denied; for the user, if the turn is to stop.
        arguments: other arguments, as JSON text; they are checked like the first.
        text: after the tool: what the model reads instead of the result.
        stop: let the calls settle, then end the turn (C11).
    """

    verdict: Literal["none", "allow", "ask", "deny"] = "none"
    reason: str = ""
    arguments: str | None = None
    text: str | None = None
    stop: bool = False


@attrs.frozen(kw_only=True)
class Stopping:
    """What a stop hook looks at: the model came to an end."""

    session_id: SessionId
    text: str
    already_blocked: int


@attrs.frozen(kw_only=True)
class StopDecision:
    """What a stop hook wants: nothing, one more round with `reason`, or an end with it."""

    verdict: Literal["pass", "block", "prevent"] = "pass"
    reason: str = ""


ToolHook = Callable[[ToolUse], Awaitable[ToolDecision | None]]
StopHook = Callable[[Stopping], Awaitable[StopDecision | None]]


@attrs.frozen(kw_only=True)
class Hooks:
    """All hooks, each an ordered tuple."""

    before_tool: tuple[ToolHook, ...] = ()
    after_tool: tuple[ToolHook, ...] = ()
    stop: tuple[StopHook, ...] = ()
