"""Every known error of a host, sent over HTTP, becomes the right error of the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any
from zlib import crc32

import pytest

from engine.providers.hosts.host import Host
from engine.testing.cassette import Exchange
from tests.conformance.answers import play
from tests.conformance.cases import error_rows
from tests.conformance.meaning import check_meaning
from tests.conformance.rows import model_at, row_of, rows_of

pytestmark = pytest.mark.conformance

JSON = {"content-type": "application/json"}
SSE = {"content-type": "text/event-stream"}


@pytest.mark.parametrize("row", error_rows())
async def test_an_error_of_a_host(row: dict[str, Any]) -> None:
    exchanges = list(exchanges_of(row))
    if not exchanges:
        pytest.skip(f"nothing to be seen on the wire: {row['note']}")
    for host in hosts_of(row):
        for exchange in exchanges:
            for answer in await play(exchange, partial(model_at, row=host, model="some-model"), seed=row["id"]):
                check_meaning(answer.error, row["meaning"])
                assert answer.slips == {}


def hosts_of(row: dict[str, Any]) -> list[Host]:
    """Return the rows of the table that such an answer may come from: a host may have one for each wire format."""
    names = {row["provider"], row["host"]}
    is_of_responses = "response.failed" in str(row["body"])
    if "openai-responses" in names or is_of_responses:
        return [row_of(row["host"].removesuffix("-responses"), "openai_responses")]
    if names & {"openai-chat", "openai-compat"}:
        return [row_of(row["host"], "openai_chat")]
    return rows_of(row["host"]) or [row_of(row["host"], "openai_chat")]


def exchanges_of(row: dict[str, Any]) -> Iterator[Exchange]:
    """Return the answers that a row stands for."""
    body: Any = row["body"]
    headers = {name.lower(): value for name, value in (row["headers"] or {}).items()}
    status = row["status"] or 400
    match row["where"]:
        case "http" if not body and status == 200:
            return
        case "http" if body is None:
            yield Exchange(status=status, headers=headers)
        case "http" if isinstance(body, str):
            for wrapped in (body, {"message": body}, {"error": body}, {"error": {"message": body}}):
                data = wrapped if isinstance(wrapped, str) else json.dumps(wrapped)
                yield Exchange(status=status, headers=JSON | headers, body=data.encode())
        case "http":
            yield Exchange(status=status, headers=JSON | headers, body=json.dumps(body).encode())
        case "eventstream-frame":
            kind, payload = re.findall(r":exception-type=(\w+), payload (\{.*\})", str(body))[0]
            content_type = {"content-type": "application/vnd.amazon.eventstream"}
            yield Exchange(headers=content_type, body=exception_frame(kind, payload.encode()))
        case "sse-event" if body:
            yield Exchange(headers=SSE, body=str(body).rstrip("\n").encode() + b"\n\n")
        case "ndjson-line":
            yield Exchange(headers=SSE, body=b"data: " + str(body).strip().encode() + b"\n\n")
        case _:
            return


def exception_frame(kind: str, payload: bytes) -> bytes:
    """Return an exception as a frame of an AWS event stream."""
    headers = b""
    for name, value in (
        (":message-type", "exception"),
        (":exception-type", kind),
        (":content-type", "application/json"),
    ):
        headers += bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2, "big") + value.encode()
    prelude = (16 + len(headers) + len(payload)).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    message = prelude + crc32(prelude).to_bytes(4, "big") + headers + payload
    return message + crc32(message).to_bytes(4, "big")
