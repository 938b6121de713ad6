"""A connection pool, tested by a machine: Hypothesis draws which tasks use it, when they are cancelled, and when time passes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from engine.testing import TrioMachine, cancel_points


class Pool:
    """At most *size* connections, each used by one task at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.idle: list[str] = []
        self.made = 0
        self._slots = trio.Semaphore(size)

    @property
    def free_places(self) -> int:
        """How many tasks may come in."""
        return self._slots.value

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[str]:
        """Take an idle connection, or make one; waits while all are in use."""
        async with self._slots:
            if not self.idle:
                await trio.sleep(0.1)  # connects
                self.made += 1
                self.idle.append(f"connection {self.made}")
            connection = self.idle.pop()
            try:
                yield connection
            finally:
                self.idle.append(connection)


class PoolMachine(TrioMachine):
    """Tasks that use a pool of two connections, and are cancelled anywhere."""

    async def set_up(self) -> None:
        """Make the pool."""
        self.pool = Pool(2)
        self.used: list[str] = []
        await trio.lowlevel.checkpoint()

    async def use(self, seconds: float) -> None:
        """Be a task that uses a connection."""
        async with self.pool.connection() as connection:
            assert connection not in self.used, f"{connection} is used twice"
            self.used.append(connection)
            try:
                await trio.sleep(seconds)
            finally:
                self.used.remove(connection)

    @rule(seconds=st.sampled_from([0.0, 1.0]), cancel=cancel_points())
    def use_a_connection(self, seconds: float, cancel: int | None) -> None:
        """Start such a task, and cancel it after some of its points."""
        self.start(self.use, seconds, cancel_after=cancel)

    @invariant()
    def there_are_not_too_many(self) -> None:
        """Check the limit."""
        assert len(self.used) + len(self.pool.idle) <= self.pool.size

    async def tear_down(self) -> None:
        """Check that the pool still has all of its places, whatever was cancelled."""
        assert self.pool.free_places == self.pool.size
        await trio.lowlevel.checkpoint()


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=20, stateful_step_count=12, deadline=None, database=None, derandomize=True)

if __name__ == "__main__":
    TestPool("runTest").debug()
