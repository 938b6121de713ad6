"""A separate program that processes a PDF or an image for `read`: its libraries must not crash or hang the engine.

    python read_media.py pdf PATH DEVICE INODE PAGES BYTES SECONDS
    python read_media.py image PATH DEVICE INODE SIDE BYTES PIXELS

Files may come from anywhere, so the work is done in a process with limits, which is killed if it takes too long. It
writes one line of JSON, followed by the text or the image. It imports nothing of the engine, so that it starts quickly.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Final, Protocol, cast

# Of addresses, in bytes. An image of 80 million pixels as RGBA is held twice, with Python and its libraries besides.
_MEMORY: Final = {"image": 1 << 30, "pdf": 512 << 20}
# Below 50, text in screenshots becomes illegible.
_QUALITIES: Final = (85, 70, 50)


class Refused(Exception):
    """The request is refused; the message says why."""


def main(arguments: list[str]) -> None:
    """Carry out the command line."""
    command, path, device, inode, *numbers = arguments
    try:
        with opened(path, int(device), int(inode)) as file:
            head, body = {"pdf": pdf, "image": image}[command](file, *map(int, numbers))
    except Refused as error:
        head, body = {"error": str(error)}, b""
    except MemoryError:
        head, body = {"error": f"it needs more than {_MEMORY[command] >> 20:,} MB of memory"}, b""
    except Exception as error:  # noqa: BLE001  # what the libraries raise for hostile files is undocumented
        head, body = {"error": f"{type(error).__name__}: {error}"[:300]}, b""
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + body)


def opened(path: str, device: int, inode: int) -> io.BufferedReader:
    """Open exactly that file, and none that has taken its path since; with -1 for both numbers, any file."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
    state = os.fstat(file.fileno())
    if (device, inode) not in {(-1, -1), (state.st_dev, state.st_ino)}:
        file.close()
        raise Refused("another file has taken its place")
    return file


def limit(seconds: int, memory: int) -> None:
    """Limit this process's resources, as far as the system allows."""
    import resource

    for kind, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        try:
            resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
        except (OSError, ValueError):
            continue


# ---- PDF -------------------------------------------------------------------------------------------------------------

Pages = tuple[int, Callable[[int], str]]


def pdf(file: io.BufferedReader, pages: int, size: int, seconds: int) -> tuple[dict[str, object], bytes]:
    """Return the text of a PDF, limited to *pages* pages, *size* bytes and *seconds* seconds."""
    until = time.monotonic() + seconds
    count, text_of = _with_pdfium(file) or _with_pypdf(file) or _no_library()
    body = io.BytesIO()
    read = 0
    while read < min(count, pages) and body.tell() < size and time.monotonic() < until:
        text = text_of(read).replace("\r\n", "\n").replace("\r", "\n").strip("\n")
        read += 1
        body.write(f"--- page {read} ---\n{text}\n".encode(errors="replace"))
    return {"pages": count, "read": read, "has_text": _has_text(body)}, body.getvalue()[:size]


def _has_text(body: io.BytesIO) -> bool:
    return any(line.strip() and not line.startswith(b"--- page ") for line in body.getvalue().split(b"\n"))


class _PdfiumTextPage(Protocol):
    def get_text_range(self) -> str: ...


class _PdfiumPage(Protocol):
    def get_textpage(self) -> _PdfiumTextPage: ...


class _PdfiumDocument(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> _PdfiumPage: ...


class _PypdfPage(Protocol):
    def extract_text(self) -> str: ...


class _PypdfReader(Protocol):
    @property
    def is_encrypted(self) -> bool: ...
    @property
    def pages(self) -> list[_PypdfPage]: ...
    def decrypt(self, password: str) -> int: ...


def _with_pdfium(file: io.BufferedReader) -> Pages | None:
    try:
        library = importlib.import_module("pypdfium2")
    except ImportError:
        return None
    try:
        document = cast("_PdfiumDocument", library.PdfDocument(file))
    except RuntimeError as error:
        if "password" in str(error).lower():
            raise Refused("it is locked with a password") from error
        raise
    return len(document), lambda index: document[index].get_textpage().get_text_range()


def _with_pypdf(file: io.BufferedReader) -> Pages | None:
    try:
        library = importlib.import_module("pypdf")
    except ImportError:
        return None
    reader = cast("_PypdfReader", library.PdfReader(file))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("it is locked with a password")
    pages = reader.pages
    return len(pages), lambda index: pages[index].extract_text()


def _no_library() -> Pages:
    raise Refused("there is no library for it")


# ---- images ----------------------------------------------------------------------------------------------------------


class _Image(Protocol):
    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def mode(self) -> str: ...
    @property
    def format(self) -> str | None: ...
    @property
    def info(self) -> dict[str, object]: ...
    def convert(self, mode: str) -> _Image: ...
    def draft(self, mode: str | None, size: tuple[int, int]) -> object: ...
    def resize(self, size: tuple[int, int], resample: int) -> _Image: ...
    def paste(self, image: _Image, mask: _Image) -> None: ...
    def getchannel(self, channel: str) -> _Image: ...
    def save(self, file: io.BytesIO, format: str, **options: object) -> None: ...  # noqa: A002  # its own name


class _New(Protocol):
    def __call__(self, mode: str, size: tuple[int, int], color: str) -> _Image: ...


def image(file: io.BufferedReader, side: int, size: int, pixels: int) -> tuple[dict[str, object], bytes]:
    """Return an image with at most *side* pixels on a side and at most *size* bytes."""
    pil = importlib.import_module("PIL.Image")
    turned = cast("Callable[[_Image], _Image]", importlib.import_module("PIL.ImageOps").exif_transpose)
    vars(pil)["MAX_IMAGE_PIXELS"] = (
        None  # its own limit is checked too early; ours is checked below, before anything is decoded
    )
    image_ = cast("_Image", pil.open(file))
    if image_.size[0] * image_.size[1] > pixels:
        raise Refused(f"it has more than {pixels:,} pixels")
    is_lossless = image_.format in {"PNG", "GIF"}
    # For JPEG: decodes at a lower resolution, which saves most of the time and memory.
    image_.draft(None, (side, side))
    image_ = turned(image_)
    has_alpha = "A" in image_.mode or "transparency" in image_.info
    image_ = image_.convert("RGBA" if has_alpha else "RGB")
    while True:
        scaled = _scaled(image_, side)
        for media_type, data in _encoded(pil.new, scaled, is_lossless=is_lossless or has_alpha):
            if len(data) <= size:
                return {"media_type": media_type, "width": scaled.size[0], "height": scaled.size[1]}, data
        side = side * 2 // 3


def _scaled(original: _Image, side: int) -> _Image:
    width, height = original.size
    factor = min(1.0, side / max(width, height))
    lanczos = 1
    return original.resize((max(1, round(width * factor)), max(1, round(height * factor))), lanczos)


def _encoded(new: _New, original: _Image, *, is_lossless: bool) -> list[tuple[str, bytes]]:
    written: list[tuple[str, bytes]] = []
    if is_lossless:
        file = io.BytesIO()
        original.save(file, "PNG", optimize=True)
        written.append(("image/png", file.getvalue()))
    plain = original
    if original.mode == "RGBA":
        # JPEG has no transparency.
        plain = new("RGB", original.size, "white")
        plain.paste(original, mask=original.getchannel("A"))
    for quality in _QUALITIES:
        file = io.BytesIO()
        plain.save(file, "JPEG", quality=quality)
        written.append(("image/jpeg", file.getvalue()))
    return written


if __name__ == "__main__":
    # Standard error goes to the same pipe, and a library's warnings would corrupt the output.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    limit(60, _MEMORY[sys.argv[1]])
    main(sys.argv[1:])
