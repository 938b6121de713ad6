"""`Methods`: what the server's connections need of the engine, and who asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from engine.control.client_connection import ClientConnection
from engine.control.credentials import Login
from engine.control.event_source import SessionSource
from engine.control.lingering_turns import Turns
from engine.control.protocol.server_methods import ServerStatusResult
from engine.control.protocol.watch_methods import FamilySnapshot, SubscribeParams, SubscribeResult, WatchParams
from engine.control.protocol.wire_converter import Params
from engine.control.session_export import Format
from engine.control.session_list import SessionListWatch
from engine.control.session_media import Media
from engine.control.uploads import Uploads
from engine.core.ids import RequestId, SessionId
from engine.journal.state import Resync


@attrs.frozen
class Caller:
    """Who makes a request.

    Attributes:
        name: what other clients are shown, and what the record keeps.
        login: what its credentials give.
        connection: its connection; None: it came by HTTP.
    """

    name: str
    login: Login
    connection: ClientConnection | None = None


@attrs.frozen
class Followed:
    """What a subscription is made of.

    Attributes:
        cursor: where it begins.
        result: the answer to `subscribe`, without the name of the subscription.
        snapshot: returns a `Resync` as clients get it.
        resync_reason: why it may begin with one: `damaged`, `epoch` or `position`; empty: it may not.
    """

    cursor: SessionSource
    result: SubscribeResult
    snapshot: Callable[[Resync], FamilySnapshot]
    resync_reason: str = ""


class Documents(Protocol):
    """What is read of sessions by HTTP only."""

    async def export(self, session_id: str, form: Format) -> str:
        """Return a session as a document. Raises errors of the engine."""
        ...

    async def message(self, session_id: str, message_id: str) -> str:
        """Return one message as JSON text. Raises errors of the engine."""
        ...

    async def media(self, session_id: str, media_id: str) -> Media:
        """Return an image or a file of a session. Raises errors of the engine."""
        ...


class Methods(Turns, Documents, Protocol):
    """The methods that are not about connections."""

    epoch: str
    uploads: Uploads

    @property
    def capabilities(self) -> Mapping[str, object]:
        """What depends on the engine's store and tools, and not on the version, by name."""
        ...

    async def run(self, method: str, params: Params, caller: Caller) -> object:
        """Return the result that the method's row names. Raises errors of the engine and `Refusal`."""
        ...

    async def follow(self, params: SubscribeParams, caller: Caller) -> Followed:
        """Return what a subscription is made of. Raises errors of the engine."""
        ...

    def watch(self, params: WatchParams) -> SessionListWatch:
        """Return a watched list of sessions. Not a checkpoint."""
        ...

    def status(self) -> ServerStatusResult:
        """Return what the engine does. Not a checkpoint."""
        ...

    def check_asked(self, request_id: RequestId) -> None:
        """Raise `AlreadyAnswered`, or `RequestNotFound`, unless the question is open. Not a checkpoint."""
        ...

    def is_ready(self) -> bool:
        """Return whether the engine is open, and its store can be written. Not a checkpoint."""
        ...

    def is_working(self) -> bool:
        """Return whether a turn runs. Not a checkpoint."""
        ...

    def is_session_working(self, session_id: SessionId) -> bool:
        """Return whether a turn runs in a session. Not a checkpoint."""
        ...

    async def release_idle(self) -> None:
        """Close the sessions in which no turn runs, so that other engines can open them. A checkpoint."""
        ...
