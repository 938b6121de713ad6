"""One of several programs that write to one place: `python -m tests.store.rival PLACE NAME SECONDS`; prints what it has put."""

import subprocess
import sys
import time
from collections import Counter

import trio

from engine.core.errors import SessionElsewhere
from engine.core.ids import SessionId
from tests.store.anywhere import open_at
from tests.store.journals import noted

OURS = 3
SHARED = SessionId("ses_shared")


async def what_it_put(program: subprocess.Popen[str], seconds: float) -> Counter[str]:
    """Wait until a program that was to write for so many seconds has ended; return how much it has put of each session."""
    out, errors = await trio.to_thread.run_sync(program.communicate, None, seconds + 60)
    assert program.returncode == 0, errors
    lines = (line.partition(" ") for line in out.splitlines())
    return Counter({name: int(count) for name, _, count in lines})


async def main(place: str, name: str, seconds: float) -> None:
    store = await open_at(place)
    until = time.monotonic() + seconds
    sessions = [SessionId(f"ses_{name}_{number}") for number in range(OURS)]
    last = dict.fromkeys([*sessions, SHARED], 0)
    turns = 0

    async def work(session_id: SessionId) -> None:
        while time.monotonic() < until:
            for _ in range(20):
                last[session_id] += 1
                store.put(noted(session_id, last[session_id]))
            await store.flushed(session_id, last[session_id])

    async def take_turns() -> None:
        """Go on with a session that the others want too, whenever it is free."""
        nonlocal turns
        while time.monotonic() < until:
            try:
                await store.claim(SHARED)
            except SessionElsewhere:
                await trio.sleep(0.005)
                continue
            known = len(await store.load(SHARED))
            for seq in range(known + 1, known + 6):
                store.put(noted(SHARED, seq))
            await store.flushed(SHARED, known + 5)
            store.release(SHARED)
            turns += 1
            await trio.sleep(0.005)

    async with trio.open_nursery() as nursery:
        for session_id in sessions:
            nursery.start_soon(work, session_id)
        nursery.start_soon(take_turns)
    await store.aclose()
    for session_id in sessions:
        print(session_id, last[session_id])
    print(SHARED, 5 * turns)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], float(sys.argv[3]))
