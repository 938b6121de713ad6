"""`Writer`: one thread that writes in order and in batches, even when tasks are cancelled.

It is not a task in a nursery: such a task died with its host's cancellation, and the flush that a clean-up waited for
never came. Nor is it one of trio's threads: abandoned tool threads used up the limiter and delayed a flush by seconds.
It is a daemon, so that a hanging disk can't keep the program alive, and it replies through the trio token.

    trio thread                         writer thread
    put(item) -> ticket ──── queue ───► write(all that is queued)
    flushed(ticket) waits ◄── token ─── that ticket is durable, or: it failed

The state that `flushed` and `put` depend on is changed in the trio thread only, so nothing here needs a lock. Shields
and deadlines are up to the caller: the writer can't know how long a turn may wait for a disk.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, Literal, Protocol, TypeVar

import attrs
import trio

from engine.core.errors import StoreError

# Seconds that an item may wait for others while no task waits for it: a transaction costs as much as encoding a dozen
# events, and competes with the loop for the interpreter.
_GATHER: Final = 0.01

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
A = TypeVar("A")


class Sink(Protocol[T_contra]):
    """Receives the items. Its methods run in the writer's thread, one call at a time."""

    def write(self, batch: Sequence[T_contra]) -> None:
        """Write *batch*; when this returns, it is durable. An exception ends the writer, so retries belong in here."""
        ...

    def idle_seconds(self) -> float | None:
        """Return after how long without an item `write` is called with an empty batch; None: never."""
        ...

    def close(self) -> None:
        """Release all resources; called once, at the end, even after a failure."""
        ...


class WriteFailed(StoreError):
    """The sink raised; its error is the `__cause__`. Items not flushed before are lost."""


class WriterUnusable(StoreError):
    """The writer can't be used here.

    Attributes:
        reason: `"closed"`; `"forked"`: the thread lives in the parent process
            only; or `"other run"`: it belongs to the `trio.run` it began in.
    """

    def __init__(self, reason: Literal["closed", "forked", "other run"]) -> None:
        super().__init__(f"the writer can't be used here: {reason}")
        self.reason = reason


class _Close:
    """The last item in the queue."""


@attrs.define(eq=False, repr=False)
class Writer(Generic[T]):
    """Writes items to a sink, in the order of `put`, in a thread of its own.

    To be used from inside one `trio.run`, in its thread. The writer's thread
    begins with the first `put`, and ends after `close`, or when the sink fails.
    """

    _sink: Sink[T]
    name: str = attrs.field(kw_only=True)
    _queue: queue.SimpleQueue[T | _Close] = attrs.field(factory=queue.SimpleQueue["T | _Close"], init=False)
    _pid: int = attrs.field(factory=os.getpid, init=False)
    _token: trio.lowlevel.TrioToken | None = attrs.field(default=None, init=False)
    _put: int = attrs.field(default=0, init=False)
    _durable: int = attrs.field(default=0, init=False)
    _error: BaseException | None = attrs.field(default=None, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _has_ended: bool = attrs.field(default=False, init=False)
    _progress: trio.Event = attrs.field(factory=trio.Event, init=False)
    # Set where what is queued is to be written at once.
    _hurry: threading.Event = attrs.field(factory=threading.Event, init=False)

    @property
    def durable(self) -> int:
        """The last ticket known to be durable.

        Decide by this value: in a cancelled scope `flushed` raises even if the ticket is durable.
        """
        return self._durable

    @trio.lowlevel.enable_ki_protection
    def put(self, item: T) -> int:
        """Queue *item* and return its ticket: 1, 2, 3... Never blocks, not a checkpoint.

        Raises:
            WriteFailed: the sink has failed.
            WriterUnusable: closed, forked, or in another `trio.run`.
        """
        self._check_place()
        self._check_sink()
        if self._is_closed:
            raise WriterUnusable("closed")
        if self._token is None:
            self._start()
            self._check_sink()
        self._queue.put(item)
        # Tickets are a count, not ids: one integer then says which items are durable.
        self._put += 1
        return self._put

    async def flushed(self, ticket: int) -> None:
        """Wait until *ticket*, and so all before it, is durable. Always a checkpoint; cancelling it changes nothing.

        It waits for as long as the sink takes: wrap it in a deadline, and in a shield during clean-up.

        Raises:
            WriteFailed: the sink has failed before.
            WriterUnusable: forked, or in another `trio.run`.
            ValueError: there is no such ticket.
        """
        self._check_place()
        if not 0 <= ticket <= self._put:
            raise ValueError(f"ticket {ticket} of {self._put}")
        await trio.lowlevel.checkpoint()
        # The condition is what counts, not whether `wait` returned: in a cancelled scope it raises even if the event is
        # set.
        while self._durable < ticket:
            self._check_sink()
            self._hurry.set()
            await self._progress.wait()

    @trio.lowlevel.enable_ki_protection
    def close(self) -> None:
        """Accept no more items; the thread ends once the queue is written. Never blocks, not a checkpoint, idempotent.

        Raises `WriterUnusable` after a fork, or in another `trio.run`.
        """
        self._check_place()
        if self._is_closed:
            return
        self._is_closed = True
        if self._token is None:
            self._start()  # the thread closes the sink, which may be bound to one thread
        self._queue.put(_Close())
        self._hurry.set()

    async def aclose(self, timeout: float) -> bool:
        """Close, and wait up to *timeout* seconds for the thread; return whether all is durable and the sink closed.

        A sink that hangs blocks nothing but its thread, a daemon. Always a
        checkpoint. If cancelled, the thread ends by itself a little later.
        Raises `WriterUnusable` as `close` does; never `WriteFailed`.
        """
        self.close()
        with trio.move_on_after(timeout):
            await trio.lowlevel.checkpoint()
            while not self._has_ended:
                await self._progress.wait()
        return self._has_ended and self._error is None

    def _check_place(self) -> None:
        # A fork copies the queue, but not the thread that empties it.
        if os.getpid() != self._pid:
            raise WriterUnusable("forked")
        if self._token is not None and self._token is not trio.lowlevel.current_trio_token():
            raise WriterUnusable("other run")

    def _check_sink(self) -> None:
        if self._error is not None:
            # A new one each time: one exception raised in many tasks would collect all their tracebacks.
            raise WriteFailed(f"{self.name} could not be written: {self._error}") from self._error

    def _start(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._run, args=(self._token,), name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread is available, or the interpreter is shutting down
            self._on_end(error)

    def _on_durable(self, ticket: int) -> None:
        self._durable = ticket
        self._wake()

    def _on_end(self, error: BaseException | None) -> None:
        self._error = error
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        """Wake all waiters. They share one event, so a cancelled waiter has nothing to undo."""
        news, self._progress = self._progress, trio.Event()
        news.set()

    # ---- in the thread: only the queue, the sink and the token are touched

    def _run(self, token: trio.lowlevel.TrioToken) -> None:
        error = self._write_all(token)
        try:
            self._sink.close()
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - a thread's border, as below
            error = error or raised
        _call_in_trio(token, self._on_end, error)

    def _write_all(self, token: trio.lowlevel.TrioToken) -> BaseException | None:
        """Write until the writer is closed.

        Return the sink's exception, if any: if the thread ended silently, all flushes would hang.
        """
        written = 0
        try:
            while True:
                # One write for all that is queued: events that arrive during a sync are covered together by the next
                # one.
                batch, is_last = self._take()
                if batch or not is_last:
                    self._sink.write(batch)
                if batch:
                    written += len(batch)
                    _call_in_trio(token, self._on_durable, written)
                if is_last:
                    return None
        except BaseException as error:  # noqa: ASYNC103, BLE001 - the waiters get it; there is no Cancelled in a thread
            return error  # noqa: ASYNC104

    def _take(self) -> tuple[list[T], bool]:
        """Wait for the first item and those that soon follow, then return all, and whether the writer is closing.

        Return none if the sink does not want to wait for an item any longer.
        """
        batch: list[T] = []
        try:
            item = self._queue.get(timeout=self._sink.idle_seconds())
        except queue.Empty:
            return batch, False
        self._hurry.wait(_GATHER)
        # Before the queue is emptied: a task that sets it later waits for an item of the next batch, or of this one.
        self._hurry.clear()
        while not isinstance(item, _Close):
            batch.append(item)
            try:
                # All that is queued by now, in the same batch.
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True


def _call_in_trio(token: trio.lowlevel.TrioToken, function: Callable[[A], None], argument: A) -> None:
    """Call back in the trio thread. If that run is over, no task is waiting; the items are still written."""
    with contextlib.suppress(trio.RunFinishedError):
        token.run_sync_soon(function, argument)
