"""How to take a turn back, with the files that it changed."""

import tempfile
from pathlib import Path

import trio

import engine
from engine.errors import UndoConflict
from engine.options import FileOptions, PermissionOptions
from engine.permission import AllowAll
from engine.snapshots import ProjectSnapshots
from engine.testing import ScriptedProvider, call, done, text
from engine.tools import BASH

SCRIPT = [
    [
        *call("bash", {"command": "echo 'def area(r): return 3 * r * r' > area.py; rm notes.txt"}, id="1"),
        *done("calls"),
    ],
    [*text("Rounded, and tidied up."), *done()],
]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        project.mkdir()  # noqa: ASYNC240  # nothing else runs
        (project / "area.py").write_text("def area(r): return 3.14 * r * r\n")
        (project / "notes.txt").write_text("Pi is more than 3.\n")
        async with engine.open_engine(
            model=ScriptedProvider(SCRIPT),
            tools=[BASH],
            permissions=PermissionOptions(approver=AllowAll()),
            # Without a folder: the user's own.
            files=FileOptions(snapshots=ProjectSnapshots(folder=Path(folder, "snapshots"))),
        ) as eng:
            session = await eng.create_session(cwd=project)
            await session.run("Make it simpler.")
            for diff in await session.files.diff():
                print(diff.text, end="")

            undone = await session.files.undo()
            print("undone:", undone.prompt, undone.files, len(session.state.transcript))

            redone = await session.files.redo()
            print("redone:", redone.files, len(session.state.transcript))

            # Another program continues to work.
            (project / "area.py").write_text("import math\n")
            try:
                await session.files.undo()
            except UndoConflict as error:
                print("not undone:", error.paths)

            print("restored:", await session.files.restore(["notes.txt"]))


if __name__ == "__main__":
    trio.run(main)
