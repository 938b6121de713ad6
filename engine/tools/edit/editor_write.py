"""Change a file whose text the user's editor holds unsaved: the editor does it, and the disk tells whether it has."""

from __future__ import annotations

from pathlib import Path

import attrs

from engine.core.errors import OutcomeUnknown, ToolError
from engine.files.text_files import read_data
from engine.tools.edit.atomic_write import FileChange, commit
from engine.tools.edit.source_text import unix
from engine.tools.editor_files import EditorFiles, UnsavedText
from engine.tools.tool_context import ToolContext


@attrs.frozen
class EditorAnswer:
    """What the editor says of a change.

    Attributes:
        problem: why it has not made it; empty: it has.
        is_unchanged: whether it still holds what it held before.
    """

    problem: str = ""
    is_unchanged: bool = False


@attrs.frozen
class WrittenText:
    """What is on disk after a change, and notes for the model."""

    data: bytes
    notes: tuple[str, ...] = ()


async def change_in_editor(
    editor: EditorFiles, shown: str, held: UnsavedText, after: bytes, ctx: ToolContext
) -> EditorAnswer:
    """Let the editor replace a text that it holds unsaved. A checkpoint; if cancelled, the report says that it may have.

    Raises `ToolError` if it holds another text by now.
    """
    name = held.saved.name
    # Formatters may have taken a while, and the user is typing.
    if await editor.read(name) != held.shown:
        raise ToolError(
            f"{shown} has changed in the user's editor in the meantime. Read it again; nothing was changed."
        )
    ctx.progress(
        output=f"{shown} has unsaved changes in the user's editor, which was asked to change it. Whether it did is not "
        "known: read it again.\n"
    )
    problem = await editor.write(name, held.sent(after))
    return EditorAnswer(problem, is_unchanged=await editor.read(name) == held.shown) if problem else EditorAnswer()


def verified(shown: str, held: UnsavedText, after: bytes, answer: EditorAnswer) -> WrittenText:
    """Return what is on disk now; save it there if the editor has changed, but not saved it. It blocks.

    Raises `ToolError` if nothing was changed, and `OutcomeUnknown` if that is not certain.
    """
    path = Path(held.saved.path)
    on_disk = read_data(shown, path)
    if on_disk == after:
        return WrittenText(after)
    if answer.problem and answer.is_unchanged and on_disk == held.saved.data:
        raise ToolError(
            f"{shown} has unsaved changes in the user's editor, which did not take this one: {answer.problem}. Nothing was "
            "changed. Ask the user to save the file."
        )
    if answer.problem:
        state = "as it was on disk" if on_disk == held.saved.data else "another one on disk than before"
        raise OutcomeUnknown(
            f"{shown} has unsaved changes in the user's editor, and whether that has made this one is not known: "
            f"{answer.problem}. The text is {state}. Read it again."
        )
    if on_disk == held.saved.data:
        notes = commit([FileChange(shown=shown, path=path, before=on_disk, after=after)])
        return WrittenText(after, ("[the editor had not saved it, so it was saved on disk]", *notes))
    if unix(on_disk.decode(errors="replace")) == unix(after.decode(errors="replace")):
        return WrittenText(on_disk)
    return WrittenText(
        on_disk, ("[the editor has saved another text, by its formatter perhaps; this is what is on disk]",)
    )
