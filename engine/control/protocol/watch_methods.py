"""Params and results of the methods that watch: subscriptions, snapshots, history; and what a server sends by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import attrs

from engine.control.protocol.bounds import Bounds, Id, Place
from engine.control.protocol.session_methods import ClientRow, SessionHead, SessionParams
from engine.control.protocol.wire_converter import Elided, Params
from engine.core.events import Durable, Live
from engine.core.ids import CallId, MessageId, SessionId
from engine.core.messages import Message
from engine.journal.codec import Unknown
from engine.journal.state import OpenQuestion, SessionState
from engine.store.store_protocols import RowStatus, SessionRow

# What a client may find in a list of events; `Unknown` is one of a server newer than the client.
WireEvent = Durable | Live | Elided | Unknown


@attrs.frozen(kw_only=True)
class SubscribeParams(SessionParams):
    """Which events to get.

    Attributes:
        after: the position to continue from; None: as `at` says.
        at: begin with what happens from now on, or with the session's first event.
        tree: also the events of sub-agents.
        live: also deltas and progress; without them only durable events.
        interval: the least time between two messages that hold only live events, in milliseconds.
        elide: events larger than this are replaced by a reference; 0: never.
    """

    after: Place | None = None
    at: Literal["now", "start"] = "now"
    tree: bool = True
    live: bool = True
    interval: Annotated[int, Bounds(0, 1000)] = 33
    elide: Annotated[int, Bounds(0, 16 << 20)] = 0


@attrs.frozen(kw_only=True)
class SubscribeResult:
    """A subscription.

    Attributes:
        sub: names it in notifications.
        head: what is true now.
        mode: "stored" if another engine has the session open: then only durable events come.
    """

    sub: str
    head: SessionHead
    mode: Literal["live", "stored"]


@attrs.frozen(kw_only=True)
class UnsubscribeParams(Params):
    """A subscription to end.

    Attributes:
        sub: the subscription.
    """

    sub: Id


@attrs.frozen(kw_only=True)
class UnsubscribeResult:
    """Where it was.

    Attributes:
        position: to continue from later.
    """

    position: Place


@attrs.frozen(kw_only=True)
class SessionSnapshot:
    """One session of a family, without its transcript.

    Attributes:
        state: its state; the transcript in it is empty, and open parts hold their text so far.
        messages: how many messages its transcript has.
        depth: 0 for the root, 1 for its sub-agents, and so on.
        call_id: the call that runs it; None for the root.
    """

    state: SessionState
    messages: int
    depth: int = 0
    call_id: CallId | None = None


@attrs.frozen(kw_only=True)
class FamilySnapshot:
    """A session with its live sub-agents, at one instant.

    Attributes:
        position: to continue from.
        sessions: the session, then its live sub-agents.
        asked: their open questions, the oldest first.
        messages: the newest messages of the session. In place of an image's or a file's content is `href:` and where to
            fetch it, relative to the server's address.
        older: what to send as `before` to `messages` for older ones; None: these are all.
    """

    position: Place
    sessions: tuple[SessionSnapshot, ...]
    asked: tuple[OpenQuestion, ...]
    messages: tuple[Message, ...]
    older: MessageId | None = None


@attrs.frozen(kw_only=True)
class SnapshotParams(SessionParams):
    """How much of the transcript to get.

    Attributes:
        tail: the number of newest messages.
    """

    tail: Annotated[int, Bounds(0, 200)] = 50


@attrs.frozen(kw_only=True)
class MessagesParams(SessionParams):
    """A page of the transcript, backwards.

    Attributes:
        before: only messages before this one; None: the newest.
        limit: the maximum number.
    """

    before: Id | None = None
    limit: Annotated[int, Bounds(1, 200)] = 50


@attrs.frozen(kw_only=True)
class MessagesResult:
    """Messages in order.

    Attributes:
        messages: the messages, with references as in a snapshot.
        more: whether there are older ones.
    """

    messages: tuple[Message, ...]
    more: bool


@attrs.frozen(kw_only=True)
class EventsParams(SessionParams):
    """A page of the record, forwards.

    Attributes:
        after: only events after this number.
        limit: the maximum number.
    """

    after: Annotated[int, Bounds(0, 2**53)] = 0
    limit: Annotated[int, Bounds(1, 500)] = 500


@attrs.frozen(kw_only=True)
class EventsResult:
    """Durable events of one session, in order.

    Attributes:
        events: the events.
        more: whether there are later ones.
    """

    events: tuple[WireEvent, ...]
    more: bool


@attrs.frozen(kw_only=True)
class WatchParams(Params):
    """Which sessions to watch as a list.

    Attributes:
        cwd: only those with this working directory.
        status: only those with this status.
    """

    cwd: str | None = None
    status: RowStatus | None = None


@attrs.frozen(kw_only=True)
class WatchResult:
    """A subscription to the list of sessions.

    Attributes:
        sub: names it in notifications.
    """

    sub: str


# -- what a server sends by itself -------------------------------------------------------


@attrs.frozen(kw_only=True)
class EventsNote:
    """Events of a subscription, in order.

    Attributes:
        sub: the subscription.
        position: where it is after the last of them.
        events: the events.
    """

    sub: str
    position: Place
    events: tuple[WireEvent, ...]


@attrs.frozen(kw_only=True)
class HeadNote:
    """The first notification of every subscription: what is true now, even if nothing has changed.

    It comes again when another engine has opened the session, or has left it, even by being killed.

    Attributes:
        sub: the subscription.
        head: what is true.
    """

    sub: str
    head: SessionHead


@attrs.frozen(kw_only=True)
class ResyncNote:
    """The position could not be continued from: the client replaces what it has by this snapshot.

    Attributes:
        sub: the subscription.
        snapshot: what is true now.
    """

    sub: str
    snapshot: FamilySnapshot


@attrs.frozen(kw_only=True)
class TickNote:
    """A sign of life on a silent connection, to be answered with `tock`.

    Attributes:
        time: the server's clock.
        heads: for each subscription, the last event of its session. A client that has another one takes a snapshot.
    """

    time: float
    heads: Mapping[str, int] = attrs.field(factory=dict[str, int])


@attrs.frozen(kw_only=True)
class WatchedRow:
    """A session in a watched list.

    Attributes:
        row: as in `session.list`.
        waiting: the number of open questions of it and its sub-agents.
        waiting_since: when the oldest of them was asked.
    """

    row: SessionRow
    waiting: int = 0
    waiting_since: float | None = None


@attrs.frozen(kw_only=True)
class SessionsNote:
    """Sessions of a watched list that have changed, each with its newest row.

    Attributes:
        sub: the subscription.
        rows: new and changed sessions.
        removed: sessions that are no longer in the list.
    """

    sub: str
    rows: tuple[WatchedRow, ...] = ()
    removed: tuple[SessionId, ...] = ()


@attrs.frozen(kw_only=True)
class ClientsNote:
    """Who is connected has changed, or what they attend to.

    Attributes:
        clients: the newest of those who are connected now, at most 32; the method `clients` returns all.
        more: how many others there are.
    """

    clients: tuple[ClientRow, ...]
    more: int = 0


@attrs.frozen(kw_only=True)
class DrainingNote:
    """The server is about to end.

    Attributes:
        until: when its turns are parked or cancelled.
        successor: where another server will be; None: unknown.
    """

    until: float
    successor: str | None = None


@attrs.frozen(kw_only=True)
class IgnoredNote:
    """Messages of this client were ignored: only `tock` and `rpc.cancel` may be sent as notifications.

    Attributes:
        method: the method of the last one.
        count: how many so far.
    """

    method: str
    count: int


@attrs.frozen(kw_only=True)
class TockParams(Params):
    """The answer to a `tick`.

    Attributes:
        time: the time of the tick.
    """

    time: float
