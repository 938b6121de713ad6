"""Figure `control`, in one process: what many cursors cost a turn, and what one costs that reads everything."""

from __future__ import annotations

import time
from typing import Final

import trio
import trio.testing

import engine
from benchmarks.control_server import PacedModel, Stream
from benchmarks.report import Row, interleaved, seconds

CURSORS: Final = 1_000
DELTAS: Final = 20_000
# What 1,000 tasks read, each of them every delta.
READ: Final = 200
ROUNDS: Final = 5


def turn_seconds(cursors: int) -> tuple[float, float]:
    """Return the CPU seconds of a turn while so many tasks have a cursor each, and those of reading on afterwards.

    The tasks have read what there was, and do something else until the turn has ended.
    """

    async def read(session: engine.Session, ended: trio.Event, texts: list[int]) -> None:
        cursor = session.subscribe()
        await ended.wait()
        size = 0
        while (event := cursor.try_next()) is not None:
            size += len(event.text) if isinstance(event, engine.TextDelta) else 0
        texts.append(size)

    async def main() -> tuple[float, float]:
        texts: list[int] = []
        async with engine.open_engine(model=PacedModel()) as eng:
            session = await eng.create_session()
            ended = trio.Event()
            async with trio.open_nursery() as nursery:
                for _ in range(cursors):
                    nursery.start_soon(read, session, ended, texts)
                await trio.testing.wait_all_tasks_blocked()
                began = time.process_time()
                result = await session.run(Stream(deltas=DELTAS, batch=1).prompt)
                took = time.process_time() - began
                ended.set()
                began = time.process_time()
            assert all(size == len(result.text) for size in texts), "text is missing"
            return took, time.process_time() - began

    return trio.run(main)


def delivered_seconds() -> float:
    """Return the CPU seconds of one delta's delivery, where 1,000 tasks read each one."""

    async def main() -> float:
        async with engine.open_engine(model=PacedModel()) as eng:
            session = await eng.create_session()
            count = 0

            async def read() -> None:
                nonlocal count
                async for event in session.subscribe():
                    count += isinstance(event, engine.TextDelta)
                    if isinstance(event, engine.TurnEnded):
                        return

            async with trio.open_nursery() as nursery:
                for _ in range(CURSORS):
                    nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
                began = time.process_time()
                await session.run(Stream(deltas=READ, batch=20).prompt)
            return (time.process_time() - began) / count

    return trio.run(main)


def one_cursor_seconds(deltas: int) -> float:
    """Return the CPU seconds of a turn that one task reads with a cursor."""

    async def main() -> float:
        async with engine.open_engine(model=PacedModel()) as eng:
            session = await eng.create_session()
            size = 0
            began = time.process_time()
            async with session.prompt(Stream(deltas=deltas).prompt) as turn:
                async for event in turn:
                    size += len(event.text) if isinstance(event, engine.TextDelta) else 0
            assert size == len(turn.result.text)
            return time.process_time() - began

    return trio.run(main)


def cursor_rows() -> list[Row]:
    turn_seconds(10)
    rests: list[float] = []

    def with_cursors() -> float:
        took, rest = turn_seconds(CURSORS)
        rests.append(rest)
        return took

    many, none = interleaved(ROUNDS, with_cursors, lambda: turn_seconds(0)[0])
    ratio = min(many) / min(none)
    return [
        Row(
            name=f"control: a turn of {DELTAS:,} deltas with {CURSORS:,} cursors, versus none",
            measured=seconds(min(many)),
            baseline=seconds(min(none)),
            ratio=ratio,
            target="ratio ≤ 1.05",
            ok=ratio <= 1.05,
        ),
        Row(name="control: one of them reads on after that", measured=seconds(min(rests) / CURSORS)),
        Row(name=f"control: a delta to one of {CURSORS:,} tasks that read each", measured=seconds(delivered_seconds())),
    ]
