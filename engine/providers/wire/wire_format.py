"""The parts of a wire format: pure functions and objects that the HTTP client uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from engine.core.errors import ProviderError
from engine.core.llm_types import ModelRequest, StreamEvent
from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HttpReply(Value):
    """A complete HTTP response; header names are in lower case.

    Attributes:
        is_large: the request took most of the model's window, as far as is known.
        may_be_large: the window is only assumed, and the request would take most of a small one.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_large: bool = False
    may_be_large: bool = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Body(Value):
    """A request's body, in pieces; long pieces are the same objects in every step.

    Attributes:
        pieces: sent one after the other.
        broken_at: the first part that differs from the previous request, which breaks its prompt cache; empty: none.
    """

    pieces: tuple[bytes, ...]
    broken_at: str = ""

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


class WireEncoder(Protocol):
    """Encodes requests; caches the encoded part of each transcript."""

    def encode(self, request: ModelRequest) -> Body:
        """Return the body for *request*; raise `ConfigError` if it cannot be encoded."""
        ...


class WireDecoder(Protocol):
    """Decodes one response: bytes in, stream events out.

    On an error, the events before it are returned first; the `ProviderError` is raised by that call if there were none,
    else by the next call, and by every call after it. So no event is lost, wherever the bytes are cut.
    """

    @property
    def is_over(self) -> bool:
        """Whether the response is complete."""
        ...

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Return the events that *data* completes."""
        ...

    def close(self) -> list[StreamEvent]:
        """Return the last events; raise `ConnectionBroken` if the response is incomplete."""
        ...


class DecoderFactory(Protocol):
    """Creates decoders."""

    def __call__(self, content_type: str, request: ModelRequest | None = None, /) -> WireDecoder | None:
        """Return a decoder for the response to *request*; None if its type is not supported.

        The content type is in lower case, without parameters; empty if there was none.
        """
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WireFormat(Value):
    """A wire format, configured for one host.

    Attributes:
        host: the host, for error messages.
        path: the request's path, below the base URL.
        accept: the content type to accept.
        headers: those of the format and the host, except for authentication.
        encoder: creates an encoder.
        decoder: creates a decoder for one response.
        failure: turns an error response into an error; the second argument is the time since the epoch.
    """

    host: str
    path: Callable[[ModelRequest], str]
    accept: str
    headers: Callable[[ModelRequest], Mapping[str, str]]
    encoder: Callable[[], WireEncoder]
    decoder: DecoderFactory
    failure: Callable[[HttpReply, float], ProviderError]


def bare_model_name(request: ModelRequest) -> str:
    """Return the model's name without the host prefix."""
    return request.model.partition("/")[2] or request.model
