"""The OpenAI Responses API as a wire format."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from engine.providers.failures.http_failure import http_failure
from engine.providers.openai_responses.encode import encoder
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireFormat

if TYPE_CHECKING:
    from engine.core.llm_types import ModelRequest
    from engine.providers.wire.wire_format import WireDecoder


def wire(quirks: Quirks) -> WireFormat:
    """Return the wire format for a host with *quirks*."""
    quirks = attrs.evolve(quirks, title=quirks.title or "OpenAI")
    return WireFormat(
        host=quirks.title,
        path=lambda _: "/responses",
        accept="text/event-stream",
        headers=lambda _: {},
        encoder=partial(encoder, quirks),
        decoder=partial(_decoder, quirks),
        failure=partial(http_failure, quirks.title),
    )


def _decoder(quirks: Quirks, content_type: str, request: ModelRequest | None = None) -> WireDecoder | None:
    # Imported here: the request goes out first.
    from engine.providers.openai_responses.decode import ResponsesReader
    from engine.providers.wire.decoding import decoder_for

    runs_searches = quirks.defers_tools and request is not None and any(tool.deferred for tool in request.tools)
    return decoder_for(ResponsesReader(quirks.title, runs_searches), content_type)
