"""Google's Gemini API (`streamGenerateContent`) as a wire format; Vertex has other paths."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

import attrs

from engine.core.llm_types import ModelRequest
from engine.providers.failures.http_failure import http_failure
from engine.providers.gemini.decode import GeminiReader
from engine.providers.gemini.encode import encoder
from engine.providers.gemini.framing import JsonFraming
from engine.providers.wire.decoding import StreamDecoder, decoder_for
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireDecoder, WireFormat, bare_model_name


def wire(quirks: Quirks) -> WireFormat:
    """Return the wire format for a host with *quirks*."""
    quirks = attrs.evolve(quirks, title=quirks.title or "Google Gemini")
    return WireFormat(
        host=quirks.title,
        path=_path,
        accept="text/event-stream",
        headers=lambda _: {},
        encoder=partial(encoder, quirks),
        decoder=partial(_decoder, quirks.title),
        failure=partial(http_failure, quirks.title),
    )


def _path(request: ModelRequest) -> str:
    """Return the path of a model; a tuned model's name includes its resource type."""
    name = bare_model_name(request)
    resource = name if "/" in name else f"models/{name}"
    return f"/v1beta/{quote(resource)}:streamGenerateContent?alt=sse"


def _decoder(host: str, content_type: str, _: ModelRequest | None = None) -> WireDecoder | None:
    """Return a decoder; JSON may be an array of events or a single document."""
    reader = GeminiReader(host)
    if content_type == "application/json":
        # Vertex and some proxies ignore `alt=sse`.
        return StreamDecoder(reader, JsonFraming())
    return decoder_for(reader, content_type)
