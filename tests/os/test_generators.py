"""Async generators around blocks of the engine, whose consumer breaks: nothing hangs, and an error says what to do."""

from __future__ import annotations

import signal
import subprocess
from contextlib import AbstractContextManager

import attrs
import pytest

from tests.support.processes import python_process, read_line

pytestmark = [pytest.mark.os, pytest.mark.slow]

SECONDS = 30


@attrs.frozen
class Ran:
    """How a program ended."""

    code: int
    lines: list[str]
    errors: str

    @property
    def says_what_to_do(self) -> bool:
        return "WrongTask" in self.errors and "contextlib.aclosing" in self.errors


def start(case: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return python_process("-m", "tests.os.generators", case, stderr=subprocess.PIPE)


def finish(program: subprocess.Popen[str]) -> Ran:
    out, errors = program.communicate(timeout=SECONDS)
    return Ran(program.returncode, out.splitlines(), errors)


def run(case: str) -> Ran:
    with start(case) as program:
        return finish(program)


def test_dropped_generator_ends_its_turn() -> None:
    ran = run("dropped")
    assert ran.lines == ["aborted", "Fine."]
    assert ran.says_what_to_do
    assert ran.code == 1  # the engine's block raises it, too


def test_kept_generator_is_named_by_the_engine() -> None:
    ran = run("kept")
    assert ran.says_what_to_do
    assert ran.code == 1


def test_closing_in_another_task_raises_there() -> None:
    ran = run("closed_elsewhere")
    assert ran.lines[0].startswith("refused: ")
    assert ran.lines[1] == "aborted"


def test_interrupt_after_a_dropped_generator() -> None:
    with start("interrupted") as program:
        assert [read_line(program), read_line(program)] == ["aborted", "ready"]
        program.send_signal(signal.SIGINT)
        ran = finish(program)
    assert "KeyboardInterrupt" in ran.errors
    assert ran.code != 0


@pytest.mark.parametrize("case", ["engine_dropped", "engine_kept"])
def test_engine_in_a_generator_ends(case: str) -> None:
    ran = run(case)
    assert ran.says_what_to_do
    assert ran.lines == (["aborted"] if case == "engine_dropped" else [])


@pytest.mark.parametrize(("case", "lines"), [("closing", ["aborted", "Fine."]), ("engine_closing", ["aborted"])])
def test_aclosing_is_the_right_way(case: str, lines: list[str]) -> None:
    ran = run(case)
    assert (ran.code, ran.lines) == (0, lines), ran.errors
