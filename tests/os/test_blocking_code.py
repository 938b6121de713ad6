"""Foreign code that blocks the event loop for ever, and a user who presses Ctrl-C: real processes, real signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.forked import Fork, fork_server
from tests.conftest import REPOSITORY
from tests.nursery.test_interrupts import PLAIN
from tests.support.borders import BORDERS

pytestmark = [pytest.mark.os, pytest.mark.slow]

SECONDS = 60


@pytest.fixture(scope="module")
def fork_path(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Where processes are forked, which need not import the engine again."""
    with fork_server(tmp_path_factory.mktemp("forks")) as path:
        yield path


@pytest.mark.parametrize("name", BORDERS)
def test_ctrl_c_ends_a_process_whose_code_blocks(name: str, fork_path: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(f"from tests.os.blocking import main\n\nmain({name!r})\n")
    ours, theirs = os.pipe()
    with os.fdopen(ours) as output, Path(os.devnull).open("r+b") as null:
        streams = (null.fileno(), theirs, null.fileno())
        program = Fork(fork_path, (), REPOSITORY, os.environ, streams, script=script)
        os.close(theirs)
        try:
            assert output.readline() == "ready\n"
            program.send_signal(signal.SIGINT)
            lines = output.read().splitlines()
            assert program.wait(SECONDS) == 0
        finally:
            program.kill()
    where = "a checkpoint" if name in PLAIN else "block"
    assert lines == [f"struck in {where}", "turns open: 0", "broken: 0"]
