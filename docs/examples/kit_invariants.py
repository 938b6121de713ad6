"""The test kit: check the promises on a run of your own program."""

import trio

import engine
from engine.events import Durable, Live, Resync
from engine.testing import Evidence, FakeTools, ScriptedProvider, SlowStore, call, check, done, text


async def main() -> None:
    store, tools = SlowStore(), FakeTools()
    model = ScriptedProvider([[*call("look", {"key": "a"}, id="1"), *done("calls")], [*text("Done."), *done()]])
    async with engine.open_engine(model=model, tools=tools.tools(), store=store) as eng:
        session = await eng.create_session()
        watcher = session.subscribe(after=0)
        await session.run("go")
        seen: list[Durable | Live | Resync] = []
        while (event := watcher.try_next()) is not None:
            seen.append(event)
        evidence = Evidence(
            events=seen,
            transcript=session.state.transcript,
            stored=await store.load(session.id),
            state=session.state,
            trails=tools.trails,
        )
    print("broken:", check(evidence))

    # A record that lost an event is found.
    cut = Evidence(events=seen[:-1], transcript=evidence.transcript, stored=evidence.stored, state=evidence.state)
    print("broken:", check(cut)[0].partition(": ")[2])


if __name__ == "__main__":
    trio.run(main)
