"""One file with instructions, read with care: it may be a repository's, and anything may have that name. It blocks."""

from __future__ import annotations

import codecs
import os
import stat
from typing import Final

import attrs

from engine.files.real_path import Unclear, is_within, real_path
from engine.files.safe_open import open_real

_MARK: Final = "\ufeff"


class UnusableFileError(Exception):
    """It is there and can't be used; the text says why."""


@attrs.frozen(kw_only=True)
class Text:
    """What a file says.

    Attributes:
        path: where it was looked for.
        real: where it is.
        text: the beginning of it, or all.
        size: bytes of all of it.
        is_cut: there is more.
    """

    path: str
    real: str
    text: str
    size: int
    is_cut: bool


def read_text(path: str, *, limit: int, within: str = "") -> Text | None:
    """Return what the file at an absolute *path* says, up to *limit* bytes; None if there is none.

    Raises `UnusableFileError` for one that can't be read, is no text, or leads out of the folder *within* by a link.
    """
    real = real_path(path)
    if isinstance(real, Unclear):
        raise UnusableFileError(real.reason)
    if real.missing:
        return None
    if within and not is_within(real.path, within):
        raise UnusableFileError(f"it is a link that leads out of {within}")
    try:
        data, size = _read(real.path, limit)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableFileError((error.strerror or str(error)).lower()) from error
    if b"\0" in data:
        raise UnusableFileError("it is binary, not text")
    is_cut = len(data) > limit
    try:
        # Of what is cut off in the middle of a character, that character is left out.
        text = codecs.getincrementaldecoder("utf-8")().decode(data[:limit], final=not is_cut)
    except UnicodeDecodeError as error:
        raise UnusableFileError(f"it is not UTF-8 (byte {error.start + 1:,})") from error
    whole = text.rpartition("\n")[0] if is_cut else ""
    return Text(path=path, real=real.path, text=_tidy(whole or text), size=max(size, len(data)), is_cut=is_cut)


def cut_text(text: str, room: int) -> str:
    """Return the first lines of *text* that have room in so many bytes."""
    data = text.encode()
    if len(data) <= room:
        return text
    kept = data[: max(room, 0)].decode(errors="ignore")
    whole = kept.rpartition("\n")[0]
    return whole or kept


def _read(path: str, limit: int) -> tuple[bytes, int]:
    # Not blocking: a pipe of that name may have nobody at its other end.
    descriptor = open_real(path, os.O_RDONLY | os.O_NONBLOCK)
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        raise UnusableFileError("it is no regular file")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit + 1), state.st_size


def _tidy(text: str) -> str:
    return text.removeprefix(_MARK).replace("\r\n", "\n").strip()
