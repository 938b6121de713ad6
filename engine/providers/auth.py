"""How a request shows who sends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from engine.providers.wire import Body


@attrs.frozen(kw_only=True)
class Unsigned:
    """A request that is complete but for who sends it."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: Body


class Auth(Protocol):
    """Makes the headers that show who sends a request."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be seen: it is cut out of every error."""
        ...

    async def headers(self, request: Unsigned) -> Mapping[str, str]:
        """Return the headers to add. A checkpoint or not; if cancelled, nothing has happened.

        Raises `AuthFailed` where nothing valid can be had, `ConfigError` for what can't work.
        """
        ...


@attrs.frozen
class KeyAuth:
    """A key in a header."""

    header: str
    key: str = attrs.field(repr=False)
    scheme: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key."""
        return (self.key,)

    async def headers(self, request: Unsigned) -> Mapping[str, str]:  # the port is async; a key needs nothing
        """Return the key's header. Not a checkpoint."""
        return {self.header: f"{self.scheme} {self.key}" if self.scheme else self.key}


@attrs.frozen
class NoAuth:
    """Nobody asks who we are: a server of the user's own."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """None."""
        return ()

    async def headers(self, request: Unsigned) -> Mapping[str, str]:  # the port is async
        """Return nothing. Not a checkpoint."""
        return {}


@attrs.frozen
class WithHeaders:
    """What another shows, and headers of the user's own which are as secret as a key."""

    auth: Auth
    own: Mapping[str, str] = attrs.field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys, and what these headers hold."""
        return (*self.auth.secrets, *self.own.values())

    async def headers(self, request: Unsigned) -> Mapping[str, str]:
        """Return the headers of both. A checkpoint if the other's is one."""
        return {**self.own, **await self.auth.headers(request)}
