"""Where facts of the status line come from that no event tells: the model's limits, the branch, the user's own program."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.cli.chat.machine.status_facts import StatusFacts
from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.config.config import Config
from engine.core.errors import EngineError
from engine.core.llm_types import ModelInfo
from engine.core.threads import to_thread
from engine.process.run_tree import run_tree

# How long the user's program may take, and how often it is asked at most.
_COMMAND_SECONDS: Final = 0.3
_PAUSE_SECONDS: Final = 1.0
_MAX_BYTES: Final = 10_000
_BRANCH: Final = "ref: refs/heads/"


@attrs.define(eq=False)
class StatusSources:
    """Keeps facts up to date."""

    _facts: StatusFacts
    _config: Config
    _session_id: Callable[[], str]
    _folder: Callable[[], str]
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _model: str = attrs.field(default="", init=False)
    _told: bytes = attrs.field(default=b"", init=False)

    def note_change(self) -> None:
        """Note that something may have changed. Not a checkpoint."""
        self._changed.set()

    async def run(self, redraw: Callable[[], None]) -> None:
        """Look again after each change, until cancelled; *redraw* is called if a fact is another. A checkpoint."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            if await self._update():
                redraw()
            await trio.sleep(_PAUSE_SECONDS)

    async def _update(self) -> bool:
        """Update the facts; return whether one is another. A checkpoint."""
        facts = self._facts
        before = (facts.info, facts.branch, facts.custom)
        folder = self._folder()
        facts.branch = await to_thread(read_branch, Path(folder))
        if facts.model != self._model:
            self._model = facts.model
            facts.info = await to_thread(_info, facts.model, self._config)
        if self._config.chat.status_command:
            await self._run_command(folder)
        return before != (facts.info, facts.branch, facts.custom)

    async def _run_command(self, folder: str) -> None:
        """Ask the user's program, unless it was asked about the same facts before. A checkpoint if it is asked."""
        data = self._as_json(folder)
        if data == self._told:
            return
        self._told = data
        line = await _first_line(self._config.chat.status_command, data, folder)
        if line:
            self._facts.custom = line

    def _as_json(self, folder: str) -> bytes:
        facts = self._facts
        document = {
            "session_id": self._session_id(),
            "state": "idle" if facts.turn_since is None else "busy",
            "model": facts.model,
            "effort": facts.effort or None,
            "agent": facts.agent or None,
            "profile": facts.profile,
            "folder": folder,
            "branch": facts.branch or None,
            "title": facts.title or None,
            "context": {"used": facts.used, "window": None if facts.info is None else facts.info.context},
            "cost": {"usd": facts.cost if facts.cost or not facts.used else None, "limit": facts.setup.cost_limit},
            "jobs": facts.jobs,
        }
        return json.dumps(document).encode()


async def _first_line(command: tuple[str, ...], data: bytes, folder: str) -> str:
    """Return the first line that a program prints; empty if it fails or takes too long. A checkpoint."""
    found = bytearray()

    def take(chunk: bytes) -> None:
        # One that prints without an end is read until its time is over, but not kept.
        if len(found) < _MAX_BYTES:
            found.extend(chunk)

    try:
        finished = await run_tree(
            list(command),
            cwd=folder,
            marker=f"status/{secrets.token_hex(4)}",
            input=data,
            on_output=take,
            on_errors=lambda _: None,
            timeout=_COMMAND_SECONDS,
        )
    except OSError:
        return ""
    lines = found[:_MAX_BYTES].decode(errors="replace").splitlines() if finished.exit_code == 0 else []
    return escape_on_one_line(lines[0]) if lines else ""


def _info(model: str, config: Config) -> ModelInfo | None:
    """Return the model's limits and prices; None: they are not known. It blocks."""
    # Imported here: the tables of models take long to import.
    from engine.providers.models.catalog import info_of

    try:
        info = info_of(model, config=config)
    except EngineError:
        return None
    return info if info.is_known else None


def read_branch(folder: Path) -> str:
    """Return the branch that is checked out, or the beginning of a commit; empty outside of git. It blocks."""
    for parent in (folder, *folder.parents):
        try:
            text = _head(parent / ".git")
        except (OSError, UnicodeDecodeError):
            continue
        return text.removeprefix(_BRANCH) if text.startswith(_BRANCH) else text[:8]
    return ""


def _head(path: Path) -> str:
    """Return what `.git` has checked out; in a further working tree, it is a file. It blocks. Raises `OSError`."""
    if path.is_file():
        path = path.parent / path.read_text().removeprefix("gitdir:").strip()
    return (path / "HEAD").read_text().strip()
