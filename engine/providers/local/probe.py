"""Queries local servers: for the limits of a model, and for their models.

Nothing here fails: a server that is down, slow or invalid yields no facts.
"""

from __future__ import annotations

import ssl

import attrs
import httpx
import trio

from engine.core.errors import ConfigError, ProviderError
from engine.core.llm_types import ModelInfo
from engine.providers.auth.auth import UnsignedRequest
from engine.providers.hosts.host import LimitsApi
from engine.providers.http.endpoint import Endpoint
from engine.providers.local.probe_parsing import MODELS, ProbeRequest, apply_limits, parse_limits, probe_requests
from engine.providers.wire.untrusted_json import as_list, as_object, loads, text
from engine.providers.wire.wire_format import Body

# Longer than a running server needs; a session waits for it.
_TIMEOUT = 2.0
# Even a gateway with hundreds of models sends far less.
_MAX_RESPONSE_BYTES = 16 * 1024 * 1024


@attrs.frozen
class _Response:
    status: int
    body: bytes


async def probe_limits(endpoint: Endpoint, asking: LimitsApi, model: str, info: ModelInfo) -> ModelInfo:
    """Return *info* with the limits that the server reports within two seconds. A checkpoint."""
    answers: list[object] = []
    with trio.move_on_after(_TIMEOUT):  # noqa: ASYNC912  # the requests are the cancel points
        for question in probe_requests(asking, model):
            # Responses before the timeout count.
            answers.append(_parse(await _send(endpoint, question)))  # noqa: PERF401
    await trio.lowlevel.checkpoint()
    return apply_limits(info, parse_limits(asking, model, answers))


async def list_models(endpoint: Endpoint, timeout: float) -> tuple[str, ...] | None:
    """Return the names of a server's models; None if it does not respond in *timeout* seconds. A checkpoint."""
    answer: _Response | None = None
    with trio.move_on_after(timeout):
        answer = await _send(endpoint, MODELS)
    await trio.lowlevel.checkpoint()
    if answer is None:
        return None
    rows = map(as_object, as_list(as_object(_parse(answer)).get("data")))
    return tuple(sorted({name for row in rows if (name := text(row, "id"))}))


async def _send(endpoint: Endpoint, question: ProbeRequest) -> _Response | None:
    """Return the response; None if there is none or it is incomplete. A checkpoint."""
    base = endpoint.base_url
    # A server's own APIs are not below the version.
    url = f"{base if question.is_versioned else base.removesuffix('/v1')}{question.path}"
    # Decompression could be unbounded.
    headers = {"accept": "application/json", "accept-encoding": "identity", **endpoint.headers}
    if question.body:
        headers["content-type"] = "application/json"
    unsigned = UnsignedRequest(method=question.method, url=url, headers=headers, body=Body(pieces=(question.body,)))
    try:
        headers |= await endpoint.auth.headers(unsigned)
        # A separate client, so that a cancel leaves nothing.
        async with (
            _client(endpoint) as client,
            client.stream(question.method, url, content=question.body or None, headers=headers) as response,
        ):
            return await _read(response)
    # ImportError: a kind of proxy for which httpx needs an extra.
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError, ImportError, ProviderError, ConfigError):
        return None


async def _read(response: httpx.Response) -> _Response | None:
    """Read the response; None if it is too large. A checkpoint."""
    pieces: list[bytes] = []
    size = 0
    with trio.CancelScope() as scope:
        async for piece in response.aiter_raw():
            pieces.append(piece)
            size += len(piece)
            if size > _MAX_RESPONSE_BYTES:  # the next read is cancelled, which closes the generators in between
                scope.cancel(reason="the response is too large")
    return None if size > _MAX_RESPONSE_BYTES else _Response(response.status_code, b"".join(pieces))


def _client(endpoint: Endpoint) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        timeout=_TIMEOUT,
        trust_env=not endpoint.is_loopback,
        # No TLS: loading certificates would only take time.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if endpoint.is_plain else True,
    )


def _parse(answer: _Response | None) -> object:
    """Parse a response; None if it is no JSON, or an error."""
    if answer is None or answer.status != 200:
        return None
    try:
        return loads(answer.body)
    except ValueError:
        return None
