"""How a request shows who sends it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import unquote, urlsplit

import attrs

from engine.providers.wire.wire_format import Body


@attrs.frozen(kw_only=True)
class UnsignedRequest:
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

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
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

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:  # the port is async; a key needs nothing
        """Return the key's header. Not a checkpoint."""
        return {self.header: f"{self.scheme} {self.key}" if self.scheme else self.key}


@attrs.frozen
class NoAuth:
    """Nobody asks who we are: a server of the user's own."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """None."""
        return ()

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:  # the port is async
        """Return nothing. Not a checkpoint."""
        return {}


@attrs.frozen
class ExtraHeadersAuth:
    """What another shows, and headers of the user's own which are as secret as a key."""

    auth: Auth
    own: Mapping[str, str] = attrs.field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys, and what these headers hold."""
        return (*self.auth.secrets, *self.own.values())

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
        """Return the headers of both. A checkpoint if the other's is one."""
        return {**self.own, **await self.auth.headers(request)}


@attrs.frozen
class BasicAuth:
    """What another shows, and the user and password of an address."""

    auth: Auth
    user: str = attrs.field(repr=False)  # alone, it is a token
    password: str = attrs.field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The other's, the password, and the form in which it is sent."""
        return (*self.auth.secrets, self._token, self.password or self.user)

    @property
    def _token(self) -> str:
        return b64encode(f"{self.user}:{self.password}".encode()).decode()

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
        """Return the headers of both; the other's goes first where both have one. A checkpoint if its is one."""
        return {"authorization": f"Basic {self._token}", **await self.auth.headers(request)}


def split_password(base_url: str, auth: Auth) -> tuple[str, Auth]:
    """Return *base_url* without a user and password, and what shows them instead.

    In the URL of a request they would be in the log of the HTTP client.
    """
    parts = urlsplit(base_url)
    if "@" not in parts.netloc:
        return base_url, auth
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return shown, BasicAuth(auth, unquote(parts.username or ""), unquote(parts.password or ""))
