"""Images for `read`: detected by their first bytes, and checked for what hosts accept.

A host that can't read an image refuses the request, and every later one with the same transcript. So a damaged or too
large image must never get into it.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.core.messages import ImagePart
from engine.files.read_state import Modifier
from engine.providers.wire.untrusted_json import number, text
from engine.tools.call_values import ToolOutput
from engine.tools.read.media_process import Identity, has_library, scaled_image
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import metadata

# Anthropic's limit is 5 MB of base64, the lowest of all.
MAX_IMAGE_BYTES: Final = 5 * 1024 * 1024 // 4 * 3
# No host accepts larger sides; with many images in a conversation, Anthropic's limit is the second figure.
MAX_SIDE: Final = 8_000
GOOD_SIDE: Final = 2_000
# The largest image that is scaled down.
MAX_SOURCE_BYTES: Final = 50_000_000
_MAX_SOURCE_PIXELS: Final = 80_000_000


@attrs.frozen
class Picture:
    """The properties in an image's header; a side of 0 means that it is damaged."""

    media_type: str
    width: int = 0
    height: int = 0

    def fits(self, size: int, side: int) -> bool:
        """Return whether hosts accept it, if it has *size* bytes, and its sides may have *side* pixels."""
        return size <= MAX_IMAGE_BYTES and 0 < self.width <= side and 0 < self.height <= side

    def __str__(self) -> str:
        return f"{self.media_type.removeprefix('image/').upper()} image of {self.width:,} × {self.height:,} pixels"


@attrs.frozen(kw_only=True)
class Image:
    """An image file: its path, size and content."""

    path: Path
    size: int
    data: bytes
    modify: Modifier | None = None
    identity: Identity | None = None


async def image_output(shown: str, image: Image, ctx: ToolContext) -> ToolOutput:
    """Return an image for the model, scaled down if necessary. A checkpoint; if cancelled, no process is left."""
    if image.size > MAX_SOURCE_BYTES:
        raise ToolError(f"{shown} is an image of {image.size:,} bytes, which is too large to be looked at.")
    picture = picture_of(image.data)
    if picture is None or 0 in {picture.width, picture.height}:
        raise ToolError(f"{shown} begins like an image, but is damaged: no model could look at it.")
    if picture.fits(image.size, GOOD_SIDE):
        return _output(shown, image, picture)
    if await ctx.to_thread(has_library, "PIL"):
        return await _scaled(shown, image, picture, ctx)
    if picture.fits(image.size, MAX_SIDE):
        return _output(shown, image, picture)
    raise ToolError(
        f"{shown} is a {picture} in {image.size:,} bytes: too large to be looked at. At most {MAX_SIDE:,} pixels on a side "
        f"and {MAX_IMAGE_BYTES:,} bytes can be. Scale it down with a program, or tell the user that the extra 'images' of "
        "nursery-engine does it."
    )


async def _scaled(shown: str, image: Image, picture: Picture, ctx: ToolContext) -> ToolOutput:
    try:
        answer = await scaled_image(
            image.path, image.identity, ctx, side=GOOD_SIDE, size=MAX_IMAGE_BYTES, pixels=_MAX_SOURCE_PIXELS
        )
    except ToolError as error:
        raise ToolError(
            f"{shown} is a {picture} in {image.size:,} bytes: too large to be looked at, and it could not be scaled down: "
            f"{error}."
        ) from error
    facts = answer.facts
    smaller = Picture(text(facts, "media_type"), number(facts, "width", 0), number(facts, "height", 0))
    scaled = _output(shown, attrs.evolve(image, data=answer.body), smaller)
    return attrs.evolve(
        scaled, text=f"({shown} is a {picture} in {image.size:,} bytes; attached is a smaller {smaller})"
    )


def _output(shown: str, image: Image, picture: Picture) -> ToolOutput:
    part = ImagePart(media_type=picture.media_type, data=base64.b64encode(image.data).decode())
    return ToolOutput(
        text=f"({shown} is a {picture} in {image.size:,} bytes, attached)",
        images=(part,),
        modify=image.modify,
        metadata=metadata(str(picture)),
        is_cut=True,
    )


def picture_of(data: bytes) -> Picture | None:
    """Return the properties of an image; None if it is of no format that hosts accept."""
    for is_one, media_type, sides in _KINDS:
        if is_one(data):
            try:
                return Picture(media_type, *sides(data))
            except (struct.error, ValueError, IndexError):
                return Picture(media_type)
    return None


def _png(data: bytes) -> tuple[int, int]:
    # Without its last chunk the file is truncated.
    if data[12:16] != b"IHDR" or data.rfind(b"IEND") < 0:
        raise ValueError
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    if data.rfind(b"\x3b") < 13:
        raise ValueError
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


# The markers of frame headers; the others in this range are tables.
_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        if data[at] != 0xFF:
            raise ValueError
        while data[at] == 0xFF:
            at += 1
        marker = data[at]
        at += 1
        # Markers without a length field.
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:
            continue
        (length,) = struct.unpack_from(">H", data, at)
        if marker in _FRAMES:
            if data.rfind(b"\xff\xd9") < at:
                raise ValueError
            height, width = struct.unpack_from(">HH", data, at + 3)
            return width, height
        at += length


def _webp(data: bytes) -> tuple[int, int]:
    (size,) = struct.unpack_from("<I", data, 4)
    if size + 8 > len(data):
        raise ValueError
    match data[12:16]:
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L" if data[20] == 0x2F:
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            raise ValueError


_KINDS: Final[tuple[tuple[Callable[[bytes], bool], str, Callable[[bytes], tuple[int, int]]], ...]] = (
    (lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), "image/png", _png),
    (lambda data: data.startswith(b"\xff\xd8\xff"), "image/jpeg", _jpeg),
    (lambda data: data.startswith((b"GIF87a", b"GIF89a")), "image/gif", _gif),
    (lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP", "image/webp", _webp),
)
