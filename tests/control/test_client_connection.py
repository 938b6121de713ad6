"""One connection of the server, over a transport that sends what a test says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import trio
from trio.testing import MockClock

from engine.control.client_connection import HEARTBEAT, ClientConnection
from engine.control.protocol.handshake import HelloParams, HelloResult, Role, WireLimits
from engine.control.protocol.wire_converter import Params
from engine.control.service.metrics import Metrics
from engine.control.time_slots import TimeSlots
from engine.control.transport.message_transport import STALLED, TransportClosed
from scripts.control_examples import EXAMPLES


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


class Listener:
    """A client that makes one request, and accepts a message only when the test says so."""

    def __init__(self, frame: str, accepts: int = 0) -> None:
        self.sent: list[str] = []
        self.frames: Iterator[str] = iter([frame])
        self.asks = trio.Event()
        self.accepts = trio.Semaphore(accepts)
        self.code: int | None = None

    async def receive(self) -> str:
        await self.asks.wait()
        for frame in self.frames:
            return frame
        await trio.sleep_forever()
        raise AssertionError

    async def send(self, text: str) -> None:
        await self.accepts.acquire()
        self.sent.append(text)

    async def close(self, code: int, reason: str) -> None:
        self.code = code
        await trio.lowlevel.checkpoint()


async def test_subscriptions_take_turns_after_answers(autojump_clock: MockClock) -> None:
    client, taken = Listener('{"jsonrpc":"2.0","id":1,"method":"ping"}'), list[str]()
    connection = ClientConnection(
        client, NoService(), connection_id="c1", login=None, since=0, refusals=TimeSlots(1), kind="stdio"
    )

    async def subscription(name: str) -> None:
        def take() -> str:
            taken.append(name)
            return name

        while True:
            await connection.send_next(take)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        await trio.testing.wait_all_tasks_blocked()
        for name in ("one", "two", "three"):
            connection.start(partial(subscription, name))
        await trio.testing.wait_all_tasks_blocked()
        # The client is not ready: one message is on its way, and nothing is taken for the others.
        assert len(taken) == 1
        client.asks.set()
        for _ in range(7):
            await trio.testing.wait_all_tasks_blocked()
            client.accepts.release()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    first, answer, *others = client.sent
    assert json.loads(answer)["result"] == {"time": 0.0}
    order = [first, *others]
    assert sorted(order[:3]) == ["one", "three", "two"]
    assert order[3:6] == order[:3]


class OpenService(NoService):
    """A server that everybody gets to."""

    def log_in(self, connection: ClientConnection, hello: HelloParams) -> tuple[Role, HelloResult]:
        result = EXAMPLES["hello"][1]
        assert isinstance(result, HelloResult)
        return "read", result


async def test_busy_connection_has_no_tick_to_answer(autojump_clock: MockClock) -> None:
    """A client that only listens is not left, however long a turn is; only once it does not answer a tick."""
    params = '{"protocol":{"min":1,"max":1},"client":{"name":"listener"}}'
    client = Listener(f'{{"jsonrpc":"2.0","id":1,"method":"hello","params":{params}}}', accepts=1000)
    client.asks.set()
    connection = ClientConnection(client, OpenService(), connection_id="c1", login=None, since=0, refusals=TimeSlots(1))

    async def turn() -> None:
        for _ in range(100):
            await trio.sleep(HEARTBEAT / 10)
            await connection.send_next(lambda: "event")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        await trio.testing.wait_all_tasks_blocked()
        connection.start(turn)
        await trio.sleep(10 * HEARTBEAT + 1)
        assert (client.code, client.sent[1:]) == (None, ["event"] * 100)
        await trio.sleep(3 * HEARTBEAT)
        assert client.code == STALLED
        assert [json.loads(text)["method"] for text in client.sent[101:]] == ["tick", "tick"]
