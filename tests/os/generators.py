"""A program with an async generator around a block of the engine: `python -m tests.os.generators CASE`."""

import contextlib
import sys
from collections.abc import AsyncGenerator

import trio

import engine
from engine.core.errors import WrongTask
from engine.testing import Answer, Pause, ScriptedProvider, done, text

SLOW: Answer = [*text("Well,"), Pause(1_000), *text(" yes.", id="2"), *done()]
FINE: Answer = [*text("Fine."), *done()]


def opened() -> engine.Engine:
    return engine.open_engine(model=ScriptedProvider([SLOW, FINE]))


async def deltas(session: engine.Session) -> AsyncGenerator[str]:
    async with session.prompt("go") as turn:
        async for event in turn:
            if isinstance(event, engine.TextDelta):
                yield event.text  # noqa: ASYNC119  # what is tried here


async def engines() -> AsyncGenerator[engine.Engine]:
    async with opened() as eng:
        yield eng  # noqa: ASYNC119  # what is tried here


def show(session: engine.Session) -> None:
    result = session.state.last_result
    print("none" if result is None else result.stop_reason, flush=True)


async def aborted(session: engine.Session) -> None:
    """Wait until the turn has ended, whoever ends it."""
    while session.state.last_result is None:
        await trio.sleep(0.01)
    show(session)


async def dropped() -> None:
    """The consumer breaks; the generator is finalised at once, by a task of Trio."""
    async with opened() as eng:
        session = await eng.create_session()
        async for _ in deltas(session):
            break
        await aborted(session)
        print((await session.run("again")).text)


async def kept() -> None:
    """The consumer breaks and keeps the generator until the end."""
    async with opened() as eng:
        session = await eng.create_session()
        generator = deltas(session)
        async for _ in generator:
            break


async def closed_elsewhere() -> None:
    """Another task closes the generator."""
    async with opened() as eng:
        session = await eng.create_session()
        generator = deltas(session)
        async for _ in generator:
            break
        try:
            async with trio.open_nursery() as nursery:  # noqa: ASYNC112  # another task is the point
                nursery.start_soon(generator.aclose)
        except* WrongTask as group:
            print("refused:", group.exceptions[0])
        show(session)


async def interrupted() -> None:
    """A generator that waits somewhere; the user interrupts."""
    async with opened() as eng:
        session = await eng.create_session()
        async for _ in deltas(session):
            break
        await aborted(session)
        print("ready", flush=True)
        await trio.sleep_forever()


async def closing() -> None:
    """The right way."""
    async with opened() as eng:
        session = await eng.create_session()
        async with contextlib.aclosing(deltas(session)) as texts:
            async for _ in texts:
                break
        show(session)
        print((await session.run("again")).text)


async def engine_dropped() -> None:
    """The same with an engine's block."""
    sessions: list[engine.Session] = []
    async for eng in engines():
        sessions.append(await eng.create_session())
        eng.start_turn(sessions[0], "go")
        await trio.sleep(0.05)
        break
    await aborted(sessions[0])


async def engine_kept() -> None:
    """The same with an engine's block, and the generator kept until the run's end."""
    generator = engines()
    async for eng in generator:
        eng.start_turn(await eng.create_session(), "go")
        await trio.sleep(0.05)
        break


async def engine_closing() -> None:
    """The right way."""
    sessions: list[engine.Session] = []
    async with contextlib.aclosing(engines()) as items:
        async for eng in items:
            sessions.append(await eng.create_session())
            eng.start_turn(sessions[0], "go")
            break
    show(sessions[0])


CASES = {
    case.__name__: case
    for case in (
        dropped,
        kept,
        closed_elsewhere,
        interrupted,
        closing,
        engine_dropped,
        engine_kept,
        engine_closing,
    )
}

if __name__ == "__main__":
    trio.run(CASES[sys.argv[1]])
