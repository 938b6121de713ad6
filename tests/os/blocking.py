"""A program whose foreign code blocks until Ctrl-C comes."""

import time
import traceback
from typing import Any

import trio

from engine.journal.fold import fold
from engine.testing import SlowStore, check_transcript
from tests.support.borders import BORDERS, Border, Misbehaviour, opened


def block() -> None:
    """Hold the event loop up for longer than anybody waits."""
    bad.armed = False
    print("ready", flush=True)
    while True:
        time.sleep(0.01)


bad = Misbehaviour(block)


def main(name: str) -> None:
    border = BORDERS[name]
    options = border.options(bad)
    store: Any = options.setdefault("store", SlowStore())

    async def visit() -> None:
        async with opened(Border(options=lambda _: options), bad) as eng:
            session = await eng.create_session(cwd="/")
            await border.visit(eng, session, bad)

    try:
        trio.run(visit)
    except KeyboardInterrupt as error:
        struck = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
        # One that was deferred is raised at a checkpoint of the main task.
        print("struck in", "block" if "block" in struck else "a checkpoint", flush=True)
    states = [fold(events) for events in store._events.values()]
    print("turns open:", sum(state.turn is not None for state in states))
    print("broken:", sum(bool(check_transcript(state.transcript)) for state in states))
