"""Asks servers of the user's own: what a model holds, which models there are.

Nothing here fails: a server that is not there, is slow or talks nonsense says nothing.
"""

from __future__ import annotations

import ssl

import httpx
import trio

from engine.errors import ConfigError, ProviderError
from engine.model import ModelInfo
from engine.providers.auth import Unsigned
from engine.providers.endpoint import Endpoint
from engine.providers.hosts import Asking
from engine.providers.jsonvalue import as_list, as_object, loads, text
from engine.providers.local_limits import MODELS, Question, learned, questions, told
from engine.providers.wire import Body

# Longer than a server needs that is there; a session can't begin before.
_PATIENCE = 2.0


async def learn(endpoint: Endpoint, asking: Asking, model: str, info: ModelInfo) -> ModelInfo:
    """Return *info* with what the server says of *model*, within two seconds. A checkpoint; a cancel leaves nothing."""
    answers: list[object] = []
    with trio.move_on_after(_PATIENCE):  # noqa: ASYNC912  # the requests are the cancel points
        for question in questions(asking, model):
            # What has come before the end of patience counts.
            answers.append(_json(await _ask(endpoint, question)))  # noqa: PERF401
    await trio.lowlevel.checkpoint()
    return learned(info, told(asking, model, answers))


async def served(endpoint: Endpoint, patience: float) -> tuple[str, ...] | None:
    """Return the models that a server names; None if nobody answers in *patience* seconds. A checkpoint."""
    answer: httpx.Response | None = None
    with trio.move_on_after(patience):
        answer = await _ask(endpoint, MODELS)
    await trio.lowlevel.checkpoint()
    if answer is None:
        return None
    rows = map(as_object, as_list(as_object(_json(answer)).get("data")))
    return tuple(sorted({name for row in rows if (name := text(row, "id"))}))


async def _ask(endpoint: Endpoint, question: Question) -> httpx.Response | None:
    """Return the answer; None if there is none. A checkpoint."""
    base = endpoint.base_url
    # A server's own ways of answering stand beside the version, not below it.
    url = f"{base if question.is_versioned else base.removesuffix('/v1')}{question.path}"
    headers = {"accept": "application/json", **endpoint.headers}
    if question.body:
        headers["content-type"] = "application/json"
    unsigned = Unsigned(method=question.method, url=url, headers=headers, body=Body(pieces=(question.body,)))
    try:
        headers |= await endpoint.auth.headers(unsigned)
        # A connection of its own: nothing of it is left when it is cancelled.
        async with _client(endpoint) as client:
            return await client.request(question.method, url, content=question.body or None, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError, ProviderError, ConfigError):
        return None


def _client(endpoint: Endpoint) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        timeout=_PATIENCE,
        trust_env=not endpoint.is_loopback,
        # Without TLS no certificates are needed, and loading them takes a while: trust nobody.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if endpoint.is_plain else True,
    )


def _json(answer: httpx.Response | None) -> object:
    """Return what an answer says; None if that is nothing."""
    if answer is None or answer.status_code != 200:
        return None
    try:
        return loads(answer.content)
    except ValueError:
        return None
