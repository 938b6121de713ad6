"""A program that has others killed, and looks after them: `python -m tests.os.killing FOLDER FIRST KILLS MANNER`.

Each round forks an engine, which is killed or kills itself, and then another process that
opens what was left and goes on with it. Everything is imported before, so that a round
takes a fraction of a second; this process itself has no thread, so it may fork.

Half of those that are killed by another process are so at a moment of the time that a turn takes on this machine, the
others right after so many events: however busy the machine is, they are spread over the whole turn. And in some rounds
the next engine is killed as well, while it opens what was left.

MANNER: `random`, at any moment; `points`, inside the engine's functions, one after the
other in an order that the number of the round decides; `effects`, right after a side effect; `ends`, right after a turn's end was told;
`parked`, while the turn waits for an answer, most of the time; `text`, while much text comes.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import random
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, get_args

import attrs
import trio

from tests.os.killing_check import Promised, Then, check
from tests.os.killing_engine import ANYWHERE, THOUGHT, Killer, Manner, Place, Point, Told, reopen, work
from tests.os.killing_host import serve

# One that has much to say is killed in its first seconds.
TALKING = 0.6
# Of a turn, before it has a session.
BEGINNING = 0.08
# A kill comes so long after the event that it waits for, at the most.
SOON = 0.01
# Into so many parts a turn is cut.
STRATA = 5
# How often the next engine is killed as well.
AGAIN = 0.3
# Rounds in which nothing was there to be killed any more, at the most.
SPARE = 4
SEEN, ASKED = b'"seen"', b'"asked"'
# After so many kills, another file: they go on with one session until then.
EACH = 5
# Where it is not worth being killed: before the first event, and after the last.
DULL = (
    "config/",
    "session/validation",
    "permission/",
    "providers/hosts",
    "providers/models",
    "testing/",
    "core/schema",
    "tools/tool",
)


def forked(main: Callable[[], Coroutine[None, None, object]], killer: Killer | None = None) -> int:
    """Run *main* in a fork; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if killer is not None:
            killer.arm()
        trio.run(main)
        code = 0
    except BaseException:  # noqa: ASYNC103  # a fork: it ends here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


@attrs.frozen(kw_only=True)
class Moment:
    """When to kill: after so many seconds, or before that, a little after the program has told something so often."""

    seconds: float
    sign: bytes = b""
    times: int = 0
    then: float = 0.0


@attrs.define(eq=False)
class Rounds:
    """What is killed, again and again."""

    folder: Path
    url: str
    manner: str
    points: list[Point] = attrs.field(factory=list[Point])
    session: str = ""
    kills: int = 0
    kills_again: int = 0
    parked: int = 0
    losses: list[float] = attrs.field(factory=list[float])
    phases: Counter[str] = attrs.field(factory=Counter[str])
    reached: list[float] = attrs.field(factory=list[float])
    longest: float = 0.0
    events: int = 0
    calls_to_open: int = 0

    def place(self, number: int) -> Place:
        folder = self.folder / f"place{number // EACH}"
        (folder / "work").mkdir(parents=True, exist_ok=True)
        return Place(folder=folder / "work", store=folder / "sessions.db", url=self.url)

    def enumerate(self) -> None:
        """Find the engine's functions that a turn goes through: their calls and returns are the points."""
        place = self.place(-EACH)
        pipe, theirs = os.pipe()
        killer = Killer(None)

        async def main() -> None:
            await work(place, Told(theirs), "go 0", "", Manner(cancels=True))
            (self.folder / "points.json").write_text(json.dumps([killer.seen, sorted(sys.modules)]))

        _, status = os.waitpid(forked(main, killer), 0)
        assert status == 0, "a turn that nobody killed has failed"
        os.close(theirs)
        os.close(pipe)
        seen, modules = json.loads((self.folder / "points.json").read_text())
        for name in modules:
            # What a turn imports when it gets there is imported once, here, and not in each fork.
            if not name.startswith("_") and importlib.util.find_spec(name.partition(".")[0]) is not None:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        for where, count in sorted(seen.items()):
            if not where.partition(" ")[2].startswith(DULL):
                self.points += [Point(where, n) for n in sorted({1, (count + 1) // 2, count})]

    def measure(self) -> None:
        """Find out how long a turn takes here that nobody kills, how many events it has, and how much is done to open it."""
        place = self.place(-2 * EACH)
        ours, theirs = os.pipe()
        prompt = "ask 0" if self.manner == "parked" else "go 0"
        pid = forked(partial(work, place, Told(theirs), prompt, "", Manner()))
        os.close(theirs)
        began, told = time.monotonic(), b""
        while chunk := os.read(ours, 65_536):
            told += chunk
        self.longest = time.monotonic() - began
        os.close(ours)
        assert os.waitpid(pid, 0)[1] == 0, "a turn that nobody killed has failed"
        self.events = told.count(SEEN)
        session, killer = self._promised(told, 0.0).session, Killer(None)

        async def main() -> None:
            await reopen(place, session)
            (self.folder / "calls").write_text(str(killer.total))

        assert os.waitpid(forked(main, killer), 0)[1] == 0, "a session that nobody killed could not be opened"
        self.calls_to_open = int((self.folder / "calls").read_text())

    def prompt(self, number: int) -> str:
        """Return what is asked in that round."""
        usual = "sum" if number // 3 % 3 == 2 else "go"
        return {
            "text": "talk 5",
            "effects": f"stab {number}",
            "ends": f"help {number}",
            "parked": f"ask {number}",
        }.get(self.manner, f"{usual} {number}")

    def round(self, number: int) -> None:
        """Kill one, and look after it."""
        dice = random.Random(f"{self.manner} {number}")
        if number % EACH == 0:
            self.session = ""
        place = self.place(number)
        point = None
        if self.manner == "points":
            # A step that visits all of them, whatever their number is, unless it is a multiple of this prime.
            point = self.points[number * 7919 % len(self.points)]
        prompt = self.prompt(number)
        ours, theirs = os.pipe()
        manner = Manner(
            cancels=dice.random() < 0.3,
            lazy=self.manner in {"effects", "ends"} or (self.manner != "text" and dice.random() < 0.3),
            dies=self.manner == "ends",
        )
        main = partial(work, place, Told(theirs), prompt, self.session, manner)
        pid = forked(main, None if point is None else Killer(point))
        os.close(theirs)
        kills_itself = point is not None or self.manner in {"effects", "ends"}
        told, killed_at = self._wait(pid, ours, self._moment(number, dice, kills_itself=kills_itself))
        self.reached.append(told.count(SEEN) / self.events)
        promised = self._promised(told, killed_at)
        self.session = promised.session or self.session
        if self.session and dice.random() < AGAIN:
            self._kill_again(place, self.session, dice)
        verdict = self.folder / "lost"
        verdict.unlink(missing_ok=True)

        async def look() -> None:
            found = await check(place, promised, dice.choice(get_args(Then)))
            verdict.write_text(json.dumps(None if found is None else attrs.asdict(found)))

        _, status = os.waitpid(forked(look), 0)
        assert status == 0, f"round {number} ({self.manner}, {point}) was not survived: {place.store}"
        found: dict[str, Any] | None = json.loads(verdict.read_text())
        if found is None:
            self.session = ""
        else:
            self.losses.append(found["lost"])
            self.parked += found["parked"]
            self.phases[found["phase"]] += 1

    def _moment(self, number: int, dice: random.Random, *, kills_itself: bool) -> Moment:
        if kills_itself:
            return Moment(seconds=10.0)
        if self.manner == "text":
            return Moment(seconds=dice.random() * TALKING)
        if self.manner == "parked" and number % 2:
            return Moment(seconds=10.0, sign=ASKED, times=1, then=dice.random() * THOUGHT)
        # One part of the turn after the other: so ten kills are never all at its beginning.
        where = (number // 2 % STRATA + dice.random()) / STRATA
        if number % 2:
            return Moment(seconds=where * self.longest)
        times = 1 + int(where * self.events)
        return Moment(seconds=10.0, sign=SEEN, times=times, then=dice.random() * SOON)

    def _kill_again(self, place: Place, session: str, dice: random.Random) -> None:
        """Kill the next engine, too, while it opens what was left."""
        killer = Killer(Point(ANYWHERE, dice.randint(1, self.calls_to_open)))
        _, status = os.waitpid(forked(partial(reopen, place, session), killer), 0)
        # What is left is not always as much as what was measured.
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "what was left could not be opened"
        self.kills_again += os.WIFSIGNALED(status)

    def _wait(self, pid: int, pipe: int, moment: Moment) -> tuple[bytes, float]:
        """Read what it tells until it has ended, or has to be killed; return that, and when it died."""
        told = b""
        until = time.monotonic() + moment.seconds
        if moment.seconds >= BEGINNING:
            # From when it has a session: how long it takes to begin depends on the machine.
            told = os.read(pipe, 65_536)
            until = time.monotonic() + moment.seconds - BEGINNING
        while (left := until - time.monotonic()) > 0:
            if select.select([pipe], [], [], left)[0]:
                chunk = os.read(pipe, 65_536)
                told += chunk
                if not chunk:
                    break
            if moment.times and told.count(moment.sign) >= moment.times:
                time.sleep(moment.then)
                break
        killed_at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        while chunk := os.read(pipe, 65_536):
            told += chunk
        os.close(pipe)
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0, "the engine failed before it was killed"
        else:
            self.kills += 1
        return told, killed_at

    def _promised(self, told: bytes, killed_at: float) -> Promised:
        facts = [json.loads(line) for line in told.decode().split("\n")[:-1]]
        return Promised(
            session=next((fact["session"] for fact in facts if "session" in fact), self.session),
            flushed={fact["flushed"]: fact["time"] for fact in facts if "flushed" in fact},
            texts=[(fact["part"], fact["length"], fact["at"]) for fact in facts if "part" in fact],
            killed_at=killed_at,
        )


def main(folder: Path, first: int, kills: int, manner: str) -> None:
    """Kill so many."""
    folder.mkdir(parents=True, exist_ok=True)
    address, theirs = os.pipe()
    watched, alive = os.pipe()
    host = os.fork()
    if host == 0:
        os.close(alive)
        serve(theirs, watched, folder / "host.log")
        os._exit(0)
    os.close(watched)
    url = os.read(address, 200).decode().strip()
    it = Rounds(folder, url, manner)
    it.enumerate()
    it.measure()
    number = first
    while it.kills < kills:
        assert number < first + SPARE * kills, f"only {it.kills} of {number - first} were still there to be killed"
        it.round(number)
        number += 1
    os.close(alive)
    os.waitpid(host, 0)
    print(
        json.dumps(
            {
                "kills": it.kills,
                "again": it.kills_again,
                "parked": it.parked,
                "phases": it.phases,
                "reached": it.reached,
                "losses": it.losses,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
