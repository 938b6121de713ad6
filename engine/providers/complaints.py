"""What hosts say when something is wrong, in whatever words: to one of our errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.providers.failures import Complaint, classify, retry_after, timestamp
from engine.providers.jsonvalue import Json, as_object, loads, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.errors import ProviderError
    from engine.providers.wire import HttpReply

_LIMIT = "anthropic-ratelimit-"


def http_failure(host: str, reply: HttpReply, now: float) -> ProviderError:
    """Return the error that *reply*, of *host*, stands for; *now* is the time since the epoch."""
    error = _error_object(reply.body)
    wait = retry_after(reply.headers, now)
    complaint = Complaint(
        host=host,
        status=reply.status,
        type=text(error, "type"),
        message=text(error, "message"),
        should_retry={"true": True, "false": False}.get(reply.headers.get("x-should-retry", "")),
        retry_after=wait,
        reset_at=_reset_at(reply.headers) if wait is None else now + wait,
    )
    return classify(complaint)


def stream_failure(host: str, error: object, status: int | None = None) -> ProviderError:
    """Return the error that stands in the middle of an answer, given its error object; *status* if it names one."""
    facts = as_object(error)
    return classify(Complaint(host=host, status=status, type=text(facts, "type"), message=text(facts, "message")))


def _error_object(body: bytes) -> Json:
    try:
        document = as_object(loads(body))
    except ValueError:  # a gateway's HTML page, say: nothing a person could use
        return {}
    return as_object(document.get("error"))


def _reset_at(headers: Mapping[str, str]) -> float | None:
    """Return when the last of the limits that are used up is lifted."""
    spent = [
        name.removesuffix("remaining") + "reset"
        for name, value in headers.items()
        if name.startswith(_LIMIT) and name.endswith("-remaining") and value.strip() == "0"
    ]
    resets = [timestamp(headers[name]) for name in [*spent, _LIMIT + "unified-reset"] if name in headers]
    return max((moment for moment in resets if moment is not None), default=None)
