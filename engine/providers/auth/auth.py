"""Authentication of requests."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

import attrs

from engine.core.value_base import Value
from engine.providers.wire.wire_format import Body

# Of the hash of a key: enough to tell accounts apart.
_ACCOUNT_CHARS: Final = 24


@attrs.frozen(kw_only=True, eq=False, repr=False)
class UnsignedRequest(Value):
    """A request that is complete except for its authentication."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: Body


class Auth(Protocol):
    """Creates the authentication headers of a request."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that are redacted from every error."""
        ...

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
        """Return the headers to add. May be a checkpoint; a cancel changes nothing.

        Raises `AuthFailed` if no valid credentials are available, `ConfigError` for an invalid setting.
        """
        ...

    def renew(self, headers: Mapping[str, str]) -> bool:
        """Return whether the next request may have other credentials than those in *headers*, which the host refused.

        Not a checkpoint: what is kept is forgotten, and `headers` fetches it again.
        """
        ...


@attrs.frozen(eq=False, repr=False)
class KeyAuth(Value):
    """A key in a header."""

    header: str
    key: str = attrs.field(repr=False)
    scheme: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key."""
        return (self.key,)

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:  # async because of the protocol
        """Return the key's header. Not a checkpoint."""
        return {self.header: f"{self.scheme} {self.key}" if self.scheme else self.key}

    def renew(self, headers: Mapping[str, str]) -> bool:
        """Return False: there is no other key."""
        return False


@attrs.frozen(eq=False, repr=False)
class NoAuth(Value):
    """No authentication, for local servers."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """None."""
        return ()

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:  # async because of the protocol
        """Return nothing. Not a checkpoint."""
        return {}

    def renew(self, headers: Mapping[str, str]) -> bool:
        """Return False."""
        return False


@attrs.frozen(eq=False, repr=False)
class ExtraHeadersAuth(Value):
    """Another authentication, plus the user's own secret headers."""

    auth: Auth
    own: Mapping[str, str] = attrs.field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of both."""
        return (*self.auth.secrets, *self.own.values())

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
        """Return the headers of both. A checkpoint if the other authentication is one."""
        return {**self.own, **await self.auth.headers(request)}

    def renew(self, headers: Mapping[str, str]) -> bool:
        """Renew the other authentication."""
        return self.auth.renew(headers)


@attrs.frozen(eq=False, repr=False)
class BasicAuth(Value):
    """Another authentication, plus the user and password of a URL."""

    auth: Auth
    user: str = attrs.field(repr=False)  # without a password, it is a token
    password: str = attrs.field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The other's secrets, the password, and its encoded form."""
        return (*self.auth.secrets, self._token, self.password or self.user)

    @property
    def _token(self) -> str:
        return b64encode(f"{self.user}:{self.password}".encode()).decode()

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
        """Return the headers of both; the other's wins on a conflict. A checkpoint if the other is one."""
        return {"authorization": f"Basic {self._token}", **await self.auth.headers(request)}

    def renew(self, headers: Mapping[str, str]) -> bool:
        """Renew the other authentication."""
        return self.auth.renew(headers)


def split_password(base_url: str, auth: Auth) -> tuple[str, Auth]:
    """Return *base_url* without user and password, and an authentication that sends them.

    The HTTP client would log them as a part of the URL.
    """
    parts = urlsplit(base_url)
    if "@" not in parts.netloc:
        return base_url, auth
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return shown, BasicAuth(auth, unquote(parts.username or ""), unquote(parts.password or ""))


def account_of(base_url: str, auth: Auth) -> str:
    """Return a name for the account at a host that says nothing about its key.

    A key that is fetched when the first request needs it is not known yet: then all keys for that address count as one
    account. Engines that share limits by this name share too much then, which only makes requests slower.
    """
    text = "\0".join((base_url, *sorted(auth.secrets)))
    return sha256(f"engine account\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:_ACCOUNT_CHARS]
