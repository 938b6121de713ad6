"""One engine, told what to do: `python -m tests.fleet.lone_engine WHAT PLACE FOLDER SESSION SECONDS [CLOCK]`.

WHAT is `work`: begin a turn in that session, each of whose calls takes so many seconds; or `sweep`: look after others until
that session is idle. CLOCK is by how many seconds this machine's clock is ahead. It prints what it sees, line by line.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import trio

_TRUE_TIME = time.time
LEASE_SECONDS = 2.0


def _set_clock(ahead: float) -> None:
    """Be a machine whose clock is wrong: before anything of the engine is imported."""
    time.time = lambda: _TRUE_TIME() + ahead


async def main(what: str, place: str, folder: Path, session_id: str, seconds: float) -> None:
    from engine.core.events import CallStarted, TurnEnded, TurnResumed
    from engine.fleet.sweeper import sweep
    from engine.store.postgres.open import open_postgres_store
    from tests.fleet.fleet_engine import open_engine

    store = await open_postgres_store(place, lease_seconds=LEASE_SECONDS, timeout=20)
    async with open_engine(store, place, folder, seconds) as eng, trio.open_nursery() as nursery:
        if what == "work":
            session = await eng.create_session(cwd=folder, session_id=session_id)
            turn = eng.start_turn(session, "go")
            async for event in turn:
                if isinstance(event, CallStarted):
                    print("started", event.call_id, flush=True)
            result = await turn.wait()
            print("ended", result.stop_reason, result.durable, result.detail, flush=True)
        else:
            nursery.start_soon(sweep, eng)
            print("ready", flush=True)
            async for event in eng.watch_session(session_id):
                if isinstance(event, TurnResumed):
                    print("resumed", _TRUE_TIME(), flush=True)
                if isinstance(event, TurnEnded):
                    print("ended", event.result.stop_reason, flush=True)
                    break
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    if len(sys.argv) > 6:
        _set_clock(float(sys.argv[6]))
    trio.run(main, sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
