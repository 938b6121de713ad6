"""Runs commands of the user's own, which begin with `!`: no rule is asked, as it is the user who types them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Final

import attrs
import trio

from engine.core.ids import CallId, SessionId
from engine.process.run_tree import FinishedProcess, run_tree
from engine.tools.shell_environment import marker

# Half of it is for the command to end by itself, before it is killed.
_GRACE: Final = 4.0


@attrs.define(eq=False)
class UserShell:
    """Runs one command at a time, in the user's shell.

    Attributes:
        folder: returns the folder where commands run.
        session_id: the session whose mark the processes carry.
        remark: where they run, if that may surprise.
    """

    folder: Callable[[], str]
    session_id: SessionId
    remark: str = ""
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    async def run(self, command: str, on_output: Callable[[bytes], None]) -> str:
        """Run a command to its end; return how it ended. A checkpoint; if cancelled, all its processes are ended."""
        shell = os.environ.get("SHELL") or "/bin/sh"
        self._scope = trio.CancelScope()
        finished: list[FinishedProcess] = []
        with self._scope:
            try:
                await run_tree(
                    [shell, "-c", command],
                    cwd=self.folder(),
                    marker=marker(self.session_id, CallId(f"user_{secrets.token_hex(4)}")),
                    on_output=on_output,
                    grace=_GRACE,
                    on_finish=finished.append,
                )
            except OSError as error:
                return f"can't run {shell}: {error.strerror}"
        return _status(finished[0]) if finished else "stopped"

    def stop(self) -> None:
        """End the command that runs, with all its processes. Not a checkpoint."""
        self._scope.cancel(reason="the user stops the command")


def _status(finished: FinishedProcess) -> str:
    left = "" if finished.ended else "; some of its processes are left"
    if finished.cause == "cancel":
        return f"stopped{left}"
    if finished.signal is not None:
        return f"ended by signal {finished.signal}{left}"
    return f"exit {finished.exit_code}{left}"
