"""Asks servers of the user's own: what a model holds, which models there are.

Nothing here fails: a server that is not there, is slow or talks nonsense says nothing.
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

# Longer than a server needs that is there; a session can't begin before.
_TIMEOUT = 2.0
# The list of a gateway with hundreds of models is far smaller.
_MAX_RESPONSE_BYTES = 16 * 1024 * 1024


@attrs.frozen
class _Response:
    status: int
    body: bytes


async def probe_limits(endpoint: Endpoint, asking: LimitsApi, model: str, info: ModelInfo) -> ModelInfo:
    """Return *info* with what the server says of *model*, within two seconds. A checkpoint; a cancel leaves nothing."""
    answers: list[object] = []
    with trio.move_on_after(_TIMEOUT):  # noqa: ASYNC912  # the requests are the cancel points
        for question in probe_requests(asking, model):
            # What has come before the end of patience counts.
            answers.append(_parse(await _send(endpoint, question)))  # noqa: PERF401
    await trio.lowlevel.checkpoint()
    return apply_limits(info, parse_limits(asking, model, answers))


async def list_models(endpoint: Endpoint, timeout: float) -> tuple[str, ...] | None:
    """Return the models that a server names; None if nobody answers in *patience* seconds. A checkpoint."""
    answer: _Response | None = None
    with trio.move_on_after(timeout):
        answer = await _send(endpoint, MODELS)
    await trio.lowlevel.checkpoint()
    if answer is None:
        return None
    rows = map(as_object, as_list(as_object(_parse(answer)).get("data")))
    return tuple(sorted({name for row in rows if (name := text(row, "id"))}))


async def _send(endpoint: Endpoint, question: ProbeRequest) -> _Response | None:
    """Return the answer; None if there is none, or no end of it. A checkpoint."""
    base = endpoint.base_url
    # A server's own ways of answering stand beside the version, not below it.
    url = f"{base if question.is_versioned else base.removesuffix('/v1')}{question.path}"
    # What would be decompressed here might have no end.
    headers = {"accept": "application/json", "accept-encoding": "identity", **endpoint.headers}
    if question.body:
        headers["content-type"] = "application/json"
    unsigned = UnsignedRequest(method=question.method, url=url, headers=headers, body=Body(pieces=(question.body,)))
    try:
        headers |= await endpoint.auth.headers(unsigned)
        # A connection of its own: nothing of it is left when it is cancelled.
        async with (
            _client(endpoint) as client,
            client.stream(question.method, url, content=question.body or None, headers=headers) as response,
        ):
            return await _read(response)
    # ImportError: a proxy of a kind that httpx reads only with an extra.
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError, ImportError, ProviderError, ConfigError):
        return None


async def _read(response: httpx.Response) -> _Response | None:
    """Return the answer with its whole body; None if it is larger than any that helps. A checkpoint."""
    pieces: list[bytes] = []
    size = 0
    with trio.CancelScope() as scope:
        async for piece in response.aiter_raw():
            pieces.append(piece)
            size += len(piece)
            if size > _MAX_RESPONSE_BYTES:  # the next read is cancelled, which closes the generators in between
                scope.cancel(reason="the answer is too large")
    return None if size > _MAX_RESPONSE_BYTES else _Response(response.status_code, b"".join(pieces))


def _client(endpoint: Endpoint) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        timeout=_TIMEOUT,
        trust_env=not endpoint.is_loopback,
        # Without TLS no certificates are needed, and loading them takes a while: trust nobody.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if endpoint.is_plain else True,
    )


def _parse(answer: _Response | None) -> object:
    """Return what an answer says; None if that is nothing."""
    if answer is None or answer.status != 200:
        return None
    try:
        return loads(answer.body)
    except ValueError:
        return None
