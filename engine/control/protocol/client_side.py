"""`ClientSide`: a client's end of a connection without I/O. Typed params go out; typed results and notifications come in."""

from __future__ import annotations

import attrs

from engine.control.protocol.error_kinds import Refusal, exception_of
from engine.control.protocol.method_table import CLIENT_NOTES, METHODS, SERVER_NOTES, Method
from engine.control.protocol.server_side import LARGEST_MESSAGE
from engine.control.protocol.wire_converter import BadParams, Params, read_received, write_value
from engine.core.errors import EngineError
from engine.core.schema import Json
from engine.jsonrpc.rpc_connection import RpcConnection
from engine.jsonrpc.rpc_messages import RpcFailure, RpcId, RpcNotification, RpcResult, notification_text
from engine.jsonrpc.strict_json import RpcLimits


@attrs.frozen
class RequestOutcome:
    """The answer to a request.

    Attributes:
        id: of the request; None: one side could not read a message of the other.
        value: the result; None: it failed.
        error: why it failed.
    """

    id: RpcId | None
    value: object = None
    error: EngineError | None = None


@attrs.frozen
class ServerNote:
    """A notification of the server.

    Attributes:
        name: its name.
        value: of the class that the table names.
    """

    name: str
    value: object


@attrs.define(eq=False)
class ClientSide:
    """A client's end of one connection.

    Attributes:
        ignored: how many messages of a newer server were ignored.
    """

    _rpc: RpcConnection = attrs.field(
        # A server is trusted with larger messages, and with states that are nested as deep as its values are.
        factory=lambda: RpcConnection(RpcLimits(bytes=LARGEST_MESSAGE + 4096)),
        init=False,
    )
    ignored: int = attrs.field(default=0, init=False)
    _methods: dict[RpcId, Method] = attrs.field(factory=dict[RpcId, Method], init=False)

    def request(self, name: str, params: Params) -> tuple[RpcId, str]:
        """Return the id of a new request, and the frame to send."""
        method = METHODS[name]
        assert type(params) is method.params
        key, text = self._rpc.request(name, write_value(params))
        self._methods[key] = method
        return key, text

    def notify(self, name: str, params: Params) -> str:
        """Return the frame of a notification."""
        assert type(params) is CLIENT_NOTES[name]
        return notification_text(name, write_value(params))

    def abandon(self, key: RpcId) -> None:
        """Ignore the answer to a request."""
        self._rpc.abandon(key)
        self._methods.pop(key, None)

    @property
    def pending(self) -> frozenset[RpcId]:
        """The ids of requests without an answer: what to repeat, with the same key, after a lost connection."""
        return self._rpc.pending

    def receive(self, frame: str | bytes) -> tuple[RequestOutcome | ServerNote, ...]:
        """Return what a frame of the server holds. Raises `FrameTooLarge`, after which the connection is to be closed."""
        read: list[RequestOutcome | ServerNote] = []
        for message in self._rpc.receive(frame).messages:
            match message:
                case RpcResult():
                    read.append(_outcome(message, self._methods.pop(message.id)))
                case RpcFailure():
                    if message.id is not None:
                        del self._methods[message.id]
                    read.append(RequestOutcome(message.id, error=exception_of(message.error)))
                case RpcNotification():
                    note = _note(message)
                    self.ignored += note is None
                    read += [] if note is None else [note]
                case _:
                    # A request: servers make none.
                    self.ignored += 1
        return tuple(read)


def _outcome(message: RpcResult, method: Method) -> RequestOutcome:
    try:
        return RequestOutcome(message.id, read_received(message.value, method.result))
    except BadParams as error:
        return RequestOutcome(message.id, error=_unreadable(error, method.name))


def _note(message: RpcNotification) -> RequestOutcome | ServerNote | None:
    kind = SERVER_NOTES.get(message.method)
    if kind is None:
        return None
    try:
        return ServerNote(message.method, read_received(message.params, kind))
    except BadParams as error:
        # Not ignored: events may be missing from now on.
        return RequestOutcome(None, error=_unreadable(error, message.method))


def _unreadable(error: BadParams, what: str) -> Refusal:
    facts: dict[str, Json] = {"path": error.path}
    return Refusal("internal", f"the server's {what} can't be read: {error}", **facts)
