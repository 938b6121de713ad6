"""`RpcConnection`: the ids and batches of one connection, in both directions.

It gets frames and returns what is to be done; it sends nothing itself:

    received = connection.receive(frame)
    for text in received.replies: send(text)         # errors that need no handler
    for message in received.messages: …              # requests to run, answers to own requests
    text = connection.answer(request.id, "{}")       # to be sent, unless it is None

A peer's request is *open* until it is answered. The answers to a batch are kept until the last one has come, and then
leave as one frame.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from engine.jsonrpc.rpc_messages import (
    RpcError,
    RpcFailure,
    RpcFrame,
    RpcId,
    RpcInvalid,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    failure_text,
    invalid_request,
    overloaded,
    parse_error,
    parse_frame,
    request_text,
    result_text,
)
from engine.jsonrpc.strict_json import BadJson, FrameTooLarge, RpcLimits

Accepted: TypeAlias = RpcRequest | RpcNotification | RpcResult | RpcFailure


@attrs.frozen
class RpcReceived:
    """What to do after a frame.

    Attributes:
        messages: requests and notifications to run, and answers to own requests.
        replies: frames to send at once.
    """

    messages: tuple[Accepted, ...] = ()
    replies: tuple[str, ...] = ()


@attrs.define(eq=False)
class _Batch:
    """The answers to a batch, until `missing` is 0."""

    missing: int = 0
    texts: list[str] = attrs.field(factory=list[str])

    @property
    def text(self) -> str:
        return f"[{','.join(self.texts)}]"


@attrs.define(eq=False)
class RpcConnection:
    """One end of a connection. Not a checkpoint anywhere: it does no I/O."""

    limits: RpcLimits = RpcLimits()
    _open: dict[RpcId, _Batch | None] = attrs.field(factory=dict[RpcId, "_Batch | None"], init=False)
    _pending: set[RpcId] = attrs.field(factory=set[RpcId], init=False)
    _last_id: int = attrs.field(default=0, init=False)

    # -- the peer's requests ---------------------------------------------------------------

    def receive(self, frame: str | bytes) -> RpcReceived:
        """Return what to do after *frame*. Raises `FrameTooLarge`, after which the connection is to be closed."""
        try:
            parsed = parse_frame(frame, self.limits)
        except FrameTooLarge:
            raise
        except BadJson as error:
            return RpcReceived(replies=(failure_text(None, parse_error(str(error))),))
        batch = _Batch() if parsed.is_batch else None
        messages, errors = self._accept(parsed, batch)
        if batch is None:
            return RpcReceived(messages, errors)
        batch.texts.extend(errors)
        done = (batch.text,) if batch.texts and not batch.missing else ()
        return RpcReceived(messages, done)

    def answer(self, key: RpcId, result: str) -> str | None:
        """Return the frame to send for an open request with the JSON text *result*; None: its batch is not complete."""
        return self._answered(key, result_text(key, result))

    def fail(self, key: RpcId, error: RpcError) -> str | None:
        """Return the frame to send for an open request that failed; None: its batch is not complete."""
        return self._answered(key, failure_text(key, error))

    def is_open(self, key: RpcId) -> bool:
        """Return whether a request of the peer has that id and is not answered."""
        return key in self._open

    def _accept(self, frame: RpcFrame, batch: _Batch | None) -> tuple[tuple[Accepted, ...], tuple[str, ...]]:
        accepted: list[Accepted] = []
        errors: list[str] = []
        for message in frame.messages:
            refusal = self._refusal(message)
            if refusal is not None:
                errors.append(refusal)
            elif isinstance(message, RpcInvalid):
                pass  # it is always refused
            elif isinstance(message, RpcRequest):
                self._open[message.id] = batch
                if batch is not None:
                    batch.missing += 1
                accepted.append(message)
            elif self._is_expected(message):
                accepted.append(message)
        return tuple(accepted), tuple(errors)

    def _refusal(self, message: RpcMessage) -> str | None:
        """Return the error to answer a message with, if it is not to be run."""
        if isinstance(message, RpcInvalid):
            return failure_text(None, message.error)
        if not isinstance(message, RpcRequest):
            return None
        if message.id in self._open:
            # Under the same id, it would be taken for the answer to the other request.
            return failure_text(None, invalid_request(f"the id {message.id!r} is in use"))
        if len(self._open) >= self.limits.in_flight:
            return failure_text(message.id, overloaded(self.limits))
        return None

    def _is_expected(self, message: RpcNotification | RpcResult | RpcFailure) -> bool:
        """Return whether a message other than a request has a receiver; an answer has one once."""
        if isinstance(message, RpcResult) or (isinstance(message, RpcFailure) and message.id is not None):
            if message.id not in self._pending:
                return False
            self._pending.discard(message.id)
        return True

    def _answered(self, key: RpcId, text: str) -> str | None:
        batch = self._open.pop(key)
        if batch is None:
            return text
        batch.missing -= 1
        batch.texts.append(text)
        return None if batch.missing else batch.text

    # -- own requests ------------------------------------------------------------------------

    def request(self, method: str, params: str) -> tuple[RpcId, str]:
        """Return the id of a new request, and the frame to send. *params* is JSON text."""
        self._last_id += 1
        self._pending.add(self._last_id)
        return self._last_id, request_text(self._last_id, method, params)

    def abandon(self, key: RpcId) -> None:
        """Ignore the answer to an own request."""
        self._pending.discard(key)

    @property
    def pending(self) -> frozenset[RpcId]:
        """The ids of own requests that have no answer yet."""
        return frozenset(self._pending)
