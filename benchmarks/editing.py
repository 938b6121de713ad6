"""Figure `editing`: one block of a file of 5,000 lines, exactly and otherwise."""

from __future__ import annotations

import os
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import attrs
import trio

from benchmarks.report import Figure, Row, interleaved, median, seconds
from engine.core.events import SharedContext
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.named_locks import Locks
from engine.files.read_state import digest, note_read
from engine.tools.builtin.edit import EDIT, Edit
from engine.tools.call_values import ToolOutput
from engine.tools.tool_context import CallHost, ToolContext

FUNCTIONS = 1_000
ROUNDS = 15
LIMIT = 0.05
CODE = "".join(
    f"def area_{n}(width, height):\n    inner = width - {n}\n    outer = height * {n}\n\n    return inner * outer\n"
    for n in range(FUNCTIONS)
)
BLOCK = CODE.split("def ")[778].join(("def ", ""))
# What a model makes of a block that it remembers: with another indentation, with other blanks, with a word that is not there.
REQUESTS = {
    "an exact block": BLOCK,
    "a block of another indentation": textwrap.indent(BLOCK, "    "),
    "a block with other blanks": BLOCK.replace(" * ", "  *  "),
    "a block remembered wrongly": BLOCK.replace("inner = width", "inside = width").replace(
        "outer = height", "outer=height"
    ),
    "a block that is not there": BLOCK.replace("777", "7777").replace("area", "volume"),
}
FOUND = ("exact", "indentation-flexible", "whitespace-normalised", "block-anchor", "")


@attrs.frozen
class _Host:
    """All that an edit asks of the turn."""

    locks: Locks = attrs.field(factory=Locks)
    edit_reviewer: None = None

    async def about_to_change(self, paths: Sequence[str]) -> None:
        """Note nothing."""


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "areas.py")
        programs = [_editing(path, request) for request in REQUESTS.values()]
        for program in programs:  # modules are imported, files are in the cache
            program()
        *taken, base = interleaved(ROUNDS, *programs, lambda: _bare(path))
    return [_row(what, median(samples), median(base)) for what, samples in zip(REQUESTS, taken, strict=True)]


def _row(what: str, took: float, base: float) -> Row:
    return Row(
        name=f"editing: 5,000 lines, {what}",
        measured=seconds(took),
        baseline=seconds(base),
        ratio=took / base,
        target="≤ 50 ms",
        ok=took <= LIMIT,
    )


def _editing(path: Path, request: str) -> Callable[[], float]:
    """Return what makes an edit of a fresh file, and tells the seconds from the call to its result."""
    new = request.replace("return inner", "return outer +  inner")
    tier = FOUND[list(REQUESTS.values()).index(request)]

    async def edit() -> float:
        path.write_text(CODE, encoding="utf-8")  # noqa: ASYNC240  # nothing else runs
        shared = note_read(path, digest(CODE.encode()))(SharedContext(cwd=str(path.parent)))
        ctx = ToolContext(
            session_id=SessionId("ses"),
            turn_id=TurnId("turn"),
            call_id=CallId("call"),
            shared=shared,
            host=cast("CallHost", _Host()),
        )
        began = time.perf_counter()
        try:
            output = await EDIT.body(Edit(path.name, request, new), ctx)
        except Exception:  # noqa: BLE001  # the one that does not fit
            assert not tier
        else:
            assert isinstance(output, ToolOutput)
            assert f'"tier": "{tier}"' in output.metadata
        return time.perf_counter() - began

    return lambda: trio.run(edit)


def _bare(path: Path) -> float:
    """Read the file, replace an exact text, write it to another file, and rename that: what no edit can do without."""

    def work() -> None:
        text = path.read_text(encoding="utf-8")
        other = path.with_suffix(".tmp")
        with other.open("w", encoding="utf-8") as file:
            file.write(text.replace(BLOCK, BLOCK.replace("return", "yield")))
            file.flush()
            os.fsync(file.fileno())
        other.replace(path)

    async def edit() -> float:
        path.write_text(CODE, encoding="utf-8")  # noqa: ASYNC240  # nothing else runs
        began = time.perf_counter()
        await trio.to_thread.run_sync(work)
        return time.perf_counter() - began

    return trio.run(edit)


def _workload() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for request in REQUESTS.values():
            _editing(Path(folder, "areas.py"), request)()


FIGURE = Figure(
    name="editing",
    about="edits of a file of 5,000 lines, exact and not",
    measure=measure,
    workload=_workload,
)
