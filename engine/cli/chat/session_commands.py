"""The slash commands for a session of this process."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, cast, final, get_args

import attrs
import trio

from engine.cli.chat.command_result import CommandResult, NextSession, printed
from engine.cli.chat.local_client import LocalClient
from engine.cli.chat.local_files import LocalFiles
from engine.cli.chat.machine.picker import PickerItem, PickerRequest
from engine.cli.chat.program_commands import ProgramCommands
from engine.cli.chat.rewind_commands import RewindCommands
from engine.cli.chat.state_commands import NO_COMMANDS, CommandHandler, StateCommands, choose, grant_line
from engine.cli.flags.store_flags import resolve_session
from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line, one_line
from engine.config.config import Config
from engine.core.context_report import ContextReport
from engine.core.errors import ConfigError, UnknownModel
from engine.core.events import Durable
from engine.core.llm_types import Effort
from engine.core.threads import to_thread
from engine.export.format_cost import format_cost
from engine.export.history import render_history
from engine.export.markdown import render_markdown
from engine.journal.state import SessionState
from engine.permission.policy import Policy
from engine.prompt.commands import Commands
from engine.session.engine import Engine
from engine.store.memory import MEMORY
from engine.store.store_protocols import FullStore, SessionQuery, SessionRow
from engine.tools.background_jobs import Job

_MAX_SESSIONS: Final = 10_000
_MAX_OUTPUT: Final = 20_000
_LAST_LINE: Final = 1_000
_MAX_FIRST_WORDS: Final = 60


@final
class SessionCommands(StateCommands):
    """Runs the commands of one chat."""

    def __init__(self, engine: Engine, client: LocalClient, store: FullStore, setup: CommandSetup) -> None:
        """Make it."""
        self._engine = engine
        self._client = client
        self._session = session = client.session
        self._is_saved = setup.place != MEMORY
        self._policy = setup.policy
        self._store = store
        programs = ProgramCommands(lambda: session.state.context.cwd, setup.place)
        super().__init__(setup.config, RewindCommands(LocalFiles(session)), programs, setup.own)

    @property
    def state(self) -> SessionState:
        """The session's state."""
        return self._session.state

    def own_handlers(self) -> Mapping[str, CommandHandler]:
        """Return what only a session's engine knows."""
        return {
            "resume": self._resume,
            "new": self._new,
            "fork": self._fork,
            "effort": self._effort,
            "agent": self._agent,
            "agents": self._agents,
            "jobs": self._jobs,
            "sessions": self._resume,
            "export": self._export,
            "share": self._share,
            "permissions": self._permissions,
            "mcp": self._programs.mcp,
        }

    # -- the session -----------------------------------------------------------------------------

    async def models(self) -> Sequence[str]:
        """Return the models for which there is a key. A checkpoint."""
        # Imported here: the tables of models take long to import.
        from engine.cli.models import report_hosts

        reports = await report_hosts(os.environ, self._config, None)
        return [info.name for report in reports if not report.why_not for info in report.models]

    async def use_model(self, name: str) -> None:
        """Use another model from now on. A checkpoint. Raises `EngineError`."""
        # Imported here, as above; it reads files.
        from engine.cli.flags.expand_model import expand_model

        try:
            model = await to_thread(expand_model, name, os.environ, self._config)
        except UnknownModel as error:
            raise UnknownModel(str(error).replace("Next: use --model ", "Next: /model ")) from error
        await self._session.switch_model(model)

    async def use_profile(self, name: str) -> None:
        """Use another permission profile from now on. A checkpoint. Raises `EngineError`."""
        await self._engine.use_profile(self._session, name)

    async def set_title(self, title: str) -> None:
        """Give the session a title. A checkpoint. Raises `EngineError`."""
        await self._session.rename(title)

    async def compact(self, instructions: str) -> None:
        """Summarise the conversation. A checkpoint. Raises `EngineError`."""
        await self._session.context.compact(instructions)

    async def report(self) -> ContextReport:
        """Return what fills the window. A checkpoint."""
        await trio.lowlevel.checkpoint()
        return self._session.context.report()

    async def events(self) -> Sequence[Durable]:
        """Return all that has happened. A checkpoint."""
        await trio.lowlevel.checkpoint()
        return self._session.events()

    async def _effort(self, argument: str) -> CommandResult:
        levels = get_args(Effort)
        if not argument:
            return choose("effort", levels, self._client.effort or "")
        if argument not in levels:
            raise ConfigError(f"unknown effort {escape_on_one_line(argument)}. Next: /effort {'|'.join(levels)}")
        self._client.effort = cast("Effort", argument)
        return CommandResult(effort=argument, lines=(f"The effort is {argument} from the next turn on.",))

    async def _agent(self, argument: str) -> CommandResult:
        agents = {name: agent for name, agent in self._config.all_agents.items() if agent.mode != "subagent"}
        if not argument:
            items = tuple(PickerItem(name, f"{name}  {agent.description}") for name, agent in agents.items())
            return CommandResult(picker=PickerRequest("agent", "Agent", items, current=self.state.agent))
        self._config.check_primary(argument)
        # A session keeps its agent, and with that its rules.
        return CommandResult(change=NextSession("fork", self._session.id, argument))

    async def _permissions(self, argument: str) -> CommandResult:
        """Show, explain or revoke what is allowed: in the project, and only in this session. A checkpoint."""
        word, _, name = argument.partition(" ")
        # Here, and not by another process: what this engine allows ends at once.
        if word == "revoke" and self._policy is not None and await self._policy.revoke(name.strip()):
            return printed("Revoked.")
        result = await self._programs.permissions(argument)
        if argument or self._policy is None:
            return result
        grants = self._policy.grants.current(self._policy.now())
        lines = [grant_line(each) for each in grants if each.session_id == self._session.id]
        return attrs.evolve(result, lines=(*result.lines, f"{'' if lines else 'no '}grants for this session", *lines))

    # -- what runs next to it ---------------------------------------------------------------------

    async def _jobs(self, argument: str) -> CommandResult:
        jobs = {job.name: job for job in self._session.background.jobs.all()}
        word, _, name = argument.partition(" ")
        if not word:
            lines = [_job_line(job) for job in jobs.values()]
            return CommandResult(lines=tuple(lines) or ("No background commands.",))
        job = jobs.get(name.strip())
        if job is None or word not in {"stop", "add"}:
            raise ConfigError(f"unknown job {escape_on_one_line(name or word)}. Next: /jobs, /jobs stop|add NAME")
        if word == "stop":
            job.stop()
            return printed(f"Stopping {escape_on_one_line(job.name)}.")
        output = job.output.since(job.output.total - _MAX_OUTPUT).decode(errors="replace").strip()
        text = (
            f"The output of the background command {job.name} (`{job.command}`, {job.state}):\n\n```\n{output}\n```\n"
        )
        return CommandResult(draft=text, lines=("Its newest output is in the draft.",))

    async def _agents(self, argument: str) -> CommandResult:
        query = SessionQuery(limit=_MAX_SESSIONS, parent_id=self._session.state.session_id)
        rows = await self._store.list_sessions(query)
        if not rows:
            return printed("This session has had no sub-agents.")
        if not argument:
            items = tuple(PickerItem(row.id, _agent_label(row)) for row in rows)
            return CommandResult(picker=PickerRequest("agents", "Sub-agent", items))
        row = next((row for row in rows if row.id == argument), None)
        if row is None and argument.isascii() and argument.isdigit() and 0 < int(argument) <= len(rows):
            row = rows[int(argument) - 1]
        if row is None:
            raise ConfigError(f"unknown sub-agent {escape_on_one_line(argument)}. Next: /agents")
        events = await self._store.load(row.id)
        text = await to_thread(lambda: render_markdown(render_history(events), row.title))
        return CommandResult(pager=escape_control_chars(text))

    # -- other sessions --------------------------------------------------------------------------

    async def _resume(self, argument: str) -> CommandResult:
        if argument:
            row = await resolve_session(self._store, argument, self._session.state.context.cwd)
            if row.id == self._session.id:
                return printed("This is that session.")
            return CommandResult(change=NextSession("open", row.id))
        cwd = self._session.state.context.cwd
        rows = await self._store.list_sessions(SessionQuery(limit=_MAX_SESSIONS))
        others = [row for row in rows if row.id != self._session.id]
        if not others:
            return printed("There is no other session.")
        here = [row for row in others if row.cwd == cwd]
        # There may be ten thousand, most of them in other folders.
        more = partial(_session_items, others, cwd) if 0 < len(here) < len(others) else None
        return CommandResult(picker=PickerRequest("resume", "Session", _session_items(here or others, cwd), more=more))

    async def _new(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(change=NextSession("new"))

    async def _fork(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(change=NextSession("fork", self._session.id))

    async def _export(self, argument: str) -> CommandResult:
        if not self._is_saved:
            raise ConfigError("this session is not saved, so it can't be exported. Next: leave out --ephemeral")
        return await self._programs.export(self._session.id, argument)

    async def _share(self, argument: str) -> CommandResult:
        if not argument.split(" ", 1)[0].endswith(".html"):
            raise ConfigError("the name of the page must end with .html. Next: /share FILE.html")
        result = await self._export(argument)
        review = "It holds all that was written and read: review it before you share it. Nothing was uploaded."
        return attrs.evolve(result, lines=(*result.lines, review))


@attrs.frozen(kw_only=True)
class CommandSetup:
    """What the commands know of the chat.

    Attributes:
        config: the configuration.
        place: where sessions are stored.
        policy: what was allowed for longer than a call; None: nothing is.
        own: the commands that the user has defined.
    """

    config: Config
    place: str
    policy: Policy | None = None
    own: Commands = NO_COMMANDS


def _session_items(rows: Sequence[SessionRow], cwd: str) -> tuple[PickerItem, ...]:
    now = time.time()
    return tuple(session_item(row, cwd, now) for row in rows)


def session_item(row: SessionRow, cwd: str, now: float) -> PickerItem:
    """Return a session as an item of a list, which escapes what it draws of it."""
    turns = "1 turn" if row.turns == 1 else f"{row.turns} turns"
    cost = f"  {format_cost(row.cost)}" if row.cost else ""
    folder = f"  {row.cwd}" if row.cwd != cwd else ""
    words = row.first_words
    if words:
        words = f'  "{words if len(words) <= _MAX_FIRST_WORDS else words[: _MAX_FIRST_WORDS - 1] + "…"}"'
    # The words last: a narrow terminal cuts them off first, and they are found by typing all the same.
    label = f"{row.title or '(empty)'}  {_age(now - row.updated)}  {turns}{cost}{folder}{words}"
    return PickerItem(row.id, label)


def _age(seconds: float) -> str:
    """Return how long ago something was, in words that need no date."""
    if seconds >= 86_400:
        return f"{seconds // 86_400:.0f} d ago"
    if seconds >= 3_600:
        return f"{seconds // 3_600:.0f} h ago"
    return f"{seconds // 60:.0f} min ago" if seconds >= 60 else "now"


def _job_line(job: Job) -> str:
    rows = job.output.since(max(0, job.output.total - _LAST_LINE)).decode(errors="replace").strip().splitlines()
    last = f"  {one_line(rows[-1], 80)}" if rows else ""
    pid = f"  pid {job.pid}" if job.is_running and job.pid is not None else ""
    return escape_control_chars(f"  {job.name}  {job.state}{pid}  {one_line(job.command, 80)}{last}")


def _agent_label(row: SessionRow) -> str:
    facts = (
        row.agent or "sub-agent",
        row.title or "(empty)",
        row.status,
        f"{row.messages} messages",
        format_cost(row.cost),
    )
    return "  ".join(filter(None, facts))
