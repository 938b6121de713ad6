"""Read one instruction file defensively: it may come from an untrusted repository. It blocks."""

from __future__ import annotations

import codecs
import os
import stat
from typing import Final

import attrs

from engine.core.value_base import Value
from engine.files.real_folder import open_real
from engine.files.real_path import Unclear, is_within, real_path

# A byte order mark, which editors on Windows put at the beginning.
_MARK: Final = "\ufeff"


class UnusableFileError(Exception):
    """A file exists but can't be used; the message says why."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InstructionText(Value):
    """The text of a file.

    Attributes:
        path: the path as requested.
        real: the real path, links resolved.
        text: the text, truncated to the limit.
        size: the size of the whole file in bytes.
        is_cut: the text is truncated.
    """

    path: str
    real: str
    text: str
    size: int
    is_cut: bool


def read_text(path: str, *, limit: int, within: str = "") -> InstructionText | None:
    """Read the text file at an absolute *path*, up to *limit* bytes; None if it does not exist.

    Raises `UnusableFileError` if it can't be read, is not text, or is a link that leads out of the folder *within*.
    """
    real = real_path(path)
    if isinstance(real, Unclear):
        raise UnusableFileError(real.reason)
    if real.missing:
        return None
    if within and not is_within(real.path, within):
        raise UnusableFileError(f"it is a link to a file outside of {within}")
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
        # The cut may be in the middle of a character, which is then dropped.
        text = codecs.getincrementaldecoder("utf-8")().decode(data[:limit], final=not is_cut)
    except UnicodeDecodeError as error:
        raise UnusableFileError(f"it is not UTF-8 (byte {error.start + 1:,})") from error
    return InstructionText(
        # Files in /proc and some network file systems report the size 0.
        path=path,
        real=real.path,
        text=_tidy(_whole_lines(text) if is_cut else text),
        size=max(size, len(data)),
        is_cut=is_cut,
    )


def cut_text(text: str, room: int) -> str:
    """Return as much of *text* as fits into *room* bytes: whole lines, or the beginning of a line that takes most of it."""
    data = text.encode()
    if len(data) <= room:
        return text
    return _whole_lines(data[: max(room, 0)].decode(errors="ignore"))


def _whole_lines(text: str) -> str:
    """Return *text* without its last line, which is cut off; of a huge one, the beginning up to a sentence or a word."""
    whole = text.rpartition("\n")[0]
    # A line cut in half could mean the opposite; but a file may be a single line below a title.
    if len(whole) >= len(text) // 2:
        return whole
    for end in (". ", " "):
        at = text.rfind(end, len(whole) + (len(text) - len(whole)) // 2)
        if at > 0:
            return text[: at + 1].rstrip()
    return text


def _read(path: str, limit: int) -> tuple[bytes, int]:
    # Non-blocking: the path may be a pipe without a writer.
    descriptor = open_real(path, os.O_RDONLY | os.O_NONBLOCK)
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        raise UnusableFileError("it is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit + 1), state.st_size


def _tidy(text: str) -> str:
    return text.removeprefix(_MARK).replace("\r\n", "\n").strip()
