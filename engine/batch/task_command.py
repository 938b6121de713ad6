"""Runs the command lines of a task's author: `setup` before the turn, and `check` after it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

import attrs

from engine.batch.batch_task import TaskCommand
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.process.crash_cleanup import owned
from engine.process.run_tree import FinishedProcess, run_tree
from engine.process.secret_names import SecretVariables
from engine.tools.shell_environment import argv, ending_of, environment

# What a command writes beyond this is dropped: a test in a loop fills a disk.
MAX_LOG_BYTES: Final = 10_485_760
_TAIL_BYTES: Final = 1_500


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CommandEnd(Value):
    """How a command ended.

    Attributes:
        finished: what became of its processes.
        tail: the end of what it wrote.
        timeout: the seconds that it could take.
    """

    finished: FinishedProcess
    tail: str
    timeout: float

    @property
    def is_good(self) -> bool:
        """Whether it exited with 0 by itself."""
        return self.finished.exit_code == 0 and self.finished.cause == "exit"

    @property
    def text(self) -> str:
        """How it ended, and the end of what it wrote."""
        ending = ending_of(self.finished, self.timeout)
        return f"{ending}: {self.tail}" if self.tail else ending


async def run_task_command(
    command: TaskCommand, *, folder: str, env: Iterable[tuple[str, str]], log: Path, secrets: SecretVariables
) -> CommandEnd:
    """Run a command line in *folder*, and write what it prints to *log*. Always a checkpoint.

    If cancelled, all of its processes are ended. It gets the environment of the engine without secrets, and *env*. Raises
    `OSError` if it can't be started, or if the log can't be written.
    """
    file = await to_thread(_open, log)
    with file:
        sink = _Log(file)
        finished = await run_tree(
            argv(command.command),
            cwd=folder,
            marker=owned(f"batch-{uuid4().hex}"),
            on_output=sink.feed,
            env={**environment(secrets), **dict(env)},
            timeout=command.timeout,
        )
    return CommandEnd(finished=finished, tail=sink.tail, timeout=command.timeout)


def _open(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb")


@attrs.define(eq=False, repr=False)
class _Log:
    """The beginning of what a command writes, in a file, and its end in memory."""

    _file: BinaryIO
    _written: int = attrs.field(default=0, init=False)
    _end: bytes = attrs.field(default=b"", init=False)

    def feed(self, chunk: bytes) -> None:
        """Take a chunk. It blocks, as long as writing to the page cache does."""
        kept = chunk[: max(0, MAX_LOG_BYTES - self._written)]
        self._file.write(kept)
        self._written += len(kept)
        self._end = (self._end + chunk)[-_TAIL_BYTES:]

    @property
    def tail(self) -> str:
        """The end, as text."""
        return self._end.decode(errors="replace").strip()
