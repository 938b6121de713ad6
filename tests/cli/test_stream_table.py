"""Standard output, byte for byte: whatever the three streams are, in each mode of output."""

import itertools
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import pytest

from tests.cli.conftest import Quick
from tests.cli.test_print_schema import RESULT, check_lines

pytestmark = [pytest.mark.os]

Kind = Literal["terminal", "pipe", "file", "closed", "null"]
Mode = Literal["text", "json", "stream-json"]
KINDS: Final[Sequence[Kind]] = ("terminal", "pipe", "file", "closed", "null")
MODES: Final[Sequence[Mode]] = ("text", "json", "stream-json")
WORDS: Final = "from stdin"


class Stream:
    """An end for the program, and what came out of it."""

    def __init__(self, kind: Kind, folder: Path, *, is_input: bool) -> None:
        self.descriptor: int | None = None
        self._data = b""
        self._path: Path | None = None
        self._reader: threading.Thread | None = None
        if kind == "null":
            self.descriptor = os.open(os.devnull, os.O_RDWR)
        elif kind == "file":
            self._path = folder / ("in" if is_input else f"out{len(list(folder.iterdir()))}")
            self._path.write_text(WORDS if is_input else "")
            self.descriptor = os.open(self._path, os.O_RDWR)
        elif kind != "closed":
            self.descriptor = self._connect(is_terminal=kind == "terminal", is_input=is_input)

    def _connect(self, *, is_terminal: bool, is_input: bool) -> int:
        if is_terminal:
            ours, theirs = os.openpty()
        elif is_input:
            theirs, ours = os.pipe()
            with os.fdopen(ours, "wb") as file:
                file.write(WORDS.encode())
            return theirs
        else:
            ours, theirs = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(ours,))
        self._reader.start()
        return theirs

    def _read(self, descriptor: int) -> None:
        """Read until nobody has the other end: a terminal's buffer is small, and a full one would stop the program."""
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            try:
                while data := file.read(65_536):
                    self._data += data
            except OSError:  # what a terminal gives at its end
                return

    def end(self) -> bytes:
        """Close it; return what was written."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        if self._reader is not None:
            self._reader.join(60)
            # A terminal begins lines at the left.
            return self._data.replace(b"\r\n", b"\n")
        return b"" if self._path is None else self._path.read_bytes()


class Row(NamedTuple):
    """What the three streams are, and what is written."""

    stdin: Kind
    stdout: Kind
    stderr: Kind
    mode: Mode


EVERY_ROW: Final = tuple(itertools.starmap(Row, itertools.product(KINDS, KINDS, KINDS, MODES)))


def _has_each_pair_once(row: Row) -> bool:
    """Tell whether *row* is one of the 25 in which any two streams are every pair of kinds once (a Latin square)."""
    stdin, stdout, stderr = map(KINDS.index, row[:3])
    return stderr == (stdin + stdout) % 5 and MODES.index(row.mode) == (stdin + 2 * stdout) % 5 % 3


SAMPLE_OF_PAIRS: Final = tuple(filter(_has_each_pair_once, EVERY_ROW))


def test_sample_has_every_pair() -> None:
    for one, other in itertools.combinations(range(4), 2):
        pairs = {(row[one], row[other]) for row in EVERY_ROW}
        assert {(row[one], row[other]) for row in SAMPLE_OF_PAIRS} == pairs
    assert (len(SAMPLE_OF_PAIRS), len(EVERY_ROW)) == (25, 375)


@pytest.mark.parametrize("stdout", KINDS)
@pytest.mark.parametrize("stdin", KINDS)
def test_standard_output_is_the_answer(
    quick: Quick, tmp_path: Path, stdin: Kind, stdout: Kind, *, is_full: bool
) -> None:
    """The sample of pairs; with `--full`, all 375 rows."""
    for row in EVERY_ROW if is_full else SAMPLE_OF_PAIRS:
        if row[:2] == (stdin, stdout):
            _check_row(quick, tmp_path, row)


def _check_row(quick: Quick, folder: Path, row: Row) -> None:
    streams = [Stream(kind, folder, is_input=number == 0) for number, kind in enumerate(row[:3])]
    first, second, third = (stream.descriptor for stream in streams)
    ended = quick("run", "say Hällo.", "--ephemeral", "--output", row.mode, stdin=first, stdout=second, stderr=third)
    _, output, errors = (stream.end() for stream in streams)
    if row.stdout == "closed":
        assert ended.code == 74, row
        assert row.stderr in {"closed", "null"} or b"standard output is closed" in errors, row
        return
    assert ended.code == 0, row
    if row.stdout == "null":
        return
    added = f"\n\n<stdin>\n{WORDS}\n</stdin>" if row.stdin in {"pipe", "file"} else ""
    _check(output, f"Hällo.{added}", row.mode, row)


def _check(output: bytes, answer: str, mode: Mode, row: object) -> None:
    if mode == "text":
        assert output == f"{answer}\n".encode(), row
        return
    record = check_lines(output, 0)[-1] if mode == "stream-json" else json.loads(output)
    assert RESULT.problem(record) is None, row
    assert (record["text"], record["exit_code"]) == (answer, 0), row


# ---- standard input that says nothing, or too much -------------------------------------------------------------------


def test_writer_that_takes_its_time_is_waited_for(quick: Quick) -> None:
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb") as file:
            for _ in range(3):
                file.write(WORDS.encode())
                file.flush()
                threading.Event().wait(0.5)

    thread = threading.Thread(target=write)
    thread.start()
    record = json.loads(quick("run", "say Hi.", "--output", "json", stdin=reader).stdout)
    thread.join()
    os.close(reader)
    assert record["stdin"] == {"state": "read", "bytes": 3 * len(WORDS)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x" * (11 * 1024 * 1024), "standard input is larger than 10,485,760 bytes"),
        (b"ab\xff\xfe", "neither text in UTF-8 (byte 2)"),
    ],
    ids=["large", "binary"],
)
def test_input_that_can_not_be_used_sends_nothing(quick: Quick, tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "input").write_bytes(data)
    with (tmp_path / "input").open("rb") as file:
        ended = quick("run", "say Hi.", stdin=file.fileno())
    assert (ended.code, ended.stdout) == (2, b"")
    assert message in ended.stderr.decode()
