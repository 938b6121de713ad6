"""Retry delays in every format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import RateLimited
from engine.providers.failures.http_failure import http_failure
from engine.providers.failures.retry_after import (
    delay_in_text,
    limit_reset_time,
    moment_in_text,
    parse_duration,
    parse_local_reset,
    parse_moment,
    parse_timestamp,
    retry_delay,
)
from engine.providers.wire.wire_format import HttpReply

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT
YEAR = 366 * 86_400.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "2", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "2", "retry-after-ms": "soon"}, 2.0),
        ({"retry-after": "1", "retry-after-ms": "0"}, 1.0),  # as Azure sends it
        ({"retry-after": "0"}, None),
        ({"retry-after-ms": "0"}, None),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 -0000"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:12:20 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Tue, 99 Nov 2023 22:12:20 GMT"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "1e300"}, YEAR),
        ({"retry-after-ms": "1e300"}, YEAR),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_delay(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        # OpenAI, Groq: a duration, of the limit that is used up only.
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-tokens": "149",
                "x-ratelimit-reset-tokens": "9h",
            },
            360.0,
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1ms"}, 0.001),
        # Cerebras: seconds.
        ({"x-ratelimit-remaining-tokens-minute": "0", "x-ratelimit-reset-tokens-minute": "11.38"}, 11.38),
        # Moonshot, OpenRouter: seconds, or milliseconds, since the epoch.
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000042"}, 42.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000042500"}, 42.5),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "30"}, 30.0),
        # Anthropic: dates, and for subscriptions seconds since the epoch.
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:15:20Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2023-11-14T22:18:20Z",
                "anthropic-ratelimit-input-tokens-remaining": "5",
                "anthropic-ratelimit-input-tokens-reset": "2030-01-01T00:00:00Z",
            },
            300.0,
        ),
        ({"anthropic-ratelimit-unified-reset": "1700000042"}, 42.0),
        ({"anthropic-ratelimit-unified-reset": "42"}, None),
        ({"anthropic-ratelimit-unified-reset": "1e300"}, 4e9 - NOW),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1600000000"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-remaining": "none", "x-ratelimit-reset": "60"}, None),
        ({"x-ratelimit-remaining": "7", "x-ratelimit-reset": "60"}, None),
        ({"x-ratelimit-remaining": "0"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1e300"}, YEAR),
        ({}, None),
    ],
)
def test_when_a_limit_is_lifted(headers: dict[str, str], seconds: float | None) -> None:
    assert limit_reset_time(headers, NOW) == (None if seconds is None else NOW + seconds)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("1700000042", NOW + 42),
        ("1700000042500", NOW + 42.5),
        ("2023-11-14T22:15:20Z", NOW + 120),
        ("60", None),
        ("6m0s", None),
        ("1e300", 4e9),
    ],
)
def test_during_a_response_only_timestamps_count(value: str, moment: float | None) -> None:
    assert parse_moment(value, None) == moment
    assert limit_reset_time({"x-ratelimit-remaining": "0", "x-ratelimit-reset": value}, None) == moment


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1ms", 0.001),
        ("34.4s", 34.4),
        ("45.837906927s", 45.837906927),
        ("6m0s", 360.0),
        ("9m38.016s", 578.016),
        ("114h18m0s", 411_480.0),
        ("1d2h", 93_600.0),
        (" 2 seconds ", 2.0),
        ("1 hour and 5 minutes", 3_900.0),
        ("250 milliseconds", 0.25),
        ("9" * 400 + "h", YEAR),
        ("60", None),
        ("6 months", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_duration(text: str, seconds: float | None) -> None:
    actual = parse_duration(text)
    assert actual is None if seconds is None else actual == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Limit 30000, Used 22999. Please try again in 11.054s. Visit the page", 11.054),
        ("Please try again in 6ms. Contact us", 0.006),
        ("Please try again in 9m38.016s. Need more tokens?", 578.016),
        ("Please retry after 86400 seconds. Please contact us", 86_400.0),
        ("Rate limit is exceeded. Try again in 2 seconds.", 2.0),
        ("Please retry in 47.434392449s.", 47.434392449),
        ("Please wait 59 seconds before retrying.", 59.0),
        ("Try again in 0s.", None),
        ("Please try again later.", None),
        ("Please try again in 5 ways.", None),
        ("Limit 30s per request", None),
        ("If it was made within 5 minutes, please wait a moment and try again.", None),
        ("", None),
    ],
)
def test_wait_in_words(message: str, seconds: float | None) -> None:
    actual = delay_in_text(message)
    assert actual is None if seconds is None else actual == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2023-11-14T22:15:20Z", NOW + 120),
        ("2023-11-14T22:15:20", NOW + 120),
        ("2023-11-15T06:15:20+08:00", NOW + 120),
        ("Tue, 14 Nov 2023 22:14:20 GMT", NOW + 60),
        ("soon", None),
        ("2023-99-01", None),
        ("", None),
    ],
)
def test_a_time(value: str, moment: float | None) -> None:
    assert parse_timestamp(value) == moment


@pytest.mark.parametrize(
    ("message", "moment"),
    [
        ("Your limit will reset at 2023-11-15 06:14:20", NOW + 60),  # Beijing
        ("您的限额将在 2023-11-15 06:14:20 重置。", NOW + 60),
        ("It will reset at 2023-11-15T06:14:20Z", None),  # has a zone, so it is not theirs
        ("It will reset at 2023-99-15 06:14:20", None),
        ("It will reset", None),
    ],
)
def test_a_date_without_a_zone(message: str, moment: float | None) -> None:
    assert parse_local_reset(message) == moment


@given(st.text(max_size=60) | st.from_regex(r"(try again in |retry after )?[0-9.]{0,400}(ms|s|m|h)?", fullmatch=True))
def test_foreign_input_never_raises(value: str) -> None:
    retry_delay({"retry-after": value, "retry-after-ms": value}, NOW)
    limit_reset_time({"x-ratelimit-remaining": value, "x-ratelimit-reset": value}, NOW)
    parse_moment(value, NOW)
    delay_in_text(value)
    parse_local_reset(value)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Rate limit exceeded, reset_at: 2001-09-09T02:00:00Z", 1_000_000_800.0),
        ("The limit resets at 2001-09-09 02:00:00 UTC.", 1_000_000_800.0),
        ("You can try again at 2001-09-09T04:00:00+02:00", 1_000_000_800.0),
        ('{"reset_at": 1000000800}', 1_000_000_800.0),
        ("reset_at=1000000800000", 1_000_000_800.0),
        ("it was lifted at 2001-09-09T01:00:00Z", None),
        ("reset_at 17", None),
        ("resets at noon", None),
    ],
)
def test_moment_in_a_message(message: str, expected: float | None) -> None:
    assert moment_in_text(message, 1_000_000_000.0) == expected


def test_rate_limit_that_tells_its_end_in_words() -> None:
    body = b'{"error": {"message": "Rate limit exceeded, reset_at: 2001-09-09T02:00:00Z"}}'
    error = http_failure("a host", HttpReply(status=429, headers={}, body=body), 1_000_000_000.0)
    assert (type(error), error.reset_at) == (RateLimited, 1_000_000_800.0)
