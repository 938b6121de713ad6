"""What an editor learns about the end of a turn: one table from the engine's stop reasons to those of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from engine.core.events import StopReason, TurnResult
from engine.core.schema import Json
from engine.jsonrpc.rpc_messages import INTERNAL_ERROR, RpcError

AUTH_REQUIRED: Final = -32000
END_TURN: Final = "end_turn"
CANCELLED: Final = "cancelled"


@attrs.frozen
class PromptEnd:
    """How a prompt is answered.

    Attributes:
        reason: the protocol's stop reason; empty: with an error.
        code: the error's code.
        is_explained: the protocol's reason does not say what happened, so the last message does.
    """

    reason: str = ""
    code: int = 0
    is_explained: bool = False


_MAX_TOKENS: Final = PromptEnd("max_tokens", is_explained=True)
_MAX_REQUESTS: Final = PromptEnd("max_turn_requests", is_explained=True)
_EXPLAINED: Final = PromptEnd(END_TURN, is_explained=True)
_REFUSAL: Final = PromptEnd("refusal")
_FAILED: Final = PromptEnd(code=INTERNAL_ERROR)

PROMPT_ENDS: Final[Mapping[StopReason, PromptEnd]] = {
    "completed": PromptEnd(END_TURN),
    "diminishing": PromptEnd(END_TURN),
    "output_limit": _MAX_TOKENS,
    "token_budget": _MAX_TOKENS,
    "prompt_too_long": _MAX_TOKENS,
    "blocking_limit": _MAX_TOKENS,
    "compaction_ineffective": _MAX_TOKENS,
    "step_limit": _MAX_REQUESTS,
    "cost_limit": _MAX_REQUESTS,
    "deadline": _MAX_REQUESTS,
    "refusal": _REFUSAL,
    "content_filter": _REFUSAL,
    "aborted": PromptEnd(CANCELLED),
    "hook_stopped": _EXPLAINED,
    "stop_hook_limit": _EXPLAINED,
    "doom_loop": _EXPLAINED,
    "permission_rejected": _EXPLAINED,
    "incomplete": _EXPLAINED,
    "auth_failed": PromptEnd(code=AUTH_REQUIRED),
    "rate_limited": _FAILED,
    "provider_error": _FAILED,
    "internal_error": _FAILED,
}


def explanation(result: TurnResult) -> str:
    """Return the text of the last message about a turn; empty: its end explains itself."""
    if not PROMPT_ENDS[result.stop_reason].is_explained:
        return ""
    detail = f": {result.detail}" if result.detail else ""
    return f"Stopped: {result.stop_reason.replace('_', ' ')}{detail}"


def prompt_answer(result: TurnResult) -> dict[str, Json] | RpcError:
    """Return the answer to the prompt whose turn ended like this."""
    end = PROMPT_ENDS[result.stop_reason]
    meta: dict[str, Json] = {"engine/stop_reason": result.stop_reason}
    if result.reset_at is not None:
        meta["engine/reset_at"] = result.reset_at
    if not end.reason:
        return RpcError(end.code, result.detail or result.stop_reason.replace("_", " "), {"_meta": meta})
    return {"stopReason": end.reason, "_meta": meta}
