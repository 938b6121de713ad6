"""Chats with sessions of an engine in this process, one after another on the same terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import assert_never

import attrs

from engine.cli.chat.chat_drafts import ChatDrafts, default_folder
from engine.cli.chat.chat_driver import ChatDriver
from engine.cli.chat.command_result import NextSession
from engine.cli.chat.display.terminal_mode import RawTerminal
from engine.cli.chat.local_client import LocalClient
from engine.cli.chat.new_driver import ChatSource, new_driver
from engine.cli.chat.session_commands import CommandSetup, SessionCommands
from engine.cli.terminal.colours import ColourChoice
from engine.cli.terminal.signals import leave_at_once
from engine.cli.terminal.standard_streams import print_error
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.config import Config
from engine.core.errors import EngineError
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.permission.policy import Policy
from engine.prompt.commands import Commands
from engine.session.engine import Engine
from engine.session.session import Session, live_session
from engine.store.store_protocols import FullStore


@attrs.frozen(kw_only=True)
class ChatSetup:
    """What all chats of the process share.

    Attributes:
        config: the configuration.
        models: the models of new sessions.
        cwd: where the command was called.
        profile: the permission profile of sessions that have none of their own.
        colour: whether there are colours.
        is_saved: sessions can be continued later.
        place: where they are stored.
        effort: the effort that is asked of the model; empty: the model's own.
        cost_limit: the most dollars that a turn may cost; None: there is no limit.
        policy: what was allowed for longer than a call.
        own_commands: returns the commands that the user has defined for a folder; it blocks.
    """

    config: Config
    models: tuple[str, ...]
    cwd: Path
    profile: str
    colour: ColourChoice
    is_saved: bool
    place: str
    policy: Policy
    own_commands: Callable[[Config, Path], Commands]
    effort: str = ""
    cost_limit: float | None = None


@attrs.define(eq=False)
class LocalChats:
    """Runs the chats."""

    _engine: Engine
    _store: FullStore
    # None: in lines.
    _terminal: RawTerminal | None
    _setup: ChatSetup

    async def run(
        self, session: Session, signals: AsyncIterator[int], *, is_new: bool, notes: Sequence[str] = ()
    ) -> int:
        """Chat, with *session* first; return the exit code. Always a checkpoint. Raises `EngineError`.

        The user reads *notes* at the beginning. A session that was made for the chat, and in which nothing was said, is removed.
        """
        while True:
            driver = await self._driver(session, notes)
            notes = ()
            await driver.load_drafts()
            if session.state.turn is not None:
                # It waited for an answer when its engine ended: its questions are asked again.
                self._engine.resume_turn(session)
            code = await driver.run(signals)
            if self._setup.is_saved and session.state.turns:
                self._print_next(session)
            if driver.change is None:
                if is_new:
                    await self._remove_unused(session)
                return code
            try:
                following = await self._change(session, driver.change)
            except EngineError as error:
                print_error(f"engine chat: {escape_control_chars(str(error))}")
                continue
            if is_new:
                await self._remove_unused(session)
            session, is_new = following, driver.change.kind == "new"

    async def _driver(self, session: Session, notes: Sequence[str]) -> ChatDriver:
        """Return what runs the chat with a session. A checkpoint."""
        # The agents and the profile are those of the session's folder.
        own = live_session(session).config
        client = LocalClient(self._engine, session, own.folder_config)
        cwd = session.state.context.cwd
        commands = CommandSetup(
            config=own.folder_config,
            place=self._setup.place,
            policy=self._setup.policy,
            own=await to_thread(self._setup.own_commands, own.folder_config, Path(cwd)),
        )
        return new_driver(
            self._terminal,
            ChatSource(
                client=client,
                commands=SessionCommands(self._engine, client, self._store, commands),
                drafts=ChatDrafts(default_folder(), cwd, session.id if session.state.turns else ""),
                leave_at_once=lambda number: leave_at_once(number, client.tally.is_ours),
                heading=f"engine {__version__} in {cwd} (/help)",
                notes=notes,
                folder=lambda: session.state.context.cwd,
                profile=own.profile or self._setup.profile,
                config=own.folder_config,
                effort=self._setup.effort,
                cost_limit=self._setup.cost_limit,
            ),
            self._setup.colour,
        )

    async def _change(self, session: Session, change: NextSession) -> Session:
        """Return the session to continue with. A checkpoint. Raises `EngineError`."""
        models = self._setup.models
        match change.kind:
            case "new":
                following = await self._engine.create_session(cwd=session.state.context.cwd, model=models)
            case "open":
                following = await self._engine.open_session(change.session_id, model=models)
            case "fork":
                following = await self._engine.fork_session(change.session_id, model=models, agent=change.agent)
            case _:
                assert_never(change.kind)
        # Another program may open it from now on.
        await self._engine.close_session(session.id)
        return following

    async def _remove_unused(self, session: Session) -> None:
        """Remove a session in which nothing was said. A checkpoint if it is one."""
        state = session.state
        if state.turns or state.turn or state.transcript or state.inbox or state.titled_by == "user":
            return
        # A list that has one session too many is no reason to end with an error.
        with suppress(EngineError):
            await self._engine.close_session(session.id)
            await self._store.delete(session.id)

    def _print_next(self, session: Session) -> None:
        """Tell how to continue."""
        is_here = str(self._setup.cwd) == session.state.context.cwd
        command = "engine chat --continue" if is_here else f"engine chat --resume {session.id}"
        print_error(f"Session {session.id}\nNext: {command}")
