"""The Anthropic Messages API as a wire format."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from engine.providers.anthropic.encode import encoder
from engine.providers.failures.http_failure import http_failure
from engine.providers.wire.claude_thinking import BINDING_BETA
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireFormat

if TYPE_CHECKING:
    from engine.core.llm_types import ModelRequest
    from engine.providers.wire.wire_format import WireDecoder

API_VERSION = "2023-06-01"


def wire(quirks: Quirks) -> WireFormat:
    """Return the wire format for a host with *quirks*."""
    quirks = attrs.evolve(quirks, title=quirks.title or "Anthropic")
    return WireFormat(
        host=quirks.title,
        path=lambda _: "/v1/messages",
        accept="text/event-stream",
        headers=lambda _: {"anthropic-version": API_VERSION, **beta_headers(quirks)},
        encoder=partial(encoder, quirks),
        decoder=partial(_decoder, quirks.title),
        failure=partial(http_failure, quirks.title),
    )


def beta_headers(quirks: Quirks) -> dict[str, str]:
    """Return the header for the betas that requests use."""
    return {"anthropic-beta": BINDING_BETA} if quirks.thinking_binding else {}


def _decoder(title: str, content_type: str, _: ModelRequest | None = None) -> WireDecoder | None:
    # Imported here: the request goes out first.
    from engine.providers.anthropic.decode import AnthropicReader
    from engine.providers.wire.decoding import decoder_for

    return decoder_for(AnthropicReader(title), content_type)
