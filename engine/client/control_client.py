"""`connect` and `Client`: a connection to a server that is made again whenever it is lost."""

from __future__ import annotations

import os
import random
import secrets
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast, final

import trio

from engine.client.find_address import find_address
from engine.client.reconnect_delay import MOST, MOST_LOCAL, ReconnectDelay
from engine.client.remote_session import RemoteSession, new_key
from engine.client.server_address import ServerAddress
from engine.client.server_link import LinkLost, ServerLink
from engine.control.protocol.client_side import ServerNote
from engine.control.protocol.error_kinds import CLOSE_CODES, RETRIED_CODES, Refusal
from engine.control.protocol.handshake import (
    HIGHEST,
    LOWEST,
    ClientInfo,
    HelloParams,
    HelloResult,
    Role,
    VersionRange,
)
from engine.control.protocol.method_table import METHODS
from engine.control.protocol.session_methods import (
    SessionCreateParams,
    SessionCreateResult,
    SessionListParams,
    SessionListResult,
    TurnSettings,
)
from engine.control.protocol.wire_converter import Params
from engine.control.transport.message_transport import TransportClosed
from engine.core.errors import ConfigError, EngineError, ServerOffline, Unauthorized
from engine.core.exception_groups import public
from engine.core.ids import SessionId
from engine.core.version import __version__
from engine.store.store_protocols import RowStatus, SessionRow

# A connection that has lasted for so long was a good one: the next attempts come quickly again.
_LASTING: Final = 5.0
_MEANINGS: Final[Mapping[int, str]] = {each.code: each.meaning for each in CLOSE_CODES}
_CREDENTIAL_CODES: Final = frozenset({4401, 4403})
# Not keyed, and still the same if they are done twice.
_REPEATABLE: Final = frozenset(
    {"cancel", "session.rename", "session.close", "queue.remove", "model.set", "grant.revoke", "skip_wait", "attend"}
    | {"permission.reply", "question.answer", "recovery.answer", "server.drain"}
    # A piece that a new connection repeats is of no upload there: all of it is sent again.
    | {"upload"}
)
_BUSY: Final = frozenset({"rate_limited", "overloaded"})
_WAIT: Final = 1.0


@asynccontextmanager
async def connect(
    url: str | None = None,
    token: str | None = None,
    *,
    name: str = "client",
    role: Role | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[Client]:
    """Connect to a server for the length of a block. A checkpoint.

    The connection is made again whenever it is lost. Leaving the block, or cancelling it, ends no turn.

    Args:
        url: of the server: `http://…`, `https://…` or `unix:` with a path; None: `$ENGINE_URL`, or else the server that
            runs on this machine for the user's store.
        token: what the server wants to see; None: `$ENGINE_TOKEN`, or the token of that server. A Unix socket needs none.
        name: what other clients are shown, and what the record keeps of answers and prompts.
        role: less than the token gives.
        tls: how to check the server's certificate; None: as the system does.

    Raises:
        ServerOffline: no server answers there.
        Unauthorized: the token is refused.
        ConfigError: the address makes no sense, or none was found.
    """
    address = await find_address(url, token, tls=tls)
    async with connect_to(address, name=name, role=role) as client:
        yield client


@asynccontextmanager
async def connect_to(
    address: ServerAddress, *, name: str = "client", role: Role | None = None
) -> AsyncGenerator[Client]:
    """Connect to the server at *address*, as `connect` does. A checkpoint."""
    client = Client(address, name=name, role=role)
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run_connections)
            try:
                await client.wait_online()
                yield client
            except Exception as error:  # noqa: BLE001  # raised below: the nursery would put it into a group
                failure = error
            nursery.cancel_scope.cancel(reason="the client ends")
    except BaseExceptionGroup as group:
        seen = public(group)
        if seen is group:
            raise
        raise seen from seen.__cause__
    if failure is not None:
        raise failure


@final
class Client:
    """A client of a server. Made by `connect`, not by its constructor.

    Attributes:
        name: what other clients are shown.
        instance: tells the server that connections are of the same client.
        healed: how often a watched session differed from the server's, and was taken again. It should be 0.
        unknown_events: how many events of a newer server this client could not read.
        has_new_server: the server was started since the connection before this one.
        draining_until: when the server is going to end, in seconds since the epoch; None: it is not.
    """

    def __init__(self, address: ServerAddress, *, name: str, role: Role | None = None) -> None:
        """Make it; `run_connections` connects."""
        self.name = name
        self.instance: str = secrets.token_hex(8)
        self.healed: int = 0
        self.unknown_events: int = 0
        self.draining_until: float | None = None
        self._address = address
        self._role: Role | None = role
        self._link: ServerLink | None = None
        self._hello: HelloResult | None = None
        self._failure: Exception | None = None
        self._end = TransportClosed(1006, "not connected yet")
        self._changed = trio.Event()
        self.has_new_server: bool = False

    def __repr__(self) -> str:
        """Return its class and address."""
        return f"<Client of {self._address}>"

    # -- connections -----------------------------------------------------------------------------

    async def run_connections(self) -> None:
        """Connect, and again whenever the connection is lost, until that makes no sense any more. A checkpoint."""
        delay = ReconnectDelay(random=random.random, most=MOST_LOCAL if self._address.is_local else MOST)
        while True:
            since = trio.current_time()
            await self._connect_once()
            self._note_change()
            if self._failure is not None:
                return
            if trio.current_time() - since >= _LASTING:
                delay.reset()
            await trio.sleep(delay.next_delay())

    async def _connect_once(self) -> None:
        """Connect, and serve the connection until it ends. A checkpoint."""
        try:
            async with self._address.open() as transport:
                link = ServerLink(transport, on_note=self._take_note)
                try:
                    self._end = await link.run(self._hello_params(), lambda: self._begin(link))
                finally:
                    self._link = None
        except Unauthorized as error:
            self._failure = error
            return
        except ServerOffline as error:
            self._end = TransportClosed(1006, str(error))
            # Who has never been connected has probably the wrong address, or no server.
            if self._hello is None:
                self._failure = error
            return
        self._failure = self._final_failure(link)

    def _final_failure(self, link: ServerLink) -> Exception | None:
        """Return why there is no use in connecting again."""
        if link.refused is not None:
            # One that was let in before is let in later.
            return None if self._hello is not None and _is_busy(link.refused) else link.refused
        end = self._end
        if end.code in _CREDENTIAL_CODES:
            return Unauthorized(f"{self._address} has refused this client: {end.reason or _MEANINGS[end.code]}")
        if end.code not in RETRIED_CODES:
            why = end.reason or _MEANINGS.get(end.code, f"the code is {end.code}")
            return ServerOffline(f"{self._address} has ended the connection: {why}")
        if self._hello is None:
            return ServerOffline(f"{self._address} ended the connection: {end}")
        return None

    def _begin(self, link: ServerLink) -> None:
        assert link.hello is not None
        self.has_new_server = self._hello is not None and self._hello.server.instance != link.hello.server.instance
        self._link, self._hello, self.draining_until = link, link.hello, None
        self._note_change()

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _take_note(self, note: ServerNote) -> None:
        if note.name == "server.draining":
            self.draining_until = note.value.until  # type: ignore[attr-defined]  # the table says so

    def _hello_params(self) -> HelloParams:
        return HelloParams(
            protocol=VersionRange(min=LOWEST, max=HIGHEST),
            client=ClientInfo(name=self.name, version=__version__, instance=self.instance),
            role=self._role,
        )

    @property
    def is_online(self) -> bool:
        """Whether there is a connection now."""
        return self._link is not None

    @property
    def server(self) -> HelloResult:
        """What the server has said of itself when the last connection began."""
        assert self._hello is not None  # `connect` has waited for it
        return self._hello

    @property
    def end(self) -> TransportClosed:
        """How the last connection ended."""
        return self._end

    async def wait_online(self) -> ServerLink:
        """Wait until there is a connection, and return it. A checkpoint. Raises what ends all attempts to connect."""
        await trio.lowlevel.checkpoint()
        while self._link is None:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            await self._changed.wait()
        return self._link

    # -- requests --------------------------------------------------------------------------------

    async def request(self, method: str, /, **params: object) -> object:
        """Make any request of the protocol, and return its result. A checkpoint.

        A missing `key` is made. It is repeated after a lost connection until there is an answer, unless doing it twice
        would not be the same as once. If cancelled, what it changes may be changed.

        Raises `ConfigError` for a method or params that do not exist, `ServerOffline` if it can't be known whether
        something was changed, and the errors that the server answers with.
        """
        row = METHODS.get(method)
        if row is None or row.role is None or method in _OF_CONNECTIONS:
            raise ConfigError(f"{method!r} is not a method that a client may call")
        if row.is_keyed and params.get("key") is None and method != "cancel":
            params["key"] = new_key()
        try:
            made = row.params(**params)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{method}: {error}") from None
        return await self.send(method, made)

    async def send(self, method: str, params: Params, *, attempts: list[None] | None = None) -> object:
        """Make a request with params of its class; see `request`. A checkpoint. *attempts* gets an item for each."""
        row = METHODS[method]
        is_read = row.role == "read"
        may_repeat = is_read or getattr(params, "key", None) is not None or method in _REPEATABLE
        while True:
            link = await self.wait_online()
            if attempts is not None:
                attempts.append(None)
            try:
                return await link.request(method, params, is_read=is_read)
            except LinkLost:
                if not may_repeat:
                    raise ServerOffline(f"the connection was lost: it is not known whether {method} was done") from None
            except Refusal as refusal:
                if not _is_busy(refusal):
                    raise
                await trio.sleep(_retry_after(refusal))

    # -- sessions --------------------------------------------------------------------------------

    async def create_session(
        self,
        *,
        cwd: str | os.PathLike[str] = ".",
        model: str | None = None,
        agent: str | None = None,
        title: str | None = None,
        settings: TurnSettings | None = None,
        key: str | None = None,
    ) -> RemoteSession:
        """Make a session. A checkpoint; if cancelled, it may be made.

        Args:
            cwd: its working directory, on the server's machine.
            model: its model; None: the server's.
            agent: the name of an agent that is configured there.
            title: its title.
            settings: for all of its turns.
            key: makes repeating it safe, also by another process; None: one is made.
        """
        params = SessionCreateParams(
            cwd=self._folder(cwd), model=model, agent=agent, title=title, settings=settings, key=key or new_key()
        )
        created = cast("SessionCreateResult", await self.send("session.create", params))
        return self.session(created.row.id)

    def session(self, session_id: str) -> RemoteSession:
        """Return a handle to a session. Not a checkpoint: the server is not asked whether it exists."""
        return RemoteSession(self, SessionId(session_id))

    async def list(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        parent: str | None = None,
        status: RowStatus | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> tuple[SessionRow, ...]:
        """Return sessions, the newest first: at most *limit*, and only those older than *before*. A checkpoint."""
        params = SessionListParams(
            cwd=None if cwd is None else self._folder(cwd), parent=parent, status=status, limit=limit, before=before
        )
        return cast("SessionListResult", await self.send("session.list", params)).rows

    def _folder(self, folder: str | os.PathLike[str]) -> str:
        """Return *folder* as the server finds it: a relative one is meant from here, if the server is here."""
        path = os.fspath(folder)
        return str(Path(path).expanduser().resolve()) if self._address.is_local else path


# They belong to a connection; `RemoteSession.watch` and `Client` itself use them.
_OF_CONNECTIONS: Final = frozenset({"subscribe", "unsubscribe", "watch", "rpc.cancel"})


def _is_busy(error: EngineError) -> bool:
    """Return whether the server has too much to do at the moment, and would take the same later."""
    return isinstance(error, Refusal) and error.kind in _BUSY


def _retry_after(refusal: Refusal) -> float:
    seconds = refusal.facts.get("retry_after")
    return float(seconds) if isinstance(seconds, (int, float)) else _WAIT
