"""Files in a task: those of `--attach`, and those that the words name as `@path`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from engine.cli.task.file_blocks import file_block
from engine.cli.task.wait_readable import wait_readable
from engine.core.errors import ConfigError
from engine.core.lazy import regex
from engine.core.messages import MediaPart
from engine.core.value_base import Value
from engine.session.attachments import LARGEST, attachment, media_type_of

# A longer text is shown by its head and its tail: the model can read the rest with its tools.
MAX_TEXT_BYTES: Final = 256 * 1024
_MAX_ENTRIES: Final = 500
_CHUNK: Final = 65_536
_MENTION: Final = regex(r'(?<![\w\\@])@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"@]+))(?P<after>:\d+(?:-\d+)?)?')
_LINES: Final = regex(r"(?P<path>.+):(?P<first>\d+)(?:-(?P<last>\d+))?")
_PUNCTUATION: Final = ".,;:!?)]}'\""


@attrs.frozen(eq=False, repr=False)
class TaskPart(Value):
    """A file of a task.

    Attributes:
        path: as the user wrote it.
        kind: what was sent: its text, a folder's listing, or the file itself.
        text: the block for the prompt; empty for media.
        media: the file itself; None for text.
        size: its size in bytes.
    """

    path: str
    kind: str
    text: str = ""
    media: MediaPart | None = None
    size: int = 0


@attrs.frozen(eq=False, repr=False)
class Mentions(Value):
    r"""The files that a task's words name.

    Attributes:
        text: the words, with `\@` unescaped.
        paths: the names, each once, with their lines (`path:10-40`).
        unknown: names that look like files but are none.
    """

    text: str
    paths: tuple[str, ...]
    unknown: tuple[str, ...]


def find_mentions(text: str, folder: Path) -> Mentions:
    """Return the files that *text* names as `@path`, relative to *folder*. It blocks."""
    paths: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for match in _MENTION.finditer(text):
        name = (match["quoted"] or match["plain"]) + (match["after"] or "")
        known = next((name for name in _spellings(name) if _exists(name, folder)), None)
        if known is not None:
            paths[known] = None
        # A name without a dot or a slash is more likely a person's.
        elif re.search(r"[./]", name.rstrip(_PUNCTUATION)):
            unknown[name.rstrip(_PUNCTUATION)] = None
    return Mentions(text.replace("\\@", "@"), tuple(paths), tuple(unknown))


def _spellings(name: str) -> Iterator[str]:
    """Yield the name, and the name without the punctuation of the sentence that it ends."""
    yield name
    while name and name[-1] in _PUNCTUATION:
        name = name[:-1]
        yield name


def _exists(name: str, folder: Path) -> bool:
    return bool(name) and any(_resolve(path, folder).exists() for path in (name, _split_lines(name)[0]))


def _resolve(name: str, folder: Path) -> Path:
    try:
        return folder / Path(name).expanduser()
    except RuntimeError:  # `~name` of an unknown user
        return folder / name


def _split_lines(name: str) -> tuple[str, int, int | None]:
    """Return a name's path and its lines, from 1; None: to the end."""
    match = _LINES.fullmatch(name)
    if match is None:
        return name, 1, None
    first = max(1, int(match["first"]))
    return match["path"], first, int(match["last"] or first)


def is_secret(name: str) -> bool:
    """Return whether a name looks like that of a file with keys or passwords."""
    # Imported here: it knows what programs do with files, and few tasks name any.
    from engine.permission.paths.secret_search import names_secret_file

    return names_secret_file(_split_lines(name)[0])


def load_file(name: str, folder: Path) -> TaskPart:
    """Return a file as a part of the task. It blocks. Raises `ConfigError` if it can't be read, or is of no known kind."""
    path, first, last = _resolve(name, folder), 1, None
    if not path.exists():
        bare, first, last = _split_lines(name)
        path = _resolve(bare, folder)
    try:
        if path.is_dir():
            return TaskPart(name, "folder", _listing(name, path))
        # A pipe is what a shell makes of `--attach <(git diff)`.
        if not (path.is_file() or path.is_fifo()):
            raise ConfigError(
                f"can't attach {name}: {'it is no ordinary file' if path.exists() else 'No such file or directory'}\n"
                "Next: choose another file"
            )
        # One byte more than allowed shows that it is too large, without reading gigabytes.
        data = _read_pipe(path, LARGEST + 1) if path.is_fifo() else _read_file(path, LARGEST + 1)
        size = max(len(data), path.stat().st_size)
    except OSError as error:
        raise ConfigError(f"can't attach {name}: {error.strerror or error}\nNext: choose another file") from error
    return from_bytes(data, name, size, lines=(first, last))


def _read_file(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        return file.read(limit)


def _read_pipe(path: Path, limit: int) -> bytes:
    """Read a named pipe to its end, or to *limit*; it may never get a writer, and Ctrl-C must end that, too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        chunks: list[bytes] = []
        while limit > 0 and wait_readable(descriptor, math.inf):
            chunk = os.read(descriptor, min(limit, _CHUNK))
            if not chunk:
                break
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def from_bytes(data: bytes, name: str, size: int, *, lines: tuple[int, int | None] = (1, None)) -> TaskPart:
    """Return content as a part of the task: as media or as text. Raises `ConfigError`."""
    if media_type_of(data):
        return TaskPart(name, "media", media=attachment(data, name=Path(name).name), size=size)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        # The cut of a file that is too large may lie within a character.
        if len(data) <= LARGEST or error.start < LARGEST - 4:
            raise ConfigError(
                f"can't attach {name}: it is neither text in UTF-8 (byte {error.start}) nor an image, a PDF or audio\n"
                "Next: convert it to text"
            ) from error
        text = data[: error.start].decode()
    return TaskPart(name, "text", _text_block(name, text, *lines), size=size)


def _text_block(name: str, text: str, first: int, last: int | None) -> str:
    rows = text.splitlines()
    chosen = rows[first - 1 : last]
    numbered = [f"{number:>6}\t{row}" for number, row in enumerate(chosen, first)]
    body = "\n".join(numbered)
    if len(body) > MAX_TEXT_BYTES:
        half = MAX_TEXT_BYTES // 2
        left_out = body[half:-half].count("\n")
        body = (
            f"{body[:half]}\n[… about {left_out:,} lines are left out here; read the file for them …]\n{body[-half:]}"
        )
    return file_block(name, body)


def _listing(name: str, path: Path) -> str:
    entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    rows = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries[:_MAX_ENTRIES]]
    if len(entries) > _MAX_ENTRIES:
        rows.append(f"[… and {len(entries) - _MAX_ENTRIES:,} more]")
    return f'<folder path="{name}">\n' + "\n".join(rows) + "\n</folder>"
