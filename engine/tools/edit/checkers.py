"""Checkers: programs that report errors in edited files, with bounded time and output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from engine.config.formatter_config import FileProgram
from engine.process.run_tree import run_tree
from engine.sandbox.helpers import writing_helper
from engine.sandbox.sandbox import SandboxLauncher
from engine.tools.call_values import GRACE
from engine.tools.edit.memory_limit import limit_memory
from engine.tools.shell_environment import marker
from engine.tools.tool_context import ToolContext

_SHOWN_BYTES: Final = 8_000
_PROCESS_GRACE: Final = 0.8 * GRACE


async def check(
    checker: FileProgram, paths: Sequence[Path], ctx: ToolContext, launcher: SandboxLauncher | None = None
) -> list[str]:
    """Return the reports of *checker*, as far as its time allows. Always a checkpoint; a cancel ends its processes.

    With exit code 0 a file counts as correct, no matter what the checker prints.
    """
    reports: list[str] = []
    deadline = trio.current_time() + checker.timeout
    for path in paths:
        kept = bytearray()

        def keep(chunk: bytes, kept: bytearray = kept) -> None:
            kept.extend(chunk[: max(0, _SHOWN_BYTES + 1 - len(kept))])

        try:
            command = await ctx.to_thread(partial(limit_memory, checker.argv(str(path)), checker.memory, cwd=ctx.cwd))
            # It reads the file only, but may keep a cache.
            helper = await writing_helper(command, launcher, file=path.parent, cwd=ctx.cwd)
            start = partial(
                run_tree,
                helper.launch.argv,
                confine=helper.launch.confine,
                limits=helper.launch.limits,
                cwd=ctx.cwd,
                marker=marker(ctx.session_id, ctx.call_id),
                env=ctx.secrets.without(os.environ),
                on_output=keep,
                timeout=max(0.0, deadline - trio.current_time()),
                grace=_PROCESS_GRACE,
            )
            finished = await helper.run(start)
        except (OSError, ValueError) as error:
            return [*reports, f"[{checker.name} has not checked {path.name}: it could not be started ({error})]"]
        if helper.problem:
            reports.append(f"[{checker.name} on {path.name}: {helper.problem}]")
        if finished.timed_out:
            return [
                *reports,
                f"[{checker.name} has not checked {path.name}: it took longer than {checker.timeout:g} s]",
            ]
        if finished.exit_code != 0:
            how = f"exit code {finished.exit_code}" if finished.signal is None else f"signal {finished.signal}"
            more = "\n[more output is not shown]" if len(kept) > _SHOWN_BYTES else ""
            output = kept[:_SHOWN_BYTES].decode(errors="replace").replace("\0", "\ufffd").strip() or "(no output)"
            reports.append(f"[{checker.name} on {path.name}: {how}]\n{output}{more}")
    return reports
