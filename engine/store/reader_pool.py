"""`ReaderPool`: a pool of connections for reading, each used by one thread at a time.

A read runs in a thread, which a cancel abandons. Its query is then interrupted, and the thread
closes the connection when the query has ended. So no connection is shared with a thread that
still uses it, and no interrupt hits another read.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, TypeVar

import attrs
import trio

from engine.core.errors import StoreError
from engine.core.threads import to_thread

T = TypeVar("T")
C = TypeVar("C")

# Concurrent reads, by default. More would not make a disk faster, and each holds a connection and a thread.
READERS = 8


@attrs.define(kw_only=True, eq=False, repr=False)
class ReaderPool(ABC, Generic[C]):
    """A pool of identical connections to one database.

    Attributes:
        max_readers: the most concurrent reads.
    """

    max_readers: int = READERS
    _idle: list[C] = attrs.field(factory=list[C], init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _pid: int = attrs.field(factory=os.getpid, init=False)
    _limiter: trio.CapacityLimiter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._limiter = trio.CapacityLimiter(self.max_readers)

    # -- what each database defines: in any thread -----------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """What the store is called in errors."""

    @abstractmethod
    def connect_reader(self) -> C:
        """Return a new connection. It blocks."""

    @abstractmethod
    def close_reader(self, connection: C) -> None:
        """Close a connection. It blocks."""

    @abstractmethod
    def interrupt(self, connection: C) -> None:
        """Stop what the connection is doing. Never blocks: in the trio thread."""

    @abstractmethod
    def map_errors(self) -> AbstractContextManager[None]:
        """Map the database's exceptions in the block to `StoreError`."""

    def run_with_retry(self, work: Callable[[], T], is_stopped: Callable[[], bool]) -> T:
        """Run *work*; it may be retried until it *is_stopped*. It blocks."""
        return work()

    # -- in the trio thread -----------------------------------------------------------------

    async def read(self, work: Callable[[C], T]) -> T:
        """Run *work* with a connection in a thread, and return what it returns. A checkpoint.

        If cancelled, the thread is abandoned, and its query is interrupted. Raises `StoreError` for the database's
        errors.
        """
        if os.getpid() != self._pid:
            raise StoreError(f"this process was forked; the store {self.name} works only in the one that opened it")
        job = _ReadJob(self, work)
        try:
            # Its own limiter: tools that hang may use up trio's default one, and sessions must still open.
            return await to_thread(job.run, limiter=self._limiter)
        except BaseException:  # re-raised: in the main task it may be KeyboardInterrupt, too
            job.stop()
            raise

    # -- in any thread ----------------------------------------------------------------------

    def close(self) -> None:
        """Close the readers' connections, those in use when they are returned. It blocks, for a moment."""
        # First: a connection that is returned from now on is closed instead of becoming idle again.
        self._is_closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self.close_reader(connection)

    def borrow(self, is_stopped: Callable[[], bool]) -> AbstractContextManager[C]:
        """Lend a connection to a reader thread. If the work *is_stopped*, the connection is closed afterwards."""
        return self.borrow_pooled(is_stopped)

    @contextmanager
    def borrow_pooled(self, is_stopped: Callable[[], bool]) -> Generator[C]:
        """Lend one of the pool."""
        connection = self._take()
        try:
            yield connection
        except BaseException:  # re-raised: the connection may be in a transaction or broken, so it is not pooled again
            self.close_reader(connection)
            raise
        with self._lock:
            # Not reused after an interrupt, which may still arrive and would hit the next query.
            if not (self._is_closed or is_stopped()):
                self._idle.append(connection)
                return
        self.close_reader(connection)

    def _take(self) -> C:
        with self._lock:
            if self._is_closed:
                raise StoreError(f"the store {self.name} is closed")
            if self._idle:
                return self._idle.pop()
        # Outside of the lock: connecting may take seconds, and other threads return their connections under it.
        return self.connect_reader()


@attrs.define(eq=False, repr=False)
class _ReadJob(Generic[C, T]):
    """One piece of work of a reader."""

    _readers: ReaderPool[C]
    _work: Callable[[C], T]
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _at: list[C] = attrs.field(factory=list[C], init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)

    def run(self) -> T:
        """Run it, in a thread."""
        return self._readers.run_with_retry(self._once, lambda: self._is_stopped)

    def _once(self) -> T:
        with self._readers.map_errors(), self._readers.borrow(lambda: self._is_stopped) as connection:
            # The lock orders this against `stop`: either it finds the connection here, or this finds it stopped.
            with self._lock:
                if self._is_stopped:
                    raise StoreError(f"the store {self._readers.name}: it was interrupted")
                self._at.append(connection)
            try:
                return self._work(connection)
            finally:
                with self._lock:
                    self._at.clear()

    def stop(self) -> None:
        """Interrupt the query if it is running. Called in the Trio thread. The lock is never held for longer than an assignment."""
        with self._lock:
            self._is_stopped = True
            for connection in self._at:
                self._readers.interrupt(connection)
