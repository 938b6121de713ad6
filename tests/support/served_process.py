"""A process that serves sessions with a scripted model: `python -m tests.support.served_process STORE FOLDER PORT WORK`.

It prints its address and token, and answers each prompt slowly, with a question for permission in between if it says so, and a call that runs for WORK seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

import engine
from engine.control import ServeOptions, serve
from engine.testing import FakeTools, ScriptedProvider
from engine.testing.script import call, done, spread, text


async def main(store: str, folder: str, port: str, work: str) -> None:
    script = [
        [
            *spread(text("Let me look at it.", pieces=20), 0.02),
            *call("work", {"seconds": float(work)}, id="1"),
            *done("calls"),
        ],
        [*spread(text("All of it is done.", pieces=20), 0.02), *done()],
    ] * 50
    async with (
        engine.open_engine(model=ScriptedProvider(script), tools=FakeTools().tools(), store=store) as eng,
        trio.open_nursery() as nursery,
    ):
        served = await nursery.start(serve, eng, ServeOptions(folder=Path(folder), port=int(port)))
        sys.stdout.write(f"{served.url}\n{served.token}\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    _, store, folder, port, work = sys.argv
    trio.run(main, store, folder, port, work)
