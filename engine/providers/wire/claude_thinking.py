"""Switches the thinking of Claude models on or off; what differs between them is data, in `Quirks`.

An assistant turn has one configuration: the API refuses a turn that began with thinking and goes on without it, and the
reverse. The turn is all answers up to the next user message that is not a result, so its first answer decides.
"""

from __future__ import annotations

from typing import Literal

from engine.core.llm_types import Effort
from engine.providers.wire.quirks import MIN_BUDGET, Quirks, nearest_effort, thinking_budget
from engine.providers.wire.untrusted_json import Json

# How the open turn began; "": it has no answer yet.
TurnThinking = Literal["", "on", "off"]
# The beta that `block_binding` needs.
BINDING_BETA = "thinking-binding-controls-2026-08-01"


def config_effort(quirks: Quirks, effort: Effort | None) -> str | None:
    """Return the effort to request besides `thinking`; None if there is none."""
    if not quirks.adaptive_thinking or effort is None:
        return None
    if effort == "none":
        # The least of what can't be switched off.
        return quirks.efforts[0] if quirks.thinking_off == "never" and quirks.efforts else None
    return nearest_effort(effort, quirks.efforts)


def thinking_config(
    quirks: Quirks, turn: TurnThinking, effort: Effort | None, max_output: int, *, is_forced: bool
) -> Json:
    """Return the request's `thinking`; empty if there is none.

    Args:
        quirks: the model's.
        turn: how the open turn began.
        effort: what is requested.
        max_output: the tokens of the answer, which include those of thinking.
        is_forced: a call is demanded, with which the API refuses a thinking budget.
    """
    if quirks.adaptive_thinking:
        return _adaptive_config(quirks, effort, is_forced=is_forced)
    if not quirks.thinking_budget or turn == "off":
        return {}
    budget = None if effort is None or effort == "none" else thinking_budget(effort, max_output)
    if turn == "on":
        return {"type": "enabled", "budget_tokens": budget or MIN_BUDGET}
    return {} if budget is None or is_forced else {"type": "enabled", "budget_tokens": budget}


def may_force(quirks: Quirks, turn: TurnThinking) -> bool:
    """Return whether a call may be demanded: not in a turn that thinks with a budget."""
    return quirks.forced_tools and not (turn == "on" and quirks.thinking_budget and not quirks.adaptive_thinking)


def _adaptive_config(quirks: Quirks, effort: Effort | None, *, is_forced: bool) -> Json:
    if effort == "none" and quirks.thinking_off != "never":
        return {"type": quirks.thinking_off} if quirks.thinking_off else {}
    if quirks.unasked_effort is None and (effort is None or is_forced):
        return {}
    config: Json = {"type": "adaptive"}
    if quirks.thinking_display:
        # Otherwise thinking comes without its text.
        config["display"] = "summarized"
    if quirks.thinking_binding:
        # After a compaction the history differs from what the blocks were made for: drop them, instead of refusing.
        config["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return config
