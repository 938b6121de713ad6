"""Estimate the tokens of images and documents, by the rules of their providers.

An image's size is read from its first bytes. If that fails, the largest size
that the provider accepts is assumed.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Final

from engine.core.messages import FilePart, ImagePart, MediaPart, Settlement

# Enough to find the size of any image: in a JPEG it follows the colour profile.
_HEAD: Final = 64 * 1024
# The part of a document that is scanned for pages.
_SCANNED_BYTES: Final = 4 * 1024 * 1024

# Bytes of a page of a PDF: scans have more, plain text less.
_PAGE_BYTES: Final = 60_000
# Bytes of a second of compressed speech, at 128 kbit/s.
_SECOND_BYTES: Final = 16_000
# The largest image that Anthropic accepts without scaling it down.
_UNKNOWN: Final = 1_600


def media_tokens(part: MediaPart, model: str) -> int:
    """Return an estimate of the tokens of *part* for *model*."""
    kind = part.media_type.partition("/")[0]
    if isinstance(part, ImagePart) or kind == "image":
        return image_tokens(_sizes(_head(part.data)), model)
    size = len(part.data) * 3 // 4
    if part.media_type == "application/pdf":
        return _pages(part) * _page_tokens(model)
    if kind in {"audio", "video"}:
        # Gemini's rates: 32 tokens a second of sound; a frame of 258 each second, with its sound, of video.
        per_second = 32 if kind == "audio" else 290
        return max(1, size // (_SECOND_BYTES if kind == "audio" else 20 * _SECOND_BYTES)) * per_second
    # Probably text: providers accept no other files.
    return size // 4


def media_of(settlement: Settlement) -> tuple[MediaPart, ...]:
    """Return the images and files of a result."""
    return (*settlement.images, *settlement.files)


def image_tokens(sizes: tuple[int, int] | None, model: str) -> int:
    """Return the tokens of an image of this width and height; None: unknown size."""
    if sizes is None:
        return _UNKNOWN
    width, height = (max(1, side) for side in sizes)
    if _is_gemini(model):
        # 258 tokens for a small image, and for each tile of 768 pixels of a larger one.
        if max(width, height) <= 384:
            return 258
        return 258 * math.ceil(width / 768) * math.ceil(height / 768)
    if _is_openai(model):
        return _tiled(width, height)
    # Anthropic's rule, and a fair guess for others: scaled to 1,568 pixels, then 750 pixels for a token.
    scale = min(1.0, 1_568 / max(width, height))
    return min(_UNKNOWN, math.ceil(width * scale * height * scale / 750))


def _tiled(width: int, height: int) -> int:
    """Return the tokens by OpenAI's rule: scaled to 2,048 pixels, then to 768 on the short side, in tiles of 512."""
    scale = min(1.0, 2_048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    tiles = math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    return 85 + 170 * tiles


def _page_tokens(model: str) -> int:
    return 258 if _is_gemini(model) else 1_500 if _is_openai(model) else 2_250


def _is_gemini(model: str) -> bool:
    return "gemini" in model or "gemma" in model


def _is_openai(model: str) -> bool:
    return "gpt" in model or "openai/" in model


def _pages(part: FilePart) -> int:
    """Return the number of pages of a PDF, counted or estimated from its size."""
    by_size = max(1, len(part.data) * 3 // 4 // _PAGE_BYTES)
    data = _head(part.data, _SCANNED_BYTES)
    # Without a parser: page objects in compressed streams are not seen, so the size is a second opinion.
    counted = data.count(b"/Type /Page") + data.count(b"/Type/Page")
    counted -= data.count(b"/Type /Pages") + data.count(b"/Type/Pages")
    return counted if counted > 0 and len(part.data) * 3 // 4 <= _SCANNED_BYTES else max(counted, by_size)


def _head(data: str, size: int = _HEAD) -> bytes:
    try:
        return base64.b64decode(data[: size // 3 * 4])
    except (binascii.Error, ValueError):  # the data may be invalid
        return b""


def _sizes(head: bytes) -> tuple[int, int] | None:
    """Return width and height of an image, or None."""
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith(b"GIF8") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _webp(head)
    return _jpeg(head) if head.startswith(b"\xff\xd8") else None


def _webp(head: bytes) -> tuple[int, int] | None:
    if len(head) < 30:
        return None
    match head[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
        case b"VP8L":
            packed = int.from_bytes(head[21:25], "little")
            return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
        case b"VP8 ":
            return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
        case _:
            return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    # Segment by segment to the frame header (SOF); C4, C8 and CC are tables that share its range of markers.
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7])
        at += 2 + max(2, int.from_bytes(head[at + 2 : at + 4]))
    return None
