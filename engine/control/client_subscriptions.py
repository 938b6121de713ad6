"""`ClientSubscriptions`: what one connection is subscribed to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, final

import attrs

from engine.control.client_connection import ClientConnection
from engine.control.control_methods import Caller, Methods
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.handshake import WireLimits
from engine.control.protocol.session_methods import SessionHead
from engine.control.protocol.watch_methods import (
    SubscribeParams,
    SubscribeResult,
    UnsubscribeParams,
    UnsubscribeResult,
    WatchParams,
    WatchResult,
)
from engine.control.subscription import Subscription, SubscriptionShare
from engine.core.ids import SessionId


class HeadSource(Protocol):
    """What is needed of the server."""

    limits: WireLimits

    def with_clients(self, head: SessionHead) -> SessionHead:
        """Return *head* with those who are connected. Not a checkpoint."""
        ...


@final
class ClientSubscriptions:
    """A connection and its subscriptions.

    Attributes:
        connection: the connection.
    """

    def __init__(
        self, connection: ClientConnection, methods: Methods, share: SubscriptionShare, presence: HeadSource
    ) -> None:
        """Make it without any.

        Args:
            connection: the connection.
            methods: where subscriptions begin.
            share: what all subscriptions of a server share.
            presence: knows who is connected, and how many subscriptions a connection may have.
        """
        self.connection = connection
        self._methods = methods
        self._share = share
        self._presence = presence
        # None: of a watched list.
        self._open: dict[str, tuple[Subscription | None, Callable[[], None]]] = {}
        self._number = 0

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._open)

    @property
    def watches_list(self) -> bool:
        """Whether one of them is of the list of sessions."""
        return any(each is None for each, _ in self._open.values())

    @property
    def sessions(self) -> Iterator[SessionId]:
        """The sessions that are subscribed to."""
        return (each.session_id for each, _ in self._open.values() if each is not None)

    @property
    def heads(self) -> dict[str, int]:
        """The last event of each."""
        return {name: each.seq for name, (each, _) in self._open.items() if each is not None}

    async def subscribe(self, params: SubscribeParams, caller: Caller) -> SubscribeResult:
        """Begin to send a session's events. A checkpoint. Raises errors of the engine and `Refusal`."""
        followed = await self._methods.follow(params, caller)
        name = self._new_name()
        subscription = Subscription(name, params, followed, share=self._share)
        head = self._presence.with_clients(followed.result.head)

        async def run() -> None:
            try:
                await subscription.run(self.connection, head)
            finally:
                self._open.pop(name, None)

        self._open[name] = (subscription, self.connection.start(run))
        return attrs.evolve(followed.result, sub=name, head=head)

    def watch(self, params: WatchParams) -> WatchResult:
        """Begin to send the list of sessions. Not a checkpoint. Raises `Refusal`."""
        name = self._new_name()
        watch = self._methods.watch(params)

        async def run() -> None:
            try:
                while (note := await watch.next_note(name)) is not None:
                    await self.connection.send_note("sessions", note)
            finally:
                self._open.pop(name, None)

        self._open[name] = (None, self.connection.start(run))
        return WatchResult(sub=name)

    def unsubscribe(self, params: UnsubscribeParams) -> UnsubscribeResult:
        """End one. Not a checkpoint. Raises `Refusal`."""
        entry = self._open.pop(params.sub, None)
        if entry is None:
            raise Refusal("not_found", f"there is no subscription {params.sub}", what="subscription")
        subscription, stop = entry
        stop()
        # A watched list has no position: it begins with what is there.
        return UnsubscribeResult(position="" if subscription is None else subscription.position)

    def _new_name(self) -> str:
        most = self._presence.limits.subscriptions
        if len(self._open) >= most:
            raise Refusal("too_large", f"a connection has at most {most} subscriptions", limit=most)
        self._number += 1
        return f"s{self._number}"
