"""Files for the built-in tools: paths, texts, and errors in plain words. Everything blocks, so it runs in a thread.

Failures are `ToolError`s whose text tells the model what to do.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.core.value_base import Value
from engine.files.real_folder import RealFolder, open_folder
from engine.files.real_path import followed

MAX_TEXT_BYTES: Final = 20_000_000
BOM: Final = b"\xef\xbb\xbf"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
# As git does: a NUL in the first 8,000 bytes or so means that it is no text.
_SNIFFED_BYTES: Final = 8_192
# Names of a folder that are compared for a suggestion; listing a huge folder would take seconds.
_SIBLINGS: Final = 10_000


@attrs.frozen(eq=False, repr=False)
class TextFile(Value):
    """A text, and whether its file begins with a byte order mark. Line endings are not converted."""

    text: str
    has_bom: bool

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        try:
            return (BOM if self.has_bom else b"") + self.text.encode()
        except UnicodeEncodeError as error:
            raise ToolError(
                f"The text holds half a character at position {error.start} (a lone surrogate), which no file can hold."
            ) from error


def resolve(cwd: str, path: str) -> Path:
    """Return *path* relative to *cwd*. Raises `ToolError` if no file can have that path."""
    if not path.strip():
        raise ToolError("The path is empty.")
    if not _is_encodable(path):
        raise ToolError(f"{path!r} is no path: no file can have that name.")
    try:
        return Path(cwd, Path(path).expanduser())
    except RuntimeError:  # the ~user does not exist; it may be a file's name
        return Path(cwd, path)


def pattern_of(cwd: str, path: Path) -> str:
    """Return the name under which rules know *path*: seen from *cwd* if it lies inside, else absolute. It blocks.

    Links are followed: rules apply to the file, not to the name that leads to it.
    """
    return pattern_of_real(cwd, followed(path))


def pattern_of_real(cwd: str, path: str | Path) -> str:
    """Return what `pattern_of` does for a real path. It blocks."""
    real = Path(path)
    with suppress(ValueError):
        real = real.relative_to(followed(cwd))
    return visible_name(str(real))


def real_file(cwd: str, path: str, approved: Collection[str] | None) -> Path:
    """Return the real path of *path* as seen from *cwd*. It blocks.

    Raises `ToolError` for what is no path, and for one that leads elsewhere than when the right to it was *approved*.
    """
    target = resolve(cwd, path)
    real = followed(target)
    if os.path.islink(real):  # noqa: PTH114 - Path's own raises
        with renamed_errors(path, target):
            target.stat()  # raises for a loop of links, which `followed` leaves unresolved
    if approved is not None and real not in approved:
        raise ToolError(
            f"{path} leads to another file than when it was allowed: a link on its way was changed. Nothing was done."
        )
    return Path(real)


@contextmanager
def renamed_errors(shown: str, path: Path) -> Generator[None]:
    """Turn an `OSError` about *path* into a `ToolError` about *shown*, the path as the model wrote it."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"{shown} does not exist.{_hint(path)}") from error
    except IsADirectoryError as error:
        raise ToolError(f"{shown} is a folder. Use the list tool to see what is in it.") from error
    except NotADirectoryError as error:
        raise ToolError(f"{shown}: a part of this path is a file, not a folder.") from error
    except PermissionError as error:
        raise ToolError(f"{shown}: permission denied.") from error
    except OSError as error:
        raise ToolError(f"{shown}: {error.strerror or error}.") from error


def check_regular(shown: str, path: Path) -> os.stat_result:
    """Return the state of a regular file; opening a pipe or a device might never return. Raises as `open` would."""
    return regular(shown, path.stat())


def regular(shown: str, state: os.stat_result) -> os.stat_result:
    """Return the state of a regular file. Raises `IsADirectoryError`, and `ToolError` for what can't be read through."""
    if stat.S_ISDIR(state.st_mode):
        raise IsADirectoryError
    if not stat.S_ISREG(state.st_mode):
        raise ToolError(f"{shown} is no regular file but a pipe, a socket or a device.")
    return state


def looks_binary(data: bytes) -> bool:
    """Tell whether a file that begins with *data* is no text, or one that is not UTF-8."""
    return b"\0" in data[:_SNIFFED_BYTES]


def is_utf16(data: bytes) -> bool:
    """Tell whether a file that begins with *data* is a text in UTF-16."""
    return data.startswith(_UTF16) and looks_binary(data)


def read_data(shown: str, path: Path) -> bytes:
    """Return the whole file at a real path, if it is of a reasonable size. Raises `ToolError`."""
    with renamed_errors(shown, path), open_folder(path) as (folder, name):
        data = read_in(shown, folder, name, MAX_TEXT_BYTES + 1)
        if len(data) > MAX_TEXT_BYTES:
            size = max(len(data), folder.state(name).st_size)
            raise ToolError(f"{shown} has {size:,} bytes; the limit of this tool is {MAX_TEXT_BYTES:,}. Use bash.")
    return data


def read_in(shown: str, folder: RealFolder, name: str, most: int) -> bytes:
    """Return the file of that *name* in *folder*, or its beginning, however it grows. Raises `OSError`, and `ToolError`."""
    regular(shown, folder.state(name))
    with os.fdopen(folder.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
        # Again, on the open file: it may have been replaced since the first check.
        regular(shown, os.fstat(file.fileno()))
        return file.read(most) or b""  # None: a file of /proc or /sys that would block


def decoded(shown: str, data: bytes) -> TextFile:
    """Return *data* as a text. Raises `ToolError` unless it is UTF-8."""
    if is_utf16(data):
        raise ToolError(f"{shown} is a text in UTF-16, which this tool would damage. Convert it: iconv -t UTF-8.")
    if looks_binary(data):
        raise ToolError(f"{shown} is a binary file.")
    try:
        return TextFile(data.removeprefix(BOM).decode(), data.startswith(BOM))
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{shown} is not UTF-8 (byte {error.start:,}), so this tool would damage it. Change it with bash, with a "
            "program that knows its encoding."
        ) from error


def visible_name(name: str) -> str:
    """Return a file's name as text, even if its bytes are not UTF-8."""
    text = os.fsencode(name).decode(errors="replace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _is_encodable(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _hint(path: Path) -> str:
    """Return suggestions for a path that does not exist."""
    with suppress(OSError):
        if path.is_symlink():
            return f" It is a link that leads to {visible_name(str(path.readlink()))}, where nothing is."
        existing = next(parent for parent in path.parents if parent.is_dir())
        if existing != path.parent:
            return f" Not even its folder does: the nearest one is {existing}."
        with os.scandir(existing) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_SIBLINGS), strict=False)]
        lower = {name.lower(): name for name in names}
        import difflib

        close = difflib.get_close_matches(path.name.lower(), lower, n=3, cutoff=0.6)
        if close:
            return f" Did you mean {' or '.join(visible_name(lower[name]) for name in close)}, in the same folder?"
    return ""
