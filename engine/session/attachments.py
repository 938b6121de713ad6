"""Prompt attachments: files are read, identified by their first bytes, and converted to parts of the transcript."""

from __future__ import annotations

import base64
import mimetypes
import os
from pathlib import Path, PurePath
from typing import Final

from engine.core.errors import ConfigError
from engine.core.messages import FilePart, ImagePart, MediaPart
from engine.core.threads import to_thread

# No host accepts more in one request; as base64 it grows by a third.
LARGEST: Final = 32 * 1024 * 1024
_SIGNS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


async def attach(source: str | os.PathLike[str] | bytes, *, media_type: str = "", name: str = "") -> MediaPart:
    """Return an image, a PDF or a recording as an attachment of a prompt. A checkpoint.

    If the model can't read that kind, it gets a note instead, so that it can inform the user.

    Args:
        source: a path, or the content.
        media_type: the type, if neither the first bytes nor the name show it.
        name: what the model sees as its name; by default the file's.

    Raises `ConfigError` for a file that can't be read, is empty or too large, or is of no
    known kind. If cancelled, nothing has happened.
    """
    if isinstance(source, bytes):
        return attachment(source, media_type=media_type, name=name)
    try:
        data = await to_thread(_read, source)
    except (OSError, RuntimeError) as error:  # RuntimeError: `~name` of an unknown user
        reason = error.strerror if isinstance(error, OSError) else None
        raise ConfigError(f"can't attach {os.fspath(source)}: {reason or error}") from error
    return attachment(data, media_type=media_type, name=name or PurePath(source).name)


def attachment(data: bytes, *, media_type: str = "", name: str = "") -> MediaPart:
    """Return *data* as an attachment. Raises `ConfigError` as `attach` does."""
    called = name or "the attachment"
    if not data:
        raise ConfigError(f"can't attach {called}: it is empty")
    if len(data) > LARGEST:
        raise ConfigError(f"can't attach {called}: it is larger than {LARGEST // 1024 // 1024} MB")
    # The content before the name: screenshots get renamed, and a host rejects a PNG that is labelled as a JPEG.
    kind = media_type or media_type_of(data) or mimetypes.guess_type(name)[0] or ""
    if "/" not in kind:
        raise ConfigError(f"can't attach {called}: its type is unknown; pass media_type=")
    text = base64.b64encode(data).decode()
    return (
        ImagePart(media_type=kind, data=text)
        if kind.startswith("image/")
        else FilePart(media_type=kind, data=text, name=name)
    )


def _read(path: str | os.PathLike[str]) -> bytes:
    with Path(path).expanduser().open("rb") as file:
        # One byte more than allowed shows that it is too large, without reading gigabytes.
        return file.read(LARGEST + 1)


def media_type_of(data: bytes) -> str:
    """Return the type that the first bytes show; empty if they show none."""
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12], "")
    return next((kind for sign, kind in _SIGNS if data.startswith(sign)), "")
