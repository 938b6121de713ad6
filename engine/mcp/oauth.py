"""Logins to servers behind URLs: the SDK obtains the tokens, in `engine mcp login` only; requests of a turn use what is stored.

A turn opens no browser. Where a token has expired it is refreshed under the lock of the file, by one process at a time: servers
that rotate tokens take two refreshes with one token for a theft. A refresh that has begun is finished and saved even if
the turn is cancelled meanwhile. Where that is not possible, the server needs a login.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast
from urllib.parse import SplitResult, parse_qs, urlsplit

import attrs
import httpx2
import trio
from mcp.client.auth import OAuthClientProvider, OAuthTokenError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from engine.config.mcp_config import McpServer
from engine.core.errors import ConfigError
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.mcp.server_requests import LoginNeeded
from engine.mcp.server_text import one_line
from engine.permission.grants.state_file import StateFile

# For the user at the browser.
LOGIN_SECONDS: Final = 300.0
_REFRESH_SECONDS: Final = 10.0
# Other processes wait for a refresh.
_LOCK_SECONDS: Final = 15.0
# A token that is about to expire is refreshed before.
_MARGIN: Final = 30.0
_HEAD_SECONDS: Final = 10.0
_MOST_HEAD_BYTES: Final = 16_384
_UNAUTHORIZED: Final = 401
_PAGE: Final = b"You are logged in. You can close this page.\n"


@attrs.frozen(kw_only=True, eq=False)
class StoredLogin(Value):
    """A login, as it is stored.

    Attributes:
        url: of the server.
        issuer: who has issued the tokens, and the only one who gets them back.
        token_endpoint: where they are refreshed.
        resource: what they are for.
        client_id: our registration at the issuer.
        client_secret: its secret; empty: it has none.
        auth_method: how the issuer wants it; empty: in the form.
        access_token: sent to the server.
        refresh_token: for a new access token; empty: a new login is needed.
        expires: when the access token expires, in seconds since 1970; 0: unknown.
    """

    url: str
    issuer: str
    token_endpoint: str
    resource: str
    client_id: str
    client_secret: str = attrs.field(default="", repr=False)
    auth_method: str = ""
    access_token: str = attrs.field(repr=False)
    refresh_token: str = attrs.field(default="", repr=False)
    expires: float = 0.0

    def is_valid(self, now: float) -> bool:
        """Return whether the server may still accept the access token."""
        return not self.expires or now < self.expires - _MARGIN


@attrs.frozen
class LoginFile:
    """The file with the logins, which only its owner can read. The methods block. They raise `ConfigError` and `StoreError`."""

    path: Path

    @classmethod
    def of_user(cls) -> LoginFile:
        """Return the user's."""
        # Imported here: most engines have no servers.
        from platformdirs import user_data_path

        return cls(user_data_path("engine", appauthor=False) / "mcp-logins.json")

    def load(self, url: str) -> StoredLogin | None:
        """Return the login to a server; None: there is none."""
        return _find(self._file.read(), url)

    def save(self, login: StoredLogin) -> None:
        """Store a login, in place of an earlier one."""
        self._file.update(lambda entries: _with(entries, login))

    def remove(self, url: str) -> None:
        """Remove the login to a server."""
        self._file.update(lambda entries: [entry for entry in entries if _find([entry], url) is None])

    def refresh(self, url: str, used: str) -> StoredLogin | None:
        """Return a login with another access token than *used*; None if a new login is needed.

        Another process may have refreshed it already. Raises `httpx2.HTTPError`.
        """
        result: list[StoredLogin | None] = []

        def change(entries: Sequence[object]) -> Sequence[object]:
            login = _find(entries, url)
            if login is None or (login.access_token != used and login.is_valid(time.time())):
                result.append(login)
                return entries
            new = _refreshed(login) if login.refresh_token else None
            result.append(new)
            if new is None:
                # A refresh token that was refused is of no use any more.
                return _with(entries, attrs.evolve(login, refresh_token="", expires=1.0))
            return _with(entries, new)

        self._file.update(change)
        return result[0]

    @property
    def _file(self) -> StateFile:
        return StateFile(self.path, "logins", lock_seconds=_LOCK_SECONDS, is_secret=True)


def _find(entries: Sequence[object], url: str) -> StoredLogin | None:
    for entry in entries:
        if _url_of(entry) == url:
            values = cast("dict[str, object]", entry)
            try:
                return StoredLogin(**values)  # type: ignore[arg-type]  # checked by its use; a damaged one needs a login
            except TypeError as error:
                raise ConfigError(f"the stored login to {url} is damaged\nNext: log in again") from error
    return None


def _with(entries: Sequence[object], login: StoredLogin) -> list[object]:
    return [*(entry for entry in entries if _url_of(entry) != login.url), attrs.asdict(login)]


def _url_of(entry: object) -> object:
    return cast("dict[str, object]", entry).get("url") if isinstance(entry, dict) else None


def _refreshed(login: StoredLogin) -> StoredLogin | None:
    """Ask the issuer for a new access token; None if it refuses. It blocks. Raises `httpx2.HTTPError`."""
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": login.client_id}
    if login.resource:
        form["resource"] = login.resource
    try:
        form, headers = _identity(login).prepare_token_auth(form)
    except OAuthTokenError:
        return None
    with httpx2.Client(timeout=_REFRESH_SECONDS) as client:
        answer = client.post(login.token_endpoint, data=form, headers=headers)
    if answer.status_code >= 500:
        raise httpx2.HTTPStatusError("the issuer failed", request=answer.request, response=answer)
    if answer.status_code != 200:
        return None
    try:
        token = OAuthToken.model_validate_json(answer.content)
    except ValueError:
        return None
    return attrs.evolve(
        login,
        access_token=token.access_token,
        refresh_token=token.refresh_token or login.refresh_token,
        expires=_expiry(token),
    )


def _identity(login: StoredLogin) -> OAuthContext:
    """Return what the SDK needs to say who we are, in the way that the issuer wants."""
    method = login.auth_method or ("client_secret_post" if login.client_secret else "none")
    client = OAuthClientInformationFull(
        client_id=login.client_id, client_secret=login.client_secret or None, token_endpoint_auth_method=method
    )
    return OAuthContext(
        login.url,
        OAuthClientMetadata(redirect_uris=None),
        _Storage(),
        redirect_handler=None,
        callback_handler=None,
        client_info=client,
    )


def _expiry(token: OAuthToken) -> float:
    return 0.0 if token.expires_in is None else time.time() + float(token.expires_in)


# -- in requests -----------------------------------------------------------------------------------


class StoredAuth(httpx2.Auth):
    """Adds the stored access token to requests to its server; refreshes it once if it is refused."""

    def __init__(self, url: str, file: LoginFile) -> None:
        """Use the login to *url*."""
        self._url = url
        self._file = file

    def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Return what the client asks for requests to send. See httpx2."""
        return _AuthFlow(request, self._url, self._file)


@attrs.define(eq=False)
class _AuthFlow(AsyncGenerator[httpx2.Request, httpx2.Response]):
    """The requests for one request: itself with a token, and once more with another one if that was refused."""

    _request: httpx2.Request
    _url: str
    _file: LoginFile
    _login: StoredLogin | None = attrs.field(default=None, init=False)
    _sent: int = attrs.field(default=0, init=False)

    async def __anext__(self) -> httpx2.Request:
        """Return the request with the stored token. A checkpoint. Raises `LoginNeeded`."""
        if _origin(str(self._request.url)) == _origin(self._url):
            self._login = await to_thread(self._file.load, self._url)
        if self._login is not None and not self._login.is_valid(time.time()):
            self._login = await self._refresh(self._login)
        self._sent = 1
        return self._with_token()

    async def asend(self, value: httpx2.Response | None) -> httpx2.Request:
        """Return the request with a new token if the old one was refused. A checkpoint. Raises `LoginNeeded`."""
        await trio.lowlevel.checkpoint()
        if value is None or value.status_code != _UNAUTHORIZED or self._login is None or self._sent > 1:
            raise StopAsyncIteration
        self._login = await self._refresh(self._login)
        self._sent += 1
        return self._with_token()

    async def athrow(self, *error: object) -> httpx2.Request:
        """End it. Not a checkpoint."""
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Let go of nothing. Not a checkpoint."""

    def _with_token(self) -> httpx2.Request:
        if self._login is not None:
            self._request.headers["Authorization"] = f"Bearer {self._login.access_token}"
        return self._request

    async def _refresh(self, login: StoredLogin) -> StoredLogin:
        # An abandoned thread finishes: the issuer has given out a new token, and it must not get lost.
        new = await to_thread(self._file.refresh, self._url, login.access_token)
        if new is None:
            raise LoginNeeded
        return new


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port


# -- the login -------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _Storage:
    """What the SDK stores, for one login."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        await trio.lowlevel.checkpoint()
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await trio.lowlevel.checkpoint()
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        await trio.lowlevel.checkpoint()
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await trio.lowlevel.checkpoint()
        self.client = client_info


async def log_in(name: str, server: McpServer, show: Callable[[str], None], file: LoginFile | None = None) -> None:
    """Log in to a server, and store the login. A checkpoint; if cancelled, nothing is stored.

    Args:
        name: the server's name.
        server: the server.
        show: gets the address of the page where the user logs in.
        file: where the login is stored.

    Raises:
        ConfigError: the server wants no login, or it failed.
    """
    storage, callbacks = _Storage(), trio.open_memory_channel[Mapping[str, str]](1)
    sender, receiver = callbacks
    provider: OAuthClientProvider | None = None
    boundary = ErrorBoundary()
    with boundary:
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port = cast("tuple[str, int]", listener.socket.getsockname())[1]
            nursery.start_soon(partial(trio.serve_listeners, partial(_take_callback, sender), [listener]))

            async def redirect(url: str) -> None:
                await trio.lowlevel.checkpoint()
                if urlsplit(url).scheme not in {"https", "http"}:
                    raise ConfigError(f"the issuer's page is no web page: {one_line(url)}")
                show(url)

            async def callback() -> AuthorizationCodeResult:
                values = await receiver.receive()
                if "code" not in values:
                    raise ConfigError(f"the issuer refused: {one_line(values.get('error', 'no reason'))}")
                return AuthorizationCodeResult(code=values["code"], state=values.get("state"), iss=values.get("iss"))

            provider = OAuthClientProvider(
                server.url,
                OAuthClientMetadata(client_name="engine", redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")]),
                storage,
                redirect,
                callback,
            )
            async with httpx2.AsyncClient(auth=provider, timeout=httpx2.Timeout(30.0)) as client:
                with trio.fail_after(LOGIN_SECONDS):
                    # Any request will do: a server that wants a login refuses it first.
                    await client.post(server.url, json={"jsonrpc": "2.0", "id": 1, "method": "server/discover"})
            nursery.cancel_scope.cancel(reason="the login is over")
    if boundary.error is not None:
        if isinstance(boundary.error, ConfigError):
            raise boundary.error
        raise ConfigError(f"the login to {name} failed: {describe(boundary.error)}") from boundary.error
    if provider is None or storage.tokens is None or storage.client is None:
        raise ConfigError(f"{name} wants no login\nNext: engine mcp test {name}")
    await to_thread((file or LoginFile.of_user()).save, _login_of(server.url, provider, storage.tokens, storage.client))


def _login_of(
    url: str, provider: OAuthClientProvider, tokens: OAuthToken, client: OAuthClientInformationFull
) -> StoredLogin:
    context = provider.context
    metadata = context.oauth_metadata
    base = context.get_authorization_base_url(context.auth_server_url or url)
    return StoredLogin(
        url=url,
        issuer=base if metadata is None else str(metadata.issuer),
        token_endpoint=f"{base}/token" if metadata is None else str(metadata.token_endpoint),
        resource=context.get_resource_url(),
        client_id=client.client_id or "",
        client_secret=client.client_secret or "",
        auth_method=client.token_endpoint_auth_method or "",
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or "",
        expires=_expiry(tokens),
    )


async def _take_callback(sender: trio.MemorySendChannel[Mapping[str, str]], stream: trio.SocketStream) -> None:
    """Answer a request of the browser; pass on what the issuer has sent with it. A checkpoint. Raises nothing ordinary."""
    with ErrorBoundary():
        async with stream:
            target = await _read_target(stream)
            is_callback = target is not None and target.path == "/callback"
            page = _PAGE if is_callback else b""
            await stream.send_all(
                b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
                % (b"200 OK" if is_callback else b"404 Not Found", len(page), page)
            )
            if target is not None and is_callback:
                sender.send_nowait({key: each[0] for key, each in parse_qs(target.query).items()})


async def _read_target(stream: trio.SocketStream) -> SplitResult | None:
    """Return what a GET request is for; None if it is no such request. A checkpoint. Raises `trio.TooSlowError`."""
    head = b""
    with trio.fail_after(_HEAD_SECONDS):
        await trio.lowlevel.checkpoint()
        while b"\r\n\r\n" not in head and len(head) < _MOST_HEAD_BYTES:
            chunk = await stream.receive_some(4_096)
            if not chunk:
                return None
            head += chunk
    method, _, rest = head.partition(b" ")
    return urlsplit(rest.split(b" ", 1)[0].decode("ascii", "replace")) if method == b"GET" else None
