"""What a server does when it uses too much memory."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from engine.control.service.memory_guard import MemoryGuard
from engine.control.service.process_stats import resident_bytes


class Server:
    def __init__(self) -> None:
        self.saved: list[bool] = []
        self.takes_work = True

    async def save_memory(self, *, idle_only: bool) -> None:
        await trio.lowlevel.checkpoint()
        self.takes_work = False
        self.saved.append(idle_only)

    def take_work(self) -> None:
        self.takes_work = True


async def test_idle_clients_go_first(autojump_clock: MockClock) -> None:
    del autojump_clock
    server, used = Server(), iter([90, 110, 120, 105, 100])
    guard = MemoryGuard(server, 100, used=lambda: next(used))
    states: list[bool] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(guard.run)
        for _ in range(5):
            await trio.sleep(2.001)
            states.append(server.takes_work)
        nursery.cancel_scope.cancel()
    assert states == [True, False, False, False, True]
    assert server.saved == [True, False, False]


def test_memory_of_this_process_is_known() -> None:
    assert resident_bytes() > 1 << 20
