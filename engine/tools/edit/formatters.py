"""Formatters before an edit is written, checkers and diagnostics after it. All are bounded in time.

A formatter works on a copy, in a new folder next to the file, where it finds the same
configuration. So an edit and its formatting reach the file in one step: it is never
seen, and a cancel or a timeout never leaves it, half formatted. A formatter that
fails is a note to the model; the edit is made without it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.config.formatter_config import FileProgram, is_time
from engine.core.exception_groups import describe
from engine.core.threads import to_thread
from engine.files.staging import make_copy_folder, remove_copy_folder
from engine.process.run_tree import FinishedProcess, run_tree
from engine.sandbox.helpers import writing_helper
from engine.sandbox.sandbox import SandboxLauncher
from engine.tools.call_values import GRACE
from engine.tools.edit.checkers import check
from engine.tools.edit.memory_limit import limit_memory
from engine.tools.shell_environment import marker
from engine.tools.tool_context import EditDiagnostics, ToolContext

# Returns the errors in an edited file as text for the model; empty if there are none.
Diagnose = Callable[[str], Awaitable[str]]

_SHOWN_BYTES: Final = 2_000
_PROCESS_GRACE: Final = 0.8 * GRACE
# About 2,000 tokens: the first errors explain most of the others.
_DIAGNOSTICS_CHARS: Final = 8_000


@attrs.frozen(kw_only=True)
class EditChecks:
    """The programs that run around each edit.

    Attributes:
        formatters: run in order on each matching file before it is written.
        checkers: run in order on each matching file after it was written; the model reads their output.
        diagnostics: called for each changed file, or an object that checks all files of an edit at once.
        diagnose_timeout: seconds for all of that together.
        launcher: the sandbox that formatters and checkers run in, if it works here; None: they run in none.
    """

    formatters: tuple[FileProgram, ...] = ()
    checkers: tuple[FileProgram, ...] = ()
    diagnostics: Diagnose | EditDiagnostics | None = None
    diagnose_timeout: float = attrs.field(default=5.0, validator=is_time)
    launcher: SandboxLauncher | None = None

    async def format(self, path: Path, data: bytes, ctx: ToolContext) -> tuple[bytes, tuple[str, ...]]:
        """Return *data*, the new content of *path*, after formatting, and notes. A checkpoint if a formatter matches.

        If cancelled, no process and no copy is left behind.
        """
        notes: list[str] = []
        for formatter in self.formatters:
            if formatter.is_for(path.name):
                after = await _run(formatter, path, data, ctx, self.launcher)
                if isinstance(after, str):
                    notes.append(f"[{formatter.name} has not formatted {path.name}: {after}]")
                elif after != data:
                    notes.append(f"[{formatter.name} has formatted {path.name}]")
                    data = after
        return data, tuple(notes)

    def has_checks(self, path: Path) -> bool:
        """Return whether a file of that name is checked after an edit."""
        if isinstance(self.diagnostics, EditDiagnostics) and self.diagnostics.has_checks(path.name):
            return True
        return callable(self.diagnostics) or any(checker.is_for(path.name) for checker in self.checkers)

    async def diagnose(self, paths: Sequence[Path], ctx: ToolContext) -> str:
        """Return the errors in changed files. A checkpoint if anything checks them.

        Raises nothing ordinary; if cancelled, no process is left behind.
        """
        reports: list[str] = []
        for checker in self.checkers:
            if matching := [path for path in paths if checker.is_for(path.name)]:
                reports += await check(checker, matching, ctx, self.launcher)
        if self.diagnostics is not None:
            reports += await _host_diagnostics(self.diagnostics, paths, ctx, self.diagnose_timeout)
        text = "\n".join(part.strip() for part in reports if part.strip())
        return (
            text
            if len(text) <= _DIAGNOSTICS_CHARS
            else f"{text[:_DIAGNOSTICS_CHARS]}\n[more diagnostics are not shown]"
        )


async def _host_diagnostics(
    diagnose: Diagnose | EditDiagnostics, paths: Sequence[Path], ctx: ToolContext, timeout: float
) -> list[str]:
    """Return the host's diagnostics, as far as its time allows. A checkpoint if its function is one."""
    reports: list[str] = []
    with trio.move_on_after(timeout) as scope:  # noqa: ASYNC912  # the host's code is the cancel point
        try:
            if isinstance(diagnose, EditDiagnostics):
                return [await diagnose.check(paths, ctx)]
            for path in paths:
                reports.append(await diagnose(str(path)))  # noqa: PERF401  # what came in time is kept
        except Exception as error:  # noqa: BLE001  # the host's own code; the edit is made and must be reported
            reports.append(f"[diagnostics failed: {describe(error)}]")
    if scope.cancelled_caught:
        reports.append(f"[diagnostics took longer than {timeout:g} s]")
    return reports


async def _run(
    formatter: FileProgram, path: Path, data: bytes, ctx: ToolContext, launcher: SandboxLauncher | None
) -> bytes | str:
    """Return a formatted copy of *data*, or why there is none. Always a checkpoint; leaves nothing if cancelled."""
    try:
        # Not abandoned on cancel: the folder would stay in the user's project. It is one small file.
        folder = await to_thread(_copy_near, path, data, abandon_on_cancel=False)
    except OSError as error:
        return f"no copy of it could be made ({error.strerror})"
    try:
        return await _run_on_copy(formatter, folder / path.name, ctx, launcher)
    finally:
        # Synchronously, since nothing can be awaited in a cancelled scope. It is one small file.
        remove_copy_folder(folder)


async def _run_on_copy(
    formatter: FileProgram, copy: Path, ctx: ToolContext, launcher: SandboxLauncher | None
) -> bytes | str:
    """Return a file's content after the formatter, or why it failed. Always a checkpoint; a cancel ends it."""
    kept = bytearray()
    try:
        # On a copy: a formatter that fails half-way must not leave a broken file.
        command = await ctx.to_thread(partial(limit_memory, formatter.argv(str(copy)), formatter.memory, cwd=ctx.cwd))
        helper = await writing_helper(command, launcher, file=copy, cwd=ctx.cwd)
        finished = await helper.run(
            lambda: run_tree(
                helper.launch.argv,
                confine=helper.launch.confine,
                limits=helper.launch.limits,
                cwd=ctx.cwd,
                marker=marker(ctx.session_id, ctx.call_id),
                env=ctx.secrets.without(os.environ),
                on_output=lambda chunk: kept.extend(chunk[: max(0, _SHOWN_BYTES - len(kept))]),
                timeout=formatter.timeout,
                grace=_PROCESS_GRACE,
            )
        )
    except (OSError, ValueError) as error:
        return f"it could not be started ({error})"
    if helper.problem:
        return helper.problem
    if finished.timed_out:
        return f"it took longer than {formatter.timeout:g} s"
    if finished.exit_code != 0:
        # The copy's path means nothing to the model.
        return _failure(finished, kept.decode(errors="replace").replace(str(copy), copy.name))
    try:
        formatted = await ctx.to_thread(copy.read_bytes)
        formatted.decode()
    except (OSError, UnicodeDecodeError) as error:
        return f"what it made can't be read ({error})"
    return formatted


def _failure(finished: FinishedProcess, output: str) -> str:
    how = f"exit code {finished.exit_code}" if finished.signal is None else f"signal {finished.signal}"
    return f"{how}: {output.strip()}" if output.strip() else how


def _copy_near(path: Path, data: bytes) -> Path:
    """Return a new folder near *path* with a file of the same name, which contains *data*.

    Near it, because formatters search the parent folders for their configuration.
    """
    near = next(folder for folder in path.parents if folder.is_dir())
    folder = make_copy_folder(near)
    try:
        (folder / path.name).write_bytes(data)
    except OSError:
        remove_copy_folder(folder)
        raise
    return folder
