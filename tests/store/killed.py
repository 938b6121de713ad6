"""A program that is killed and looked after again and again: `python -m tests.store.killed PLACE ROUNDS SEED`.

Each round forks a writer, kills it with -9 at a random moment, and forks a reader that
compares what is there with what the writer was promised. (The program itself has
no thread, so it may fork.)
"""

import contextlib
import os
import random
import signal
import sys
import time
import traceback

import trio

from engine.core.ids import SessionId
from engine.store.store_protocols import SessionQuery
from tests.store.anywhere import empty, open_at
from tests.store.journals import noted

SESSIONS = [SessionId(f"ses_{number}") for number in range(4)]
SIZES = (0, 10, 100, 500, 10_000)


def text_of(session_id: str, seq: int) -> str:
    """What an event says: known to both sides, and of all sizes."""
    dice = random.Random(f"{session_id} {seq}")
    return f"{session_id} {seq} " + "x" * dice.choice(SIZES)


async def write(place: str, promises: int, seed: int) -> None:
    """Go on with all sessions until killed; tell what was flushed."""
    dice = random.Random(seed)
    store = await open_at(place)
    last: dict[SessionId, int] = {}
    for session_id in SESSIONS:
        await store.claim(session_id)
        last[session_id] = len(await store.load(session_id))
    os.write(promises, b"ready 0\n")

    async def work(session_id: SessionId) -> None:
        while True:
            for _ in range(dice.randrange(1, 30)):
                last[session_id] += 1
                store.put(noted(session_id, last[session_id], text_of(session_id, last[session_id])))
            told = last[session_id]
            await store.flushed(session_id, told)
            os.write(promises, f"{session_id} {told}\n".encode())

    async with trio.open_nursery() as nursery:
        for session_id in SESSIONS:
            nursery.start_soon(work, session_id)


async def read(place: str, promised: dict[str, int]) -> None:
    """Compare what is there with what was promised."""
    store = await open_at(place)
    for row in await store.list_sessions(SessionQuery()):
        assert row.holder == "nobody"
    for session_id in SESSIONS:
        # What a database's server had begun for the writer is over then.
        await store.claim(session_id)
    rows = {row.id: row for row in await store.list_sessions(SessionQuery())}
    for session_id in SESSIONS:
        events = list(await store.load(session_id))
        assert len(events) >= promised.get(session_id, 0), (session_id, len(events), promised)
        assert events == [noted(session_id, seq, text_of(session_id, seq)) for seq in range(1, len(events) + 1)]
        if events:
            assert rows[session_id].seq == len(events)
    assert getattr(store, "damaged", None) == ()
    await store.aclose()


def in_child(program: object, *arguments: object) -> int:
    """Fork, run, and never come back in the child."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            trio.run(program, *arguments)  # type: ignore[arg-type]  # any of the two above
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def a_round(place: str, dice: random.Random) -> int:
    """Write, kill, read; return how many events were promised meanwhile."""
    ours, theirs = os.pipe()
    writer = in_child(write, place, theirs, dice.randrange(2**32))
    os.close(theirs)
    told = os.read(ours, 6)
    assert told.startswith(b"ready"), "the writer could not begin"
    time.sleep(dice.random() ** 3 * 0.1)
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    with os.fdopen(ours, "rb") as pipe:
        lines = (told + pipe.read()).decode().split("\n")
    promised: dict[str, int] = {}
    for line in lines[:-1]:
        name, _, seq = line.partition(" ")
        with contextlib.suppress(ValueError):
            promised[name] = int(seq)
    reader = in_child(read, place, promised)
    _, status = os.waitpid(reader, 0)
    assert status == 0, "what was promised is not there"
    return sum(promised.values())


def main(place: str, rounds: int, seed: int) -> None:
    """Do so many rounds; begin anew now and then."""
    dice = random.Random(seed)
    for number in range(rounds):
        if number % 6 == 0:
            empty(place)
        a_round(place, dice)
    print(f"{rounds} kills")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
