"""A process that serves sessions with a scripted model: `python -m tests.support.served_process STORE FOLDER PORT WORK`.

SIGTERM drains it at once; with `takeover` as a further argument it takes the place of the one that runs.

It prints its address and token, and answers each prompt slowly, with a question for permission in between if it says so, and a call that runs for WORK seconds.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import trio

import engine
from engine.control import ServedAt, ServeOptions, serve
from engine.testing import FakeTools, ScriptedProvider
from engine.testing.script import call, done, spread, text


async def main(store: str, folder: str, port: str, work: str, how: str) -> None:
    script = [
        [
            *spread(text("Let me look at it.", pieces=20), 0.02),
            *call("work", {"seconds": float(work)}, id="1"),
            *done("calls"),
        ],
        [*spread(text("All of it is done.", pieces=20), 0.02), *done()],
    ] * 50
    options = ServeOptions(folder=Path(folder), port=int(port), takes_over=how == "takeover", drain_seconds=0)
    ended = trio.Event()

    async def run(eng: engine.Engine, *, task_status: trio.TaskStatus[ServedAt]) -> None:
        await serve(eng, options, task_status=task_status)
        ended.set()

    async def drain(served: ServedAt) -> None:
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                served.drain(0)

    async with trio.open_nursery() as nursery:
        async with engine.open_engine(model=ScriptedProvider(script), tools=FakeTools().tools(), store=store) as eng:
            served = await nursery.start(run, eng)
            nursery.start_soon(drain, served)
            sys.stdout.write(f"{served.url}\n{served.token}\n")
            sys.stdout.flush()
            await served.drained.wait()
        await ended.wait()
        nursery.cancel_scope.cancel(reason="it was drained")


if __name__ == "__main__":
    _, store, folder, port, work, how = [*sys.argv, ""][:6]
    trio.run(main, store, folder, port, work, how)
