"""Windows of a text: numbered lines, up to a limit. Needs no more memory than it returns."""

from __future__ import annotations

import codecs
from typing import BinaryIO, Final

import attrs

from engine.core.errors import ToolError
from engine.core.value_base import Value
from engine.tools.tool_text import counted

MAX_LINES: Final = 2_000
MAX_LINE_CHARS: Final = 2_000
MAX_BYTES: Final = 51_200
# Reserved for the notes below the lines.
_NOTES_BYTES: Final = 400
# A character has at most four bytes.
_LINE_BYTES: Final = 4 * MAX_LINE_CHARS
_PIECE_BYTES: Final = 65_536


@attrs.frozen(eq=False, repr=False)
class Part(Value):
    """The requested part of a text; *shown* is its path as the model wrote it."""

    shown: str
    offset: int
    limit: int
    column: int


@attrs.frozen(eq=False, repr=False)
class LineWindow(Value):
    """Numbered lines, the notes below them, and a summary."""

    text: str
    summary: str


@attrs.frozen(eq=False, repr=False)
class _Line(Value):
    """A line without its end; of a long line, the beginning."""

    text: str
    goes_on: bool
    is_clean: bool


def window(part: Part, file: BinaryIO) -> LineWindow:
    """Return a window of *file* from its current position. It blocks. Raises `ToolError` for an offset beyond the end."""
    for number in range(1, part.offset):
        if not _skip_line(file):
            raise _behind_the_end(part, number - 1)
    return _lines(part, file) if part.column == 1 else _rest_of_line(part, file)


def _lines(part: Part, file: BinaryIO) -> LineWindow:
    shown: list[str] = []
    is_clean = True
    room = MAX_BYTES - _NOTES_BYTES
    while len(shown) < part.limit:
        line = _next_line(file)
        if line is None:
            return _whole(part, shown, is_clean=is_clean)
        number = part.offset + len(shown)
        cut = f" [this line goes on: offset={number}, column={MAX_LINE_CHARS + 1}]" if line.goes_on else ""
        numbered = f"{number:>6}\t{line.text}{cut}"
        room -= len(numbered.encode()) + 1
        if room < 0:
            return _cut(part, shown, is_clean=is_clean)
        is_clean = is_clean and line.is_clean
        shown.append(numbered)
    return _cut(part, shown, is_clean=is_clean) if file.read(1) else _whole(part, shown, is_clean=is_clean)


def _whole(part: Part, shown: list[str], *, is_clean: bool) -> LineWindow:
    """Return a window that reaches to the end."""
    if not shown and part.offset == 1:
        return LineWindow(f"({part.shown} is empty)", "empty")
    if not shown:
        raise _behind_the_end(part, part.offset - 1)
    return LineWindow("\n".join([*shown, *_notes(is_clean=is_clean)]), counted(len(shown), "line"))


def _cut(part: Part, shown: list[str], *, is_clean: bool) -> LineWindow:
    """Return a window with more lines after it."""
    last = part.offset + len(shown) - 1
    note = f"(lines {part.offset}-{last}; the file goes on: read it with offset={last + 1})"
    return LineWindow("\n".join([*shown, *_notes(is_clean=is_clean), note]), f"lines {part.offset}-{last}")


def _rest_of_line(part: Part, file: BinaryIO) -> LineWindow:
    """Return a line from a column on, up to the limit."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    seen, room = 0, MAX_BYTES - _NOTES_BYTES
    shown, ends = "", False
    piece = b""
    while not ends and len(shown.encode()) <= room:
        piece = file.readline(_PIECE_BYTES)
        ends = not piece or piece.endswith(b"\n")
        text = decoder.decode(_without_end(piece), final=ends)
        shown += text[max(0, part.column - 1 - seen) :]
        seen += len(text)
    if not seen and not piece:
        raise _behind_the_end(part, part.offset - 1)
    if not shown:
        raise ToolError(
            f"Line {part.offset} of {part.shown} has only {counted(seen, 'character')}; column={part.column} is behind "
            "its end."
        )
    kept = shown.encode()[:room].decode(errors="ignore")
    if len(kept) < len(shown) or not ends:
        after = f"(it goes on: read it with offset={part.offset}, column={part.column + len(kept)})"
    else:
        kept = kept.removesuffix("\r")  # the first half of a line end, which was read in two pieces
        after = f"(the line ends here; the next one is offset={part.offset + 1})" if file.read(1) else "(the file ends)"
    printable = _printable(kept)
    text = "\n".join([f"{part.offset:>6}\t{printable}", *_notes(is_clean="\ufffd" not in printable), after])
    return LineWindow(text, f"line {part.offset} from character {part.column}")


def _notes(*, is_clean: bool) -> list[str]:
    return [] if is_clean else ["(what is no UTF-8 text in it is shown as \ufffd)"]


def _behind_the_end(part: Part, lines: int) -> ToolError:
    return ToolError(f"{part.shown} has only {counted(lines, 'line')}; offset={part.offset} is behind its end.")


def _skip_line(file: BinaryIO) -> bool:
    """Skip a line; return whether there was one."""
    data = file.readline(_PIECE_BYTES)
    has_line = bool(data)
    while data and not data.endswith(b"\n"):
        data = file.readline(_PIECE_BYTES)
    return has_line


def _next_line(file: BinaryIO) -> _Line | None:
    """Return the next line, or the beginning of a long one; None at the end."""
    data = file.readline(_LINE_BYTES)
    if not data:
        return None
    ends = data.endswith(b"\n")
    beginning = _without_end(data)
    # A character cut in half by the limit is not invalid.
    text, _ = codecs.utf_8_decode(beginning, "replace", ends or len(data) < _LINE_BYTES)
    is_clean = text.count("\ufffd") == beginning.count(b"\xef\xbf\xbd") and "\0" not in text
    goes_on = len(text) > MAX_LINE_CHARS
    while not ends and (data := file.readline(_PIECE_BYTES)):
        goes_on = goes_on or bool(_without_end(data))
        ends = data.endswith(b"\n")
    return _Line(_printable(text[:MAX_LINE_CHARS]), goes_on, is_clean)


def _without_end(data: bytes) -> bytes:
    return data.removesuffix(b"\n").removesuffix(b"\r") if data.endswith(b"\n") else data


def _printable(text: str) -> str:
    # Models can't read a NUL, and some hosts refuse it.
    return text.replace("\0", "\ufffd")
