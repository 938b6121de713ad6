"""The same with pytest: one decorator, fixtures as always."""

import subprocess
import sys
from collections.abc import Generator

import pytest
import trio


class Pool:
    def __init__(self) -> None:
        self.idle = ["one", "two"]

    async def query(self, seconds: float) -> None:
        """Take a connection, and give it back."""
        connection = self.idle.pop()
        try:
            await trio.sleep(seconds)
        finally:
            self.idle.append(connection)


@pytest.fixture
def pool() -> Generator[Pool]:
    pool = Pool()
    yield pool
    # Checked after each run, cancelled or not.
    assert len(pool.idle) == 2


@pytest.mark.cancel_everywhere(every=1, by=("scope", "deadline"))
async def test_two_queries(pool: Pool) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.query, 0.1)
        nursery.start_soon(pool.query, 0.2)


if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", __file__, "-q", "-p", "no:cacheprovider"]
    raise SystemExit(subprocess.run(command, check=False).returncode)
