"""Figure `deltas`: text through reader, demultiplexer and journal to a cursor."""

from __future__ import annotations

import time

import trio

import engine
from benchmarks.bare import channel_seconds
from benchmarks.kit import scripted
from benchmarks.report import Figure, Row, interleaved, rate
from engine.core.llm_types import TextChunk
from engine.testing.script import done, text

COUNT = 100_000
CHUNK = 400
ROUNDS = 7


def through_engine(batch: int = CHUNK, count: int = COUNT) -> float:
    """Return the CPU seconds that *count* deltas take, *batch* of them in a network chunk."""
    pieces = [f"{n:05x} " for n in range(count)]
    answer = [*text("".join(pieces), pieces=count), *done()]
    # The script cuts by length; the check below relies on one event a piece.
    assert sum(type(item) is TextChunk for item in answer) == count

    async def main() -> float:
        async with engine.open_engine(model=scripted([answer], batch=batch)) as eng:
            session = await eng.create_session()
            got: list[str] = []
            began = time.process_time()
            async with session.prompt("go") as turn:
                async for event in turn:
                    if type(event) is engine.TextDelta:
                        got.append(event.text)  # noqa: PERF401  # an async comprehension would hide whose cost it is
            took = time.process_time() - began
        assert len(got) == count, f"{len(got)} of {count} deltas came as events of their own"
        assert "".join(got) == "".join(pieces) == turn.result.text
        return took

    return trio.run(main)


def through_channel() -> float:
    """Return the CPU seconds that the same events take through a memory channel."""
    return channel_seconds([TextChunk("text", f"{n:05x} ") for n in range(COUNT)])


def measure() -> list[Row]:
    few = COUNT // 5
    through_engine(count=few)
    chunked, single, channel = interleaved(
        ROUNDS, through_engine, lambda: through_engine(batch=1, count=few), through_channel
    )
    base = COUNT / min(channel)
    rates = ((f"{CHUNK} in a chunk", COUNT / min(chunked)), ("1 in a chunk", few / min(single)))
    (_, many), (_, one) = rates
    return [
        Row(
            name=f"deltas: text deltas to a cursor, {CHUNK} in a chunk",
            measured=rate(many),
            baseline=rate(base),
            ratio=many / base,
            target="≥ 200,000/s",
            ok=many >= 200_000,
        ),
        Row(
            name="deltas: the same, 1 in a chunk",
            measured=rate(one),
            baseline=rate(base),
            ratio=one / base,
        ),
    ]


FIGURE = Figure(
    name="deltas",
    about="text deltas per CPU second from the provider to a consumer",
    measure=measure,
    workload=through_engine,
)
