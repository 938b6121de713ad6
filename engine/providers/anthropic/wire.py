"""The Anthropic Messages API as a wire format."""

from __future__ import annotations

from functools import partial

import attrs

from engine.providers.anthropic.decode import AnthropicReader
from engine.providers.anthropic.encode import encoder
from engine.providers.wire.claude_thinking import BINDING_BETA
from engine.providers.wire.decoding import decoder_for
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireFormat

API_VERSION = "2023-06-01"


def wire(quirks: Quirks) -> WireFormat:
    """Return the wire format for a host with *quirks*."""
    from engine.providers.failures.error_body import http_failure

    quirks = attrs.evolve(quirks, title=quirks.title or "Anthropic")
    return WireFormat(
        host=quirks.title,
        path=lambda _: "/v1/messages",
        accept="text/event-stream",
        headers=lambda _: {"anthropic-version": API_VERSION, **beta_headers(quirks)},
        encoder=partial(encoder, quirks),
        decoder=lambda content_type, _=None: decoder_for(AnthropicReader(quirks.title), content_type),
        failure=partial(http_failure, quirks.title),
    )


def beta_headers(quirks: Quirks) -> dict[str, str]:
    """Return the header for the betas that requests use."""
    return {"anthropic-beta": BINDING_BETA} if quirks.thinking_binding else {}
