"""The slash commands for a session of this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, final

from engine.cli.chat.command_result import CommandResult, NextSession, printed
from engine.cli.chat.machine.picker import PickerItem, PickerRequest
from engine.cli.chat.state_commands import CommandHandler, StateCommands, file_lines
from engine.cli.flags.store_flags import resolve_session
from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line, one_line
from engine.config.config import Config
from engine.core.errors import ConfigError, NothingToUndo
from engine.export.format_cost import format_cost
from engine.journal.state import SessionState
from engine.permission.rules.profiles import PROFILES
from engine.session.engine import Engine
from engine.session.session import Session
from engine.store.store_protocols import FullStore, SessionQuery

_MAX_SESSIONS: Final = 1_000


@final
class SessionCommands(StateCommands):
    """Runs the commands of one chat."""

    def __init__(self, engine: Engine, session: Session, store: FullStore, config: Config) -> None:
        """Make it."""
        self._engine = engine
        self._session = session
        self._store = store
        self._config = config
        super().__init__(config)

    @property
    def state(self) -> SessionState:
        """The session's state."""
        return self._session.state

    def changes(self) -> Mapping[str, CommandHandler]:
        """Return what changes the session, and what only its engine knows."""
        return {
            "model": self._model,
            "profile": self._profile,
            "context": self._context,
            "compact": self._compact,
            "diff": self._diff,
            "undo": self._undo,
            "redo": self._redo,
            "resume": self._resume,
            "new": self._new,
            "fork": self._fork,
            "rename": self._rename,
            "jobs": self._jobs,
            "queue": self._queue,
        }

    # -- the session -----------------------------------------------------------------------------

    async def _model(self, argument: str) -> CommandResult:
        if not argument:
            return CommandResult(picker=await self._models())
        await self._session.switch_model(argument)
        return CommandResult()

    async def _models(self) -> PickerRequest:
        # Imported here: the tables of models take long to import.
        from engine.cli.models import report_hosts

        reports = await report_hosts(os.environ, self._config, None)
        names = [info.name for report in reports if not report.why_not for info in report.models]
        return PickerRequest("model", "Model", tuple(PickerItem(name, name) for name in names))

    async def _profile(self, argument: str) -> CommandResult:
        if not argument:
            return CommandResult(picker=PickerRequest("profile", "Profile", tuple(PickerItem(p, p) for p in PROFILES)))
        await self._engine.use_profile(self._session, argument)
        return CommandResult()

    async def _rename(self, argument: str) -> CommandResult:
        if not argument:
            raise ConfigError("the title is missing. Next: /rename TITLE")
        await self._session.rename(argument)
        return printed("Renamed.")

    async def _context(self, argument: str) -> CommandResult:
        del argument
        return printed(escape_control_chars(self._session.context.report().as_text()))

    async def _compact(self, argument: str) -> CommandResult:
        await self._session.context.compact(argument)
        return CommandResult()

    async def _jobs(self, argument: str) -> CommandResult:
        jobs = self._session.background.jobs
        if argument.startswith("stop "):
            name = argument.removeprefix("stop ").strip()
            if name not in {job.name for job in jobs.all()}:
                raise ConfigError(f"unknown job {name!r}. Next: /jobs")
            jobs.get(name).stop()
            return printed(f"Stopping {escape_on_one_line(name)}.")
        lines = [f"  {job.name}  {job.state}  {one_line(job.command, 200)}" for job in jobs.all()]
        return CommandResult(lines=tuple(map(escape_control_chars, lines)) or ("No background commands.",))

    async def _queue(self, argument: str) -> CommandResult:
        waiting = [item for item in self._session.inputs.waiting if item.message.origin != "engine"]
        if argument.startswith("remove "):
            number = argument.removeprefix("remove ").strip()
            if not (number.isascii() and number.isdigit() and 0 < int(number) <= len(waiting)):
                raise ConfigError(f"the queue has {len(waiting)} messages. Next: /queue remove NUMBER")
            self._session.inputs.remove(waiting[int(number) - 1].input_id)
            return printed("Removed.")
        lines = [f"  {number}  {one_line(item.message.text, 200)}" for number, item in enumerate(waiting, 1)]
        return CommandResult(lines=tuple(lines) or ("No messages wait.",))

    # -- files -----------------------------------------------------------------------------------

    async def _diff(self, argument: str) -> CommandResult:
        del argument
        return printed(escape_control_chars(await self.diff_text()) or "No file was changed.")

    async def diff_text(self) -> str:
        """Return the newest turn's changes of files. A checkpoint. Raises `EngineError`."""
        try:
            diffs = await self._session.files.diff()
        except NothingToUndo:
            diffs = ()
        return "".join(diff.text for diff in diffs)

    async def _undo(self, argument: str) -> CommandResult:
        undone = await self._session.files.undo(force=argument == "force")
        lines = [*file_lines("Restored", undone.files), *file_lines("No snapshot, left as it is", undone.left)]
        lines += [f"No file was changed: {undone.note}"] if undone.note else []
        lines += [one_line(remark, 1_000) for remark in undone.remarks]
        return CommandResult(lines=("Undone. The prompt is in the composer.", *lines), draft=undone.prompt)

    async def _redo(self, argument: str) -> CommandResult:
        redone = await self._session.files.redo(force=argument == "force")
        return CommandResult(lines=("Redone.", *file_lines("Changed", redone.files)))

    # -- other sessions --------------------------------------------------------------------------

    async def _resume(self, argument: str) -> CommandResult:
        if argument:
            row = await resolve_session(self._store, argument, self._session.state.context.cwd)
            return CommandResult(change=NextSession("open", row.id))
        cwd = self._session.state.context.cwd
        rows = await self._store.list_sessions(SessionQuery(limit=_MAX_SESSIONS))
        # Those of this folder first, each group the newest first.
        rows = sorted((row for row in rows if row.id != self._session.id), key=lambda row: row.cwd != cwd)
        items = [
            PickerItem(row.id, f"{row.title or '(empty)'}  {row.turns} turns  {format_cost(row.cost)}  {row.cwd}")
            for row in rows
        ]
        if not items:
            return printed("There is no other session.")
        return CommandResult(picker=PickerRequest("resume", "Session", tuple(items)))

    async def _new(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(change=NextSession("new"))

    async def _fork(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(change=NextSession("fork", self._session.id))
