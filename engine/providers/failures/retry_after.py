"""When to retry: from headers, from members of the body, and last from the message.

Hosts give seconds, milliseconds, durations (`6m0s`), timestamps in seconds or milliseconds, and dates in two formats. A
time in the past, or a value that cannot be parsed, counts as none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from engine.core.lazy import regex

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT = r"(\d+(?:\.\d+)?)\s*(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![a-z])"
_DURATION = regex(rf"(?:{_AMOUNT}[\s,]*(?:and\s+)?)+", re.IGNORECASE)
_ONE = regex(_AMOUNT, re.IGNORECASE)
_WAIT_REQUEST = regex(
    r"(?:(?:try again|retry|resets?|reset) (?:in|after)|please wait) (?:about |approximately )?(?=\d)", re.IGNORECASE
)
_DATED = regex(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?![\d.]*(?:Z|[+-]\d))")

_RESET_MOMENT = regex(
    r"(?:resets?[_ ]?at|lifted at|try again (?:at|after)|available (?:again )?at|retry at)\W{0,4}"
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z| ?UTC|[+-]\d\d:?\d\d)|\d{10,13}(?:\.\d+)?)(?!\d)",
    re.IGNORECASE,
)

# The longest delay; later dates may not even be displayable.
_YEAR = 366 * 86400.0
_LAST_DAY = 4e9  # in 2096; anything later is a mistake
# Numbers from here on are timestamps, not delays: September 2001, in seconds and in milliseconds.
_MOMENT = 1e9
_MOMENT_MS = 1e12


def retry_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Return the delay in seconds that *headers* ask for; None if there is none, or it has passed.

    Zero counts as none: an overloaded host cannot mean "at once".
    """
    milliseconds = parse_number(headers.get("retry-after-ms"))
    if milliseconds:
        return min(milliseconds / 1000, _YEAR)
    value = headers.get("retry-after")
    seconds = parse_number(value)
    if seconds is None and value is not None:
        moment = _http_date(value)
        seconds = None if moment is None else moment - now
    return min(seconds, _YEAR) if seconds is not None and seconds > 0 else None


def limit_reset_time(headers: Mapping[str, str], now: float | None) -> float | None:
    """Return when the last exhausted limit in *headers* is lifted; None if they do not say.

    Without *now*, only absolute times can be read.
    """
    moments = [_reset_of(name, headers[name], now) for name in _resets_of_exhausted(headers) if name in headers]
    upcoming = [moment for moment in moments if moment is not None and (now is None or moment > now)]
    return max(upcoming, default=None)


def _reset_of(name: str, value: str, now: float | None) -> float | None:
    # Anthropic's numbers are always timestamps, even small ones: a test's clock may start at 0.
    if name.startswith("anthropic-") and (moment := parse_number(value)) is not None:
        return min(moment, _LAST_DAY)
    return parse_moment(value, now)


def _resets_of_exhausted(headers: Mapping[str, str]) -> Iterator[str]:
    # Anthropic's subscriptions: sent only when this limit is reached.
    yield "anthropic-ratelimit-unified-reset"
    for name, value in headers.items():
        if "ratelimit" in name and "remaining" in name and _is_nothing(value):
            yield name.replace("remaining", "reset")


def _is_nothing(value: str) -> bool:
    try:
        return float(value) <= 0
    except ValueError:
        return False


def parse_moment(value: str, now: float | None) -> float | None:
    """Parse a time in any of the usual formats; return seconds since the epoch, or None."""
    seconds = parse_number(value)
    if seconds is None:
        seconds = parse_duration(value)
    if seconds is None:
        moment = parse_timestamp(value)
    elif seconds >= _MOMENT:
        moment = seconds if seconds < _MOMENT_MS else seconds / 1000
    else:
        moment = None if now is None else now + seconds
    return None if moment is None else min(moment, (_LAST_DAY if now is None else now + _YEAR))


def parse_timestamp(value: str) -> float | None:
    """Parse a date of RFC 3339 or HTTP; return seconds since the epoch, or None."""
    try:
        return _aware(datetime.fromisoformat(value)).timestamp()
    except (ValueError, OverflowError):
        return _http_date(value)


def parse_duration(value: str) -> float | None:
    """Parse a duration such as `1ms`, `34.4s`, `6m0s` or `2 minutes` into seconds; a bare number is not a duration."""
    return _seconds(value) if _DURATION.fullmatch(value.strip()) else None


def delay_in_text(message: str) -> float | None:
    """Return the delay that *message* asks for: "try again in 9m38.016s"."""
    request = _WAIT_REQUEST.search(message)
    duration_match = None if request is None else _DURATION.match(message, request.end())
    return None if duration_match is None else _seconds(duration_match[0]) or None


def moment_in_text(message: str, now: float | None) -> float | None:
    """Return the time at which *message* says that a limit is lifted: "reset_at: 2026-11-19T14:00:00Z"."""
    match = _RESET_MOMENT.search(message)
    if match is None:
        return None
    number = parse_number(match[1])
    # A small number would be a delay, or something else.
    moment = parse_timestamp(match[1].replace(" UTC", "Z")) if number is None else None
    if number is not None and number >= _MOMENT:
        moment = parse_moment(match[1], now)
    return moment if moment is None or now is None or moment > now else None


def parse_local_reset(message: str) -> float | None:
    """Parse the date and time in *message*, which has no zone: Z.ai uses Beijing time."""
    match = _DATED.search(message)
    if match is None:
        return None
    try:
        local = datetime.fromisoformat(f"{match[1]}T{match[2]}")
    except ValueError:
        return None
    return local.replace(tzinfo=timezone(timedelta(hours=8))).timestamp()


def parse_number(value: object) -> float | None:
    """Parse a non-negative number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) and result >= 0 else None


def _seconds(text: str) -> float:
    return min(_YEAR, sum(float(amount) * _unit(unit.lower()) for amount, unit in _ONE.findall(text)))


def _unit(name: str) -> float:
    if name == "ms" or name.startswith("milli"):
        return _UNITS["ms"]
    return _UNITS[name[0]]


def _http_date(value: str) -> float | None:
    try:
        return _aware(parsedate_to_datetime(value)).timestamp()
    except (ValueError, OverflowError):
        return None


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
