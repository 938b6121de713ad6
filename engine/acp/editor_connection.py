"""`EditorConnection`: messages to and from the editor, in order, and requests in both directions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

import attrs
import trio

from engine.control.transport.message_transport import MessageTransport, TransportClosed
from engine.core.deferred import Deferred
from engine.core.schema import Json
from engine.journal.json_text import to_json_text
from engine.jsonrpc.rpc_connection import RpcConnection
from engine.jsonrpc.rpc_messages import (
    RpcError,
    RpcFailure,
    RpcId,
    RpcNotification,
    RpcRequest,
    RpcResult,
    notification_text,
)
from engine.jsonrpc.strict_json import FrameTooLarge, RpcLimits

LIMITS: Final = RpcLimits(bytes=32 << 20, in_flight=256)
CANCEL: Final = "$/cancel_request"
# More than this is not made before the editor has read some of it.
_QUEUED_BYTES: Final = 1 << 20


@attrs.define(eq=False)
class ClientRequest:
    """A request of ours that the editor has not answered.

    Attributes:
        id: its id.
        answer: the result; an error, if the editor could not do it or has gone.
    """

    id: RpcId
    answer: Deferred[RpcResult | RpcError] = attrs.field(factory=Deferred["RpcResult | RpcError"])


_GONE: Final = RpcError(-32603, "the editor has gone")
_WITHDRAWN: Final = RpcError(-32800, "the question was withdrawn")


@final
class EditorConnection:
    """One connection. What is sent is queued at once, so that it goes out in the order in which it happened."""

    def __init__(self, transport: MessageTransport) -> None:
        """Make it."""
        self._transport = transport
        self._rpc = RpcConnection(LIMITS)
        self._queue: deque[str] = deque()
        self._queued = 0
        self._has_more = trio.Event()
        self._sent = trio.lowlevel.ParkingLot()
        self._open_requests: dict[RpcId, ClientRequest] = {}
        self._is_closed = False

    # -- sending: not a checkpoint -----------------------------------------------------------------

    def notify(self, method: str, params: dict[str, Json]) -> None:
        """Send a notification."""
        self._put(notification_text(method, to_json_text(params)))

    def answer(self, request: RpcId, result: Json) -> None:
        """Send the result of a request, unless that was answered."""
        if self._rpc.is_open(request):
            self._put(self._rpc.answer(request, to_json_text(result)))

    def fail(self, request: RpcId, error: RpcError) -> None:
        """Send the error of a request, unless that was answered."""
        if self._rpc.is_open(request):
            self._put(self._rpc.fail(request, error))

    def ask(self, method: str, params: dict[str, Json]) -> ClientRequest:
        """Send a request of ours."""
        key, text = self._rpc.request(method, to_json_text(params))
        request = self._open_requests[key] = ClientRequest(key)
        self._put(text)
        if self._is_closed:
            self._settle(key, _GONE)
        return request

    def withdraw(self, request: ClientRequest) -> None:
        """Tell the editor that the answer to a request is not needed any more."""
        if request.id in self._open_requests:
            self._rpc.abandon(request.id)
            self._settle(request.id, _WITHDRAWN)
            self.notify(CANCEL, {"requestId": request.id})

    async def has_room(self) -> None:
        """Wait until the editor has read most of what was sent. A checkpoint; if cancelled, nothing is lost."""
        await trio.lowlevel.checkpoint()
        while self._queued > _QUEUED_BYTES and not self._is_closed:
            await self._sent.park()

    async def is_flushed(self) -> None:
        """Wait until everything is sent. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._queued and not self._is_closed:
            await self._sent.park()

    # -- tasks --------------------------------------------------------------------------------------

    async def run_sender(self) -> None:
        """Send what is queued, until the editor has gone. A checkpoint; runs until cancelled."""
        while not self._is_closed:
            while self._queue:
                text = self._queue.popleft()
                try:
                    await self._transport.send(text)
                except TransportClosed:
                    self.close()
                    break
                self._queued -= len(text)
                self._sent.unpark_all()
            if not self._is_closed:
                self._has_more = trio.Event()
                await self._has_more.wait()
        await trio.lowlevel.checkpoint()

    async def receive(self, handle: Callable[[RpcRequest | RpcNotification], None]) -> None:
        """Pass requests and notifications to *handle* until the editor's output ends. A checkpoint."""
        while True:
            try:
                received = self._rpc.receive(await self._transport.receive())
            except (TransportClosed, FrameTooLarge):
                return
            for reply in received.replies:
                self._put(reply)
            for message in received.messages:
                if isinstance(message, (RpcRequest, RpcNotification)):
                    handle(message)
                else:
                    self._answered(message)

    def close(self) -> None:
        """Let everyone go on who waits for the editor. Not a checkpoint."""
        self._is_closed = True
        for key in list(self._open_requests):
            self._settle(key, _GONE)
        self._has_more.set()
        self._sent.unpark_all()

    def _answered(self, message: RpcResult | RpcFailure) -> None:
        if message.id is not None:
            self._settle(message.id, message.error if isinstance(message, RpcFailure) else message)

    def _settle(self, key: RpcId, answer: RpcResult | RpcError) -> None:
        request = self._open_requests.pop(key, None)
        if request is not None:
            request.answer.settle(answer)

    def _put(self, text: str | None) -> None:
        # None: of a batch that is not complete.
        if text is not None and not self._is_closed:
            self._queue.append(text)
            self._queued += len(text)
            self._has_more.set()
