"""From a host's complaint to one of our errors: status and type first, wording last.

Wording is looked at only where a host has one status for several things: too
large a request, and a request it finds invalid. No bare number in a text is ever
taken for a status.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import attrs

from engine.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    MediaTooLarge,
    Overloaded,
    ProviderError,
    RateLimited,
    SignatureRejected,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_TEXT = 600

_AUTH_TYPES = {"authentication_error", "permission_error"}
_BUSY_TYPES = {"api_error", "overloaded_error", "timeout_error"}
_INVALID_TYPES = {"invalid_request_error", ""}

_OVERFLOW = re.compile(
    r"prompt is too long|exceeds? (the )?context (limit|window)|maximum context length|context[ _]length[ _]exceeded"
    r"|context window exceeds|too many tokens",
    re.IGNORECASE,
)
_MEDIA = re.compile(
    r"\b(image|pdf|document|file)s?\b.{0,80}\b(exceeds?|too (large|many)|maximum|at most)\b|too many (images|documents)"
    r"|maximum .{0,20}pages",
    re.IGNORECASE | re.DOTALL,
)
# A request of so many *bytes* holds media: a window's worth of text is far smaller.
_BYTES = re.compile(r"\b(bytes|[kmg]i?b)\b", re.IGNORECASE)
_SIGNATURE = re.compile(r"invalid `?signature`?|thinking`? blocks?.{0,80}cannot be modified", re.IGNORECASE | re.DOTALL)
_FILTER = re.compile(r"content[ _]filter", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class Complaint:
    """What a host says is wrong.

    Attributes:
        host: who says it.
        status: the HTTP status; None if it came in the middle of an answer.
        type: the host's own name for it.
        message: its text.
        should_retry: what the host itself says of trying again.
        retry_after: seconds it asks to wait.
        reset_at: when it lifts its limit, in seconds since the epoch.
    """

    host: str
    status: int | None = None
    type: str = ""
    message: str = ""
    should_retry: bool | None = None
    retry_after: float | None = None
    reset_at: float | None = None

    @property
    def text(self) -> str:
        """The complaint in one line."""
        where = [f"HTTP {self.status}"] if self.status is not None else []
        facts = ", ".join([*where, *filter(None, [self.type])]) or "in the middle of its answer"
        message = " ".join(self.message.split()) or "no reason given"
        return f"{self.host}: {message[:_LONGEST_TEXT]} ({facts})"


def classify(complaint: Complaint) -> ProviderError:
    """Return *complaint* as the error to raise."""
    kind, retryable = _kind(complaint.status, complaint.type, complaint.message)
    if retryable and complaint.should_retry is not None:
        retryable = complaint.should_retry
    return kind(
        complaint.text,
        retryable=retryable,
        status=complaint.status,
        retry_after=complaint.retry_after,
        reset_at=complaint.reset_at,
    )


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that *headers* ask to wait; None if they don't, or if it is past."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value is not None:
        seconds = _seconds_until(value, now)
    return seconds


def timestamp(value: str) -> float | None:
    """Return *value*, an RFC 3339 date or seconds since the epoch, as seconds since the epoch."""
    seconds = _number(value)
    if seconds is not None:
        return seconds
    try:
        return _aware(datetime.fromisoformat(value)).timestamp()
    except (ValueError, OverflowError):
        return None


def _kind(status: int | None, name: str, message: str) -> tuple[type[ProviderError], bool]:
    if status in {401, 403} or name in _AUTH_TYPES:
        return AuthFailed, False
    if status == 429 or name == "rate_limit_error":
        return RateLimited, True
    if status == 413 or name == "request_too_large":
        return _too_large(message), False
    is_invalid = status in {400, 422} or name in _INVALID_TYPES
    if is_invalid and (refused := _refused(message)) is not None:
        return refused, False
    if name in _BUSY_TYPES or (status is not None and (status >= 500 or status in {408, 409})):
        return Overloaded, True
    # In the middle of an answer, what is not the request's fault is the host's.
    return ProviderError, status is None and not is_invalid


def _too_large(message: str) -> type[ProviderError]:
    if _OVERFLOW.search(message):
        return ContextOverflow
    return MediaTooLarge if _MEDIA.search(message) or _BYTES.search(message) else ContextOverflow


def _refused(message: str) -> type[ProviderError] | None:
    return next((kind for pattern, kind in _WORDING if pattern.search(message)), None)


_WORDING: tuple[tuple[re.Pattern[str], type[ProviderError]], ...] = (
    (_OVERFLOW, ContextOverflow),
    (_SIGNATURE, SignatureRejected),
    (_FILTER, ContentFiltered),
    (_MEDIA, MediaTooLarge),
)


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _seconds_until(date: str, now: float) -> float | None:
    try:
        seconds = _aware(parsedate_to_datetime(date)).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
