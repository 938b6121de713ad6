"""How often a step visits a thread: each visit costs two rounds of the scheduler and a wake-up of the loop."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest
import trio

from engine import open_engine
from engine.options import ContextOptions, FileOptions
from engine.prompt import PromptLayers
from engine.snapshots import ProjectSnapshots
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools import builtin_tools

pytestmark = pytest.mark.os

STEPS = 12


class ThreadVisits:
    """Counts the calls of the one function that hands work to a thread, in the loop's thread."""

    _HAND_OVER = trio.lowlevel.start_thread_soon.__code__

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        self.count += event == "call" and frame.f_code is self._HAND_OVER


@pytest.mark.parametrize(("has_layers", "visits"), [(False, 2), (True, 3)])
def test_a_small_read_visits_few_threads(tmp_path: Path, has_layers: bool, visits: int) -> None:
    """Its path is judged, its file is read; and the files of the prompt are looked at, if there are layers."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n" * STEPS)
    counter, marks = ThreadVisits(), list[int]()

    def answer(_: object) -> Answer:
        marks.append(counter.count)
        if len(marks) > STEPS:
            return [*text("done"), *done()]
        return [*call("read", {"path": "a.txt", "offset": len(marks)}, id="c"), *done("calls")]

    async def main() -> None:
        async with open_engine(
            model=ScriptedProvider([answer], repeat=True),
            tools=builtin_tools(),
            store=tmp_path / "sessions.db",
            context=ContextOptions(prompt=PromptLayers(home=str(tmp_path)) if has_layers else None),
            files=FileOptions(snapshots=ProjectSnapshots(tmp_path / "snapshots"), spill=tmp_path / "spill"),
        ) as eng:
            session = await eng.create_session(cwd=folder)
            result = await session.run("go")
            assert (result.stop_reason, result.text) == ("completed", "done")

    before = sys.getprofile()
    sys.setprofile(counter)
    try:
        trio.run(main)
    finally:
        sys.setprofile(before)
    # The first steps load modules and open files; the store's own thread is never waited for here.
    assert [after - before for before, after in pairwise(marks[2:])] == [visits] * (STEPS - 2)
