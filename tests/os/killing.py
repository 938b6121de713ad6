"""A program that has others killed, and looks after them: `python -m tests.os.killing FOLDER FIRST ROUNDS MANNER`.

Each round forks an engine, which is killed or kills itself, and then another process that
opens what was left and goes on with it. Everything is imported before, so that a round
takes a fraction of a second; this process itself has no thread, so it may fork.

MANNER: `random`, at any moment; `points`, inside the engine's functions, one after the
other in an order that the number of the round decides; `effects`, right after a side effect;
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
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import get_args

import attrs
import trio

from tests.os.killing_check import Promised, Then, check
from tests.os.killing_engine import Killer, Place, Point, work
from tests.os.killing_host import serve

# A turn takes about so long.
LONGEST = 0.6
# One that asks at once, and not much else.
WAITING = 0.25
# Of that, before it has a session.
BEGINNING = 0.08
# After so many kills, another file: they go on with one session until then.
EACH = 5
# Where it is not worth being killed: before the first event, and after the last.
DULL = ("config", "given", "permission/", "providers/host", "testing/", "tools/schema", "tools/spec", "providers/famil")


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


@attrs.define(eq=False)
class Rounds:
    """What is killed, again and again."""

    folder: Path
    url: str
    manner: str
    points: list[Point] = attrs.field(factory=list[Point])
    session: str = ""
    kills: int = 0
    parked: int = 0
    losses: list[float] = attrs.field(factory=list[float])

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
            await work(place, theirs, "go 0", "", cancel=True)
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
        prompt = {"text": "talk 5", "effects": f"stab {number}", "parked": f"ask {number}"}.get(
            self.manner, f"go {number}"
        )
        ours, theirs = os.pipe()
        lazy = self.manner == "effects" or (self.manner != "text" and dice.random() < 0.3)
        main = partial(work, place, theirs, prompt, self.session, cancel=dice.random() < 0.3, lazy=lazy)
        pid = forked(main, None if point is None else Killer(point))
        os.close(theirs)
        kills_itself = point is not None or self.manner == "effects"
        told, killed_at = self._wait(
            pid, ours, 10.0 if kills_itself else dice.random() * (WAITING if self.manner == "parked" else LONGEST)
        )
        promised = self._promised(told, killed_at)
        self.session = promised.session or self.session
        verdict = self.folder / "lost"
        verdict.unlink(missing_ok=True)

        async def look() -> None:
            verdict.write_text(json.dumps(await check(place, promised, dice.choice(get_args(Then)))))

        _, status = os.waitpid(forked(look), 0)
        assert status == 0, f"round {number} ({self.manner}, {point}) was not survived: {place.store}"
        found: tuple[float, bool] | None = json.loads(verdict.read_text())
        if found is None:
            self.session = ""
        else:
            self.losses.append(found[0])
            self.parked += found[1]

    def _wait(self, pid: int, pipe: int, seconds: float) -> tuple[bytes, float]:
        """Read what it tells until it has ended, or has to be killed; return that, and when it died."""
        told = b""
        until = time.monotonic() + seconds
        if seconds >= BEGINNING:
            # From when it has a session: how long it takes to begin depends on the machine.
            told = os.read(pipe, 65_536)
            until = time.monotonic() + seconds - BEGINNING
        while (left := until - time.monotonic()) > 0:
            if select.select([pipe], [], [], left)[0]:
                chunk = os.read(pipe, 65_536)
                told += chunk
                if not chunk:
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
            flushed=max((fact["flushed"] for fact in facts if "flushed" in fact), default=0),
            texts=[(fact["part"], fact["length"], fact["at"]) for fact in facts if "part" in fact],
            killed_at=killed_at,
        )


def main(folder: Path, first: int, rounds: int, manner: str) -> None:
    """Do so many rounds."""
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
    for number in range(first, first + rounds):
        it.round(number)
    os.close(alive)
    os.waitpid(host, 0)
    print(json.dumps({"kills": it.kills, "parked": it.parked, "points": len(it.points), "losses": it.losses}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
