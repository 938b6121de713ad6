"""The OpenAI Chat Completions API as a wire format, for OpenAI and compatible hosts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from engine.providers.failures.http_failure import http_failure
from engine.providers.openai_chat.encode import affinity_headers, encoder
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireFormat

if TYPE_CHECKING:
    from engine.core.llm_types import ModelRequest
    from engine.providers.wire.decoding import DocumentDecoder, StreamDecoder


def wire(quirks: Quirks) -> WireFormat:
    """Return the wire format for a host with *quirks*."""
    quirks = attrs.evolve(quirks, title=quirks.title or "OpenAI")
    return WireFormat(
        host=quirks.title,
        path=lambda _: "/chat/completions",
        accept="text/event-stream",
        headers=partial(affinity_headers, quirks),
        encoder=partial(encoder, quirks),
        decoder=partial(_decoder, quirks),
        failure=partial(http_failure, quirks.title),
    )


def _decoder(
    quirks: Quirks, content_type: str, _: ModelRequest | None = None
) -> StreamDecoder | DocumentDecoder | None:
    # Imported here: the request goes out first.
    from engine.providers.openai_chat.decode import DoneParser, OpenAIChatReader
    from engine.providers.wire.decoding import DocumentDecoder, StreamDecoder, decoder_for

    reader = OpenAIChatReader(quirks)
    if content_type == "application/json":
        return DocumentDecoder(reader)
    return None if decoder_for(reader, content_type) is None else StreamDecoder(reader, DoneParser())
