"""`EngineTools`: what each tool does with the engine."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

import attrs
import trio

from engine.control.acceptor import OWNER
from engine.control.control_methods import Caller
from engine.control.engine_methods import EngineMethods
from engine.control.engine_reads import EngineReads, SessionRecord, row_of
from engine.control.protocol.server_methods import ModelListResult
from engine.control.protocol.session_methods import (
    NoParams,
    SessionListParams,
    SessionListResult,
    SessionSearchParams,
    SessionSearchResult,
)
from engine.core.errors import ConfigError, NothingToUndo, SessionBusy, SnapshotError
from engine.core.events import TurnStarted
from engine.core.ids import TurnId
from engine.core.schema import Json
from engine.core.settings import Limits, Settings
from engine.core.threads import to_thread
from engine.journal.json_text import to_json_text
from engine.mcp_server.caller import McpCaller
from engine.mcp_server.root_folder import folder_below
from engine.mcp_server.tool_table import ToolName
from engine.mcp_server.turn_follower import InputNeeded, TurnFollower, open_questions
from engine.session.engine import Engine
from engine.session.session import Session, live_session
from engine.store.store_protocols import SessionRow

if TYPE_CHECKING:
    from engine.session.undo import FileDiff

DEFAULT_WAIT: Final = 60.0
_MOST_ROWS: Final = 50
_PAGE: Final = 200
_MOST_PAGES: Final = 10


@attrs.frozen
class ToolAnswer:
    """The result of a tool.

    Attributes:
        text: for the model.
        structured: for programs; None: there is none.
        is_error: the tool failed.
    """

    text: str
    structured: dict[str, Json] | None = None
    is_error: bool = False


@attrs.frozen
class ToolQuestion:
    """The result of a tool that waits for answers.

    Attributes:
        needed: the questions.
        state: what comes back with the answers.
    """

    needed: InputNeeded
    state: str


@final
class EngineTools:
    """The tools over an open engine, for sessions below one folder."""

    def __init__(self, engine: Engine, *, root: str, folder: str, question_timeout: float) -> None:
        """Serve an engine.

        Args:
            engine: the engine.
            root: a folder, with links resolved; sessions elsewhere can't be seen.
            folder: where new sessions work, in the root or below it.
            question_timeout: seconds after which an open question counts as denied.
        """
        self._engine = engine
        self._root = root
        self._folder = folder
        self._question_timeout = question_timeout
        self._methods = EngineMethods(engine)
        self._reads = EngineReads(engine)
        self.handlers: Mapping[ToolName, Callable[[McpCaller], Awaitable[ToolAnswer | ToolQuestion]]] = {
            "run": self._run,
            "wait": self._wait,
            "cancel": self._cancel,
            "sessions": self._sessions,
            "show": self._show,
        }

    # -- turns ---------------------------------------------------------------------------------------

    async def _run(self, caller: McpCaller) -> ToolAnswer | ToolQuestion:
        """Run a turn; if the request is cancelled, so is the turn. A checkpoint."""
        if caller.state is not None:
            session, turn_id = await self._continue(caller)
            return await self._follow(session, turn_id, caller)
        arguments = caller.arguments
        session = await self._session_for(caller)
        settings = self._settings(live_session(session).config.settings, caller)
        turn = self._engine.start_turn(session, str(arguments["prompt"]), settings=settings, by=caller.name)
        # From here on there is no checkpoint before `_follow` guards the turn.
        if arguments.get("detach"):
            follower = TurnFollower(session, turn.id, caller)
            await trio.lowlevel.checkpoint()
            return ToolAnswer(follower.report.text(), follower.report.structured(None))
        return await self._follow(session, turn.id, caller)

    async def _follow(self, session: Session, turn_id: TurnId, caller: McpCaller) -> ToolAnswer | ToolQuestion:
        """Follow a turn that belongs to the request. A checkpoint."""
        is_left = False
        try:
            answer = await self._answer_of(session, turn_id, caller)
            is_left = True
            return answer
        finally:
            if not is_left:
                session.cancel(turn_id, by=caller.name)

    async def _wait(self, caller: McpCaller) -> ToolAnswer | ToolQuestion:
        """Wait for the newest turn of a session. A checkpoint; if cancelled, the turn goes on."""
        if caller.state is not None:
            session, turn_id = await self._continue(caller)
        else:
            session = await self._open(str(caller.arguments["session"]))
            started = [event.turn_id for event in session.events() if isinstance(event, TurnStarted)]
            if not started or started[-1] is None:
                raise ConfigError(f"session {session.id} has no work to wait for")
            turn_id = started[-1]
        seconds = cast("float", caller.arguments.get("seconds", DEFAULT_WAIT))
        return await self._answer_of(session, turn_id, caller, seconds)

    async def _answer_of(
        self, session: Session, turn_id: TurnId, caller: McpCaller, seconds: float | None = None
    ) -> ToolAnswer | ToolQuestion:
        """Return a turn's result, or what it asks. A checkpoint."""
        follower = TurnFollower(session, turn_id, caller)
        needed: InputNeeded | None = None
        with trio.move_on_after(float("inf") if seconds is None else seconds):
            needed = await follower.run()
        if needed is not None:
            state: dict[str, Json] = {
                "session": session.id,
                "turn": turn_id,
                "asked": {each.request_id: each.call_id for each in needed.questions},
            }
            return ToolQuestion(needed, to_json_text(state))
        report = follower.report
        changed = None if report.result is None else await _changed_files(session, turn_id)
        return ToolAnswer(report.text(), report.structured(changed), is_error=report.is_failed)

    async def _continue(self, caller: McpCaller) -> tuple[Session, TurnId]:
        """Give the answers that came with a repeated request; return what it is about. A checkpoint."""
        state = _read_state(caller.state)
        session = await self._open(state.session)
        turn_id = TurnId(state.turn)
        follower = TurnFollower(session, turn_id, caller)
        responses = caller.responses
        for question in tuple(open_questions(session)):
            if question.request_id in state.asked and question.request_id in responses:
                await follower.settle(question, responses[question.request_id])
        return session, turn_id

    # -- sessions ------------------------------------------------------------------------------------

    async def _cancel(self, caller: McpCaller) -> ToolAnswer:
        session = await self._open(str(caller.arguments["session"]))
        turn = session.state.turn
        is_ending = turn is not None and session.cancel(turn.turn_id, by=caller.name)
        text = "It is being cancelled." if is_ending else "Nothing runs in this session."
        return ToolAnswer(text, {"session": session.id, "cancelled": is_ending})

    async def _sessions(self, caller: McpCaller) -> ToolAnswer:
        query = caller.arguments.get("query")
        rows = await (self._newest() if query is None else self._search(str(query)))
        structured: list[Json] = [_row(row, snippet) for row, snippet in rows]
        lines = [f"{row.id}  {row.status}  {row.cwd}  {snippet or row.title}" for row, snippet in rows]
        return ToolAnswer("\n".join(lines) or "There are no sessions.", {"sessions": structured})

    async def _newest(self) -> list[tuple[SessionRow, str]]:
        rows: list[tuple[SessionRow, str]] = []
        before: str | None = None
        for _ in range(_MOST_PAGES):
            page = cast(
                "SessionListResult", await self._call("session.list", SessionListParams(limit=_PAGE, before=before))
            )
            rows += [(row, "") for row in page.rows if self._is_below(row.cwd)]
            before = page.next
            if before is None or len(rows) >= _MOST_ROWS:
                break
        return rows[:_MOST_ROWS]

    async def _search(self, words: str) -> list[tuple[SessionRow, str]]:
        query = SessionSearchParams(words=words, limit=_PAGE)
        result = cast("SessionSearchResult", await self._call("session.search", query))
        rows = [(hit.session, _plain(hit.snippet)) for hit in result.hits if self._is_below(hit.session.cwd)]
        return rows[:_MOST_ROWS]

    async def _show(self, caller: McpCaller) -> ToolAnswer:
        record = await self._record(str(caller.arguments["session"]))
        result = record.state.last_result
        answer = "" if result is None else result.text
        structured = cast("dict[str, Json]", _row(row_of(record), ""))
        structured |= {"turns": record.state.turns, "cost": record.state.cost, "answer": answer}
        return ToolAnswer(answer or "There is no answer yet.", structured)

    async def _session_for(self, caller: McpCaller) -> Session:
        """Return the session to work in, open, with the requested model. A checkpoint. Raises `ConfigError`."""
        arguments = caller.arguments
        model, session_id = arguments.get("model"), arguments.get("session")
        if model is not None:
            await self._check_model(str(model))
        if session_id is None:
            folder = await to_thread(self._resolve, str(arguments.get("cwd", ".")))
            return await self._engine.create_session(cwd=folder, model=None if model is None else str(model))
        if "cwd" in arguments:
            raise ConfigError("cwd is for a new session: this one has its folder")
        session = await self._open(str(session_id))
        if model is not None:
            await session.switch_model(str(model), by=caller.name)
        return session

    async def _check_model(self, name: str) -> None:
        """Raise `ConfigError` for a model that the configuration does not have."""
        listed = cast("ModelListResult", await self._call("model.list", NoParams()))
        usable = [row.name for row in listed.models if not row.why_not]
        if name not in usable:
            raise ConfigError(f"unknown model {name!r}: this server has {', '.join(usable[:20])}")

    async def _open(self, session_id: str) -> Session:
        await self._record(session_id)
        return await self._engine.open_session(session_id)

    async def _record(self, session_id: str) -> SessionRecord:
        """Return a session below the root. A checkpoint. Raises `SessionNotFound`, `ConfigError`."""
        record = await self._reads.record(session_id)
        if not await to_thread(self._is_below, record.state.context.cwd):
            raise ConfigError(f"session {session_id} works outside of the folder that this server is for")
        return record

    def _resolve(self, folder: str) -> str:
        """Return a folder below the root, with links resolved. It blocks. Raises `ConfigError`."""
        return folder_below(self._root, str(Path(self._folder, folder)))

    def _is_below(self, folder: str) -> bool:
        """Tell whether a folder is the root or below it, with links resolved. It blocks for a moment."""
        return Path(os.path.realpath(folder)).is_relative_to(self._root)

    def _settings(self, own: Settings, caller: McpCaller) -> Settings:
        """Return the settings of a turn: a caller's limits can only be stricter."""
        limits = cast("dict[str, float | None]", caller.arguments.get("limits") or {})
        names = [field.name for field in attrs.fields(Limits)]
        strictest = {name: _stricter(getattr(own.limits, name), limits.get(name)) for name in names}
        return attrs.evolve(
            own,
            limits=Limits(**strictest),  # type: ignore[arg-type]  # the schema has checked which are whole
            headless="wait" if caller.can_answer and own.headless == "wait" else "deny",
            question_timeout=self._question_timeout,
            on_exhausted="stop",
            # The request is answered when the server ends, so the turn ends, too.
            park=False,
        )

    async def _call(self, method: str, params: NoParams | SessionListParams | SessionSearchParams) -> object:
        return await self._methods.run(method, params, Caller("MCP client", OWNER))


@attrs.frozen
class _State:
    session: str
    turn: str
    asked: Mapping[str, str]


def _read_state(text: str | None) -> _State:
    """Return what our own state says: it came back sealed."""
    return _State(**json.loads(text or ""))


def _stricter(own: float | None, requested: float | None) -> float | None:
    return min((limit for limit in (own, requested) if limit is not None), default=None)


def _plain(snippet: str) -> str:
    """Return the text of a hit without the marks around the matches."""
    return snippet.replace("\ue000", "").replace("\ue001", "")


def _row(row: SessionRow, snippet: str) -> Json:
    facts: dict[str, Json] = {
        "session": row.id,
        "title": row.title,
        "cwd": row.cwd,
        "model": row.model,
        "status": row.status,
        "updated": row.updated,
        "stop_reason": row.stop_reason,
    }
    return facts | {"snippet": snippet} if snippet else facts


async def _changed_files(session: Session, turn_id: TurnId) -> Sequence[FileDiff] | None:
    """Return what a turn changed; None: unknown. A checkpoint."""
    try:
        return await session.files.diff(turn_id)
    except NothingToUndo:
        return ()
    except (SnapshotError, SessionBusy):
        return None
