"""The chat in windows that are resized while it writes: each finished line is there once, in order (cli A6)."""

import random
import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cli.chat.emulators import Emulator, Pyte, Tmux, needs_tmux, needs_xterm, shows, tmux, wait_for, xterm
from tests.cli.conftest import Start, environment_for

pytestmark = [pytest.mark.slow, pytest.mark.os]

WORDS, LINES = 300, 80


@pytest.fixture
def in_tmux(host: str, tmp_path: Path) -> Iterator[Tmux]:
    env = {**environment_for(host, tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    with tmux([sys.executable, "-m", "engine", "chat"], cwd=tmp_path, env=env) as server:
        wait_for(server, shows("Ready"))
        yield server


def numbers(letter: str, lines: list[str]) -> list[int]:
    """The numbers behind *letter*, without those of the prompt."""
    return [
        int(number) for line in lines if not line.startswith(">") for number in re.findall(rf"{letter}(\d{{4}})", line)
    ]


def storm(emulator: Emulator, seed: int, count: int) -> list[str]:
    """Resize at random while numbered lines stream; return the lines that are there in the end."""
    dice = random.Random(seed)
    emulator.type(f"lines {LINES}\r")
    wait_for(emulator, shows("L0003"))
    for _ in range(count):
        emulator.resize(dice.randint(20, 200), dice.randint(8, 50))
        time.sleep(dice.choice([0, 0.01, 0.05, 0.1]))
    emulator.resize(100, 30)
    wait_for(emulator, shows("Done in"))
    emulator.resize(90, 30)
    return wait_for(emulator, lambda lines: lines[-1:] != [""] and any(line.startswith("Ready") for line in lines[-3:]))


def check_storm(lines: list[str]) -> None:
    # A line that was still open may have left a copy of its beginning, where the window became too low for it.
    assert numbers("E", lines) == [*range(1, LINES + 1)]
    assert sum(line.startswith("Ready") for line in lines) == 1


def calm(emulator: Emulator) -> list[str]:
    """Resize to moderate sizes, one after the other, while prose and code stream; return the lines in the end."""
    emulator.type(f"words {WORDS}\r")
    wait_for(emulator, shows("w0003"))
    for columns, rows in ((60, 24), (140, 30), (45, 30), (100, 22)):
        emulator.resize(columns, rows)
        time.sleep(0.5)
    wait_for(emulator, shows("Done in"))
    return wait_for(emulator, lambda lines: any(line.startswith("Ready") for line in lines))


def check_calm(lines: list[str]) -> None:
    assert numbers("w", lines) == [*range(1, WORDS + 1)]
    assert sum(line.startswith(("Ready", "Working")) for line in lines) == 1
    assert sum(line.startswith(">") for line in lines) == 2  # the message, and the prompt


@needs_tmux
def test_tmux_keeps_lines_once(in_tmux: Tmux, is_full: bool) -> None:
    check_storm(storm(in_tmux, seed=1, count=200 if is_full else 25))


@needs_tmux
@pytest.mark.usefixtures("only_full")
def test_calm_resizes_leave_nothing_in_tmux(in_tmux: Tmux) -> None:
    check_calm(calm(in_tmux))


@needs_xterm
@pytest.mark.usefixtures("only_full")
def test_xterm_keeps_lines_once(engine: Start) -> None:
    with xterm(engine("chat", terminal=True, TERM_PROGRAM="vscode")) as emulator:
        wait_for(emulator, shows("Ready"))
        check_storm(storm(emulator, seed=2, count=200))


@needs_xterm
@pytest.mark.usefixtures("only_full")
def test_long_draft_in_xterm_erases_nothing(engine: Start) -> None:
    """xterm.js cuts the row of the cursor, and wraps the others."""
    with xterm(engine("chat", terminal=True, TERM_PROGRAM="vscode")) as emulator:
        wait_for(emulator, shows("Ready"))
        emulator.type("lines 20\r")
        wait_for(emulator, shows("Done in"))
        emulator.type("d" * 90)
        wait_for(emulator, shows("d" * 90))
        emulator.resize(60, 30)
        time.sleep(0.6)
        lines = wait_for(emulator, shows("d" * 30))
        assert numbers("E", lines) == [*range(1, 21)]
        assert shows("1,050 tokens · $0.0025")(lines)  # the whole of the last line


@needs_tmux
@pytest.mark.usefixtures("only_full")
def test_tmux_clients_come_and_go(in_tmux: Tmux, engine: Start) -> None:
    """Each has a size of its own, which the window takes."""
    in_tmux.type(f"words {WORDS}\r")
    wait_for(in_tmux, shows("w0003"))
    for columns in (70, 130):
        client = engine(terminal=True, program=["tmux", "-S", str(in_tmux.socket), "attach"], TERM="xterm")
        client.resize(columns, 25)
        client.read_for(0.6)
        client.type("\x02d")
        assert client.wait() == 0
    wait_for(in_tmux, shows("Done in"))
    check_calm(wait_for(in_tmux, shows("Ready ·")))


def test_slow_reader_gets_each_line_once(engine: Start) -> None:
    """Pyte cuts rows. What the program writes is read twice a second here, as over a bad connection."""
    emulator = Pyte(engine("chat", terminal=True, XTERM_VERSION="XTerm(390)"))
    wait_for(emulator, shows("Ready"))
    emulator.type(f"lines {LINES}\r")
    wait_for(emulator, shows("L0003"))
    dice = random.Random(3)
    for _ in range(3):
        emulator.resize(dice.randint(20, 200), 30)
        time.sleep(0.5)
    lines = wait_for(emulator, shows("Done in"))
    # What it cut is gone, but no line is there twice.
    begun = numbers("L", lines)
    assert sorted(set(begun)) == [*range(1, LINES + 1)]
    assert begun == sorted(begun)


def has_stopped(times: int, lines: list[str]) -> bool:
    return sum("Stopped" in line for line in lines) == times


@needs_tmux
def test_suspended_chat_leaves_no_copy_of_its_region(host: str, tmp_path: Path) -> None:
    env = {**environment_for(host, tmp_path), "PYTHONPATH": str(Path(__file__).parents[3]), "PS1": "shell: "}
    with tmux(["bash", "--norc", "-i"], cwd=tmp_path, env=env) as server:
        wait_for(server, shows("shell:"))
        server.type(f"{sys.executable} -m engine chat\r")
        wait_for(server, shows("Ready"))
        for number in range(1, 4):
            server.type("/")
            wait_for(server, shows("/help "))
            server.type("\x1a")
            wait_for(server, partial(has_stopped, number))
            server.type("fg\r")
            wait_for(server, shows("/help "))
            server.type("expo")
            lines = wait_for(server, shows("/export "))
            assert not [line for line in lines if "/help " in line or "/model " in line]
            server.type("\x15")
