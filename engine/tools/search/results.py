"""Parse a searcher's output as it comes, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

import attrs

# A minified file is one line of megabytes.
MAX_RECORD_BYTES: Final = 65_536
MAX_ERROR_BYTES: Final = 4_096

# The fields of a match are separated by U+001F (see `ripgrep.py`), those of a context line by dashes.
_MATCH: Final = re.compile(rb"(\d+)\x1f(?:(\d+)\x1f)?(\d+)\x1f(.*)\Z", re.DOTALL)
_CONTEXT: Final = re.compile(rb"(\d+)-(\d+)-(.*)\Z", re.DOTALL)
# Ripgrep's notice that a file turned out to be binary after it had matches.
_BINARY: Final = re.compile(
    rb'.*?: (?:WARNING: stopped searching binary file after match|binary file matches) \(found "[^"\n]*" byte around '
    rb"offset \d+\)\r?\n",
    re.DOTALL,
)

_SYSTEM_ERROR: Final = b"(os error "

Form = Literal["names", "counts", "lines"]


@attrs.frozen(kw_only=True)
class Hit:
    """One result.

    Attributes:
        path: the file, relative to the search folder.
        number: the line number, or the number of matching lines.
        is_match: False: a context line.
        column: where the match begins in the line, in bytes from 1; 0: unknown.
        offset: where the line begins in the file, in bytes.
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
    """A notice that the file of the last hits is binary, so they don't count."""

    path: bytes


@attrs.define(eq=False)
class HitReader:
    """Parses the output of the command lines of `engine.tools.search.ripgrep`."""

    form: Form
    _rest: bytes = attrs.field(default=b"", init=False)
    _skips: bool = attrs.field(default=False, init=False)
    _path: bytes = attrs.field(default=b"", init=False)

    def feed(self, chunk: bytes) -> Iterator[Hit | Binary]:
        """Yield the results that *chunk* completes. Exhaust it before the next call."""
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
            # A line can be long even after ripgrep has cut it, since ripgrep counts grapheme clusters.
            path, nul_byte, body = self._rest.partition(b"\0")
            self._rest, self._skips = b"", True
            if nul_byte:
                yield from self._record(path, body)

    def finish(self) -> Iterator[Binary]:
        """Yield what only the end of the output shows."""
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
    # If the last line has no line end, ripgrep adds \r\n, even after a \r.
    return text.rstrip(b"\r")


@attrs.define(eq=False)
class ErrorReader:
    """Parses a searcher's standard error, and separates errors of the search from files that could not be read.

    The exit code doesn't separate them: to ripgrep, a bad line in a .gitignore is as serious as an unreadable file.

    Attributes:
        unreadable: whether something could not be read.
    """

    unreadable: bool = attrs.field(default=False, init=False)
    _head: bytes = attrs.field(default=b"", init=False)
    _tail: bytes = attrs.field(default=b"", init=False)

    def feed(self, chunk: bytes) -> None:
        """Receive more."""
        seen = self._tail + chunk
        self.unreadable = self.unreadable or _SYSTEM_ERROR in seen
        self._tail = seen[-len(_SYSTEM_ERROR) :]
        self._head += chunk[: MAX_ERROR_BYTES - len(self._head)]

    @property
    def message(self) -> str:
        """The error in the pattern or in the searcher; empty if there is none."""
        lines = self._head.decode(errors="replace").split("\n")
        if len(self._head) == MAX_ERROR_BYTES:
            lines.pop()  # it is incomplete, so its kind is unknown
        ours = [line for line in lines if _SYSTEM_ERROR.decode() not in line and "error parsing glob" not in line]
        return "\n".join(ours).strip()
