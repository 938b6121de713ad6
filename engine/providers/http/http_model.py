"""A model behind HTTP: moves bytes between httpx and a wire format, and translates errors.

It never retries what has failed, and has only a connect timeout: both belong to the turn, which knows what has happened
so far and what waits for it. A request is sent again only where the host redirects it, or refuses a key that can be
fetched again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, final
from urllib.parse import quote

import attrs
import httpx
import trio

from engine.core.errors import (
    ConnectionBroken,
    ContextOverflow,
    EngineClosed,
    ErrorInfo,
    ModelNotFound,
    ProviderError,
    ProviderProtocolError,
)
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import AssistantMessage, ResultsMessage, TextPart, UserMessage
from engine.core.threads import start_preloads
from engine.core.version import __version__
from engine.providers.auth.auth import UnsignedRequest
from engine.providers.http.client import ConnectionGuard, new_client, translate_errors
from engine.providers.http.content import COMPRESSIONS, PlainTextDecoder
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.http_stream import DRAIN_TIMEOUT, HttpStream, ResponseBody, encoding_of
from engine.providers.wire.wire_format import Body, HttpReply, WireDecoder, WireFormat, bare_model_name

_LONGEST_TARGET = 300
# A gateway needs one, for a path of its own.
_MOST_REDIRECTS = 3
# An error that may be about the length of a request is, if the request takes this share of the window.
_LARGE_SHARE = 0.6
# What local servers often have, if nothing else is said. An agent's first request takes most of it.
_SMALL_WINDOW = 8_192
_BYTES_PER_TOKEN = 4
# Requests before which a server is asked again for limits that it has not reported.
_MOST_LEARN_ATTEMPTS = 5

# Called with a response whose body is unread, the request's body, and the secrets that may be in both. It may replace
# the response's stream.
Witness = Callable[[httpx.Response, Body, tuple[str, ...]], None]


@final
class HttpModel:
    """A model behind HTTP.

    Connections are kept between requests: close the model when it is no longer needed.
    """

    def __init__(
        self,
        info: ModelInfo,
        wire: WireFormat,
        endpoint: Endpoint,
        *,
        connect_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
        learner: Callable[[ModelInfo], Awaitable[ModelInfo]] | None = None,
    ) -> None:
        """Create a model; opens nothing yet.

        Args:
            info: limits and prices.
            wire: its wire format.
            endpoint: its host.
            connect_timeout: seconds allowed to connect.
            clock: returns the time since the epoch, for retry delays.
            learner: queries the host for limits that are not known otherwise.
        """
        self._info = info
        self._learner = learner
        self._wire = wire
        self._encoder = wire.encoder()
        self._endpoint = endpoint
        self._connect_timeout = connect_timeout
        self._clock = clock
        self._client: httpx.AsyncClient | None = None
        self._is_closed = False
        self._witnesses: list[Witness] = []
        self._has_sent = False
        self._learn_attempts = 0

    def __repr__(self) -> str:
        return f"<HttpModel {self._info.name!r} at {self._endpoint.host}>"

    @property
    def info(self) -> ModelInfo:
        """Limits and prices."""
        return self._info

    async def learn(self) -> ModelInfo:
        """Query the host for limits that are not known yet; return them. A checkpoint.

        Takes at most two seconds and never fails: on an error or a cancel the limits stay unchanged. May be called
        again, for a server that has started since; requests call it again themselves, a few times.
        """
        if self._learner is not None and not self._info.is_known:
            self._info = await self._learner(self._info)
        await trio.lowlevel.checkpoint()
        return self._info

    def watch(self, witness: Witness) -> None:
        """Call *witness* for each response from now on, before it is read."""
        self._witnesses.append(witness)

    async def open(self, request: ModelRequest) -> HttpStream:
        """Send *request*; return when the response begins, or raise `ProviderError`.

        A checkpoint. If cancelled, the connection is closed. Raises `ConfigError`
        for a request that cannot be encoded, `EngineClosed` after `aclose`.
        """
        content = self._encoder.encode(request)
        client = self._open_client()
        # A server that loads a model for its first request knows the window only after it.
        if self._has_sent and self._learn_attempts < _MOST_LEARN_ATTEMPTS and not self._info.is_known:
            self._learn_attempts += 1
            await self.learn()
        response = await self._response(client, request, content)
        self._has_sent = True
        for witness in self._witnesses:
            witness(response, content, self._endpoint.auth.secrets)
        body = ResponseBody(response, self._endpoint.host)
        decoder = self._decoder(response, request)
        if decoder is not None:
            is_large = partial(self._is_large, request, len(content))
            return HttpStream(
                body, decoder, self._endpoint, content.broken_at, is_large=is_large, on_failure=self._learn_from
            )
        error = await self._error_of(
            response,
            body,
            is_large=self._is_large(request, len(content)),
            may_be_large=not self._info.is_known and self._is_large(request, len(content), _SMALL_WINDOW),
        )
        self._learn_from(error)
        if isinstance(error, ContextOverflow):
            await self.learn()
        raise self._endpoint.redact_error(error)

    async def aclose(self) -> None:
        """Close all connections, also those in use. A checkpoint; completes even if cancelled."""
        self._is_closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        await trio.lowlevel.checkpoint()

    def _is_large(self, request: ModelRequest, size: int, window: int | None = None) -> bool:
        """Whether *request*, of *size* bytes, probably takes most of a window; default: the model's."""
        tokens = (size - _media_size(request)) / _BYTES_PER_TOKEN
        return tokens > _LARGE_SHARE * (window or self._info.context)

    def _learn_from(self, error: ProviderError) -> None:
        """Take the window from a refusal that names it, if it was only assumed. Not a checkpoint."""
        if not isinstance(error, ContextOverflow):
            return
        # Imported here: hardly any request is refused.
        from engine.providers.failures.overflow import refused_size, refused_window

        if self._info.is_known:
            size = refused_size(str(error), self._info.context)
            error.info = attrs.evolve(error.info, amount=size, limit=self._info.context)
            return
        if window := refused_window(str(error)):
            output = max(1, min(self._info.output, window // 2))
            self._info = attrs.evolve(self._info, context=window, output=output, is_known=True)

    async def _response(self, client: httpx.AsyncClient, request: ModelRequest, content: Body) -> httpx.Response:
        """Send the request, with its errors translated; return the response. A checkpoint."""
        try:
            with translate_errors(self._endpoint):
                return await self._send(client, request, content)
        except ConnectionBroken as error:
            if error.info.code != "certificate_expired":
                raise
            expired = error
        # Outside of the handler: a cancel here is raised as it is.
        from engine.providers.http.certificate_expiry import certificate_expiry

        expired.info = attrs.evolve(expired.info, subject=await certificate_expiry(self._endpoint))
        raise expired

    async def _send(self, client: httpx.AsyncClient, request: ModelRequest, content: Body) -> httpx.Response:
        """Send the request, again where the host redirects it or refuses a key that may be renewed; return the response.

        A checkpoint.
        """
        connecting = ConnectionGuard(self._prepare_answer)
        extensions = {"timeout": client.timeout.as_dict(), "trace": connecting.on_trace}
        target: httpx.URL | None = None
        redirects = 0
        is_renewed = False
        while True:
            outgoing = await self._request(request, content, extensions, target)
            try:
                response = await client.send(outgoing, stream=True)
            except trio.Cancelled:
                await connecting.aclose()
                raise
            moved = _redirected(outgoing.url, response)
            if moved is not None and redirects < _MOST_REDIRECTS:
                target = moved
                redirects += 1
            elif (
                response.status_code == HTTPStatus.UNAUTHORIZED
                and not is_renewed
                and self._endpoint.auth.renew(outgoing.headers)
            ):
                is_renewed = True
            else:
                return response
            await ResponseBody(response, self._endpoint.host).aclose(DRAIN_TIMEOUT)

    async def _request(
        self, request: ModelRequest, content: Body, extensions: dict[str, Any], target: httpx.URL | None
    ) -> httpx.Request:
        """Build the HTTP request, to *target* if the host has sent us there. A checkpoint if its key has to be fetched."""
        endpoint = self._endpoint
        path = endpoint.path.replace("{model}", quote(bare_model_name(request), safe="@")) or self._wire.path(request)
        url = target or httpx.URL(endpoint.base_url + path)
        headers = {
            "host": url.netloc.decode("ascii"),
            "content-type": "application/json",
            "content-length": str(len(content)),
            "accept": self._wire.accept,
            # Compression would hold small events back.
            "accept-encoding": "identity",
            "user-agent": f"nursery-engine/{__version__}",
            **self._wire.headers(request),
            **endpoint.headers,
        }
        unsigned = UnsignedRequest(method="POST", url=str(url), headers=headers, body=content)
        headers |= await endpoint.auth.headers(unsigned)
        return httpx.Request(
            "POST", url, headers=headers, stream=_RequestContent(content.pieces), extensions=extensions
        )

    def _open_client(self) -> httpx.AsyncClient:
        if self._is_closed:
            raise EngineClosed("this model is closed: resolve it again")
        if self._client is None:
            self._client = new_client(self._endpoint, self._connect_timeout)
        return self._client

    def _prepare_answer(self) -> None:
        """Load what reads the answer, and start to load what its calls need, once. Not a checkpoint."""
        if self._has_sent:
            return
        with suppress(ImportError):  # reported where it is needed
            self._wire.decoder(self._wire.accept)
        start_preloads()

    def _decoder(self, response: httpx.Response, request: ModelRequest) -> WireDecoder | None:
        """Return a decoder for the response; None if it is an error or has an unknown type."""
        encoding = encoding_of(response)
        if response.status_code != 200 or (encoding != "identity" and encoding not in COMPRESSIONS):
            return None
        content_type: str = response.headers.get("content-type", "")
        kind = content_type.partition(";")[0].strip().lower()
        decoder = self._wire.decoder(kind, request)
        if decoder is None and kind == "text/plain":
            failure = partial(self._unexpected_content, response)
            return PlainTextDecoder(lambda kind: self._wire.decoder(kind, request), failure)
        return decoder

    def _unexpected_content(self, response: httpx.Response) -> ProviderProtocolError:
        """Return the error for a response that is neither an answer nor an error."""
        status, endpoint = response.status_code, self._endpoint
        info = self._page_info() if _is_page(response) else None
        target: str = response.headers.get("location", "")
        if 300 <= status < 400 and target:
            return ProviderProtocolError(
                f"{endpoint.host} answered HTTP {status} and redirects to {target[:_LONGEST_TARGET]}: set the base URL to"
                " where that is",
                status=status,
            )
        return ProviderProtocolError(
            f"{endpoint.host} answered HTTP {status} with {_content_kind(response)}, not with an event stream:"
            f" is its address right, and does it speak the wire format of {self._wire.host}?",
            status=status,
            info=info,
        )

    def _page_info(self) -> ErrorInfo:
        return ErrorInfo(code="not_an_api", subject=self._endpoint.base_url)

    async def _error_of(
        self, response: httpx.Response, body: ResponseBody, *, is_large: bool, may_be_large: bool
    ) -> ProviderError:
        page = await body.read_page()
        status = response.status_code
        if status < 400:
            return self._unexpected_content(response)
        headers = {name.lower(): value for name, value in response.headers.items()}
        reply = HttpReply(status=status, headers=headers, body=page, is_large=is_large, may_be_large=may_be_large)
        error = self._wire.failure(reply, self._clock())
        if isinstance(error, ModelNotFound) and _is_page(response):
            # Of a path that does not exist: no API answers like that.
            error.info = attrs.evolve(self._page_info(), http_status=status)
        return error


def _redirected(url: httpx.URL, response: httpx.Response) -> httpx.URL | None:
    """Return where to send the same request again, if that is another path of the same host; None: nowhere.

    Only where the method and the body stay what they are (307, 308). Not httpx's own redirects: they go to any host, and
    only the header `Authorization` stays behind; the keys of most hosts are in another one. And never from https to http,
    or to another port, where another program may listen.
    """
    location: str = response.headers.get("location", "")
    if response.status_code not in {307, 308} or not location:
        return None
    try:
        target = url.join(location)
    except httpx.InvalidURL:
        return None
    is_same = (target.scheme, target.host, target.port) == (url.scheme, url.host, url.port)
    return target if is_same and not target.userinfo else None


@final
class _RequestContent(httpx.AsyncByteStream):
    """The bytes of a request. httpx's own class is a generator, which a cancelled upload would leave suspended."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> _PieceIterator:
        return _PieceIterator(self._pieces)


@final
class _PieceIterator:
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._left = iter(pieces)

    def __aiter__(self) -> _PieceIterator:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._left:
            return piece
        raise StopAsyncIteration


def _media_size(request: ModelRequest) -> int:
    """Return how many bytes of a request are images and files."""
    size = 0
    for message in request.transcript:
        match message:
            case UserMessage():
                size += sum(len(part.data) for part in message.parts if not isinstance(part, TextPart))
            case ResultsMessage():
                for result in message.results:
                    size += sum(len(image.data) for image in result.settlement.images)
                    size += sum(len(file.data) for file in result.settlement.files)
            case AssistantMessage():
                pass
    return size


def _is_page(response: httpx.Response) -> bool:
    content_type: str = response.headers.get("content-type", "")
    return content_type.lower().startswith(("text/html", "application/xhtml"))


def _content_kind(response: httpx.Response) -> str:
    content_type: str = response.headers.get("content-type", "")
    encoding = encoding_of(response)
    kind = content_type.partition(";")[0].strip() or "no content type"
    return kind if encoding == "identity" else f"{kind}, compressed by {encoding}"
