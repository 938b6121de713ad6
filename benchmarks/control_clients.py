"""Clients of a control server in a process of their own: `python -m benchmarks.control_clients KIND OPTIONS`.

It prints a line of JSON when all are connected, and one at the end.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs
import trio

from benchmarks.raw_socket import RawSocket, SocketClosed, client_frame, raise_file_limit
from benchmarks.report import median

# Connecting at the same time.
_CONNECTING: Final = 32


@attrs.frozen(kw_only=True)
class ClientOptions:
    """What the clients do.

    Attributes:
        port: of the server.
        tokens: its tokens; the clients take turns.
        count: the number of clients.
        sessions: what they watch; the clients take turns.
        interval: of their subscriptions, in milliseconds.
        turns: how many turns each watches.
        frames: how many malformed frames a flood sends.
    """

    port: int
    tokens: list[str]
    count: int = 1
    sessions: list[str] = attrs.field(factory=list[str])
    interval: int = 33
    turns: int = 1
    frames: int = 0


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def share(values: list[str], number: int) -> str:
    return values[number % len(values)]


# -- those who watch ---------------------------------------------------------------------


@attrs.define(eq=False)
class Follower:
    """A client that follows a session, comes back when it is cut off, and checks that no text is missing or comes twice.

    Attributes:
        lags: from an event's time to its arrival, in seconds.
        texts: for each part, what has come of it.
        whole: how many parts have come without a gap, their texts equal to those in the record.
        closes: the codes with which its connections have ended.
        back: when it had come back, on the clock of `time.time`.
    """

    options: ClientOptions
    number: int
    lags: list[float] = attrs.field(factory=list[float], init=False)
    texts: dict[str, str] = attrs.field(factory=dict[str, str], init=False)
    whole: int = attrs.field(default=0, init=False)
    messages: int = attrs.field(default=0, init=False)
    resyncs: int = attrs.field(default=0, init=False)
    closes: list[int] = attrs.field(factory=list[int], init=False)
    back: float = attrs.field(default=0.0, init=False)
    position: str | None = attrs.field(default=None, init=False)
    turns: int = attrs.field(default=0, init=False)
    digest: str = attrs.field(default="", init=False)

    async def connect(self) -> RawSocket:
        options = self.options
        socket = await RawSocket.connect(options.port, share(options.tokens, self.number), instance=f"i{self.number}")
        where = {"at": "now"} if self.position is None else {"after": self.position}
        session = share(options.sessions, self.number)
        await socket.call("subscribe", session_id=session, interval=options.interval, **where)
        return socket

    async def follow(self, socket: RawSocket) -> None:
        """Follow until so many turns have ended."""
        while self.turns < self.options.turns:
            try:
                await self._read(socket)
            except SocketClosed as closed:
                self.closes.append(closed.code)
                await socket.aclose()
                socket = await self._return()
                self.back = time.time()
        await socket.aclose()

    async def _return(self) -> RawSocket:
        """Connect again, after a while that doubles, with a random part."""
        wait = 0.5
        while True:
            await trio.sleep(wait * (1 + random.random()))
            try:
                return await self.connect()
            except (OSError, SocketClosed):
                wait = min(2 * wait, 15)

    async def _read(self, socket: RawSocket) -> None:
        while self.turns < self.options.turns:
            note = await socket.note()
            now = time.time()
            match note["method"]:
                case "events":
                    self.messages += 1
                    for event in note["params"]["events"]:
                        self._fold(event, now)
                    self.position = note["params"]["position"]
                case "resync":
                    self.resyncs += 1
                    snapshot = note["params"]["snapshot"]
                    turn = snapshot["sessions"][0]["state"]["turn"]
                    parts: list[dict[str, str]] = turn["step"]["parts"] if turn and turn["step"] else []
                    self.texts = {part["part_id"]: part["text"] for part in parts}
                    self.position = snapshot["position"]
                case _:
                    pass

    def _fold(self, event: dict[str, Any], now: float) -> None:
        self.lags.append(now - event["time"])
        match event["type"]:
            case "part_started":
                self.texts[event["part_id"]] = ""
            case "text_delta":
                text = self.texts.get(event["part_id"])
                if text is not None:
                    assert event["offset"] == len(text), (event["offset"], len(text))
                    self.texts[event["part_id"]] = text + event["text"]
            case "part_ended":
                text = self.texts.pop(event["part"]["id"], None)
                self.whole += text == event["part"]["text"]
            case "turn_ended":
                self.turns += 1
                self.digest = hashlib.sha256(event["result"]["text"].encode()).hexdigest()
            case _:
                pass


async def follow(options: ClientOptions) -> None:
    followers = [Follower(options, number) for number in range(options.count)]
    sockets: list[RawSocket | None] = [None] * options.count

    async def connect(number: int) -> None:
        sockets[number] = await followers[number].connect()

    began = time.time()
    await in_parallel(connect, options.count)
    say(connected=options.count, seconds=time.time() - began)
    async with trio.open_nursery() as nursery:
        for follower, socket in zip(followers, sockets, strict=True):
            assert socket is not None
            nursery.start_soon(follower.follow, socket)
    lags = sorted(lag for each in followers for lag in each.lags)
    say(
        ended=time.time(),
        whole=min(each.whole for each in followers),
        messages=sum(each.messages for each in followers),
        resyncs=[min(each.resyncs for each in followers), max(each.resyncs for each in followers)],
        closes=Counter(code for each in followers for code in each.closes),
        back=max(each.back for each in followers),
        lag=median(lags),
        lag_99=lags[len(lags) * 99 // 100],
        digest=followers[0].digest,
    )


# -- those who do nothing ------------------------------------------------------------------


async def idle(options: ClientOptions) -> None:
    sockets: list[RawSocket] = []

    async def connect(number: int) -> None:
        sockets.append(await RawSocket.connect(options.port, share(options.tokens, number)))

    began = time.time()
    await in_parallel(connect, options.count)
    async with trio.open_nursery() as nursery:
        for socket in sockets:
            nursery.start_soon(socket.note)
        say(connected=len(sockets), seconds=time.time() - began)
        await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


async def in_parallel(task: Callable[[int], Awaitable[None]], count: int) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await task(number)

    async with trio.open_nursery() as nursery:
        for _ in range(_CONNECTING):
            nursery.start_soon(work)


# -- those who make requests -----------------------------------------------------------------


async def ask(options: ClientOptions) -> None:
    """Make one request after the other, so many for each turn; print the seconds of each."""
    socket = await RawSocket.connect(options.port, options.tokens[0])
    say(connected=1)
    for line in sys.stdin:
        took: list[float] = []
        for _ in range(int(line)):
            began = time.perf_counter()
            await socket.call("session.get", session_id=options.sessions[0])
            took.append(time.perf_counter() - began)
            # As slowly as the limit on requests permits.
            await trio.sleep(max(0.0, 0.012 - took[-1]))
        say(median=median(took))


# -- those who send nonsense -----------------------------------------------------------------

_NOT_RPC: Final = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"42",
    b'"text"',
    b"NaN",
    b"[" * 500,
    b'{"jsonrpc":"1.0","id":"x","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"x","id":"y","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"x","method":"nothing"}',
    b'{"jsonrpc":"2.0","id":"x","method":"prompt","params":{}}',
    b'{"jsonrpc":"2.0","id":"x","method":"prompt","params":[1,2]}',
    b'{"jsonrpc":"2.0","id":"x","method":"session.get","params":{"session_id":"s","cwd":1}}',
    b'{"jsonrpc":"2.0","id":"x","result":{}}',
    b'{"jsonrpc":"2.0","method":"nothing"}',
    b'[{"jsonrpc":"2.0","id":"x","method":"x"},1,{}]',
    "\u202e\0\ud7ff".encode() * 20,
)
# Each ends its connection.
_NOT_WEBSOCKET: Final = (
    client_frame(b"", opcode=3),
    client_frame(b"", opcode=11),
    client_frame(b"x", first=0xC0),
    client_frame(b"\xff\xfe"),
    client_frame(b"bytes", opcode=2),
    client_frame(b"x" * 200, opcode=9),
    client_frame(b"\0", opcode=8),
    b"\x81\x02hi",
    b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff",
)
_NOT_HTTP: Final = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"POST /v1/rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"GET http://evil/ HTTP/1.1\r\nHost: evil\r\n\r\n",
    b"GET /" + b"a" * 20_000,
)
_BURST: Final = 40
# Bursts to one ending of the connection.
_BURSTS: Final = 10


async def flood(options: ClientOptions) -> None:
    """Send malformed frames, over so many connections at once, until *frames* are sent."""
    sent: Counter[str] = Counter()
    ends: Counter[int] = Counter()
    say(connected=options.count)
    began = time.time()

    async def run(number: int) -> None:
        rng = random.Random(number)
        while sent.total() < options.frames:
            socket = await RawSocket.connect(options.port, share(options.tokens, number))
            try:
                await _send_nonsense(socket, rng, sent)
            except SocketClosed as closed:
                ends[closed.code] += 1
            except trio.BrokenResourceError:
                ends[1006] += 1
            await socket.aclose()
            await _send_head(options.port, rng, sent)

    async with trio.open_nursery() as nursery:
        for number in range(options.count):
            nursery.start_soon(run, number)
    say(sent=sent, ends=ends, seconds=time.time() - began)


async def _send_nonsense(socket: RawSocket, rng: random.Random, sent: Counter[str]) -> None:
    for _ in range(_BURSTS):
        frames = [rng.choice(_NOT_RPC) for _ in range(_BURST)]
        # A request at the end, so that it shows when all before it have been read.
        await socket.stream.send_all(b"".join(map(client_frame, frames)))
        sent["messages"] += len(frames)
        await socket.call("ping")
        socket.notes.clear()
    await socket.stream.send_all(rng.choice(_NOT_WEBSOCKET))
    sent["frames"] += 1
    while True:
        await socket.receive()


async def _send_head(port: int, rng: random.Random, sent: Counter[str]) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        sent["heads"] += 1
        try:
            await stream.send_all(rng.choice(_NOT_HTTP))
            await stream.send_eof()
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass


KINDS: Final[dict[str, Callable[[ClientOptions], Awaitable[None]]]] = {
    "follow": follow,
    "idle": idle,
    "ask": ask,
    "flood": flood,
}


def main() -> None:
    """Run clients of one kind."""
    raise_file_limit()
    trio.run(KINDS[sys.argv[1]], ClientOptions(**json.loads(sys.argv[2])))


if __name__ == "__main__":
    main()
