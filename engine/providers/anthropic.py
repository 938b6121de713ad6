"""The Anthropic Messages API as a wire format."""

from __future__ import annotations

from engine._version import __version__
from engine.providers.anthropic_decode import Decoder
from engine.providers.anthropic_encode import encode
from engine.providers.anthropic_errors import HOST, failure
from engine.providers.wire import WireFormat

API_VERSION = "2023-06-01"


def headers(key: str) -> dict[str, str]:
    """Return the headers that a request with *key* needs."""
    return {"x-api-key": key, "anthropic-version": API_VERSION, "user-agent": f"nursery-engine/{__version__}"}


MESSAGES = WireFormat(
    host=HOST,
    path="/v1/messages",
    content_type="text/event-stream",
    headers=headers,
    encode=encode,
    decoder=Decoder,
    failure=failure,
)
