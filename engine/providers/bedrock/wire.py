"""The Bedrock Converse API as a wire format."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

import attrs

from engine.core.llm_types import ModelRequest
from engine.providers.bedrock.decode import BedrockReader
from engine.providers.bedrock.encode import encoder
from engine.providers.bedrock.eventstream import EventStreamFraming
from engine.providers.failures.http_failure import http_failure
from engine.providers.wire.decoding import DocumentDecoder, StreamDecoder
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireFormat, bare_model_name


def wire(quirks: Quirks) -> WireFormat:
    """Return the wire format for a host with *quirks*."""
    quirks = attrs.evolve(quirks, title=quirks.title or "AWS Bedrock")
    return WireFormat(
        host=quirks.title,
        path=partial(_path, quirks),
        # Errors and unstreamed responses are JSON.
        accept="*/*",
        headers=lambda _: {},
        encoder=partial(encoder, quirks),
        decoder=partial(_decoder, quirks),
        failure=partial(http_failure, quirks.title),
    )


def _path(quirks: Quirks, request: ModelRequest) -> str:
    # Some models can't stream answers with calls.
    operation = "converse-stream" if quirks.streams else "converse"
    # A model may be named by its ARN, which contains slashes and colons.
    return f"/model/{quote(bare_model_name(request), safe='')}/{operation}"


def _decoder(
    quirks: Quirks, content_type: str, _: ModelRequest | None = None
) -> StreamDecoder | DocumentDecoder | None:
    match content_type:
        case "application/vnd.amazon.eventstream" | "":
            return StreamDecoder(BedrockReader(quirks.title), EventStreamFraming())
        case "application/json":
            return DocumentDecoder(BedrockReader(quirks.title))
        case _:
            return None
