"""A response of a host while it is received: its bytes, and the events in them.

httpx reads a response through a chain of async generators. If one were left suspended, the garbage collector would have
to clean it up at some later time. So a response that is abandoned is read once more in a cancelled scope, which unwinds
the whole chain and closes the socket at once. (Only an exception from the innermost generator does that, which is why
nothing is decompressed in between; a proxy's compression is undone outside of the chain.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import final

import httpx
import trio

from engine.core.errors import ConnectionBroken, ContextOverflow, ProviderError, ProviderProtocolError
from engine.core.llm_types import Finished, Ping, PrefixBroken, StreamEvent
from engine.providers.http.client import translate_errors
from engine.providers.http.content import COMPRESSIONS, Decompressor
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.key_mask import KeyMask
from engine.providers.wire.wire_format import WireDecoder

# Enough for an error; a host may send a page of any length.
_LONGEST_ERROR_BYTES = 64 * 1024
_ERROR_TIMEOUT = 5.0
# After the end of the response a few bytes of HTTP are still to come. Reading them lets the next step reuse the
# connection, which saves a handshake.
DRAIN_TIMEOUT = 0.25

_DONE = b"data: [DONE]"


@final
class HttpStream:
    """A response being received; created by `HttpModel.open`."""

    def __init__(
        self,
        body: ResponseBody,
        decoder: WireDecoder,
        endpoint: Endpoint,
        broken_at: str = "",
        *,
        is_large: Callable[[], bool] | None = None,
        on_failure: Callable[[ProviderError], None] | None = None,
    ) -> None:
        self._body = body
        self._decoder = decoder
        self._endpoint = endpoint
        self._broken_at = broken_at
        self._is_large = is_large
        self._on_failure = on_failure
        self._begin = b""
        self._mask = KeyMask.of(endpoint.auth.secrets)
        # An error that comes after what was held back.
        self._failure: ProviderError | None = None
        # The end of the response, until it is known that no other message follows.
        self._last: list[StreamEvent] = []
        self._is_drained = False

    async def receive(self) -> Sequence[StreamEvent]:
        """Return the events of the next bytes; an empty list means the response is over.

        Bytes without an event (a keep-alive comment) become a `Ping`, so the watchdog sees that bytes arrived.

        A checkpoint. If cancelled, the connection is closed and the rest of the response is lost.
        """
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled:
            await self._body.aclose(0)  # noqa: ASYNC102  # bounded: see cleanup.py
            raise
        if self._broken_at:
            broken_at, self._broken_at = self._broken_at, ""
            return (PrefixBroken(broken_at),)
        if self._failure is not None:
            raise self._failure
        mask = self._mask
        if mask is None:
            return await self._decoded()
        try:
            events = await self._decoded()
        except ProviderError as error:
            held = mask.finish()
            if not held:
                raise
            self._failure = error
            return held
        return mask.apply(events) if events else mask.finish()

    async def _decoded(self) -> Sequence[StreamEvent]:
        """Return the events of the next bytes. A checkpoint if bytes have to be read."""
        try:
            with translate_errors(self._endpoint):
                events = self._decoder.feed(b"")  # raises the error after the last events
                if self._last:
                    return await self._until_drained()
                if events or self._decoder.is_over:
                    return events
                chunk = await self._body.read()
                if chunk is None:
                    return self._decoder.close()
                self._begin = (self._begin + chunk)[: len(_DONE) + 1]
                return await self._until_last(self._decoder.feed(chunk))
        except ProviderError as error:
            if self._on_failure is not None:
                self._on_failure(error)
            if self._is_silent_overflow(error):
                # llama.cpp answers a prompt that does not fit with status 200 and nothing.
                message = f"{self._endpoint.host}: an empty response to a request that takes most of the window"
                raise ContextOverflow(message) from error
            raise

    def _is_silent_overflow(self, error: ProviderError) -> bool:
        """Whether *error* is that a large request had an empty response, to its regular end."""
        is_cut_off = isinstance(error, ConnectionBroken) and not isinstance(error.__cause__, httpx.HTTPError)
        is_empty = self._begin.strip() in {b"", _DONE}
        return is_cut_off and is_empty and self._is_large is not None and self._is_large()

    async def _until_last(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Return *events* without the end of the response, which is held back. A checkpoint if there is nothing else."""
        if not self._decoder.is_over:
            return events or (Ping(),)
        at = next((n for n, event in enumerate(events) if isinstance(event, Finished)), len(events))
        self._last = list(events[at:])
        return events[:at] or await self._until_drained()

    async def _until_drained(self) -> Sequence[StreamEvent]:
        """Return the end of the response when its bytes have ended too, or the next events of another message.

        Proxies put a second message behind the first, and only the end of the bytes tells that there is none. The wait
        costs nothing: without it, `aclose` would read these bytes and drop them. A checkpoint if bytes have to be read.
        """
        with trio.move_on_after(DRAIN_TIMEOUT), suppress(httpx.HTTPError):
            while (chunk := await self._body.read()) is not None:
                events = self._decoder.feed(chunk)
                if events or not self._decoder.is_over:
                    # The end was not the end; the other message has its own.
                    self._last = []
                    return await self._until_last(events)
        self._is_drained = True
        last, self._last = self._last, []
        return last

    async def aclose(self) -> None:
        """Close the connection, or return it to the pool if the response is over. A checkpoint.

        If cancelled, it is closed, as `trio.abc.AsyncResource` requires.
        """
        await self._body.aclose(DRAIN_TIMEOUT if self._decoder.is_over and not self._is_drained else 0)


@final
class ResponseBody:
    """The body of a response, and its connection."""

    def __init__(self, response: httpx.Response, host: str) -> None:
        self._chunks = aiter(response.aiter_raw())
        encoding = encoding_of(response)
        # Not httpx's own: that would be one more generator. See above.
        self._decompressor = Decompressor(encoding, host) if encoding in COMPRESSIONS else None
        self._is_closed = False

    async def read(self) -> bytes | None:
        """Return the next bytes; None at the end. Raises `ProviderProtocolError` if they can't be decompressed."""
        decompressor = self._decompressor
        if decompressor is not None and decompressor.pending:
            return decompressor.feed(b"")
        chunk = await anext(self._chunks, None)
        return chunk if chunk is None or decompressor is None else decompressor.feed(chunk)

    async def read_page(self) -> bytes:
        """Read the body of an error within limits of time and size; close the connection."""
        page = b""
        try:
            with trio.move_on_after(_ERROR_TIMEOUT), suppress(httpx.HTTPError, ProviderProtocolError):  # noqa: ASYNC912  # the caller's code in it is the cancel point
                while len(page) < _LONGEST_ERROR_BYTES and (chunk := await self.read()) is not None:
                    page += chunk
        finally:
            await self.aclose(0)  # noqa: ASYNC102  # bounded: see cleanup.py
        return page[:_LONGEST_ERROR_BYTES]

    async def aclose(self, timeout: float) -> None:
        """Read to the end for at most *timeout* seconds, then close the connection."""
        if not self._is_closed:
            self._is_closed = True
            with trio.move_on_after(timeout) as scope:  # noqa: ASYNC912  # the caller's code in it is the cancel point
                if timeout == 0:
                    scope.cancel(reason="the rest of the response is not needed")
                with suppress(httpx.HTTPError):
                    while await anext(self._chunks, None) is not None:
                        pass
        await trio.lowlevel.checkpoint()


def encoding_of(response: httpx.Response) -> str:
    """Return how the body of a response is compressed; "identity": it is not."""
    encoding: str = response.headers.get("content-encoding", "identity")
    return encoding.strip().lower()
