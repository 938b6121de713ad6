"""Params and results of the methods about sessions: to make, list, search, name, fork, remove and export them."""

from __future__ import annotations

from typing import Annotated, Literal

import attrs

from engine.control.protocol.bounds import Bounds, Id, Key, Name, Text, Title
from engine.control.protocol.wire_converter import Params
from engine.core.ids import InputId, RequestId, SessionId, TurnId
from engine.core.messages import UserMessage
from engine.journal.state import OpenQuestion, Status
from engine.store.store_protocols import RowStatus, SearchHit, SessionRow, Spending, SpendingKind


@attrs.frozen(kw_only=True)
class SessionParams(Params):
    """The params of a method about one session.

    Attributes:
        session_id: the session.
    """

    session_id: Id


@attrs.frozen(kw_only=True)
class NoParams(Params):
    """No parameters."""


@attrs.frozen(kw_only=True)
class NoResult:
    """Nothing but success."""


@attrs.frozen(kw_only=True)
class SeqResult:
    """A change of a session.

    Attributes:
        seq: the number of its event: a client whose cursor has passed it has seen the effect.
    """

    seq: int


@attrs.frozen(kw_only=True)
class ClientRow:
    """A connected client.

    Attributes:
        client_id: its connection.
        name: what it calls itself.
        role: what it may do.
        since: when it connected.
        attending: the ids of the questions that a user looks at there.
    """

    client_id: str
    name: str
    role: Literal["read", "answer", "full"]
    since: float
    attending: tuple[RequestId, ...] = ()


@attrs.frozen(kw_only=True)
class HeadTurn:
    """The turn under way.

    Attributes:
        turn_id: the turn.
        input_id: the prompt that it began with, if the server knows it: a client finds its own prompt again by it.
    """

    turn_id: TurnId
    input_id: InputId | None = None


@attrs.frozen(kw_only=True)
class HeadEnding:
    """A turn that has a cause to end, and has not ended.

    Attributes:
        cause: what ends it.
        until: when the grace of its tasks is over.
        by: the client that asked for it; empty: none did.
    """

    cause: str
    until: float
    by: str = ""


@attrs.frozen(kw_only=True)
class QueuedInput:
    """Input that waits for its place in the transcript.

    Attributes:
        input_id: its id.
        mode: how it was sent.
        message: the input.
        by: the client that sent it.
    """

    input_id: InputId
    mode: Literal["prompt", "steer", "queue"]
    message: UserMessage
    by: str = ""


@attrs.frozen(kw_only=True)
class SessionHead:
    """What is true of a session now.

    Attributes:
        seq: its last event.
        status: what it does; idle, too, if its turn was interrupted.
        turn: the turn under way; None: there is none.
        parked: whether that turn waits for `resume`: no engine runs it.
        asked: the open questions of the session and its sub-agents, the oldest first.
        ending: set once the turn has a cause to end.
        queue: input that waits.
        profile: the permission profile that was selected for it; empty: none was, and it has that of its folder.
        profile_by: the client that selected it.
        clients: who is connected.
    """

    seq: int
    status: Status
    turn: HeadTurn | None = None
    parked: bool = False
    asked: tuple[OpenQuestion, ...] = ()
    ending: HeadEnding | None = None
    queue: tuple[QueuedInput, ...] = ()
    profile: str = ""
    profile_by: str = ""
    clients: tuple[ClientRow, ...] = ()


@attrs.frozen(kw_only=True)
class TurnSettings(Params):
    """What a client may set for a turn, or for all turns of a session; what is left out stays.

    Attributes:
        steps: the maximum number of requests to the model.
        tokens: the maximum number of tokens.
        cost: the maximum cost.
        seconds: the maximum time.
        question_timeout: seconds after which an open question counts as rejected.
        on_exhausted: what happens when the model can't be reached.
        auto_compact: whether history is summarised when the window is full.
        agent_depth: how many levels of sub-agents there may be.
    """

    steps: Annotated[int, Bounds(1, 1_000_000)] | None = None
    tokens: Annotated[int, Bounds(1, 1_000_000_000_000)] | None = None
    cost: Annotated[float, Bounds(0, 1_000_000_000)] | None = None
    seconds: Annotated[float, Bounds(0, 1_000_000_000)] | None = None
    question_timeout: Annotated[float, Bounds(0.001, 1_000_000_000)] | None = None
    on_exhausted: Literal["stop", "ask"] | None = None
    auto_compact: bool | None = None
    agent_depth: Annotated[int, Bounds(0, 100)] | None = None


@attrs.frozen(kw_only=True)
class SessionCreateParams(Params):
    """A new session.

    Attributes:
        cwd: its working directory, on the server's machine.
        model: its model; None: the engine's.
        agent: the name of a configured agent.
        title: its title.
        settings: for all of its turns.
        key: makes repeating the request safe.
    """

    cwd: Text
    model: Name | None = None
    agent: Name | None = None
    title: Title | None = None
    settings: TurnSettings | None = None
    key: Key


@attrs.frozen(kw_only=True)
class SessionCreateResult:
    """The new session.

    Attributes:
        row: the session.
        seq: its last event.
    """

    row: SessionRow
    seq: int


@attrs.frozen(kw_only=True)
class SessionListParams(Params):
    """Which sessions to list, the newest first.

    Attributes:
        cwd: only those with this working directory.
        parent: only children of this session; None: only sessions without a parent.
        status: only those with this status.
        limit: the maximum number.
        before: the id of the last session of the previous page.
    """

    cwd: Text | None = None
    parent: Id | None = None
    status: RowStatus | None = None
    limit: Annotated[int, Bounds(1, 200)] = 50
    before: Id | None = None


@attrs.frozen(kw_only=True)
class SessionListResult:
    """A page of sessions.

    Attributes:
        rows: the sessions.
        next: what to send as `before` for the next page; None: this is the last one.
    """

    rows: tuple[SessionRow, ...]
    next: SessionId | None = None


@attrs.frozen(kw_only=True)
class SessionGetResult:
    """A session as it is now.

    Attributes:
        row: as in a list.
        head: what it does, and what it waits for.
        mode: "live", or "stored" if another engine has it open or none has: then it holds only what is durable.
    """

    row: SessionRow
    head: SessionHead
    mode: Literal["live", "stored"]


@attrs.frozen(kw_only=True)
class SessionSearchParams(Params):
    """What to search for.

    Attributes:
        words: a text must contain all of them; the last one may be incomplete.
        cwd: only in sessions with this working directory.
        limit: the maximum number of sessions.
    """

    words: Annotated[str, Bounds(1, 1000)]
    cwd: Text | None = None
    limit: Annotated[int, Bounds(1, 200)] = 20


@attrs.frozen(kw_only=True)
class SessionSearchResult:
    """What the search returns.

    Attributes:
        hits: the sessions, the newest first, with the text around the words; each match is between U+E000 and U+E001.
    """

    hits: tuple[SearchHit, ...]


@attrs.frozen(kw_only=True)
class SessionRenameParams(SessionParams):
    """A new title.

    Attributes:
        title: the title.
    """

    title: Title


@attrs.frozen(kw_only=True)
class SessionConfigureParams(SessionParams):
    """Settings of a session that all clients share.

    Attributes:
        profile: the permission profile, for calls that no rule matches: "full" allows everything that no rule denies.
            None: that of its folder again.
    """

    profile: Name | None


@attrs.frozen(kw_only=True)
class SessionForkParams(SessionParams):
    """Where a new session is to begin.

    Attributes:
        at: the id of the last message to include; None: all.
        model: the new session's model; None: the engine's.
        agent: its agent; None: that of the other session.
        key: makes repeating the request safe.
    """

    at: Id | None = None
    model: Name | None = None
    agent: Name | None = None
    key: Key


@attrs.frozen(kw_only=True)
class SessionDeleteParams(SessionParams):
    """A session to be removed for good, with its sub-agents'.

    Attributes:
        confirm: the session's id again.
    """

    confirm: Id


@attrs.frozen(kw_only=True)
class SessionDeleteResult:
    """What was removed.

    Attributes:
        ids: the sessions.
    """

    ids: tuple[SessionId, ...]


@attrs.frozen(kw_only=True)
class SessionCloseResult:
    """Whether something changed.

    Attributes:
        released: the session was open, and other engines may open it now.
    """

    released: bool


@attrs.frozen(kw_only=True)
class SessionExportParams(SessionParams):
    """The format of an export.

    Attributes:
        format: JSON can be imported again; the others are to be read.
    """

    format: Literal["json", "markdown", "html"]


@attrs.frozen(kw_only=True)
class SessionExportResult:
    """Where to fetch it.

    Attributes:
        href: the address, relative to the server's.
    """

    href: str


@attrs.frozen(kw_only=True)
class SessionUsageParams(Params):
    """What spending to sum up.

    Attributes:
        by: the grouping.
        since: the earliest time.
        until: the end, exclusive.
    """

    by: SpendingKind = "total"
    since: float | None = None
    until: float | None = None


@attrs.frozen(kw_only=True)
class SessionUsageResult:
    """What was spent.

    Attributes:
        rows: the groups.
    """

    rows: tuple[Spending, ...]
