"""The input of a task: words, standard input, and the files that the words name."""

import _thread
import math
import os
import threading
import time
from pathlib import Path

import pytest

from engine.cli.task.standard_input import StandardInput
from engine.cli.task.task_files import MAX_TEXT_BYTES, find_mentions, load_file
from engine.cli.task.task_input import build_input
from engine.cli.task.wait_readable import wait_readable
from engine.core.errors import ConfigError
from engine.core.messages import FilePart

NOTHING = StandardInput("none")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "a b.md").write_text("with a blank\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "x.py").write_text("x = 1\n")
    (tmp_path / "doc.pdf").write_bytes(b"%PDF-1.7 hello")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ("read @notes.txt", ("notes.txt",)),
        ("read @notes.txt, then @src.", ("notes.txt", "src")),
        ("lines @notes.txt:2-3 and @notes.txt:1", ("notes.txt:2-3", "notes.txt:1")),
        ('read @"a b.md" now', ("a b.md",)),
        ("(@src/x.py)", ("src/x.py",)),
        ("twice @src @src", ("src",)),
        ("mail me@src.org", ()),
        (r"an \@src", ()),
        ("ask @alice", ()),
        ("nothing", ()),
    ],
)
def test_mentions_name_files(folder: Path, words: str, paths: tuple[str, ...]) -> None:
    assert find_mentions(words, folder).paths == paths


def test_unknown_file_is_reported_and_stays(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    task = build_input("read @nope.txt and ask @alice", (), folder, NOTHING, asks=False)
    assert task.text == "read @nope.txt and ask @alice"
    assert capfd.readouterr().err == "engine: no such file: nope.txt; it stays in the task as text\n"


def test_text_comes_with_name_and_line_numbers(folder: Path) -> None:
    task = build_input(r"compare @notes.txt:2-3 with \@me", (), folder, NOTHING, asks=False)
    assert task.text == (
        'compare @notes.txt:2-3 with @me\n\n<file path="notes.txt:2-3">\n     2\ttwo\n     3\tthree\n</file>'
    )


def test_standard_input_is_a_block_after_the_words(folder: Path) -> None:
    task = build_input("review", (), folder, StandardInput("read", b"+x\n"), asks=False)
    assert task.text == "review\n\n<stdin>\n+x\n</stdin>"
    assert build_input("", (), folder, StandardInput("read", b"do it\n"), asks=False).text == "do it"


def test_folder_is_a_listing(folder: Path) -> None:
    assert load_file("src", folder).text == '<folder path="src">\nx.py\n</folder>'


def test_pdf_is_sent_as_it_is(folder: Path) -> None:
    task = build_input("read", [str(folder / "doc.pdf")], folder, NOTHING, asks=False)
    assert [type(part) for part in task.media] == [FilePart]
    piped = build_input("read", (), folder, StandardInput("read", b"%PDF-1.7 hello"), asks=False)
    assert [type(part) for part in piped.media] == [FilePart]


def test_long_text_keeps_head_and_tail(folder: Path) -> None:
    (folder / "long.txt").write_text("".join(f"line {n}\n" for n in range(100_000)))
    text = load_file("long.txt", folder).text
    assert len(text) < MAX_TEXT_BYTES + 500
    assert "     1\tline 0\n" in text
    assert "100000\tline 99999\n" in text
    assert "lines are left out here" in text


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nope", "can't attach nope: No such file or directory"),
        ("raw.bin", r"can't attach raw.bin: it is neither text in UTF-8 \(byte 3\) nor an image, a PDF or audio"),
    ],
)
def test_what_can_not_be_sent_is_an_error(folder: Path, name: str, error: str) -> None:
    (folder / "raw.bin").write_bytes(b"abc\xff\xfe")
    with pytest.raises(ConfigError, match=error):
        load_file(name, folder)


def test_secret_is_not_sent_unasked(folder: Path) -> None:
    (folder / ".env").write_text("KEY=1\n")
    with pytest.raises(ConfigError, match="looks like a file with keys"):
        build_input("read @.env", (), folder, NOTHING, asks=False)


def test_pipe_is_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe")

    def write() -> None:
        time.sleep(0.01)
        (folder / "pipe").write_text("from a pipe\n")

    thread = threading.Thread(target=write)
    thread.start()
    assert "     1\tfrom a pipe\n" in load_file("pipe", folder).text
    thread.join()


@pytest.mark.parametrize("has_writer", [False, True])
def test_signal_just_before_reading_a_pipe_ends_it(folder: Path, has_writer: bool) -> None:
    os.mkfifo(folder / "pipe")
    writer = os.open(folder / "pipe", os.O_RDWR) if has_writer else -1
    # It sets Python's flag without interrupting a system call, as a signal does that comes just before the call.
    timer = threading.Timer(0.1, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        load_file("pipe", folder)
    timer.join()
    if has_writer:
        os.close(writer)


def test_signal_just_before_reading_standard_input_ends_it() -> None:
    reader, writer = os.pipe()
    timer = threading.Timer(0.1, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        wait_readable(reader, math.inf)
    timer.join()
    os.close(reader)
    os.close(writer)
