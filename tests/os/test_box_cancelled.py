"""A cancel while a box is tried or made leaves nothing: no process, thread, file or folder."""

import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from engine.config.sandbox_config import Sandbox
from engine.core.errors import ToolError
from engine.process.run_tree import run_tree
from engine.process.start import Launch
from engine.sandbox import backends
from engine.sandbox.backends import choose_backend
from engine.sandbox.helpers import launch_reading_helper, writing_helper
from engine.sandbox.sandbox import SandboxLauncher
from engine.sandbox.temporary import process_folder
from tests.conftest import CountRuns
from tests.os import trees
from tests.os.test_confined_bash import _CancelAtStep

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="boxes are for Linux")]

Work = Callable[[Path], Awaitable[object]]


async def choose_landlock(_: Path) -> object:
    return await choose_backend("landlock")


async def choose_bwrap(_: Path) -> object:
    return await choose_backend("bwrap")


async def run_reading_helper(folder: Path) -> object:
    return await _run(await launch_reading_helper(["ls"], folder=str(folder)), folder)


async def run_writing_helper(folder: Path) -> object:
    launcher = SandboxLauncher(Sandbox())
    helper = await writing_helper(["ls"], launcher, file=folder / "file", cwd=str(folder))
    return await helper.run(lambda: _run(helper.launch, folder))


async def start_in_sandbox(folder: Path) -> object:
    try:
        launch = await SandboxLauncher(Sandbox()).launch(["ls"], cwd=str(folder))
    except ToolError as error:
        pytest.skip(str(error))
    return await _run(launch, folder)


async def _run(launch: Launch, folder: Path) -> object:
    return await run_tree(
        launch.argv,
        cwd=str(folder),
        marker=trees.marker(),
        env={**os.environ, **launch.environment},
        confine=launch.confine,
        limits=launch.limits,
        on_output=lambda _: None,
    )


def _folders() -> set[str]:
    """Return the folders that a trial or a command makes for temporary files."""
    return {name for name in os.listdir(process_folder()) if not name.startswith(("git-", "project-"))}  # noqa: PTH208


@pytest.mark.parametrize(
    "work", [choose_landlock, choose_bwrap, run_reading_helper, run_writing_helper, start_in_sandbox]
)
async def test_cancel_at_every_step_leaves_nothing(work: Work, tmp_path: Path, count_runs: CountRuns) -> None:
    await work(tmp_path)  # what is kept for later is there
    folders, files, family = _folders(), trees.open_files(), trees.children()
    step = 0
    while True:
        step += 1
        # Otherwise nothing would be tried again.
        backends._problems.clear()
        scope = trio.CancelScope()
        instrument = _CancelAtStep(scope, step)
        trio.lowlevel.add_instrument(instrument)
        with scope:
            await work(tmp_path)
        trio.lowlevel.remove_instrument(instrument)

        def is_clean() -> bool:
            return (
                _folders() <= folders
                and trees.children() <= family
                and not trees.open_files().items() - files.items()
                and "engine: start confined" not in {thread.name for thread in threading.enumerate()}
            )

        # A trial that is cancelled ends by itself, soon.
        assert await trio.to_thread.run_sync(trees.wait_for, is_clean), (step, _folders() - folders)
        if instrument.left > 0:
            break
    assert step > 1
    count_runs(step)
