"""The slash commands for a session of a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Final, cast, final

import trio

from engine.cli.chat.command_result import CommandResult, printed
from engine.cli.chat.machine.picker import PickerItem, PickerRequest
from engine.cli.chat.program_commands import ProgramCommands
from engine.cli.chat.remote_files import RemoteFiles
from engine.cli.chat.rewind_commands import RewindCommands
from engine.cli.chat.state_commands import CommandHandler, StateCommands
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.client.control_client import Client
from engine.client.remote_session import RemoteSession
from engine.config.config import Config
from engine.control.protocol.server_methods import GrantListResult, GrantRevokeResult
from engine.control.protocol.turn_methods import ContextResult
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
        # Of this machine, where the server need not be.
        self._programs = ProgramCommands(os.getcwd)
        self._rewinds = RewindCommands(RemoteFiles(client, session.id))
        super().__init__(config)

    @property
    def state(self) -> SessionState:
        """The session's state, as far as it is known."""
        return self._session.state or SessionState(session_id=self._session.id)

    async def diff_text(self) -> str:
        """Return the newest turn's changes of files. A checkpoint. Raises `EngineError`."""
        return await self._rewinds.diff_text()

    def changes(self) -> Mapping[str, CommandHandler]:
        """Return what changes the session."""
        return {
            "model": self._model,
            "profile": self._profile,
            "compact": self._compact,
            "diff": self._rewinds.diff,
            "undo": self._rewinds.undo,
            "redo": self._rewinds.redo,
            "rewind": self._rewinds.rewind,
            "rename": self._rename,
            "context": self._context,
            "permissions": self._permissions,
            "config": self._programs.config,
            "doctor": self._programs.doctor,
            "bug": self._programs.bug,
            "init": self._programs.init,
            "review": self._programs.review,
            **{name: partial(_unavailable, name, reason) for name, reason in _UNAVAILABLE.items()},
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

    async def _context(self, argument: str) -> CommandResult:
        del argument
        result = cast("ContextResult", await self._request("context"))
        return printed(escape_control_chars(result.report.as_text(is_linear=self.is_linear)))

    async def _permissions(self, argument: str) -> CommandResult:
        word, _, name = argument.partition(" ")
        if word == "revoke":
            result = cast("GrantRevokeResult", await self._client.request("grant.revoke", id=name.strip()))
            return printed("Revoked." if result.revoked else "There is no such grant.")
        grants = cast("GrantListResult", await self._request("grant.list")).grants
        lines = [f"  {grant.id}  {grant.permission} {grant.pattern}  ({grant.scope})" for grant in grants]
        return CommandResult(
            lines=tuple(map(escape_control_chars, lines)) or ("Nothing is allowed for longer than a call.",)
        )


async def _unavailable(name: str, reason: str, argument: str) -> CommandResult:
    """Say why a command can't be run here. A checkpoint."""
    del argument
    await trio.lowlevel.checkpoint()
    return printed(f"/{name} does not work over attach: {reason}")


_UNAVAILABLE: Final[Mapping[str, str]] = {
    "effort": "a server keeps the options that it was started with.",
    "agent": "a server keeps a session's agent. Next: engine attach --prompt TEXT",
    "agents": "the transcripts are at the server. Next: engine attach ID",
    "jobs": "background commands run at the server. Ask the agent about them.",
    "resume": "this chat shows one session. Next: engine attach ID",
    "sessions": "this chat shows one session. Next: engine attach ID",
    "new": "this chat shows one session. Next: engine attach --prompt TEXT",
    "fork": "this chat shows one session. Next: engine attach --prompt TEXT",
    "export": "the store is at the server: run engine sessions export there.",
    "share": "the store is at the server: run engine sessions share there.",
    "mcp": "the tools are those of the server.",
}
