"""What a wire format is: five pure things which the HTTP shell puts to use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from engine.errors import ProviderError
from engine.model import ModelRequest, StreamEvent


@attrs.frozen(kw_only=True)
class HttpReply:
    """An HTTP answer other than a stream; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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
    """One wire format.

    Attributes:
        host: whose it is, for error texts.
        path: of the request, below the base URL.
        content_type: of a streamed answer.
        headers: makes the request's headers from the key.
        encode: makes the request's body; raises `ConfigError` for what can't be said.
        decoder: makes a decoder for one answer.
        failure: reads an answer that is none; the second argument is the time since the epoch.
    """

    host: str
    path: str
    content_type: str
    headers: Callable[[str], Mapping[str, str]]
    encode: Callable[[ModelRequest], bytes]
    decoder: Callable[[], WireDecoder]
    failure: Callable[[HttpReply, float], ProviderError]
