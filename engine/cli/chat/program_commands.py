"""Slash commands that other commands of the program answer: each is run as a process, and its output printed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.cli.chat.command_result import CommandResult, printed
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.core.errors import ConfigError
from engine.core.threads import to_thread

_SECONDS: Final = 60.0
_FORMATS: Final = {".md": "markdown", ".html": "html", ".json": "json"}
_INIT: Final = (
    "Look at this project: its layout, how it is built, tested and run, and the conventions that its code follows. "
    "Then write AGENTS.md at its root, for an agent that works here for the first time: commands that work as pasted, "
    "where things are, and rules that can't be seen from one file. At most 60 lines. If there is an AGENTS.md, improve it."
)
_REVIEW: Final = (
    "Review {what}. Look for errors, missing cases, missing tests and unclear code, in this order. Change nothing. For "
    "each finding give the file and line, what goes wrong, and what to do. Say so if there is nothing to find."
)
_BUG: Final = (
    "A report needs: what you did, what you expected, and what happened.",
    "Write the facts about this machine, without keys: engine doctor --bundle",
)
_EXPORT: Final = "The session can be added, once you have reviewed it: /export session.html"
_EXPORT_THERE: Final = "The session can be added, once you have reviewed it: at the server, engine sessions export ID"


@attrs.frozen
class ProgramCommands:
    """Runs them in the user's folder.

    Attributes:
        folder: returns the folder.
        store: where sessions are, if they are here; empty: they are at a server.
    """

    folder: Callable[[], str]
    store: str = ""

    async def config(self, argument: str) -> CommandResult:
        """Show what differs from the defaults. A checkpoint."""
        return await self._run("config", *argument.split())

    async def doctor(self, argument: str) -> CommandResult:
        """Examine the installation. A checkpoint."""
        return await self._run("doctor", *argument.split())

    async def permissions(self, argument: str) -> CommandResult:
        """Show, explain or revoke what is allowed in the project. A checkpoint."""
        return await self._run("permissions", *argument.split())

    async def mcp(self, argument: str) -> CommandResult:
        """List the MCP servers, with what is known of them. A checkpoint."""
        del argument
        return await self._run("mcp", "list")

    async def bug(self, argument: str) -> CommandResult:
        """Say how to report a problem. A checkpoint."""
        del argument
        await trio.lowlevel.checkpoint()
        return CommandResult(lines=(*_BUG, _EXPORT if self.store else _EXPORT_THERE))

    async def init(self, argument: str) -> CommandResult:
        """Let the model describe the project. A checkpoint."""
        await trio.lowlevel.checkpoint()
        return CommandResult(prompt=f"{_INIT} {argument}".strip())

    async def review(self, argument: str) -> CommandResult:
        """Let the model review changes. A checkpoint."""
        await trio.lowlevel.checkpoint()
        what = argument or "the changes in this working tree that are not committed (git diff HEAD, and new files)"
        return CommandResult(prompt=_REVIEW.format(what=what))

    async def export(self, session_id: str, argument: str) -> CommandResult:
        """Write a session to a file. A checkpoint. Raises `ConfigError`."""
        name, *flags = argument.split() or [""]
        target = self._target(name)
        form = _FORMATS.get(target.suffix.lower())
        if form is None or flags not in ([], ["force"]):
            raise ConfigError("the name must end with .md, .html or .json\nNext: /export FILE [force]")
        # Two programs would write it at the same time otherwise.
        if await to_thread(target.exists) and not flags:
            raise ConfigError(f"{name} exists already\nNext: /export {name} force")
        words = ["--format", form, "--output", str(target), "--store", self.store, *(["--force"] if flags else [])]
        return await self._run("sessions", "export", session_id, *words, done=f"Written: {target}")

    def _target(self, name: str) -> Path:
        return Path(self.folder(), os.path.expanduser(name))  # noqa: PTH111  # a home that is unknown is no failure

    async def _run(self, *words: str, done: str = "") -> CommandResult:
        """Run `engine WORDS`; return what it printed. A checkpoint; if cancelled, it is ended."""
        with trio.move_on_after(_SECONDS):
            result = await trio.run_process(
                # -P: a project's `engine.py`, or its `json.py`, must not be what runs.
                [sys.executable, "-P", "-m", "engine", *words],
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                check=False,
                cwd=self.folder(),
                # Inherited as it is, the environment has lost its keys: see `own_environment`.
                env=os.environ,
            )
            text = escape_control_chars(result.stdout.decode(errors="replace"))
            return printed(text or (done if result.returncode == 0 else f"It ended with {result.returncode}."))
        return printed(f"engine {' '.join(words[:2])} took longer than {_SECONDS:g} s.")
