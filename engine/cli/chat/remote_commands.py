"""The slash commands for a session of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, final

from engine.cli.chat.command_result import CommandResult, printed
from engine.cli.chat.machine.picker import PickerItem, PickerRequest
from engine.cli.chat.state_commands import CommandHandler, StateCommands, file_lines
from engine.cli.terminal.terminal_text import one_line
from engine.client.control_client import Client
from engine.client.remote_session import RemoteSession
from engine.config.config import Config
from engine.control.protocol.answer_methods import UndoResult
from engine.core.errors import ConfigError
from engine.journal.state import SessionState
from engine.permission.rules.profiles import PROFILES


@final
class RemoteCommands(StateCommands):
    """Runs the commands of one chat."""

    def __init__(self, client: Client, session: RemoteSession, config: Config) -> None:
        """Make it."""
        self._client = client
        self._session = session
        super().__init__(config)

    @property
    def state(self) -> SessionState:
        """The session's state, as far as it is known."""
        return self._session.state or SessionState(session_id=self._session.id)

    def changes(self) -> Mapping[str, CommandHandler]:
        """Return what changes the session."""
        return {
            "model": self._model,
            "profile": self._profile,
            "compact": self._compact,
            "undo": self._undo,
            "redo": self._redo,
            "rename": self._rename,
        }

    async def _request(self, method: str, **params: object) -> object:
        return await self._client.request(method, session_id=self._session.id, **params)

    async def _model(self, argument: str) -> CommandResult:
        if not argument:
            raise ConfigError("the model's name is missing. Next: /model NAME")
        await self._request("model.set", model=argument)
        return CommandResult()

    async def _profile(self, argument: str) -> CommandResult:
        if not argument:
            return CommandResult(picker=PickerRequest("profile", "Profile", tuple(PickerItem(p, p) for p in PROFILES)))
        await self._request("session.configure", profile=argument)
        return CommandResult()

    async def _rename(self, argument: str) -> CommandResult:
        if not argument:
            raise ConfigError("the title is missing. Next: /rename TITLE")
        await self._request("session.rename", title=argument)
        return printed("Renamed.")

    async def _compact(self, argument: str) -> CommandResult:
        await self._request("compact", instructions=argument)
        return CommandResult()

    async def _undo(self, argument: str) -> CommandResult:
        result = cast("UndoResult", await self._request("undo", force=argument == "force"))
        lines = [*file_lines("Restored", result.files), *file_lines("No snapshot, left as it is", result.left)]
        lines += [one_line(remark, 1_000) for remark in result.remarks]
        draft = result.inputs[0].text if result.inputs else ""
        return CommandResult(lines=("Undone. The prompt is in the composer.", *lines), draft=draft)

    async def _redo(self, argument: str) -> CommandResult:
        result = cast("UndoResult", await self._request("redo", force=argument == "force"))
        return CommandResult(lines=("Redone.", *file_lines("Changed", result.files)))
