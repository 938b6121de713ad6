"""What a request will take of a budget: estimated before it is sent, so that a limit holds before money is spent. Pure."""

from __future__ import annotations

from engine.compaction.token_estimate import message_tokens, request_tokens
from engine.core.llm_types import ModelInfo, ModelRequest, RequestEstimate
from engine.core.messages import Transcript, Usage


def estimate_request(
    request: ModelRequest, info: ModelInfo, last: tuple[Usage, Transcript] | None = None
) -> RequestEstimate:
    """Return what *request* will take. *last*: the usage of a request before it, and its transcript."""
    usage = _prompt_usage(request, last)
    return RequestEstimate(
        tokens=usage.prompt,
        cost=info.cost(usage),
        answer_tokens=request.max_output,
        answer_cost=info.cost(Usage(output=request.max_output)),
    )


def _prompt_usage(request: ModelRequest, last: tuple[Usage, Transcript] | None) -> Usage:
    if last is not None and _extends(request.transcript, last[1]) and last[0].prompt:
        usage, transcript = last
        # Counted by the host but for what came since, which is one step's work.
        added = sum(message_tokens(message, request.model) for message in request.transcript[len(transcript) :])
        # A host that has cached the last prompt has it for this one as well; at the full price a long session would seem
        # to cost ten times as much.
        if usage.cache_read or usage.cache_write:
            return Usage(cache_read=usage.prompt, input=added)
        return Usage(input=usage.prompt + added)
    return Usage(input=request_tokens(request))


def _extends(longer: Transcript, shorter: Transcript) -> bool:
    return longer.lineage is shorter.lineage and len(longer) >= len(shorter)
