"""A served engine in a process of its own, whose model streams as the prompt says.

`python -m benchmarks.control_server OPTIONS` prints where it listens, and ends when its input does: clients are told that
it restarts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

import engine
from benchmarks.raw_socket import raise_file_limit
from benchmarks.report import median
from engine.control.listen import ServeOptions, serve
from engine.control.service.full_collections import collect_between_turns
from engine.control.token_file import add_token
from engine.core.llm_types import ModelInfo, ModelRequest, StreamEvent
from engine.core.messages import TextPart, UserMessage
from engine.permission.allow_all import AllowAll
from engine.session.engine import engine_runtime
from engine.session.engine_options import PermissionOptions
from engine.testing.script import done, text


@attrs.frozen(kw_only=True)
class ServerOptions:
    """What the benchmark wants to be served.

    Attributes:
        folder: for the tokens, the socket and the sessions.
        port: 0: any.
        tokens: the number of tokens to make.
        store: whether sessions are kept on disk.
    """

    folder: str
    port: int = 0
    tokens: int = 0
    store: bool = False


@attrs.frozen(kw_only=True)
class Stream:
    """What a prompt asks for, as JSON.

    Attributes:
        deltas: how many.
        rate: so many come in a second; 0: as quickly as they are read.
        chars: of each.
        batch: how many come at once at most, like chunks of a network.
    """

    deltas: int
    rate: float = 0
    chars: int = 6
    batch: int = 400

    @property
    def prompt(self) -> str:
        return json.dumps(attrs.asdict(self))


@attrs.define
class PacedModel:
    """Streams at the pace of the prompt, whoever is slow: what is late comes together, as from a network.

    The last text of an answer says how late the engine read, in seconds: `{"late": …, "median": …}`.
    """

    info: ModelInfo = ModelInfo(name="paced/model")

    async def open(self, request: ModelRequest) -> PacedStream:
        await trio.lowlevel.checkpoint()
        return PacedStream(_stream_of(request))


def _stream_of(request: ModelRequest) -> Stream:
    for message in reversed(request.transcript):
        for part in message.parts if isinstance(message, UserMessage) else ():
            if isinstance(part, TextPart) and part.text.startswith("{"):
                return Stream(**json.loads(part.text))
    return Stream(deltas=1)


class PacedStream:
    """One answer."""

    def __init__(self, stream: Stream) -> None:
        body = "".join(f"{number:0{stream.chars - 1}d} "[: stream.chars] for number in range(stream.deltas))
        self._events: list[StreamEvent] = [*text(body, pieces=stream.deltas)]
        self._stream = stream
        self._next = 0
        self._began = trio.current_time()
        self._late: list[float] = []
        self._has_ended = False

    async def receive(self) -> Sequence[StreamEvent]:
        await trio.lowlevel.checkpoint()
        if self._next >= len(self._events):
            return self._end()
        count = self._stream.batch
        if self._stream.rate:
            due = self._began + self._next / self._stream.rate
            await trio.sleep_until(due)
            late = trio.current_time() - due
            self._late.append(late)
            count = min(count, 1 + int(late * self._stream.rate))
        begin, self._next = self._next, self._next + count
        return self._events[begin : self._next]

    def _end(self) -> Sequence[StreamEvent]:
        if self._has_ended:
            return ()
        self._has_ended = True
        late = self._late or [0.0]
        report = json.dumps({"late": max(late), "median": median(late)})
        return [*text(report, id="report"), *done()]

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def main(options: ServerOptions) -> None:
    """Serve until the input ends."""
    folder = Path(options.folder)
    async with engine.open_engine(
        model=PacedModel(),
        permissions=PermissionOptions(approver=AllowAll()),
        store=folder / "sessions.db" if options.store else None,
    ) as eng:
        tokens = [add_token(folder, f"t{number}", "full") for number in range(options.tokens)]
        async with trio.open_nursery() as nursery:
            at = await nursery.start(serve, eng, ServeOptions(folder=folder, port=options.port))
            sessions = engine_runtime(eng).sessions.by_id
            # As `engine serve` does.
            nursery.start_soon(
                collect_between_turns, lambda: any(live.active is not None for live in sessions.values())
            )
            port = int(at.url.rpartition(":")[2])
            print(json.dumps({"port": port, "tokens": [at.token, *tokens], "link": at.link()}), flush=True)
            await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    os.umask(0o077)
    raise_file_limit()
    trio.run(main, ServerOptions(**json.loads(sys.argv[1])))
