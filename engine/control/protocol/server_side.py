"""`ServerSide`: the server's end of a connection without I/O. Frames come in; calls with typed params come out.

What can be refused without looking at a session is refused here: what is no JSON-RPC, methods and fields that do not
exist, anything before `hello`, and what the role does not allow.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from engine.control.protocol.error_kinds import ERROR_KINDS, Refusal, error_of
from engine.control.protocol.handshake import Role, WireLimits, may
from engine.control.protocol.method_table import CLIENT_NOTES, METHODS, SERVER_NOTES, Method
from engine.control.protocol.watch_methods import IgnoredNote
from engine.control.protocol.wire_converter import BadParams, Params, read_params, write_value
from engine.core.schema import Json
from engine.journal.json_text import to_json_text
from engine.jsonrpc.rpc_connection import RpcConnection, RpcReceived
from engine.jsonrpc.rpc_messages import (
    RpcError,
    RpcFailure,
    RpcId,
    RpcNotification,
    RpcRequest,
    RpcResult,
    failure_text,
    invalid_request,
    notification_text,
)
from engine.jsonrpc.strict_json import FrameTooLarge, RpcLimits

P = TypeVar("P", bound=Params)

# What a client must be able to receive in one message.
LARGEST_MESSAGE: Final = 16 << 20
_TOO_LARGE: Final = 1009
_BAD_HELLO: Final = 4400


@attrs.frozen
class Call:
    """A request to run.

    Attributes:
        id: to answer it under.
        method: its row of the table.
        params: of the class that the row names.
    """

    id: RpcId
    method: Method
    params: Params


@attrs.frozen
class Incoming:
    """What to do after a frame.

    Attributes:
        calls: requests to run.
        notes: notifications that mean something.
        sends: frames to send at once.
        close: the code to close the connection with; None: it stays open.
    """

    calls: tuple[Call, ...] = ()
    notes: tuple[Params, ...] = ()
    sends: tuple[str, ...] = ()
    close: int | None = None


@attrs.define(eq=False)
class ServerSide:
    """The server's end of one connection.

    Attributes:
        largest: the longest result; over HTTP there is room for more than in one message.
        role: what the client may do; None until it was welcomed.
        ignored: how many of its notifications did nothing.
    """

    _rpc: RpcConnection
    # Called for each answer, with the method, if there is such a one, and "ok" or the code of the error.
    _count: Callable[[str, str], None]
    largest: int = LARGEST_MESSAGE
    role: Role | None = attrs.field(default=None, init=False)
    ignored: int = attrs.field(default=0, init=False)
    _has_greeted: bool = attrs.field(default=False, init=False)
    _close: int | None = attrs.field(default=None, init=False)

    @classmethod
    def of(
        cls,
        limits: WireLimits,
        *,
        largest: int = LARGEST_MESSAGE,
        count: Callable[[str, str], None] = lambda _method, _code: None,
    ) -> ServerSide:
        """Return the end of a new connection.

        Args:
            limits: of the connection.
            largest: the longest result.
            count: called for each answer, with the method (`unknown`: there is no such) and `ok` or the error's code.
        """
        # With room for what is answered at once, `ping` and `rpc.cancel`: the connection refuses other requests above the limit.
        in_flight = limits.in_flight + limits.batch
        rpc = RpcLimits(bytes=limits.message_bytes, batch=limits.batch, in_flight=in_flight)
        return cls(RpcConnection(rpc), count, largest)

    def welcome(self, role: Role) -> None:
        """Let the client in, once its `hello` was accepted; or give it another role."""
        self.role = role

    # -- in ----------------------------------------------------------------------------------

    def receive(self, frame: str | bytes) -> Incoming:
        """Return what to do after *frame*. It raises nothing, whatever the frame is."""
        try:
            received = self._rpc.receive(frame)
        except FrameTooLarge as error:
            return self.refuse_frame(str(error), error.limit)
        return self._sorted(received)

    def refuse_frame(self, problem: str, limit: int) -> Incoming:
        """Return what to do after a frame that was too large to be read."""
        refused = error_of(Refusal("too_large", problem, limit=limit))
        return Incoming(sends=(failure_text(None, refused),), close=_TOO_LARGE)

    def _sorted(self, received: RpcReceived) -> Incoming:
        calls: list[Call] = []
        notes: list[Params] = []
        sends = list(received.replies)
        for message in received.messages:
            match self._call(message) if isinstance(message, RpcRequest) else self._note(message):
                case Call() as call:
                    calls.append(call)
                case Params() as note:
                    notes.append(note)
                case str() as text:
                    sends.append(text)
                case None:
                    pass
        return Incoming(tuple(calls), tuple(notes), tuple(sends), self._close)

    def _call(self, request: RpcRequest) -> Call | str | None:
        """Return the call; or the frame that refuses it; None: it is refused in a batch that is not complete."""
        method = METHODS.get(request.method)
        if method is None:
            return self._refuse(request, _unknown(request.method))
        try:
            self._check_allowed(method)
            call = Call(request.id, method, read_params(request.params, method.params))
        except (Refusal, BadParams) as error:
            if request.method == "hello" and not self._has_greeted:
                # It would be wrong again after a new connection, so the close code says not to come back.
                self._close = _BAD_HELLO
            return self._refuse(request, error_of(error))
        if method.name == "hello":
            if self._has_greeted:
                return self._refuse(request, invalid_request("a connection has one hello"))
            self._has_greeted = True
        return call

    def _refuse(self, request: RpcRequest, error: RpcError) -> str | None:
        self._count(request.method if request.method in METHODS else "unknown", str(error.code))
        return self._rpc.fail(request.id, error)

    def _check_allowed(self, method: Method) -> None:
        if method.role is None:
            return
        if self.role is None:
            raise Refusal("not_ready", "the first message must be hello")
        if not may(self.role, method.role):
            raise Refusal(
                "forbidden",
                f"{method.name} needs the role {method.role}; this connection has the role {self.role}",
                role=self.role,
                needed=method.role,
            )

    def _note(self, note: RpcNotification | RpcResult | RpcFailure) -> Params | str | None:
        if not isinstance(note, RpcNotification):
            # An answer, to a request that a server never makes.
            return None
        kind = CLIENT_NOTES.get(note.method)
        if kind is not None and self.role is not None:
            try:
                return read_params(note.params, kind)
            except BadParams:
                pass
        self.ignored += 1
        # The first, then ever fewer: a client that floods a server with notifications gets no flood in return.
        if self.role is None or self.ignored & (self.ignored - 1):
            return None
        return note_text("server.ignored", IgnoredNote(method=note.method, count=self.ignored))

    # -- out ---------------------------------------------------------------------------------

    def is_open(self, key: RpcId) -> bool:
        """Return whether a request has that id and is not answered."""
        return self._rpc.is_open(key)

    def answer(self, call: Call, result: object) -> str | None:
        """Return the frame that answers *call*; None: its batch is not complete."""
        assert type(result) is call.method.result
        text = write_value(result)
        if len(text) > self.largest:
            return self.fail(call, Refusal("too_large", "the result is too large: ask for less", limit=self.largest))
        self._count(call.method.name, "ok")
        return self._rpc.answer(call.id, text)

    def fail(self, call: Call, error: BaseException, *, incident: str = "") -> str | None:
        """Return the frame that answers *call* with an error: see `error_of`."""
        refused = error_of(error, incident=incident)
        self._count(call.method.name, str(refused.code))
        return self._rpc.fail(call.id, refused)


def note_text(name: str, note: object) -> str:
    """Return the frame of a notification of the server."""
    assert type(note) is SERVER_NOTES[name]
    return notification_text(name, write_value(note))


def events_text(sub: str, position: str, events: tuple[str, ...]) -> str:
    """Return the frame of an `events` notification, from events that are encoded already: once for all subscribers."""
    head = f'"sub":{to_json_text(sub)},"position":{to_json_text(position)}'
    return notification_text("events", f'{{{head},"events":[{",".join(events)}]}}')


def _unknown(method: str) -> RpcError:
    facts: dict[str, Json] = {"kind": "method", "retry": "no", "method": method}
    hint = ""
    for nearest in difflib.get_close_matches(method, METHODS, n=1):
        facts["nearest"] = nearest
        hint = f"; did you mean {nearest}?"
    return RpcError(ERROR_KINDS["method"].code, f"there is no method {method!r}{hint}", facts)
