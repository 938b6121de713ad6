"""What a searcher prints, read as it comes: in memory that does not depend on what there is to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

import attrs

MAX_RECORD_BYTES: Final = 65_536
MAX_ERROR_BYTES: Final = 4_096

_MATCH: Final = re.compile(rb"(\d+)\x1f(?:(\d+)\x1f)?(\d+)\x1f(.*)\Z", re.DOTALL)
_CONTEXT: Final = re.compile(rb"(\d+)-(\d+)-(.*)\Z", re.DOTALL)
# What ripgrep says of a file in which it found something before it saw that the file is binary.
_BINARY: Final = re.compile(
    rb'.*?: (?:WARNING: stopped searching binary file after match|binary file matches) \(found "[^"\n]*" byte around '
    rb"offset \d+\)\r?\n",
    re.DOTALL,
)

_SYSTEM_ERROR: Final = b"(os error "

Form = Literal["names", "counts", "lines"]


@attrs.frozen(kw_only=True)
class Hit:
    """Something that was found.

    Attributes:
        path: the file, from where the search began.
        number: of the line; or how many lines match.
        is_match: False: the line is only context.
        column: where in the line the match begins, in bytes, counted from 1; 0: not known.
        offset: where in the file the line begins, in bytes.
        text: the line without its end, or the beginning of a long one.
    """

    path: bytes
    number: int = 0
    is_match: bool = True
    column: int = 0
    offset: int = 0
    text: bytes = b""


@attrs.frozen
class Binary:
    """The file of the last hits is binary, so they do not count."""

    path: bytes


@attrs.define(eq=False)
class HitReader:
    """Reads what `engine.tools.search.ripgrep`'s command lines print."""

    form: Form
    _rest: bytes = attrs.field(default=b"", init=False)
    _skips: bool = attrs.field(default=False, init=False)
    _path: bytes = attrs.field(default=b"", init=False)

    def feed(self, chunk: bytes) -> Iterator[Hit | Binary]:
        """Yield what *chunk* completes. Use it up before the next one is fed."""
        if self._skips:
            end = chunk.find(b"\n")
            if end < 0:
                return
            chunk, self._skips = chunk[end + 1 :], False
        data = self._rest + chunk
        if self.form == "names":
            *names, self._rest = data.split(b"\0")
            for name in names:
                yield Hit(path=_stripped(name))
            return
        at = 0
        while True:
            nul = data.find(b"\0", at)
            end = data.find(b"\n", nul + 1) if nul >= 0 else -1
            if end < 0:
                break
            yield from self._record(data[at:nul], data[nul + 1 : end])
            at = end + 1
        self._rest = data[at:]
        if len(self._rest) > MAX_RECORD_BYTES:
            # A line that ripgrep has cut can still be long: it counts what looks like one character as one.
            path, nul_byte, body = self._rest.partition(b"\0")
            self._rest, self._skips = b"", True
            if nul_byte:
                yield from self._record(path, body)

    def finish(self) -> Iterator[Binary]:
        """Yield what only the end of the output tells."""
        if _BINARY.match(self._rest):
            yield Binary(self._path)

    def _record(self, path: bytes, body: bytes) -> Iterator[Hit | Binary]:
        notice = _BINARY.match(path)
        if notice is not None:
            yield Binary(self._path)
            path = path[notice.end() :]
        self._path = _stripped(path)
        hit = _count(self._path, body) if self.form == "counts" else _line(self._path, body)
        if hit is not None:
            yield hit


def _count(path: bytes, body: bytes) -> Hit | None:
    digits = body.rstrip(b"\r")
    return Hit(path=path, number=int(digits)) if digits.isdigit() else None


def _line(path: bytes, body: bytes) -> Hit | None:
    if match := _MATCH.match(body):
        number, column, offset, text = match.groups()
        return Hit(path=path, number=int(number), column=int(column or 0), offset=int(offset), text=_bare(text))
    if match := _CONTEXT.match(body):
        number, offset, text = match.groups()
        return Hit(path=path, number=int(number), offset=int(offset), text=_bare(text), is_match=False)
    return None


def _stripped(path: bytes) -> bytes:
    return path.removeprefix(b"./")


def _bare(text: bytes) -> bytes:
    # Where a file has no line end at its own end, ripgrep adds \r\n to a line that may have a \r already.
    return text.rstrip(b"\r")


@attrs.define(eq=False)
class ErrorReader:
    """Reads what a searcher prints to standard error, and parts what is wrong with its work from what it could not read.

    Its exit code does not: to ripgrep a line of a .gitignore that makes no sense is as bad as a file that can't be read.

    Attributes:
        unreadable: whether something could not be read.
    """

    unreadable: bool = attrs.field(default=False, init=False)
    _head: bytes = attrs.field(default=b"", init=False)
    _tail: bytes = attrs.field(default=b"", init=False)

    def feed(self, chunk: bytes) -> None:
        """Take more."""
        seen = self._tail + chunk
        self.unreadable = self.unreadable or _SYSTEM_ERROR in seen
        self._tail = seen[-len(_SYSTEM_ERROR) :]
        self._head += chunk[: MAX_ERROR_BYTES - len(self._head)]

    @property
    def message(self) -> str:
        """What is wrong with the pattern or with the searcher; empty if nothing is."""
        lines = self._head.decode(errors="replace").split("\n")
        if len(self._head) == MAX_ERROR_BYTES:
            lines.pop()  # it is incomplete, so its kind is unknown
        ours = [line for line in lines if _SYSTEM_ERROR.decode() not in line and "error parsing glob" not in line]
        return "\n".join(ours).strip()
