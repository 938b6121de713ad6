"""What a server answers to a call, as the output of a tool: nothing in it is fetched, run or trusted."""

from __future__ import annotations

import base64
import binascii
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

import mcp_types as types

from engine.core.errors import ConfigError, ToolError
from engine.core.messages import FilePart, ImagePart
from engine.core.threads import to_thread
from engine.json_schema.foreign_schema import parse_foreign_schema
from engine.json_schema.keywords import JsonValue
from engine.mcp.server_text import clean, one_line
from engine.tools.call_values import ToolOutput
from engine.tools.read.image import Image, image_output
from engine.tools.tool_context import ToolContext

# Of all text together; what does not fit the model's share is kept in a file.
_MOST_CHARS: Final = 64 * 1024 * 1024
_MOST_IMAGES: Final = 20
_MOST_FILE_BYTES: Final = 20_000_000

Block = types.ContentBlock | types.TextResourceContents | types.BlobResourceContents


async def output_of(server: str, result: types.CallToolResult, output_schema: str, ctx: ToolContext) -> ToolOutput:
    """Return the result of a call. A checkpoint if there are images; if cancelled, no process is left."""
    texts = [] if result.structured_content is None else await _structured(result, output_schema)
    output = await _collect(server, result.content, ctx)
    text = _join([output.text, *texts])
    return ToolOutput(
        text=text or "(The server returned nothing.)",
        images=output.images,
        files=output.files,
        failed=bool(result.is_error),
    )


async def resource_output(server: str, result: types.ReadResourceResult, ctx: ToolContext) -> ToolOutput:
    """Return a resource. A checkpoint if it holds images; if cancelled, no process is left."""
    output = await _collect(server, result.contents, ctx)
    return (
        output if output.text else ToolOutput(text="(The resource is empty.)", images=output.images, files=output.files)
    )


def resource_bytes(result: types.ReadResourceResult) -> bytes:
    """Return the bytes of a resource that is one file; none if it is something else."""
    match result.contents:
        case [types.TextResourceContents(text=text)]:
            return text.encode("utf-8", "surrogatepass")
        case [types.BlobResourceContents(blob=blob)]:
            try:
                return base64.b64decode(blob, validate=True)
            except (binascii.Error, ValueError):
                return b""
        case _:
            return b""


async def _collect(server: str, blocks: Sequence[Block], ctx: ToolContext) -> ToolOutput:
    texts: list[str] = []
    images: list[ImagePart] = []
    files: list[FilePart] = []
    for block in blocks:
        content = block.resource if isinstance(block, types.EmbeddedResource) else block
        match content:
            case types.TextContent():
                texts.append(clean(content.text))
            case types.TextResourceContents():
                texts.append(f"Resource {one_line(content.uri)}:\n{clean(content.text)}")
            case types.ImageContent():
                note = await _add_image("the image", content.data, images, ctx)
                texts.append(note)
            case types.AudioContent():
                texts.append(_add_file("audio", content.mime_type, content.data, files))
            case types.BlobResourceContents():
                texts.append(await _add_blob(content, images, files, ctx))
            case types.ResourceLink():
                texts.append(_link(server, content))
    return ToolOutput(text=_join(texts), images=tuple(images), files=tuple(files))


def _join(texts: Sequence[str]) -> str:
    joined = "\n\n".join(text for text in texts if text)
    if len(joined) <= _MOST_CHARS:
        return joined
    return f"{joined[:_MOST_CHARS]}\n(The rest of {len(joined):,} characters was dropped.)"


async def _structured(result: types.CallToolResult, output_schema: str) -> list[str]:
    """Return the structured content as text, unless the text says it already, and what is wrong with it."""
    content = result.structured_content
    texts: list[str] = []
    plain = [block.text for block in result.content if isinstance(block, types.TextContent)]
    if not any(_is_same(text, content) for text in plain):
        texts.append(f"Structured content:\n{clean(json.dumps(content, ensure_ascii=False, indent=1))}")
    if output_schema and not result.is_error and (problem := await to_thread(_problem, content, output_schema)):
        texts.append(f"(The structured content does not fit the schema that the server promises: {one_line(problem)})")
    return texts


def _is_same(text: str, content: object) -> bool:
    try:
        return bool(json.loads(text) == content)
    except (ValueError, RecursionError):
        return False


def _problem(content: object, output_schema: str) -> str:
    """Return what is wrong with structured content; empty if it fits. It blocks."""
    try:
        return parse_foreign_schema(output_schema, of_result=True).problem(cast("JsonValue", content))
    except (ConfigError, RecursionError) as error:
        return f"that schema can't be checked: {error}"


async def _add_image(shown: str, data: str, images: list[ImagePart], ctx: ToolContext) -> str:
    """Add an image if models can look at it; return the note about it. A checkpoint if it must be scaled down."""
    if len(images) >= _MOST_IMAGES:
        return f"({shown} was left out: only {_MOST_IMAGES} images are attached)"
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"({shown} was left out: it is not valid base64)"
    try:
        output = await _bounded_image(shown, raw, ctx)
    except ToolError as error:
        return f"({error})"
    images += output.images
    return output.text


async def _bounded_image(shown: str, raw: bytes, ctx: ToolContext) -> ToolOutput:
    # A file, for the process that scales it down: the bytes of a server never reach the library in ours.
    folder = await ctx.to_thread(tempfile.TemporaryDirectory)
    try:
        path = Path(folder.name) / "image"
        await ctx.to_thread(path.write_bytes, raw)
        return await image_output(shown, Image(path=path, size=len(raw), data=raw), ctx)
    finally:
        folder.cleanup()


async def _add_blob(
    content: types.BlobResourceContents, images: list[ImagePart], files: list[FilePart], ctx: ToolContext
) -> str:
    shown = f"the resource {one_line(content.uri)}"
    if (content.mime_type or "").startswith("image/"):
        return await _add_image(shown, content.blob, images, ctx)
    return _add_file(shown, content.mime_type or "application/octet-stream", content.blob, files)


def _add_file(shown: str, media_type: str, data: str, files: list[FilePart]) -> str:
    """Attach a recording or a PDF, which models can take in; return the note about it."""
    size = len(data) * 3 // 4
    media = one_line(media_type, 80)
    if not (media.startswith("audio/") or media == "application/pdf"):
        return f"({shown}: {media}, {size:,} bytes, which no model can read)"
    if size > _MOST_FILE_BYTES:
        return f"({shown}: {media}, {size:,} bytes, which is too large to be attached)"
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"({shown} was left out: it is not valid base64)"
    files.append(FilePart(media_type=media, data=data))
    return f"({shown}: {media}, {size:,} bytes, attached)"


def _link(server: str, link: types.ResourceLink) -> str:
    size = "" if link.size is None else f", {link.size:,} bytes"
    kind = one_line(link.mime_type or "unknown type", 80)
    name = one_line(link.title or link.name, 120)
    return (
        f"Resource {one_line(link.uri, 1_000)} ({name}, {kind}{size}). To read it, use mcp_read with server {server!r}."
    )
