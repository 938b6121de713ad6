"""Files and images for a message: named by the user, or taken from the clipboard."""

from __future__ import annotations

import os
import secrets
import shutil
import struct
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs

from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.core.threads import to_thread
from engine.process.run_tree import run_tree
from engine.session.attachments import LARGEST, media_type_of

_CLIPBOARD_SECONDS: Final = 5.0
_KEPT_SECONDS: Final = 30 * 86_400
_HEAD_BYTES: Final = 256 << 10
_PNG, _GIF, _WEBP = b"\x89PNG\r\n\x1a\n", b"GIF8", b"WEBP"
_NO_PROGRAM: Final = (
    "No program here reads images from the clipboard: install wl-clipboard or xclip, or use /attach FILE"
)
_OVER_SSH: Final = "Over ssh the clipboard is on your own computer: copy the file here, then /attach FILE"


@attrs.frozen
class AttachedFile:
    """A file that goes with a message.

    Attributes:
        path: where it is.
        kind: `Image`, or `File` with its name.
        size: what is shown of its size: `1280×800 240 kB`.
    """

    path: str
    kind: str
    size: str


@attrs.frozen
class AttachFailure:
    """Why nothing was attached."""

    message: str


def attach_path(name: str, folder: str) -> AttachedFile | AttachFailure:
    """Return the file that *name* leads to. It blocks."""
    try:
        path = Path(folder, Path(name).expanduser())
        if not path.is_file():
            return AttachFailure(f"Not a file: {escape_on_one_line(name)}")
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        count = path.stat().st_size
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return AttachFailure(f"Can't read {escape_on_one_line(name)}: {reason}")
    if count > LARGEST:
        return AttachFailure(f"{escape_on_one_line(name)} has {_size(count)}; at most {_size(LARGEST)} can be sent")
    if media_type_of(head).startswith("image/"):
        pixels = image_pixels(head)
        return AttachedFile(str(path), "Image", f"{f'{pixels[0]}×{pixels[1]} ' if pixels else ''}{_size(count)}")
    return AttachedFile(str(path), f"File {escape_on_one_line(path.name)}", _size(count))


async def attach_clipboard(folder: Path, env: Mapping[str, str]) -> AttachedFile | AttachFailure:
    """Save the image in the clipboard below *folder*. A checkpoint; if cancelled, no process is left."""
    command = _clipboard_command(env, shutil.which)
    if isinstance(command, AttachFailure):
        return command
    data = bytearray()

    def take(chunk: bytes) -> None:
        if len(data) <= LARGEST:
            data.extend(chunk)

    try:
        await run_tree(
            command,
            cwd="/",
            marker=f"clipboard/{secrets.token_hex(4)}",
            on_output=take,
            on_errors=lambda _: None,
            timeout=_CLIPBOARD_SECONDS,
        )
    except OSError as error:
        return AttachFailure(f"Can't run {command[0]}: {error.strerror}")
    if not media_type_of(bytes(data[:64])).startswith("image/"):
        return AttachFailure("There is no image in the clipboard")
    return await to_thread(_save, bytes(data), folder)


def _clipboard_command(env: Mapping[str, str], which: Callable[[str], str | None]) -> list[str] | AttachFailure:
    if env.get("WAYLAND_DISPLAY") and which("wl-paste"):
        return ["wl-paste", "--no-newline", "--type", "image/png"]
    if env.get("DISPLAY") and which("xclip"):
        return ["xclip", "-selection", "clipboard", "-target", "image/png", "-out"]
    if sys.platform == "darwin" and which("pngpaste"):
        return ["pngpaste", "-"]
    return AttachFailure(_OVER_SSH if env.get("SSH_CONNECTION") else _NO_PROGRAM)


def _save(data: bytes, folder: Path) -> AttachedFile | AttachFailure:
    """Save an image where only this user can read it, and remove old ones. It blocks."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in folder.iterdir():
            if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
                old.unlink(missing_ok=True)
        path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}.png"
        part = path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
        part.replace(path)
    except OSError as error:
        return AttachFailure(f"Can't save the image in {folder}: {error.strerror}")
    return attach_path(str(path), "/")


def image_pixels(head: bytes) -> tuple[int, int] | None:
    """Return the width and height of an image, from its first bytes; None: they do not say."""
    try:
        if head.startswith(_PNG):
            return struct.unpack(">II", head[16:24])
        if head.startswith(_GIF):
            return struct.unpack("<HH", head[6:10])
        if head[8:12] == _WEBP and head[12:16] == b"VP8X":
            return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
        return _jpeg_pixels(head) if head.startswith(b"\xff\xd8") else None
    except (struct.error, IndexError):
        return None


def _jpeg_pixels(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 999_500 else f"{max(1, round(count / 1_000))} kB"
