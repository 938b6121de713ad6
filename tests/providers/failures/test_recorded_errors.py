"""Every known error of a host and every recorded error is classified correctly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from engine.core.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    ProviderError,
    QuotaExhausted,
    RateLimited,
)
from engine.providers.failures.error_body import stream_failure
from engine.providers.failures.http_failure import http_failure
from engine.providers.wire.sse import SseParser
from engine.providers.wire.untrusted_json import Json, as_list, as_object, loads, text
from engine.providers.wire.wire_format import HttpReply

MEANINGS: dict[str, type[ProviderError]] = {
    "overflow": ContextOverflow,
    "rate_limit": RateLimited,
    "overloaded": Overloaded,
    "server_error": Overloaded,
    "auth": AuthFailed,
    "billing": QuotaExhausted,
    "invalid_request": InvalidRequest,
    "not_found": ModelNotFound,
    "content_filter": ContentFiltered,
}
MAY_BE_RETRIED = {"rate_limit", "overloaded", "server_error"}
NOW = 1_700_000_000.0
# Where only the text was reported, it is given with the status that says nothing.
VAGUE = 400


@attrs.frozen
class Case:
    name: str
    meaning: str
    error: ProviderError


def bytes_of(body: object) -> bytes:
    if body is None:
        return b""
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def headers_of(row: Json) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in as_object(row.get("headers")).items()}


def error_in_stream(where: str, body: str) -> object:
    """The error as a decoder hands it over: the whole event."""
    match where:
        case "sse-event":
            return loads(SseParser().feed(f"{body}\n\n".encode())[0].data)
        case "eventstream-frame":
            frame = re.search(r":exception-type=(\w+), payload (.*)", body, re.DOTALL)
            assert frame is not None
            return {"__type": frame[1], **as_object(loads(frame[2]))}
        case _:
            return loads(body)


def listed(folder: Path) -> Iterator[Case]:
    path = folder / "wire" / "errors.json"
    if not path.is_file():
        pytest.skip("no errors.json in the shared folder")
    for value in as_list(as_object(loads(path.read_bytes())).get("errors")):
        row = as_object(value)
        status, body, host = row.get("status"), row.get("body"), text(row, "host")
        if status == 200 and body is None:
            continue  # no error is sent: what a host does in silence is for the loop to notice
        name = f"{row.get('id')} {host} {row.get('status')} {str(body)[:200]}"
        if text(row, "where") != "http":
            error = stream_failure(host, error_in_stream(text(row, "where"), str(body)))
        else:
            reply = HttpReply(
                status=status if isinstance(status, int) else VAGUE, headers=headers_of(row), body=bytes_of(body)
            )
            error = http_failure(host, reply, NOW)
        yield Case(name, text(row, "meaning"), error)


def refusals(folder: Path) -> Iterator[Case]:
    for path in sorted((folder / "wire").glob("*/*.expected.json")):
        expected = as_object(as_object(loads(path.read_bytes())).get("error"))
        if not expected or expected.get("midstream"):
            continue
        stem = str(path).removesuffix(".expected.json")
        recorded = as_object(loads(Path(f"{stem}.request.json").read_bytes()))
        response = as_object(recorded.get("response"))
        status = response.get("status")
        assert isinstance(status, int)
        body = path.with_name(text(response, "body_file")).read_bytes()
        reply = HttpReply(status=status, headers=headers_of(response), body=body)
        error = http_failure(text(recorded, "host"), reply, NOW)
        assert text(expected, "message")[:200] in str(error)
        yield Case(path.name, text(expected, "meaning"), error)


@pytest.mark.parametrize("source", [listed, refusals], ids=["known", "recorded"])
def test_every_error_becomes_what_it_means(source: object, shared_dir: Path) -> None:
    cases = list((listed if source is listed else refusals)(shared_dir))
    wrong = [
        f"{case.name}: {case.error!r} is no {MEANINGS[case.meaning].__name__}"
        for case in cases
        if not isinstance(case.error, MEANINGS[case.meaning])
    ]
    assert wrong == []


def test_permanent_failures_are_not_retried(shared_dir: Path) -> None:
    """Only what passes may be retried, and what is retried is never a wait that the loop can't know."""
    cases = [*listed(shared_dir), *refusals(shared_dir)]
    retried = {case.meaning for case in cases if case.error.retryable}
    # A model's own slip is refused as an invalid request (Groq), and may be tried again.
    assert retried <= MAY_BE_RETRIED | {"invalid_request"}
    busy = [case for case in cases if case.meaning in {"overloaded", "server_error"}]
    assert [case.name for case in busy if not case.error.retryable] == []
