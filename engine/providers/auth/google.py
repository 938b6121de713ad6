"""Google credentials for Vertex, through google-auth: service accounts, `gcloud`, workload identity.

google-auth blocks: it reads files, signs, and calls a token server. So it runs in a thread, one at a time for all
requests, and a token is reused until shortly before it expires. Its requests go through httpx like all others, with the
same proxies and certificates, so no second HTTP library is needed.

Cancellation: a cancelled request abandons its thread. The refresh continues there and its token serves the next
request, which waits in a thread for a lock that threads share. A request to the token server has a timeout, so the wait
is bounded.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final, Protocol, cast

import attrs
import trio

from engine.core.errors import AuthFailed, ConfigError, ConnectionBroken, Overloaded, ProviderError
from engine.core.threads import to_thread
from engine.providers.auth.auth import UnsignedRequest

SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
KEY_FILE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
_MISSING: Final = "Vertex needs google-auth: pip install 'nursery-engine[vertex]'"
_ADVICE: Final = f"run `gcloud auth application-default login`, or set {KEY_FILE} to the file of a service account"
# Google Cloud machines reach their metadata server without a proxy.
_METADATA = frozenset({"metadata.google.internal", "metadata", "169.254.169.254"})
_TIMEOUT = 30.0
# Characters of an error's text; some contain a whole web page.
_LONGEST_REASON = 300


class Credentials(Protocol):
    """The part of google-auth's credentials that is used here."""

    @property
    def token(self) -> str | None:
        """The token, or None before the first refresh."""
        ...

    @property
    def valid(self) -> bool:
        """Whether the token is valid for some minutes more."""
        ...

    def refresh(self, request: Callable[..., Any]) -> None:
        """Get a new token. Blocks."""
        ...

    def apply(self, headers: dict[str, str]) -> None:
        """Add the token and the billing project to *headers*."""
        ...


def google_auth(env: Mapping[str, str]) -> GoogleAuth:
    """Return the authentication. Reads nothing yet; raises `ConfigError` if google-auth is not installed."""
    try:
        # `google` is a namespace package: other packages may provide it without `auth`.
        is_there = find_spec("google.auth") is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise ConfigError(_MISSING)
    return GoogleAuth(env.get(KEY_FILE, "").strip())


@attrs.define(eq=False)
class GoogleAuth:
    """Authenticates with a Google token that all requests share.

    Attributes:
        key_file: a service account's file, or another that google-auth reads; empty: the default credentials.
    """

    key_file: str = ""
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _thread_lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _credentials: Credentials | None = attrs.field(default=None, init=False, repr=False)
    _tokens: list[str] = attrs.field(factory=list[str], init=False, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token, and the previous one, which a running response may still quote."""
        return tuple(self._tokens)

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
        """Return the header with the token; refresh it first if it is about to expire.

        A checkpoint if the token is refreshed. If cancelled then, the refresh continues in its thread, and its token
        is kept.

        Raises `ConfigError` if google-auth is not installed or finds no credentials, `AuthFailed` if they are refused,
        and other `ProviderError`s for temporary failures.
        """
        credentials = self._credentials
        if credentials is None or not credentials.valid:
            # Of requests at the same time, one refreshes, and the others wait and use its token.
            async with self._lock:
                credentials = self._credentials
                if credentials is None or not credentials.valid:
                    credentials = await to_thread(self._renew)
        headers: dict[str, str] = {}
        credentials.apply(headers)
        return headers

    def renew(self, headers: Mapping[str, str]) -> bool:
        """Return False: a token is renewed when it is about to expire."""
        return False

    def _renew(self) -> Credentials:
        with self._thread_lock:
            if self._credentials is None:
                self._credentials = _load_credentials(self.key_file)
            credentials = self._credentials
            if not credentials.valid:
                _refresh(credentials)
                self._tokens = [*self._tokens[-1:], credentials.token or ""]
            return credentials


def _load_credentials(key_file: str) -> Credentials:
    """Load the credentials of *key_file*, or those of this machine. Blocks."""
    library, errors = _library(), _errors()
    try:
        if not key_file:
            return cast("Credentials", library.default(scopes=[SCOPE], request=_send)[0])
        with warnings.catch_warnings():
            # It warns about untrusted files; the user named this one.
            warnings.simplefilter("ignore", DeprecationWarning)
            return cast("Credentials", library.load_credentials_from_file(key_file, scopes=[SCOPE], request=_send)[0])
    except errors.DefaultCredentialsError as error:
        raise ConfigError(f"no usable Google credentials: {_reason(error)}; {_ADVICE}") from error
    except errors.GoogleAuthError as error:
        raise _translate_error(error) from error


def _refresh(credentials: Credentials) -> None:
    try:
        credentials.refresh(_send)
    except _errors().GoogleAuthError as error:
        raise _translate_error(error) from error


def _library() -> Any:
    """Return `google.auth`, whose functions have no types."""
    try:
        import google.auth
    except ImportError as error:
        raise ConfigError(f"{_MISSING} ({error})") from error
    return google.auth


def _errors() -> Any:
    from google.auth import exceptions

    return exceptions


def _translate_error(error: Exception) -> ProviderError:
    errors = _errors()
    message = f"no Google access token: {_reason(error)}"
    if isinstance(error, (errors.TransportError, errors.TimeoutError)):
        return ConnectionBroken(message, retryable=True)
    if getattr(error, "retryable", False):
        return Overloaded(message, retryable=True)
    return AuthFailed(f"{message}; {_ADVICE}")


def _reason(error: Exception) -> str:
    """Return google-auth's message, without the server's response that it appends."""
    return " ".join(str(error.args[0] if error.args else error).split())[:_LONGEST_REASON]


# -- google-auth's transport ------------------------------------------------------


@attrs.frozen
class _Response:
    """A response in google-auth's form."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def _send(
    url: str,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **unknown: object,
) -> _Response:
    """Send a request for google-auth; raises its `TransportError`. Blocks."""
    import httpx

    failure = _errors().TransportError
    if unknown:
        raise failure(f"credentials that need {', '.join(unknown)} are not supported")
    try:
        trust_env = httpx.URL(url).host not in _METADATA
        with httpx.Client(timeout=timeout or _TIMEOUT, trust_env=trust_env, follow_redirects=method == "GET") as client:
            answer = client.request(method, url, content=body, headers=headers)
            return _Response(answer.status_code, answer.headers, answer.content)
    # ImportError: a kind of proxy for which httpx needs an extra.
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError) as error:
        raise failure(str(error) or type(error).__name__) from error
