"""A fleet of engines behind one database. Without `AGENTS_DATABASE`, the same with a file."""

import os
import tempfile
from pathlib import Path

import trio

import engine
from engine.errors import SessionElsewhere
from engine.events import TurnEnded
from engine.options import Ports
from engine.testing import CountingIds, ScriptedProvider, done, text

SCRIPT = [[*text("It is sound."), *done()], [*text("It is, still."), *done()]]


async def work(place: str) -> None:
    # Two engines; they could as well be on two machines.
    async with (
        engine.open_engine(model=ScriptedProvider(SCRIPT), store=place, ports=Ports(ids=CountingIds())) as ours,
        engine.open_engine(model=ScriptedProvider(SCRIPT), store=place) as theirs,
    ):
        session = await ours.create_session(cwd="/")

        async def watch() -> None:
            async for event in theirs.watch_session(session.id):
                if isinstance(event, TurnEnded):
                    print("seen from afar:", event.result.text)
                    return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await session.run("Is the parser sound?")

        try:
            await theirs.open_session(session.id)
        except SessionElsewhere as error:
            print("not yet:", error.session_id == session.id)

    # That engine has released it, so another one may continue it.
    async with engine.open_engine(model=ScriptedProvider(SCRIPT[1:]), store=place) as third:
        again = await third.open_session(session.id)
        result = await again.run("And now?")
        print("continued:", result.text)


with tempfile.TemporaryDirectory() as folder:
    trio.run(work, os.environ.get("AGENTS_DATABASE", str(Path(folder, "sessions.db"))))
