"""The slash commands for a session of a server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, cast, final

import trio

from engine.cli.chat.command_result import CommandResult, printed
from engine.cli.chat.program_commands import ProgramCommands
from engine.cli.chat.remote_files import RemoteFiles
from engine.cli.chat.rewind_commands import RewindCommands
from engine.cli.chat.state_commands import NO_COMMANDS, CommandHandler, StateCommands, grant_line
from engine.client.control_client import Client
from engine.client.remote_session import RemoteSession
from engine.config.config import Config
from engine.control.protocol.server_methods import GrantListResult, GrantRevokeResult, ModelListResult
from engine.control.protocol.turn_methods import ContextResult
from engine.control.protocol.watch_methods import EventsResult
from engine.core.context_report import ContextReport
from engine.core.events import Durable
from engine.journal.state import SessionState
from engine.prompt.commands import Commands


@final
class RemoteCommands(StateCommands):
    """Runs the commands of one chat."""

    def __init__(self, client: Client, session: RemoteSession, config: Config, own: Commands = NO_COMMANDS) -> None:
        """Make it; *own* are the commands that the user has defined on this machine."""
        self._client = client
        self._session = session
        # The programs run on this machine, where the server need not be.
        super().__init__(config, RewindCommands(RemoteFiles(client, session.id)), ProgramCommands(os.getcwd), own)

    @property
    def state(self) -> SessionState:
        """The session's state, as far as it is known."""
        return self._session.state or SessionState(session_id=self._session.id)

    def own_handlers(self) -> Mapping[str, CommandHandler]:
        """Return what a server does in its own way, and what it can't do."""
        return {
            "permissions": self._permissions,
            **{name: partial(_unavailable, name, reason) for name, reason in _UNAVAILABLE.items()},
        }

    async def _request(self, method: str, **params: object) -> object:
        return await self._client.request(method, session_id=self._session.id, **params)

    async def models(self) -> Sequence[str]:
        """Return the models that the server can use. A checkpoint. Raises `EngineError`."""
        rows = cast("ModelListResult", await self._client.request("model.list")).models
        return [row.name for row in rows if not row.why_not]

    async def use_model(self, name: str) -> None:
        """Use another model from now on. A checkpoint. Raises `EngineError`."""
        await self._request("model.set", model=name)

    async def use_profile(self, name: str) -> None:
        """Use another permission profile from now on. A checkpoint. Raises `EngineError`."""
        await self._request("session.configure", profile=name)

    async def set_title(self, title: str) -> None:
        """Give the session a title. A checkpoint. Raises `EngineError`."""
        await self._request("session.rename", title=title)

    async def compact(self, instructions: str) -> None:
        """Summarise the conversation. A checkpoint. Raises `EngineError`."""
        await self._request("compact", instructions=instructions)

    async def report(self) -> ContextReport:
        """Return what fills the window. A checkpoint. Raises `EngineError`."""
        return cast("ContextResult", await self._request("context")).report

    async def events(self) -> Sequence[Durable]:
        """Return all that has happened, as far as a connection carries it. Always a checkpoint. Raises `EngineError`."""
        events: list[Durable] = []
        after, has_more = 0, True
        while has_more:
            page = cast("EventsResult", await self._request("events", after=after))
            after, has_more = after + len(page.events), page.more and bool(page.events)
            events += [event for event in page.events if isinstance(event, Durable)]
        return events

    async def _permissions(self, argument: str) -> CommandResult:
        word, _, name = argument.partition(" ")
        if word == "revoke":
            result = cast("GrantRevokeResult", await self._client.request("grant.revoke", id=name.strip()))
            return printed("Revoked." if result.revoked else "There is no such grant.")
        grants = cast("GrantListResult", await self._request("grant.list")).grants
        return CommandResult(lines=tuple(map(grant_line, grants)) or ("Nothing is allowed for longer than a call.",))


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
