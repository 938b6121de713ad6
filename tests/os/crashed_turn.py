"""A program that is killed in the middle of a turn: `python -m tests.os.crashed_turn ROOT STORE SNAPSHOTS`."""

import sys
from pathlib import Path

import trio

import engine
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.testing.script import call, done
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.bash import BASH


async def main(root: Path, store: Path, kept: Path) -> None:
    """Change a file at once, another one later, and wait to be killed."""
    command = "echo 2 > early; sleep 0.3; echo 2 > late; touch ready; sleep 10"
    model = ScriptedProvider([[*call("bash", {"command": command}, id="1"), *done("calls")]])
    snapshots = ProjectSnapshots(folder=kept)
    async with engine.open_engine(
        model=model,
        tools=(BASH,),
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        files=FileOptions(snapshots=snapshots),
    ) as eng:
        session = await eng.create_session(cwd=root)
        print(session.id, flush=True)
        await session.run("go")


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
