"""The error for an HTTP response. How errors are read is imported when there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.core.errors import ProviderError
    from engine.providers.wire.wire_format import HttpReply


def http_failure(host: str, reply: HttpReply, now: float) -> ProviderError:
    """Return the error for *reply* of *host*; *now* is the time since the epoch."""
    from engine.providers.failures.error_body import failure_of_reply

    return failure_of_reply(host, reply, now)
