"""An edit of a text that an editor holds unsaved, cancelled at any instant: the report says what may have happened."""

from pathlib import Path

import attrs
import trio

from engine.tools.builtin.edit import EDIT, Edit
from engine.tools.tool_context import ToolContext
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.needs import output_of
from tests.support.reading import having_read
from tests.tools.conftest import Listener

# Of the file on disk, and in the editor, before the edit and after.
SAVED, HELD, EDITED = "two\n", "half\ntwo\n", "half\nTWO\n"


@attrs.define
class SlowEditor:
    """An editor with checkpoints before and after what it does."""

    path: Path
    held: str = HELD
    has_begun: bool = False

    async def read(self, path: str) -> str | None:
        await trio.lowlevel.checkpoint()
        held = self.held
        await trio.lowlevel.checkpoint()
        return held

    async def write(self, path: str, text: str) -> str:
        self.has_begun = True
        await trio.lowlevel.checkpoint()
        self.held = text
        self.path.write_text(text)
        await trio.lowlevel.checkpoint()
        return ""


def test_edit_in_editor_cancelled_at_any_step(
    tmp_path: Path, ctx: ToolContext, listener: Listener, count_runs: CountRuns
) -> None:
    path = tmp_path / "b.txt"

    async def edit(at: CancelAt, editor: SlowEditor) -> bool:
        listener.editor = editor
        listener.shown.clear()
        path.write_text(HELD)
        reader = having_read(ctx, "b.txt")
        path.write_text(SAVED)
        with at.scope() as scope:
            await output_of(EDIT, Edit("b.txt", "two", "TWO"), reader)
        return not scope.cancelled_caught

    def once(step: int | None) -> CancelAt:
        at, editor = CancelAt(step), SlowEditor(path)
        is_reported = trio.run(edit, at, editor, instruments=[at])
        if is_reported:
            assert (path.read_text(), editor.held) == (EDITED, EDITED)
        elif editor.has_begun:
            assert "Whether it did is not known" in "".join(listener.shown)
        else:
            assert (path.read_text(), editor.held) == (SAVED, HELD)
        return at

    steps = once(None).steps
    assert steps > 20, steps
    for step in range(steps):
        once(step)
    count_runs(steps)
