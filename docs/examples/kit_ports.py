"""The test kit: a disk that fails in the middle of a turn."""

import trio

import engine
from engine.options import Ports
from engine.testing import CountingIds, FakeTools, ScriptedProvider, SlowStore, TrioClock, call, done, text


async def main() -> None:
    store = SlowStore(fails=True)
    model = ScriptedProvider([[*call("look", {}, id="1"), *done("calls")], [*text("Done."), *done()]])
    async with engine.open_engine(
        model=model, tools=FakeTools().tools(), store=store, ports=Ports(ids=CountingIds(), clock=TrioClock())
    ) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            notices = [f"{e.code}: {e.text}" async for e in turn if isinstance(e, engine.Notice)]
        print(session.id, turn.result.stop_reason, "durable:", turn.result.durable)
        print(notices)


if __name__ == "__main__":
    trio.run(main)
