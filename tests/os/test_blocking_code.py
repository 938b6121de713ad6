"""Foreign code that blocks the event loop for ever, and a user who presses Ctrl-C: real processes, real signals."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.nursery.test_interrupts import PLAIN
from tests.support.borders import BORDERS

pytestmark = [pytest.mark.os, pytest.mark.slow]

SECONDS = 30


@pytest.mark.parametrize("name", BORDERS)
def test_ctrl_c_ends_a_process_whose_code_blocks(name: str) -> None:
    program = subprocess.Popen([sys.executable, "-m", "tests.os.blocking", name], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=SECONDS)
    finally:
        program.kill()
        program.wait()
    where = "a checkpoint" if name in PLAIN else "block"
    assert out.splitlines() == [f"struck in {where}", "turns open: 0", "broken: 0"]
    assert program.returncode == 0
