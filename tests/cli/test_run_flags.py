"""What single flags of `engine run` do."""

import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Quick

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


def test_ephemeral_session_is_not_saved(quick: Quick, tmp_path: Path) -> None:
    assert quick("run", "--ephemeral", "hello").code == 0
    assert not (tmp_path / "data").exists()
    ended = quick("run", "--ephemeral", "--continue", "hello")
    assert ended.code == 2
    assert b"\nNext: leave out --ephemeral" in ended.stderr


def test_resume_without_id_takes_the_newest(quick: Quick) -> None:
    assert quick("run", "remember one").code == 0
    assert b"one" in quick("run", "remember two", "--resume").stdout


def test_added_directory_counts_as_inside(quick: Quick, tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    for folder in (project, other):
        folder.mkdir()
    (other / "x.txt").write_text("words")
    task = ("run", "--cwd", "project", "bash cat ../other/x.txt")
    assert quick(*task).code == 3
    assert quick(*task, "--add-dir", "other").code == 0
    # A rule may still forbid a part of it.
    ended = quick(*task, "--add-dir", "other", "--rule", f"deny outside {other}/x.txt")
    assert b"Denied" in ended.stderr
    assert f"Further directories of this task:\n- {other}" in quick("run", "echo", "--add-dir", "other").stdout.decode()


@pytest.mark.parametrize(("flag", "forced"), [("always", ""), ("auto", "1")])
def test_forced_colours_are_on_standard_error(quick: Quick, flag: str, forced: str) -> None:
    ended = quick("run", "--yes", "bash true", "--color", flag, FORCE_COLOR=forced)
    assert ended.stdout == b"All done.\n"
    assert "\x1b[32m✓\x1b[0m bash  true" in ended.stderr.decode()


@pytest.mark.parametrize(
    ("terminal", "no_color", "is_painted"), [("xterm", "", True), ("xterm", "1", False), ("dumb", "", False)]
)
def test_terminal_gets_colours_unless_switched_off(
    quick: Quick, terminal: str, no_color: str, is_painted: bool
) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as reader:
        task = ("run", "--yes", "bash true")
        assert quick(*task, stdin=theirs, stdout=theirs, stderr=theirs, TERM=terminal, NO_COLOR=no_color).code == 0
        os.close(theirs)
        output = reader.read(65_536)
    assert b"All done." in output
    assert (b"\x1b[32m" in output) is is_painted
    assert terminal != "dumb" or b"\x1b" not in output
