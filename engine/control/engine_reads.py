"""The methods of the protocol that only read: what they answer, from an engine. No transport, no connection.

A session that is open in this engine is read from its journal, any other one from the store: reading claims no session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast, final, get_args

import attrs

from engine.control.protocol import answer_methods as an
from engine.control.protocol import server_methods as sv
from engine.control.protocol import session_methods as se
from engine.control.protocol import turn_methods as tu
from engine.control.protocol import watch_methods as wa
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.wire_converter import Params, write_value
from engine.control.session_media import input_with_references, with_references
from engine.core.errors import EngineError, MessageNotFound
from engine.core.events import Durable, InputAdmitted, InputPromoted, TurnStarted
from engine.core.foreign_calls import call_foreign
from engine.core.ids import InputId, SessionId
from engine.journal.event_index import select_events
from engine.journal.lookup import undecoded_events
from engine.journal.state import Busy, Descendant, Idle, OpenQuestion, Retry, SessionState, Waiting
from engine.session.engine import engine_runtime
from engine.store.store_protocols import (
    Accounting,
    Catalogue,
    Holder,
    RowStatus,
    SessionQuery,
    SessionRow,
    SpendingQuery,
)

if TYPE_CHECKING:
    from engine.session.engine import Engine
    from engine.session.live_session import LiveSession
    from engine.store.lazy_events import LazyEvents

E = TypeVar("E", bound=Durable)
T = TypeVar("T")
Handler = Callable[[Params], Awaitable[object]]
Mode = Literal["live", "stored"]

# Characters of one page of history: encoding more at once would keep the engine and others waiting.
_MOST_OF_PAGE: Final = 1 << 20
# Rows that are looked at for one page of a filtered list: a rare status must not read the whole store at once.
_MOST_ROWS: Final = 2_000
# Of all sessions the newest, and of those with a parked turn so many, are looked at for open questions.
_NEWEST_ROWS: Final = 200
_MOST_PARKED: Final = 32
# Of one session, below all calls.
_MOST_AGENTS: Final = 32


@attrs.frozen
class StoredAgent:
    """A sub-agent's session that no engine runs, and its events."""

    member: Descendant
    events: LazyEvents


@attrs.frozen
class SessionRecord:
    """A session as it is now.

    Attributes:
        live: the open session; None: it is not open in this engine.
        events: its durable events; those that were stored are decoded when they are read.
        state: what follows from them.
        holder: which engine has it open.
        below: the sub-agents that its engine left with an open turn when it ended, each after the one above it.
    """

    live: LiveSession | None
    events: Sequence[Durable]
    state: SessionState
    holder: Holder
    below: Sequence[StoredAgent] = ()

    def of_type(self, kind: type[E]) -> Iterable[E]:
        """Yield its events of one class, without decoding others. Decoding those takes time, if they are many."""
        return select_events(self.events)(kind)

    @property
    def is_parked(self) -> bool:
        """Whether it has a turn that no engine runs."""
        is_run = self.holder == "elsewhere" if self.live is None else self.live.active is not None
        return self.state.turn is not None and not is_run

    @property
    def mode(self) -> Mode:
        """Whether everything is read, or only what is durable."""
        return "stored" if self.live is None else "live"


@final
class EngineReads:
    """Answers the reading methods."""

    def __init__(self, engine: Engine) -> None:
        """Read from an open engine."""
        self._engine = engine
        self._runtime = engine_runtime(engine)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The methods by name."""
        return {
            "session.list": cast("Handler", self.list_sessions),
            "session.get": cast("Handler", self.get_session),
            "session.search": cast("Handler", self.search),
            "session.usage": cast("Handler", self.usage),
            "messages": cast("Handler", self.messages),
            "events": cast("Handler", self.events),
            "asked": cast("Handler", self.questions),
            "context": cast("Handler", self.context),
            "agent.list": cast("Handler", self.agents),
            "tool.list": cast("Handler", self.tools),
        }

    # -- sessions ----------------------------------------------------------------------------

    async def list_sessions(self, params: se.SessionListParams) -> se.SessionListResult:
        """Return a page of sessions. A checkpoint."""
        catalogue = self._catalogue()
        before = None if params.before is None else row_of(await self.record(params.before))
        rows: list[SessionRow] = []
        seen = 0
        while seen < _MOST_ROWS:
            query = SessionQuery(
                limit=params.limit,
                cwd=params.cwd,
                parent_id=None if params.parent is None else SessionId(params.parent),
                before=before,
            )
            page = await call_foreign("the store", catalogue.list_sessions, query)
            for row in page:
                if params.status in {None, row.status}:
                    rows.append(row)
                if len(rows) == params.limit:
                    return se.SessionListResult(rows=tuple(rows), next=row.id)
            if len(page) < params.limit:
                return se.SessionListResult(rows=tuple(rows))
            seen += len(page)
            before = page[-1]
        return se.SessionListResult(rows=tuple(rows), next=None if before is None else before.id)

    async def get_session(self, params: se.SessionParams) -> se.SessionGetResult:
        """Return a session. A checkpoint."""
        record = await self.record(params.session_id)
        return se.SessionGetResult(row=row_of(record), head=head_of(record), mode=record.mode)

    async def search(self, params: se.SessionSearchParams) -> se.SessionSearchResult:
        """Search the messages of sessions. A checkpoint."""
        catalogue = self._catalogue()
        hits = await catalogue.search(params.words, limit=params.limit, cwd=params.cwd)
        return se.SessionSearchResult(hits=tuple(hits))

    async def usage(self, params: se.SessionUsageParams) -> se.SessionUsageResult:
        """Sum up what was spent. A checkpoint."""
        accounting = self._runtime.services.store.store
        if not isinstance(accounting, Accounting):
            raise Refusal("unsupported", "this engine's store sums up nothing")
        query = SpendingQuery(by=params.by, since=params.since, until=params.until)
        return se.SessionUsageResult(rows=tuple(await call_foreign("the store", accounting.spending, query)))

    # -- history -----------------------------------------------------------------------------

    async def messages(self, params: wa.MessagesParams) -> wa.MessagesResult:
        """Return a page of messages, backwards. A checkpoint."""
        state = (await self.record(params.session_id)).state
        transcript = state.transcript
        end = len(transcript)
        if params.before is not None:
            ids = [message.id for message in transcript]
            if params.before not in ids:
                raise MessageNotFound(f"session {params.session_id} has no message {params.before!r}")
            end = ids.index(params.before)  # type: ignore[arg-type]  # an id, as it is among them
        newest_first = reversed(transcript[max(0, end - params.limit) : end])
        messages = first_that_fit(with_references(message, state.session_id) for message in newest_first)
        return wa.MessagesResult(messages=tuple(reversed(messages)), more=len(messages) < end)

    async def events(self, params: wa.EventsParams) -> wa.EventsResult:
        """Return a page of durable events. A checkpoint."""
        # A session's numbers begin with 1 and have no gaps.
        events = (await self.record(params.session_id)).events
        page = first_that_fit(events[params.after : params.after + params.limit])
        return wa.EventsResult(events=tuple(page), more=params.after + len(page) < len(events))

    async def questions(self, params: an.QuestionListParams) -> an.QuestionListResult:
        """Return the open questions, the oldest first. A checkpoint.

        Without a session: those of open sessions, and of the newest ones whose turn no engine runs.
        """
        named = [] if params.session_id is None else [await self.record(params.session_id)]
        rows = [
            an.OpenQuestionRow(session_id=record.state.session_id, path=event.path, question=event)
            for record in (named or await self._parked())
            if record.live is None
            for event in questions_of(record)
        ]
        for live in self._runtime.sessions.by_id.values():
            path = live.journal.path
            # Sub-agents share the questions of their root.
            if len(path) == 1:
                rows += [
                    an.OpenQuestionRow(session_id=live.id, path=event.path, question=event)
                    for event in live.questions.events
                    if params.session_id is None or params.session_id in event.path
                ]
        return an.QuestionListResult(questions=tuple(sorted(rows, key=lambda row: row.question.time)))

    async def _parked(self) -> Sequence[SessionRecord]:
        """Return the newest sessions with a turn that no engine runs. A checkpoint."""
        records: list[SessionRecord] = []
        store = self._runtime.services.store.store
        query = SessionQuery(limit=_NEWEST_ROWS)
        rows = await call_foreign("the store", store.list_sessions, query) if isinstance(store, Catalogue) else ()
        for row in rows:
            if row.holder == "nobody" and row.status in {"waiting", "interrupted"} and len(records) < _MOST_PARKED:
                # Removed meanwhile, or damaged: others are still to be answered.
                with suppress(EngineError):
                    records.append(await self.record(row.id))
        return records

    # -- what there is -----------------------------------------------------------------------

    async def context(self, params: se.SessionParams) -> tu.ContextResult:
        """Return what fills the window of an open session. A checkpoint."""
        record = await self.record(params.session_id)
        if record.live is None:
            raise Refusal("unsupported", "the session is not open here, so its model and tools are unknown")
        from engine.session.turn_start import report_context

        return tu.ContextResult(report=report_context(record.live))

    async def agents(self, params: sv.OptionalSessionParams) -> sv.AgentListResult:
        """Return the configured agents, those of a session's folder included if it is open. A checkpoint if one is named."""
        config = self._runtime.setup.config
        if params.session_id is not None and (live := (await self.record(params.session_id)).live) is not None:
            config = live.config.folder_config
        return sv.AgentListResult(
            agents=tuple(
                sv.AgentRow(name=name, description=agent.description, mode=agent.mode, model=agent.model)
                for name, agent in config.all_agents.items()
            )
        )

    async def tools(self, params: sv.OptionalSessionParams) -> sv.ToolListResult:
        """Return the tools of a session, or those of new ones. A checkpoint if a session is named."""
        config = self._runtime.setup.defaults
        if params.session_id is not None and (live := (await self.record(params.session_id)).live) is not None:
            config = live.config
        registry = config.registry
        return sv.ToolListResult(
            tools=tuple(
                sv.ToolRow(
                    name=tool.name,
                    description=tool.description,
                    read_only=tool.read_only,
                    permission=tool.permission,
                )
                for tool in map(registry.get, registry.names)
                if tool is not None
            )
        )

    # -- what they share ---------------------------------------------------------------------

    async def record(self, session_id: str) -> SessionRecord:
        """Return a session, wherever it is. A checkpoint. Raises `SessionNotFound`, `JournalCorrupt`, `StoreError`."""
        live = self._runtime.sessions.by_id.get(SessionId(session_id))
        if live is not None:
            events, state = undecoded_events(live.journal), live.journal.snapshot()
            # Not the end of a turn that is not in the store yet: cursors don't see it either, and the turn is still busy.
            del events[state.seq :]
            return SessionRecord(live, events, state, "here")
        stored = await self._runtime.services.store.read(SessionId(session_id))
        holder = await self.holder(stored.state.session_id)
        # What runs elsewhere goes on there: what is read of its sub-agents would soon be wrong.
        below = await self._below(stored.state) if holder == "nobody" and stored.state.turn is not None else ()
        return SessionRecord(None, stored.events, stored.state, holder, below)

    async def _below(self, state: SessionState) -> Sequence[StoredAgent]:
        """Return the sub-agents below a session whose engine has ended, each after the one above it. A checkpoint if any."""
        store, agents = self._runtime.services.store, list[StoredAgent]()
        above = deque([(state, 1)])
        while above and len(agents) < _MOST_AGENTS:
            parent, depth = above.popleft()
            for call_id, _, child in await store.running_children(parent):
                if child.state.turn is not None:
                    agents.append(
                        StoredAgent(Descendant(state=child.state, depth=depth, call_id=call_id), child.events)
                    )
                    above.append((child.state, depth + 1))
        return agents

    async def holder(self, session_id: SessionId) -> Holder:
        """Return which engine has a session open that is not open in this one. A checkpoint if the store has a list."""
        store = self._runtime.services.store.store
        if not isinstance(store, Catalogue):
            return "nobody"
        rows = await call_foreign("the store", store.list_sessions, SessionQuery(id=session_id, limit=1))
        # A host's own store may not know the field.
        is_elsewhere = any(row.id == session_id and row.holder == "elsewhere" for row in rows)
        return "elsewhere" if is_elsewhere else "nobody"

    def _catalogue(self) -> Catalogue:
        store = self._runtime.services.store.store
        if not isinstance(store, Catalogue):
            raise Refusal("unsupported", "this engine's store has no lists, and no search", capability="search")
        return store


def first_that_fit(items: Iterable[T]) -> list[T]:
    """Return the first events or messages, as many as one answer has room for: at least one."""
    fitting: list[T] = []
    size = 0
    for item in items:
        size += len(write_value(item))
        if fitting and size > _MOST_OF_PAGE:
            break
        fitting.append(item)
    return fitting


def row_of(record: SessionRecord) -> SessionRow:
    """Return a session's row, as the store would list it."""
    state, events = record.state, record.events
    first = next((event.message.text for event in events if isinstance(event, InputAdmitted)), "")
    root = events[0].path[0] if events[0].path else state.session_id
    return SessionRow(
        id=state.session_id,
        parent_id=state.parent_id,
        root_id=root,
        title=state.title or first[:200],
        cwd=state.context.cwd,
        model=state.model,
        created=events[0].time,
        updated=events[-1].time,
        seq=state.seq,
        messages=len(state.transcript),
        turns=state.turns,
        status=status_of(state, is_parked=record.is_parked),
        stop_reason=None if state.last_result is None else state.last_result.stop_reason,
        usage=state.usage,
        cost=state.cost,
        holder=record.holder,
        titled_by=state.titled_by,
        forked_from=state.forked_from,
        agent=state.agent,
    )


def status_of(state: SessionState, *, is_parked: bool) -> RowStatus:
    """Return a session's status, as the store would list it."""
    if state.turn is None:
        return "idle"
    if isinstance(state.status, Waiting):
        return "waiting"
    return "interrupted" if is_parked else "busy"


def head_of(record: SessionRecord) -> se.SessionHead:
    """Return what is true of a session now."""
    state = record.state
    turn = ending = None
    if state.turn is not None:
        turn = se.HeadTurn(turn_id=state.turn.turn_id, input_id=_input_of(record))
        if state.turn.ending is not None:
            end = state.turn.ending
            ending = se.HeadEnding(cause=end.cause, until=end.until, by=end.by)
    return se.SessionHead(
        seq=state.seq,
        # The record ends in the middle of a step, which nothing works on.
        status=Idle() if record.is_parked and isinstance(state.status, Busy | Retry) else state.status,
        turn=turn,
        parked=record.is_parked,
        asked=questions_of(record),
        ending=ending,
        queue=_queue_of(record),
        profile=state.profile,
        profile_by=state.profile_by,
    )


def questions_of(record: SessionRecord) -> tuple[OpenQuestion, ...]:
    """Return the open questions of a session and its sub-agents, the oldest first; if another engine runs it, its own."""
    state, live = record.state, record.live
    if live is not None:
        return tuple(event for event in live.questions.events if live.id in event.path)
    asked: list[OpenQuestion] = []
    for member, events in ((state, record.events), *((each.member.state, each.events) for each in record.below)):
        if member.turn is not None and (waiting := member.turn.waiting):
            of_type = select_events(events)
            asked += [
                event for kind in get_args(OpenQuestion) for event in of_type(kind) if event.request_id in waiting
            ]
    return tuple(sorted(asked, key=lambda event: (event.time, event.seq)))


def _queue_of(record: SessionRecord) -> tuple[se.QueuedInput, ...]:
    """Return the input that waits."""
    waiting = record.state.inbox
    if not waiting:
        return ()
    by = {event.input_id: event.by for event in record.of_type(InputAdmitted)}
    return tuple(
        se.QueuedInput(
            input_id=each.input_id,
            mode=each.mode,
            message=input_with_references(each.message, record.state.session_id),
            by=by.get(each.input_id, ""),
        )
        for each in waiting
    )


def _input_of(record: SessionRecord) -> InputId | None:
    """Return the prompt of the open turn: the first input that was promoted after it had begun."""
    assert record.state.turn is not None
    prompt: InputId | None = None
    for event in reversed(record.events):
        if isinstance(event, TurnStarted) and event.turn_id == record.state.turn.turn_id:
            break
        if isinstance(event, InputPromoted):
            prompt = event.input_id
    return prompt
