"""What a wire format is: pure things which the HTTP shell puts to use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from engine.core.errors import ProviderError
from engine.core.llm_types import ModelRequest, StreamEvent


@attrs.frozen(kw_only=True)
class HttpReply:
    """An HTTP answer other than a stream; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@attrs.frozen(kw_only=True)
class Body:
    """A request's body, in pieces: the long ones are the same objects from step to step.

    Attributes:
        pieces: to be sent one after the other.
        broken_at: where it differs from the beginning of the request before it; empty: it does not.
    """

    pieces: tuple[bytes, ...]
    broken_at: str = ""

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


class WireEncoder(Protocol):
    """Makes bodies; remembers what it has encoded of which transcript."""

    def encode(self, request: ModelRequest) -> Body:
        """Return the body for *request*; raise `ConfigError` for what can't be said."""
        ...


class WireDecoder(Protocol):
    """Bytes of one answer in, stream events out.

    When something goes wrong, what came before it is returned first; the
    `ProviderError` is raised by that call if there was nothing, else by the next
    one, and by every one after it. So no cut of the bytes loses an event.
    """

    @property
    def is_over(self) -> bool:
        """Whether the answer has come to its proper end."""
        ...

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Return the events that *data* completes."""
        ...

    def close(self) -> list[StreamEvent]:
        """Return what is left at the end of the bytes; an answer cut short is a `ConnectionBroken`."""
        ...


@attrs.frozen(kw_only=True)
class WireFormat:
    """One wire format, as one host speaks it.

    Attributes:
        host: whose it is, for error texts.
        path: of the request, below the base URL.
        accept: the content type to ask for.
        headers: those of the format and the host, the key's apart.
        encoder: makes an encoder.
        decoder: makes a decoder for one answer of the given content type (in lower
            case, without parameters; empty if there was none); None: it is no answer.
        failure: reads an answer that is none; the second argument is the time since the epoch.
    """

    host: str
    path: Callable[[ModelRequest], str]
    accept: str
    headers: Callable[[ModelRequest], Mapping[str, str]]
    encoder: Callable[[], WireEncoder]
    decoder: Callable[[str], WireDecoder | None]
    failure: Callable[[HttpReply, float], ProviderError]


def bare_model_name(request: ModelRequest) -> str:
    """Return the model's name as its host has it: without the host's own name before it."""
    return request.model.partition("/")[2] or request.model
