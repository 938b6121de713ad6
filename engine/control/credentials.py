"""Who may connect: tokens of programs, tickets and keys of browsers. No I/O; time and randomness come in.

There are no cookies. A program sends its token with each request. A person opens a link with a *ticket* behind the `#`,
which browsers keep to themselves; the page exchanges it for a *key* of its own, and each WebSocket takes another ticket,
because browsers can't send a header there.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final, final

import attrs

from engine.control.protocol.handshake import Role, may

LINK_SECONDS: Final = 600.0
SOCKET_SECONDS: Final = 30.0
KEY_SECONDS: Final = 12 * 3600.0
MOST_TICKETS: Final = 32
_MOST_KEYS: Final = 1024
_SECRET_BYTES: Final = 32
_LONGEST_SECRET: Final = 200


@attrs.frozen
class Login:
    """What a credential gives.

    Attributes:
        name: of the token; keys and tickets carry the name of the token that they come from.
        role: what may be done with it.
    """

    name: str
    role: Role


@attrs.frozen
class _Expiring:
    login: Login
    until: float


def new_secret(random: Callable[[int], bytes]) -> str:
    """Return a new secret of 256 bits, as text that is safe in headers and addresses."""
    return urlsafe_b64encode(random(_SECRET_BYTES)).rstrip(b"=").decode("ascii")


def digest_of(secret: str) -> str:
    """Return what is kept and compared instead of *secret*."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@final
class ClientCredentials:
    """The tokens, keys and tickets of a server."""

    def __init__(self, *, now: Callable[[], float], random: Callable[[int], bytes]) -> None:
        """Make an empty set: nobody may connect.

        Args:
            now: the time in seconds, of a clock that does not go back.
            random: returns that many random bytes.
        """
        self._now = now
        self._random = random
        self._tokens: dict[str, Login] = {}
        self._keys: dict[str, _Expiring] = {}
        self._links: dict[str, _Expiring] = {}
        self._sockets: dict[str, _Expiring] = {}

    def set_tokens(self, logins: Mapping[str, Login]) -> frozenset[str]:
        """Replace the tokens by *logins*, by digest; return the names of those that are gone, or have a lower role now.

        Keys and tickets of such a token end with it.
        """
        revoked = frozenset(
            login.name
            for digest, login in self._tokens.items()
            if digest not in logins or not may(logins[digest].role, login.role)
        )
        self._tokens = dict(logins)
        for secrets in (self._keys, self._links, self._sockets):
            for digest, entry in list(secrets.items()):
                if entry.login.name in revoked:
                    del secrets[digest]
        return revoked

    def log_in(self, secret: str) -> Login | None:
        """Return what the token or key *secret* gives; None: it is not valid."""
        if len(secret) > _LONGEST_SECRET:
            return None
        digest = digest_of(secret)
        match: Login | None = None
        # All are compared, in constant time, so that the time tells nothing about them.
        for other, login in self._tokens.items():
            if hmac.compare_digest(other, digest):
                match = login
        return match or self._valid(self._keys, digest)

    def link_ticket(self, login: Login) -> str | None:
        """Return a ticket for a printed link; None if too many are open."""
        return self._new(self._links, login, LINK_SECONDS, MOST_TICKETS)

    def exchange(self, ticket: str) -> str | None:
        """Return a key for the link's *ticket*, which is used up; None: it is not valid."""
        login = self._used(self._links, ticket)
        return None if login is None else self._new(self._keys, login, KEY_SECONDS, _MOST_KEYS)

    def socket_ticket(self, login: Login) -> str | None:
        """Return a ticket for one WebSocket; None if too many are open."""
        return self._new(self._sockets, login, SOCKET_SECONDS, MOST_TICKETS)

    def use_socket_ticket(self, ticket: str) -> Login | None:
        """Return what a WebSocket's *ticket* gives, which is used up; None: it is not valid."""
        return self._used(self._sockets, ticket)

    def revoke_keys(self) -> None:
        """Forget all keys and tickets of browsers."""
        for secrets in (self._keys, self._links, self._sockets):
            secrets.clear()

    def _new(self, secrets: dict[str, _Expiring], login: Login, seconds: float, most: int) -> str | None:
        now = self._now()
        for digest, entry in list(secrets.items()):
            if entry.until <= now:
                del secrets[digest]
        if len(secrets) >= most:
            return None
        secret = new_secret(self._random)
        secrets[digest_of(secret)] = _Expiring(login, now + seconds)
        return secret

    def _used(self, secrets: dict[str, _Expiring], ticket: str) -> Login | None:
        if len(ticket) > _LONGEST_SECRET:
            return None
        digest = digest_of(ticket)
        login = self._valid(secrets, digest)
        secrets.pop(digest, None)
        return login

    def _valid(self, secrets: Mapping[str, _Expiring], digest: str) -> Login | None:
        # By digest: the time of the lookup depends on the hash of the secret, of which nobody can choose the beginning.
        entry = secrets.get(digest)
        return entry.login if entry is not None and entry.until > self._now() else None


@final
class RateLimit:
    """At most *most* in a second for each name: of failed logins of a peer, of requests of a connection."""

    def __init__(self, most: int, *, now: Callable[[], float], most_names: int = 10_000) -> None:
        """Make one. Names beyond *most_names* share one count, so that its memory is bounded."""
        self._most = most
        self._now = now
        self._most_names = most_names
        self._counts: dict[str, int] = {}
        self._second = 0

    def is_over(self, name: str) -> bool:
        """Return whether *name* has had its share of this second."""
        self._turn()
        return self._counts.get(self._key(name), 0) >= self._most

    def add(self, name: str, count: int = 1) -> None:
        """Count one, or *count*."""
        self._turn()
        key = self._key(name)
        self._counts[key] = self._counts.get(key, 0) + count

    def _key(self, name: str) -> str:
        return name if name in self._counts or len(self._counts) < self._most_names else ""

    def _turn(self) -> None:
        second = int(self._now())
        if second != self._second:
            self._second = second
            self._counts.clear()
