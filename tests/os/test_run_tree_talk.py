"""Programs that converse: told by the end of their input that it is over, they may exit by themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from engine.process.run_tree import FinishedProcess, run_tree

pytestmark = pytest.mark.os

# Echoes lines; at the end of its input, and at a SIGTERM, it says so in a file.
ECHO = """
import pathlib, signal, sys
def note(word):
    pathlib.Path(sys.argv[1]).write_text(word)
signal.signal(signal.SIGTERM, lambda *_: (note("terminated"), sys.exit(1)))
for line in sys.stdin:
    print(line, end="", flush=True)
note("ended")
"""


async def converse(note: Path, exit_grace: float) -> tuple[bytes, FinishedProcess]:
    """Send a line, get it back, and cancel."""
    output, finished, answered = bytearray(), list[FinishedProcess](), trio.Event()

    def take(chunk: bytes) -> None:
        output.extend(chunk)
        answered.set()

    async def talk(stdin: trio.lowlevel.FdStream) -> None:
        await stdin.send_all(b"hello\n")
        await trio.sleep_forever()

    async def work() -> None:
        await run_tree(
            [sys.executable, "-c", ECHO, str(note)],
            cwd="/",
            marker="talk",
            on_output=take,
            talk=talk,
            exit_grace=exit_grace,
            grace=20,
            on_finish=finished.append,
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await answered.wait()
        nursery.cancel_scope.cancel()
    return bytes(output), finished[0]


async def test_end_of_input_comes_before_the_signal(tmp_path: Path) -> None:
    output, finished = await converse(tmp_path / "note", exit_grace=20)
    assert output == b"hello\n"
    assert (tmp_path / "note").read_text() == "ended"
    assert (finished.cause, finished.exit_code, finished.ended) == ("cancel", 0, True)


async def test_without_time_for_it_the_signal_comes_at_once(tmp_path: Path) -> None:
    _, finished = await converse(tmp_path / "note", exit_grace=0)
    assert finished.ended
    assert (tmp_path / "note").read_text() == "terminated"
