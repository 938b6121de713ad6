"""Parse patches in Codex's format. They are applied elsewhere.

::

    *** Begin Patch
    *** Add File: path
    +a line
    *** Delete File: path
    *** Update File: path
    *** Move to: another path
    @@ a line before the place, where its context alone would not tell
     context
    -old
    +new
    *** End of File
    *** End Patch

The parser is lenient where only one reading is possible: a here-document or a code fence around the patch, blank lines
between its parts, unified-diff headers. A patch that may be truncated, or a line without its sign, is refused.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.tools.edit.source_text import unix
from engine.tools.edit.splices import Request

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_ADD: Final = "*** Add File:"
_DELETE: Final = "*** Delete File:"
_UPDATE: Final = "*** Update File:"
_MOVE: Final = "*** Move to:"
_END_OF_FILE: Final = "*** End of File"
# Line numbers in unified-diff headers, which are ignored: models can't count lines.
_NUMBERS: Final = re.compile(r"-\d+(,\d+)? \+\d+(,\d+)? @@")
# Possessive, since a long line of blanks would otherwise take quadratic time.
_AROUND: Final = re.compile(r"\s*+(```\w*|(apply_patch\s*)?<<-?\s*['\"]?\w+['\"]?|[A-Z_]+)?\s*+")
_SHOWN_CHARS: Final = 80


@attrs.frozen
class PatchChunk:
    """A change of adjacent lines.

    Attributes:
        headers: lines before the place, outermost first.
        request: the old and new lines.
        at_end: the last line is the file's last one.
        line: the chunk's line number in the patch, from 1.
    """

    headers: tuple[str, ...]
    request: Request
    at_end: bool
    line: int


@attrs.frozen
class AddFile:
    """A file to create."""

    path: str
    text: str


@attrs.frozen
class DeleteFile:
    """A file to delete."""

    path: str


@attrs.frozen
class UpdateFile:
    """A file to change, and perhaps to move."""

    path: str
    moved: str | None
    chunks: tuple[PatchChunk, ...]


Operation = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[Operation, ...]:
    """Parse a patch. Raises `ToolError`, which names the line that can't be read."""
    reader = _Reader(*_inside(unix(text).split("\n")))
    operations: list[Operation] = []
    while reader.skip_blank():
        operations.append(reader.operation())
    if not operations:
        raise ToolError("The patch is empty: there is nothing between *** Begin Patch and *** End Patch.")
    return tuple(operations)


def _inside(lines: list[str]) -> tuple[list[str], int]:
    """Return the lines between the marks, and the line number of the first one."""
    # The first mark begins the patch and the last one ends it: the files may contain patches themselves.
    marks = [index for index, line in enumerate(lines) if line.strip() == _BEGIN]
    if not marks or not all(_AROUND.fullmatch(line) for line in lines[: marks[0]]):
        raise ToolError(f"The first line of a patch is {_BEGIN!r}. Nothing was changed.")
    begin = marks[0] + 1
    end = next((index for index in range(len(lines) - 1, begin - 1, -1) if lines[index].strip() == _END), None)
    if end is None:
        raise ToolError(f"The patch has no {_END!r} at its end: it seems to be cut off. Nothing was changed.")
    if not all(_AROUND.fullmatch(line) for line in lines[end + 1 :]):
        raise ToolError(f"Something follows {_END!r}: {_shown(lines[end + 1])}. Nothing was changed.")
    return lines[begin:end], begin + 1


def _shown(line: str) -> str:
    return repr(line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}…")


@attrs.define(eq=False)
class _Reader:
    """Reads the lines of a patch in order."""

    lines: list[str]
    first_number: int
    at: int = 0

    @property
    def line(self) -> str | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    @property
    def number(self) -> int:
        return self.first_number + self.at

    def skip_blank(self) -> bool:
        """Skip blank lines; return whether any line is left."""
        while self.line is not None and not self.line.strip():
            self.at += 1
        return self.line is not None

    def operation(self) -> Operation:
        for mark, read in ((_ADD, self._add), (_DELETE, DeleteFile), (_UPDATE, self._update)):
            if (path := self._argument(mark)) is not None:
                return read(path)
        raise self._error(f"a part begins with {_ADD!r}, {_DELETE!r} or {_UPDATE!r} and a path")

    def _argument(self, mark: str) -> str | None:
        """Return the argument of *mark* and advance; None if this line has another mark."""
        line = (self.line or "").strip()
        if not line.startswith(mark):
            return None
        argument = line[len(mark) :].strip()
        if not argument:
            raise self._error("the path is missing")
        self.at += 1
        return argument

    def _add(self, path: str) -> AddFile:
        lines: list[str] = []
        while self.line is not None and (count := self._blank_inside() or self.line.startswith("+")):
            lines += (line[1:] for line in self.lines[self.at : self.at + count])
            self.at += count
        if self.line is not None and self.line.strip() and not self.line.lstrip().startswith("***"):
            raise self._error("each line of a new file begins with '+'")
        return AddFile(path, "".join(f"{line}\n" for line in lines))

    def _blank_inside(self) -> int:
        """Return the number of blank lines here whose `+` was omitted, if more lines of the file follow."""
        end = self.at
        while end < len(self.lines) and not self.lines[end]:
            end += 1
        return end - self.at if end < len(self.lines) and self.lines[end].startswith("+") else 0

    def _update(self, path: str) -> UpdateFile:
        moved = self._argument(_MOVE)
        chunks: list[PatchChunk] = []
        while self.skip_blank() and not self._is_mark():
            chunks.append(self._chunk())
        if not chunks and moved is None:
            raise ToolError(f"The patch says nothing about what to change in {path}. Nothing was changed.")
        return UpdateFile(path, moved, tuple(chunks))

    def _is_mark(self) -> bool:
        line = self.line or ""
        return line.startswith("***") and line.strip() != _END_OF_FILE

    def _chunk(self) -> PatchChunk:
        number = self.number
        headers = self._headers()
        body = self._body()
        at_end = (self.line or "").strip() == _END_OF_FILE
        self.at += at_end
        # "\ No newline at end of file" comes from unified diffs.
        lines = [line for line in "\n".join(body).strip("\n").split("\n") if not line.startswith("\\")]
        if not any(lines):
            raise ToolError(f"The change at line {number} of the patch has no lines. Nothing was changed.")
        old = tuple(line[1:] for line in lines if line[:1] in {"", " ", "-"})
        new = tuple(line[1:] for line in lines if line[:1] in {"", " ", "+"})
        return PatchChunk(tuple(filter(None, headers)), Request(old, new), at_end, number)

    def _headers(self) -> list[str]:
        """Read the lines that begin with `@@`, without the line numbers of a unified diff."""
        headers: list[str] = []
        while self.line is not None and self.line.startswith("@@"):
            headers.append(_NUMBERS.sub("", self.line[2:].strip(), count=1).strip().removesuffix("@@").rstrip())
            self.at += 1
        return headers

    def _body(self) -> list[str]:
        """Read the lines of a change, each with its sign; the sign of a blank line may be missing."""
        body: list[str] = []
        while self.line is not None and not self.line.startswith(("@@", "***")):
            if self.line[:1] not in {"", " ", "-", "+", "\\"}:
                raise self._error("a line of a change begins with ' ', '-', '+' or '@@'")
            body.append(self.line)
            self.at += 1
        return body

    def _error(self, expected: str) -> ToolError:
        return ToolError(
            f"Line {self.number} of the patch can't be read: {expected}, but this is {_shown(self.line or '')}. "
            "Nothing was changed."
        )
