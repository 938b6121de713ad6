"""The Anthropic Messages API on Vertex: the model is in the path, and the API version in the body."""

from __future__ import annotations

from functools import partial

import attrs

from engine.core.llm_types import ModelRequest
from engine.providers.anthropic import wire as anthropic
from engine.providers.anthropic.encode import MESSAGES, AnthropicDialect, AnthropicState
from engine.providers.wire.encoding import Encoder, Piece
from engine.providers.wire.extra_body import parse_extra_body
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireFormat

API_VERSION = "vertex-2023-10-16"


def wire(quirks: Quirks) -> WireFormat:
    """Return the wire format; the host supplies the path, which holds the user's project."""
    return attrs.evolve(anthropic.wire(quirks), headers=partial(_headers, quirks), encoder=partial(encoder, quirks))


def _headers(quirks: Quirks, _: ModelRequest) -> dict[str, str]:
    # The version is in the body here, not in a header.
    return anthropic.beta_headers(quirks)


def encoder(quirks: Quirks) -> Encoder[AnthropicState]:
    """Return an encoder for one model."""
    return Encoder(VertexDialect(quirks, parse_extra_body(quirks, MESSAGES)), quirks)


@attrs.frozen
class VertexDialect(AnthropicDialect):
    """Writes requests of the Messages API for Vertex."""

    def opening(self, request: ModelRequest) -> list[Piece]:
        """Return the part that stays the same between steps, without the model's name."""
        # The first piece is the model's name, which is in the path.
        _, *rest = super().opening(request)
        return [Piece("version", b'{"anthropic_version":"%s"' % API_VERSION.encode()), *rest]
