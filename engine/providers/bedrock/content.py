"""Encodes parts of a transcript as content blocks of the Bedrock Converse API.

Half of a hosted tool's work is dropped, as is reasoning that is unsigned or at the end of a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import assert_never

from engine.core.messages import (
    AssistantPart,
    CallPart,
    FilePart,
    ImagePart,
    MediaPart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    UserPart,
)
from engine.providers.wire.normalize_transcript import AssistantItem, CallWithResult, arguments_of, media_kind, safe_id
from engine.providers.wire.untrusted_json import Json, as_object, loads_object, text

# Bedrock's rule for document names. Names are also shown to the model, so they are kept readable.
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_LONGEST_NAME = 100
# Bedrock's names of formats whose media type differs.
_VIDEO_FORMATS: Mapping[str, str] = {"quicktime": "mov", "x-matroska": "mkv", "x-flv": "flv", "3gpp": "three_gp"}


def user_block(part: UserPart, names: Iterator[int]) -> Json:
    """Encode a part of a user message; a document takes the next number of *names*."""
    if isinstance(part, TextPart):
        return {"text": part.text}
    return _media_block(part, names)


def _media_block(part: MediaPart, names: Iterator[int]) -> Json:
    source = {"bytes": part.data}
    subtype = part.media_type.partition("/")[2]
    if isinstance(part, ImagePart):
        return {"image": {"format": subtype, "source": source}}
    if media_kind(part.media_type) == "video":
        return {"video": {"format": _VIDEO_FORMATS.get(subtype, subtype), "source": source}}
    return {"document": {"format": subtype, "name": _document_name(part, next(names)), "source": source}}


def _document_name(part: FilePart, number: int) -> str:
    """Return a name in the allowed characters that is unique in the request."""
    name = _NOT_IN_A_NAME.sub(" ", part.name)[:_LONGEST_NAME].strip()
    return f"{name or 'document'} {number}"


def assistant_blocks(item: AssistantItem) -> list[Json]:
    """Encode the parts of an assistant message that the host accepts."""
    blocks = _drop_unpaired([block for part in item.parts for block in _blocks(part)])
    # Reasoning at the end is refused, as by Anthropic's own API.
    while blocks and "reasoningContent" in blocks[-1]:
        blocks.pop()
    return blocks


def _blocks(part: AssistantPart) -> Iterator[Json]:
    match part:
        case TextPart():
            # "The text field in the ContentBlock object is blank": refused.
            if part.text.strip():
                yield {"text": part.text}
        case ReasoningPart():
            if part.redacted is not None:
                yield {"reasoningContent": {"redactedContent": part.redacted}}
            elif part.signature is not None:
                yield {"reasoningContent": {"reasoningText": {"text": part.text, "signature": part.signature}}}
        case CallPart():
            arguments = loads_object(arguments_of(part))
            yield {"toolUse": {"toolUseId": safe_id(part.call_id), "name": part.tool, "input": arguments}}
        case ProviderPart():
            yield from _provider_block(part)
        case _:
            assert_never(part)


def _provider_block(part: ProviderPart) -> Iterator[Json]:
    """Encode a hosted tool's work. The host accepts no images from the assistant."""
    block = loads_object(part.data)
    if block.keys() in ({"toolUse"}, {"toolResult"}):
        yield block


def _drop_unpaired(blocks: list[Json]) -> list[Json]:
    """Drop a hosted tool's call without its result, and a result without its call."""
    call_ids = {_use_id(block, "toolUse") for block in blocks if _is_hosted(block)}
    result_ids = {_use_id(block, "toolResult") for block in blocks}

    def is_paired(block: Json) -> bool:
        if "toolResult" in block:
            return _use_id(block, "toolResult") in call_ids
        return not _is_hosted(block) or _use_id(block, "toolUse") in result_ids

    return [block for block in blocks if is_paired(block)]


def _is_hosted(block: Json) -> bool:
    return text(as_object(block.get("toolUse")), "type") == "server_tool_use"


def _use_id(block: Json, member: str) -> str:
    return text(as_object(block.get(member)), "toolUseId")


def result_block(answered: CallWithResult, names: Iterator[int]) -> Json:
    """Encode the result of a call."""
    output = answered.text
    content = [{"text": output}] if output.strip() else []
    content += [_media_block(part, names) for part in answered.media]
    result: Json = {"toolUseId": safe_id(answered.call.call_id), "content": content}
    if answered.is_error:
        result["status"] = "error"
    return {"toolResult": result}
