"""Cohere's chat API (version 2) as a wire format."""

from __future__ import annotations

from functools import partial

import attrs

from engine.providers.cohere.decode import CohereReader
from engine.providers.cohere.encode import encoder
from engine.providers.failures.http_failure import http_failure
from engine.providers.wire.decoding import decoder_for
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireFormat


def wire(quirks: Quirks) -> WireFormat:
    """Return the wire format for a host with *quirks*."""
    quirks = attrs.evolve(quirks, title=quirks.title or "Cohere")
    return WireFormat(
        host=quirks.title,
        path=lambda _: "/v2/chat",
        accept="text/event-stream",
        headers=lambda _: {},
        encoder=partial(encoder, quirks),
        decoder=lambda content_type, _=None: decoder_for(CohereReader(quirks.title), content_type),
        failure=partial(http_failure, quirks.title),
    )
