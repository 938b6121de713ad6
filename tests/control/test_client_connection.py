"""One connection of the server, over a transport that sends what a test says."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from engine.control.client_connection import ClientConnection
from engine.control.protocol.handshake import HelloParams, HelloResult, Role, WireLimits
from engine.control.protocol.wire_converter import Params
from engine.control.service.metrics import Metrics
from engine.control.time_slots import TimeSlots
from engine.control.transport.message_transport import TransportClosed


class NoService:
    """A server that nobody gets to."""

    def __init__(self) -> None:
        self.limits = WireLimits()
        self.metrics = Metrics()

    def now(self) -> float:
        return 0.0

    def log_in(self, connection: ClientConnection, hello: HelloParams) -> tuple[Role, HelloResult]:
        raise AssertionError

    async def run(self, method: str, params: Params, connection: ClientConnection) -> object:
        raise AssertionError

    def heads(self, connection: ClientConnection) -> dict[str, int]:
        return {}

    def note_refusal(self, reason: str, login: object = None) -> None:
        raise AssertionError

    def incident(self, error: Exception) -> str:
        raise AssertionError


class Flood:
    """A client that sends nonsense as fast as it is read."""

    def __init__(self, count: int) -> None:
        self.left = self.count = count
        self.answers: list[str] = []

    async def receive(self) -> str:
        await trio.lowlevel.checkpoint()
        if not self.left:
            while len(self.answers) < self.count:
                await trio.sleep(0.001)
            raise TransportClosed(1006)
        self.left -= 1
        return "nonsense"

    async def send(self, text: str) -> None:
        await trio.lowlevel.checkpoint()
        self.answers.append(text)

    async def close(self, code: int, reason: str) -> None:
        await trio.lowlevel.checkpoint()


async def test_floods_together_are_read_at_one_rate(autojump_clock: MockClock) -> None:
    refusals = TimeSlots(100)
    floods = [Flood(21) for _ in range(2)]
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number, flood in enumerate(floods):
            connection = ClientConnection(
                flood, NoService(), connection_id=f"c{number}", login=None, since=0, refusals=refusals
            )
            nursery.start_soon(connection.run)
    assert 0.4 <= trio.current_time() - began <= 0.5
    assert [len(flood.answers) for flood in floods] == [21, 21]


async def test_single_mistake_is_answered_at_once(autojump_clock: MockClock) -> None:
    flood = Flood(1)
    connection = ClientConnection(flood, NoService(), connection_id="c1", login=None, since=0, refusals=TimeSlots(1))
    began = trio.current_time()
    await connection.run()
    assert trio.current_time() - began < 0.01
    assert "-32700" in flood.answers[0]
