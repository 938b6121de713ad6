"""Who may connect: tokens of programs, tickets and keys of browsers. No I/O; time and randomness come in.

There are no cookies. A program sends its token with each request. A person opens a link with a *ticket* behind the `#`,
which browsers keep to themselves; the page exchanges it for a *key* of its own, and each WebSocket takes another ticket,
because browsers can't send a header there.

A key ends with its server. For the next one the page also gets a *secret*, which it never sends: it signs in again by
proving that it has it (`BrowserProofs`).
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final, final

import attrs

from engine.control.protocol.handshake import Role, may

LINK_SECONDS: Final = 600.0
SOCKET_SECONDS: Final = 30.0
KEY_SECONDS: Final = 12 * 3600.0
# Of each token: one with a lower role must not use up what others need.
MOST_TICKETS: Final = 32
_MOST_KEYS: Final = 1024
_CHALLENGE_SECONDS: Final = 30
_SECRET_BYTES: Final = 32
_LONGEST_SECRET: Final = 200
# The name of a token, when the secret ends (in seconds since the epoch), and a random text.
_BROWSER: Final = re.compile(r"([a-z0-9][a-z0-9_.-]{0,63})\.([0-9]{1,12})\.([A-Za-z0-9_-]{43})")
_CHALLENGE: Final = re.compile(r"([0-9]{1,12}\.[A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})")


@attrs.define(eq=False)
class Peer:
    """The other side of a connection.

    Attributes:
        address: failed logins are counted for it; empty: this machine's own socket.
        is_known: whether it has shown a credential.
    """

    address: str = ""
    is_known: bool = False


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
    return _as_text(random(_SECRET_BYTES))


def _as_text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def digest_of(secret: str) -> str:
    """Return what is kept and compared instead of *secret*."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@final
class ClientCredentials:
    """The tokens, keys and tickets of a server."""

    def __init__(self, *, now: Callable[[], float], random: Callable[[int], bytes]) -> None:
        """Make an empty set: no client may connect.

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
        """Return a ticket for a printed link; None if too many of its token are open."""
        return self._new(self._links, login, LINK_SECONDS, MOST_TICKETS)

    def use_link_ticket(self, ticket: str) -> Login | None:
        """Return what a link's *ticket* gives, which is used up; None: it is not valid."""
        return self._used(self._links, ticket)

    def new_key(self, login: Login, seconds: float = KEY_SECONDS) -> str:
        """Return a key of a browser. Beyond the most that are kept of a token, it replaces the oldest."""
        own = _of_token(self._keys, login)
        if len(own) >= _MOST_KEYS:
            del self._keys[own[0]]
        key = self._new(self._keys, login, seconds, _MOST_KEYS)
        assert key is not None  # there is room
        return key

    def token_named(self, name: str) -> tuple[str, Login] | None:
        """Return the digest of the token called *name*, and what it gives; None: there is none."""
        return next(((digest, login) for digest, login in self._tokens.items() if login.name == name), None)

    def socket_ticket(self, login: Login) -> str | None:
        """Return a ticket for one WebSocket; None if too many of its token are open."""
        return self._new(self._sockets, login, SOCKET_SECONDS, MOST_TICKETS)

    def use_socket_ticket(self, ticket: str) -> Login | None:
        """Return what a WebSocket's *ticket* gives, which is used up; None: it is not valid."""
        return self._used(self._sockets, ticket)

    def _new(self, secrets: dict[str, _Expiring], login: Login, seconds: float, most: int) -> str | None:
        now = self._now()
        for digest, entry in list(secrets.items()):
            if entry.until <= now:
                del secrets[digest]
        if len(_of_token(secrets, login)) >= most:
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


def _of_token(secrets: Mapping[str, _Expiring], login: Login) -> list[str]:
    """Return the digests of those that come from the token of *login*, the oldest first."""
    return [digest for digest, entry in secrets.items() if entry.login.name == login.name]


@attrs.frozen
class BrowserSecret:
    """What a page signs in with again.

    Attributes:
        browser: says which secret it is; it is not secret itself.
        secret: as text. The page keeps it where no script can read it.
    """

    browser: str
    secret: str


@attrs.frozen
class ProvenLogin:
    """What a proof gives.

    Attributes:
        login: what may be done.
        seconds: for how long.
        proof: shows the page that the server has the secret, too.
    """

    login: Login
    seconds: float
    proof: str


@final
class BrowserProofs:
    """Pages sign in again, also after a restart, without sending anything that another program could use.

    Until a server is back, any program of the machine may take its port, and get what pages send there. So a page sends
    only a proof: an HMAC with its secret over a challenge of this server. That program could pass a challenge of the server
    on and use the answer, so the secret also holds for one origin alone: at another port the server has another origin. And
    the server proves that it has the secret before the page sends anything else.

    Nothing is stored: a secret follows from the token of its link. It ends with that token, or at its time.
    """

    def __init__(
        self, credentials: ClientCredentials, *, now: Callable[[], float], random: Callable[[int], bytes]
    ) -> None:
        """Make it.

        Args:
            credentials: with the tokens that the secrets follow from.
            now: the time in seconds since the epoch.
            random: returns that many random bytes.
        """
        self._credentials = credentials
        self._now = now
        self._random = random
        self._key = random(_SECRET_BYTES)
        # Challenges that were answered, until they end.
        self._answered: dict[str, float] = {}

    def new_secret(self, login: Login, origin: str) -> BrowserSecret | None:
        """Return a secret for a page of *origin*; None: the token of *login* has been revoked."""
        token = self._credentials.token_named(login.name)
        if token is None:
            return None
        browser = f"{login.name}.{int(self._now() + KEY_SECONDS)}.{new_secret(self._random)}"
        return BrowserSecret(browser, _secret_of(token[0], browser, origin))

    def challenge(self) -> str:
        """Return a new challenge, which is valid for half a minute. The server keeps nothing of it."""
        challenge = f"{int(self._now()) + _CHALLENGE_SECONDS}.{new_secret(self._random)}"
        return f"{challenge}.{_mac(self._key, challenge)}"

    def verify(self, *, browser: str, challenge: str, nonce: str, proof: str, origin: str) -> ProvenLogin | None:
        """Return what the *proof* of a page at *origin* gives; None: it is not valid. A challenge is used up by it."""
        if max(map(len, (browser, challenge, nonce, proof))) > _LONGEST_SECRET:
            return None
        parts = _BROWSER.fullmatch(browser)
        token = None if parts is None else self._credentials.token_named(parts[1])
        if parts is None or token is None or not self._is_open(challenge):
            return None
        seconds = int(parts[2]) - self._now()
        secret = _secret_of(token[0], browser, origin).encode()
        expected = _mac(secret, f"page\n{challenge}\n{nonce}")
        if seconds <= 0 or not hmac.compare_digest(expected.encode(), proof.encode("utf-8", "surrogatepass")):
            return None
        self._answered[challenge] = self._now() + _CHALLENGE_SECONDS
        return ProvenLogin(token[1], seconds, _mac(secret, f"server\n{challenge}\n{nonce}"))

    def _is_open(self, challenge: str) -> bool:
        """Whether this server has made *challenge*, a moment ago, and it was not used."""
        now = self._now()
        self._answered = {each: until for each, until in self._answered.items() if until > now}
        parts = _CHALLENGE.fullmatch(challenge)
        if parts is None or not hmac.compare_digest(_mac(self._key, parts[1]), parts[2]):
            return False
        return int(parts[1].partition(".")[0]) > now and challenge not in self._answered


def _secret_of(token_digest: str, browser: str, origin: str) -> str:
    return _mac(token_digest.encode(), f"browser\n{browser}\n{origin}")


def _mac(key: bytes, text: str) -> str:
    return _as_text(hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256"))


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
