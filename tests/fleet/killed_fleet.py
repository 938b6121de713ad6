"""Three engines on one database, killed again and again: `python -m tests.fleet.killed_fleet PLACE FOLDER KILLS SEED`.

The program forks them, and has no thread while it does. It prints what it has found, as JSON.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import attrs
import psycopg
import trio

from engine.core.events import CallSettled, CallStarted, Durable, Notice, TurnEnded, TurnResumed, TurnStarted
from engine.core.ids import SessionId
from engine.journal.fold import fold
from engine.store.postgres.open import open_postgres_store
from engine.testing.invariants import check_transcript
from tests.fleet.fleet_engine import EFFECTS, Told, run_engine, sessions_of

ENGINES = 3
LEASE_SECONDS = 2.0
# Seconds between two kills, at most: a third of that on average.
LONGEST = 1.2
# Until every session has ended, after the last kill.
PATIENCE = 60.0


_OPEN = """
SELECT s.id, s.seq, l.pid, extract(epoch FROM l.expires - clock_timestamp()),
    (SELECT string_agg(type, ' ' ORDER BY seq) FROM (SELECT seq, type FROM engine.events e
        WHERE e.session_id = s.id ORDER BY seq DESC LIMIT 8) AS newest)
FROM engine.sessions s LEFT JOIN engine.leases l ON l.session_id = s.id WHERE s.is_busy
"""


@attrs.define(eq=False)
class Child:
    """An engine, and what it tells."""

    pid: int
    told: int
    end: int
    rest: bytes = b""
    is_ready: bool = False


@attrs.define(eq=False)
class Fleet:
    """The engines that run."""

    place: str
    folder: Path
    children: list[Child] = attrs.field(factory=list[Child])
    # By session and number, the time of an event that was flushed.
    promised: dict[tuple[str, int], float] = attrs.field(factory=dict[tuple[str, int], float])

    def start(self) -> None:
        told, tell = os.pipe()
        wait, end = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                trio.run(run_engine, self.place, self.folder, Told(tell), wait, LEASE_SECONDS)
                code = 0
            except BaseException:  # noqa: ASYNC103  # a fork: it ends here
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(tell)
        os.close(wait)
        self.children.append(Child(pid, told, end))

    def listen(self, seconds: float) -> None:
        """Hear what they tell, for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            readable, _, _ = select.select([child.told for child in self.children], [], [], left)
            for child in self.children:
                if child.told in readable and not self._hear(child):
                    raise AssertionError("an engine has ended")

    def kill(self, child: Child) -> None:
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        while self._hear(child):
            pass
        self._forget(child)

    def end(self) -> None:
        """Let all of them end once no turn is open."""
        for child in self.children:
            os.write(child.end, b".")
        until = time.monotonic() + PATIENCE
        while self.children:
            assert time.monotonic() < until, f"some turns did not end: {self.open_turns()}"
            readable, _, _ = select.select([child.told for child in self.children], [], [], 0.1)
            for child in [one for one in self.children if one.told in readable]:
                if not self._hear(child):
                    _, status = os.waitpid(child.pid, 0)
                    assert status == 0, "an engine failed"
                    self._forget(child)

    def open_turns(self) -> list[tuple[object, ...]]:
        """Return the sessions that are not idle, with their leases, and the engines that run."""
        with psycopg.connect(self.place, autocommit=True) as connection:
            rows = connection.execute(_OPEN).fetchall()
        return [*rows, tuple(child.pid for child in self.children)]

    def _hear(self, child: Child) -> bool:
        """Read what an engine has told; False: nothing more comes."""
        data = os.read(child.told, 1 << 16)
        *lines, child.rest = (child.rest + data).split(b"\n")
        for line in lines:
            fact = json.loads(line)
            child.is_ready = True
            if "session" in fact:
                self.promised[fact["session"], fact["seq"]] = fact["time"]
        return bool(data)

    def _forget(self, child: Child) -> None:
        os.close(child.told)
        os.close(child.end)
        self.children.remove(child)


@attrs.define(eq=False)
class Found:
    """What became of all sessions."""

    problems: list[str] = attrs.field(factory=list[str])
    ended: Counter[str] = attrs.field(factory=Counter[str])
    # Calls whose engine was killed between their start and their result; and those of them that had an effect.
    cut_calls: int = 0
    cut_effects: int = 0
    resumed: int = 0
    # At most so long after the kill.
    takeovers: list[float] = attrs.field(factory=list[float])

    def look_at(self, name: str, events: Sequence[Durable], effects: Counter[str]) -> None:
        """Compare a journal with the table of the tools."""
        began = [event.call_id for event in events if isinstance(event, CallStarted)]
        if len(began) != len(set(began)):
            self.problems.append(f"{name}: a call was started twice: {began}")
        for event in events:
            if isinstance(event, CallSettled):
                done = effects[f"{name} {event.call_id}"]
                if event.settlement.status == "completed" and done != 1:
                    self.problems.append(f"{name}: {event.call_id} was completed, and done {done} times")
                if event.settlement.reason == "interrupted_by_crash":
                    self.cut_calls += 1
                    self.cut_effects += done
                if event.settlement.reason == "not_executed" and done:
                    self.problems.append(f"{name}: {event.call_id} was not executed, and done {done} times")
        ends = [event.result for event in events if isinstance(event, TurnEnded)]
        if len(ends) != sum(isinstance(event, TurnStarted) for event in events):
            self.problems.append(f"{name}: a turn has no end")
        for result in ends:
            self.ended[result.stop_reason] += 1
            is_told = any(isinstance(event, Notice) and event.code == "interrupted" for event in events)
            if result.stop_reason != "completed" and not (result.stop_reason == "aborted" and is_told):
                self.problems.append(f"{name}: {result}")
        for index, event in enumerate(events):
            if isinstance(event, TurnResumed):
                self.resumed += 1
                times = [one.time for one in events[max(0, index - 12) : index + 1]]
                self.takeovers.append(max(after - before for before, after in itertools.pairwise(times)))
        self.problems += [f"{name}: {problem}" for problem in check_transcript(fold(events).transcript)]


async def look(place: str, promised: dict[tuple[str, int], float]) -> Found:
    """Compare all journals with what was promised, and with what the tools did."""
    found = Found()
    with psycopg.connect(place, autocommit=True) as connection:
        rows = connection.execute("SELECT call, count(*) FROM public.effects GROUP BY call").fetchall()
    effects: Counter[str] = Counter(dict(rows))
    found.problems += [f"{name} was done {times} times" for name, times in effects.items() if times > 1]
    store = await open_postgres_store(place)
    journals = {name: await store.load(SessionId(name)) for name in await sessions_of(store)}
    known = {f"{name} {e.call_id}" for name, events in journals.items() for e in events if isinstance(e, CallStarted)}
    found.problems += [f"{name} was done, and is in no journal" for name in effects if name not in known]
    for name, events in journals.items():
        found.look_at(name, events, effects)
    for (name, seq), at in promised.items():
        events = journals.get(name, ())
        if len(events) < seq or events[seq - 1].time != at:
            found.problems.append(f"{name}: event {seq}, which was flushed, is lost")
    await store.aclose()
    return found


def main(place: str, folder: Path, kills: int, seed: int) -> None:
    """Kill so many engines, each at a random moment; another one takes its place."""
    dice = random.Random(seed)
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(EFFECTS)
    fleet = Fleet(place, folder)
    for _ in range(ENGINES):
        fleet.start()
    for _ in range(kills):
        fleet.listen(dice.random() ** 2 * LONGEST)
        # Mostly one that is at work: a fleet in which each engine is killed as it starts gets nowhere.
        ready = [child for child in fleet.children if child.is_ready]
        fleet.kill(dice.choice(ready if ready and dice.random() < 0.9 else fleet.children))
        fleet.start()
    fleet.end()
    found = trio.run(look, place, fleet.promised)
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps({**attrs.asdict(found), "promised": len(fleet.promised)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
