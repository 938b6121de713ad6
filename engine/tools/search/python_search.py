"""A searcher in pure Python that takes ripgrep's place: a program of its own, with ripgrep's output.

It is a process because Python's matcher can take for ever and holds the interpreter's
lock meanwhile: a thread with such a pattern could not be cancelled, and would stop the
whole engine. A process is ended like any other.

It reads one JSON object from its only argument (see `Job`), and writes, as `rg` with
`engine.tools.search.ripgrep`'s options does:

- names: `./path`, NUL;
- counts: `./path`, NUL, the number of matching lines;
- lines: `./path`, NUL, `number column offset text` with unit separators (0x1f) between, or `number-offset-text` for context.

Exit code 0: found, 1: nothing found, 2: a wrong pattern, or something could not be read.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final

import attrs

from engine.files.globs import glob_regex
from engine.tools.search.python_lines import Line, NulFound, lacks, matches_by_line, matches_in_whole, with_context
from engine.tools.search.rust_reader import PatternError
from engine.tools.search.rust_regex import translated
from engine.tools.search.walk import files, start, without_waiting

BINARY_WARNING: Final = b': WARNING: stopped searching binary file after match (found "\\0" byte around offset %d)\n'

_BLOCK_BYTES: Final = 65_536
_PLAIN: Final = re.compile(r"[\w \"'/:;,<>=@%&!~`-]+")


@attrs.frozen(kw_only=True)
class Job:
    """What to search for, in the working directory.

    Attributes:
        pattern: a regular expression of Rust's; None: list the files.
        literal: it is a plain text instead.
        ignore_case: whether capitals count.
        multiline: whether it may span lines.
        counts: write the numbers of matching lines only; not with `multiline`.
        before: lines of context before a match.
        after: and after it.
        max_columns: longer lines are cut.
        names: globs of file names, without a slash; if there are any, only files that one of them fits.
        depth: how many levels of folders to search; 0: all.
        only: the one file to search, if not all.
        include_ignored: search what ignore files exclude, too.
    """

    pattern: str | None
    literal: bool = False
    ignore_case: bool = False
    multiline: bool = False
    counts: bool = False
    before: int = 0
    after: int = 0
    max_columns: int = 0
    names: Sequence[str] = ()
    depth: int = 0
    only: str = ""
    include_ignored: bool = False


@attrs.define(eq=False)
class Searcher:
    """Does a job, writes what it finds, and tells what it could not read."""

    job: Job
    out: BinaryIO
    tell: Callable[[str], object] = lambda _: None
    has_found: bool = False
    has_failed: bool = False

    def run(self, root: str) -> int:
        """Search the folder *root*; return the exit code. Raises `PatternError`."""
        search = self._search()
        if self.job.only:
            search(os.fsencode(root), os.fsencode(self.job.only))
        else:
            folder = start(os.fsencode(root), include_ignored=self.job.include_ignored)
            wanted = re.compile("|".join(map(glob_regex, self.job.names)), re.DOTALL)
            for path in files(folder, self._failed, self.job.depth):
                if wanted.match(os.fsdecode(path.rpartition(b"/")[2])):
                    search(folder.path, path)
        return 2 if self.has_failed else 0 if self.has_found else 1

    def _search(self) -> Callable[[bytes, bytes], object]:
        job = self.job
        if job.pattern is None:
            return self._name
        translation = translated(job.pattern, literal=job.literal, ignore_case=job.ignore_case, multiline=job.multiline)
        regex = _compiled(translation.regex)
        matches = matches_in_whole if translation.spans_lines else matches_by_line
        is_plain = not job.ignore_case and (job.literal or _PLAIN.fullmatch(job.pattern) is not None)
        text = job.pattern.encode() if is_plain else b""

        def search(root: bytes, path: bytes) -> None:
            try:
                with open(os.path.join(root, path), "rb", opener=without_waiting) as file:  # noqa: PTH118 - Path has no bytes
                    if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and not lacks(file, text):
                        self._file(b"./" + path, matches(regex, file))
            except OSError as error:
                self._failed(error)

        return search

    def _name(self, _root: bytes, path: bytes) -> None:
        self.has_found = True
        self.out.write(b"./%s\0" % path)

    def _failed(self, error: OSError) -> None:
        self.has_failed = True
        self.tell(f"{os.fsdecode(error.filename or b'')!r}: {error.strerror} (os error {error.errno})\n")

    def _file(self, path: bytes, lines: Iterator[Line | NulFound]) -> None:
        if self.job.counts:
            self._count(path, lines)
            return
        wrote = False
        for line in with_context(lines, self.job.before, self.job.after):
            if isinstance(line, NulFound) or b"\0" in line.text:
                if wrote:
                    self.out.write(path + BINARY_WARNING % line.offset)
                return
            self._write(path, line)
            wrote = self.has_found = True

    def _write(self, path: bytes, line: Line) -> None:
        text = line.text
        if self.job.max_columns and len(text) > self.job.max_columns:
            text = (
                text[: 4 * self.job.max_columns].decode(errors="replace")[: self.job.max_columns].encode() + b" [...]"
            )
        if line.column:
            self.out.write(b"%s\0%d\x1f%d\x1f%d\x1f%s\n" % (path, line.number, line.column, line.offset, text))
        else:
            self.out.write(b"%s\0%d-%d-%s\n" % (path, line.number, line.offset, text))

    def _count(self, path: bytes, lines: Iterator[Line | NulFound]) -> None:
        count = 0
        for line in lines:
            if isinstance(line, NulFound):
                return
            count += line.column > 0
        if count:
            self.has_found = True
            self.out.write(b"%s\0%d\n" % (path, count))


def _compiled(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"it is too much for Python's regular expressions ({error})") from error


def main() -> None:
    """Do the job that the last argument describes, in the working directory, and exit."""
    job = Job(**json.loads(sys.argv[-1]))
    try:
        with io.BufferedWriter(io.FileIO(sys.stdout.fileno(), "wb", closefd=False), _BLOCK_BYTES) as out:
            code = Searcher(job, out, sys.stderr.write).run(".")
    except PatternError as error:
        sys.stderr.write(f"{error}\n")
        code = 2
    sys.exit(code)
