"""How the engine starts its own helper programs: confined, where that is possible."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.threads import to_thread
from engine.files.real_path import followed
from engine.process.start import Launch
from engine.sandbox.backends import choose_backend
from engine.sandbox.new_files import NewFileWatch
from engine.sandbox.reader import launch_reader
from engine.sandbox.sandbox import SandboxLauncher

T = TypeVar("T")

_IGNORE_FILES: Final = (".gitignore", ".ignore", ".rgignore")


async def launch_reading_helper(command: Sequence[str], *, folder: str) -> Launch:
    """Return how to start a program of ours that reads in *folder*. A checkpoint if a box is tried or made.

    If cancelled, nothing is left.
    """
    backend = (await choose_backend("auto")).backend
    if backend is None:
        return Launch(argv=command)
    # What it may read, the rules have decided: nothing there is hidden from it.
    return await to_thread(
        lambda: launch_reader(
            backend,
            command,
            cwd=folder,
            home=str(Path.home()),
            hidden=(),
            extra=(folder, str(Path(command[0]).resolve()), *_ignore_files_above(folder)),
        )
    )


@attrs.frozen
class WritingHelper:
    """A program of the user's that changes files of the project, and obeys the project's settings.

    Attributes:
        launch: how to start it.
    """

    launch: Launch
    _watch: NewFileWatch | None = None

    async def run(self, program: Callable[[], Awaitable[T]]) -> T:
        """Run it. A checkpoint; if cancelled, files that it has made and that run later are renamed, as always."""
        return await (program() if self._watch is None else self._watch.run(program, _keep_nothing))

    @property
    def problem(self) -> str:
        """What it made and must not; empty if there is nothing."""
        if self._watch is None or not self._watch.renamed:
            return ""
        names = self._watch.describe(self._watch.renamed)
        return f"it made files that other programs run or obey by themselves later, which now are {names}"


async def _keep_nothing(_: Sequence[str]) -> bool:
    await trio.lowlevel.checkpoint()
    return False


async def writing_helper(
    command: Sequence[str], launcher: SandboxLauncher | None, *, file: Path, cwd: str
) -> WritingHelper:
    """Return how to start a program that changes *file*, or works in the folder *file*.

    It runs in the sandbox of *launcher* if there is one that works, and that lets it change *file*. Always a checkpoint;
    leaves nothing if cancelled.
    """
    if launcher is not None and (await choose_backend("bwrap")).backend is not None:
        # There is none for a folder that is no project, and none in which a file outside can be changed.
        with suppress(ToolError):
            launch = await launcher.launch(command, cwd=cwd, changing=file)
            watch = await to_thread(lambda: NewFileWatch.begin(cwd, ignored=followed(str(file))))
            return WritingHelper(launch, watch)
    await trio.lowlevel.checkpoint()
    return WritingHelper(Launch(argv=command))


def _ignore_files_above(folder: str) -> list[str]:
    """Return the ignore files in the folders above, which ripgrep obeys."""
    return [str(above / name) for above in Path(followed(folder)).parents for name in _IGNORE_FILES]
