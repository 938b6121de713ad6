"""Misuse, and the typed error that tells what to do; the session goes on."""

import trio
import trio.testing

import engine
from engine.errors import CursorInUse, InputConflict, RequestNotFound, SessionBusy, TurnNotEnded, TurnOver, UnknownModel
from engine.options import Ports
from engine.testing import CountingIds, Pause, ScriptedProvider, done, text


async def main() -> None:
    try:
        async with engine.open_engine(model="claude-sonnet-4-5"):
            pass
    except UnknownModel as error:
        report(error)

    model = ScriptedProvider([[*text("A moment."), Pause(0.1), *done()]], repeat=True)
    async with engine.open_engine(model=model, ports=Ports(ids=CountingIds())) as eng:
        session = await eng.create_session()
        async with session.prompt("one") as turn, trio.open_nursery() as nursery:
            nursery.start_soon(iterate, turn)
            await trio.testing.wait_all_tasks_blocked()
            try:
                async with session.prompt("two"):
                    pass
            except SessionBusy as error:
                report(error)
            try:
                print(turn.result)
            except TurnNotEnded as error:
                report(error)
            try:
                await anext(turn)
            except CursorInUse as error:
                report(error)
            try:
                await turn.reply("ask_1", engine.Once())
            except RequestNotFound as error:
                report(error)
            turn.steer("left", input_id="mine")
            try:
                turn.steer("right", input_id="mine")
            except InputConflict as error:
                report(error)
            await turn.wait()
            try:
                turn.steer("too late")
            except TurnOver as error:
                report(error)
        print("and then:", (await session.run("three")).stop_reason)


async def iterate(turn: engine.Turn) -> None:
    async for _ in turn:
        pass


def report(error: engine.EngineError) -> None:
    print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
