"""One engine under everything at once: `python -m tests.support.soaked_engine HOST FOLDER SECONDS SAMPLES SESSIONS SEED`.

Sessions prompt a model that answers, fails, drops the connection, floods or is slow; commands run, ignore signals and kill
themselves; turns are cancelled at any time; clients come and go. Now and then all of it rests, and a line of JSON says what
the process has then; the last line lists what is wrong in the records of the sessions.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import threading
from collections import Counter
from pathlib import Path

import attrs
import trio

import engine
from engine.client import connect
from engine.config.config import Config
from engine.control import ServeOptions, serve
from engine.core.errors import EngineError
from engine.core.ids import SessionId
from engine.journal.fold import fold
from engine.options import PermissionOptions
from engine.permission.allow_all import AllowAll
from engine.providers.registry import resolve
from engine.store.sqlite.store import SqliteStore, open_sqlite_store
from engine.testing.invariants import check_events, check_fold, check_transcript
from engine.tools import builtin_tools

PROMPTS = (
    "hello",
    "slow",
    "flood",
    "work 4",
    "cut",
    "empty",
    "refuses",
    "fails because",
    "limited 1",
    "overflows",
    "bash sleep 0.3",
    "bash kill -9 $$",
    "bash yes | head -c 3000000",
    "tree 4.25",
)
# Of so many kinds at least are the ends of turns, sessions and clients that are counted.
KINDS = 7
_PATIENCE = 120.0
# Until connections are closed, and what a command leaves is reaped.
_REST = 2.0


@attrs.define
class Soak:
    """What the tasks share.

    Attributes:
        most_sessions: how many work at a time.
        working: the scopes of the sessions at work.
        rest: set while the tasks may work.
        counts: what has happened.
        problems: what is wrong in records.
    """

    engine: engine.Engine
    store: SqliteStore
    folder: Path
    most_sessions: int
    open_ids: list[str] = attrs.field(factory=list[str], init=False)
    working: set[trio.CancelScope] = attrs.field(factory=set[trio.CancelScope], init=False)
    may_work: trio.Event = attrs.field(factory=trio.Event, init=False)
    rested: trio.Event = attrs.field(factory=trio.Event, init=False)
    counts: Counter[str] = attrs.field(factory=Counter[str], init=False)
    problems: list[str] = attrs.field(factory=list[str], init=False)

    async def work(self, seed: str) -> None:
        """Run sessions, one after the other, until cancelled."""
        rng = random.Random(seed)
        while True:
            await self.may_work.wait()
            with trio.CancelScope() as scope:
                self.working.add(scope)
                try:
                    await self._run_session(rng)
                finally:
                    self.working.discard(scope)
                    if not self.working:
                        self.rested.set()

    async def _run_session(self, rng: random.Random) -> None:
        session = await self.engine.create_session(cwd=str(self.folder))
        self.open_ids.append(session.id)
        try:
            for _ in range(rng.randrange(1, 4)):
                # The longest one: some turns end by themselves, however busy the machine is.
                with trio.move_on_after(rng.choice((0.01, 0.1, 0.5, 2.0, 30.0))):
                    async with session.prompt(rng.choice(PROMPTS)) as turn:
                        if rng.random() < 0.3:
                            await trio.sleep(rng.random())
                            turn.cancel()
                        self.counts[(await turn.wait()).stop_reason] += 1
        finally:
            self.open_ids.remove(session.id)
            with trio.CancelScope(shield=True):
                await self.engine.close_session(session.id)
                await self._check(session.id)

    async def _check(self, session_id: str) -> None:
        events = list(await self.store.load(SessionId(session_id)))
        state = fold(events)
        found = [*check_events(events), *check_fold(events, state), *check_transcript(state.transcript)]
        found = [problem for problem in found if not problem.startswith("the deltas of")]  # no record has those
        if state.turn is not None:
            found.append("a turn has no end")
        self.problems += [f"{session_id}: {problem}" for problem in found]
        self.counts["sessions"] += 1
        await self.store.delete(SessionId(session_id))

    async def watch(self, url: str, token: str, seed: str) -> None:
        """Connect, watch some session for a while, and leave in the middle of it; again and again."""
        rng = random.Random(seed)
        while True:
            await self.may_work.wait()
            with trio.move_on_after(rng.random()) as scope:
                self.working.add(scope)
                try:
                    async with connect(url, token) as client:
                        if self.open_ids:
                            async with client.session(rng.choice(self.open_ids)).watch() as stream:
                                async for _ in stream:
                                    self.counts["items of clients"] += 1
                        self.counts["clients"] += 1
                except EngineError:
                    self.counts["refused clients"] += 1  # the session was closed and deleted
                finally:
                    self.working.discard(scope)
                    if not self.working:
                        self.rested.set()
            await trio.sleep(0.01)

    async def sample(self, seconds: float) -> None:
        """Let all work for so long, then rest, and print what the process has."""
        self.rested = trio.Event()
        self.may_work.set()
        await trio.sleep(seconds)
        with trio.move_on_after(_PATIENCE):  # a busy machine gets to less in the same time
            while len(self.counts) < KINDS or self.counts["sessions"] <= self.most_sessions:
                await trio.sleep(0.05)
        self.may_work = trio.Event()
        for scope in self.working:
            scope.cancel(reason="a rest")
        with trio.fail_after(120):
            while self.working:
                await self.rested.wait()
                self.rested = trio.Event()
        await trio.sleep(_REST)
        gc.collect()
        print(json.dumps({**process_facts(), "counts": self.counts}), flush=True)


def process_facts() -> dict[str, int]:
    """Return what this process has."""
    proc = Path("/proc/self")
    return {
        "resident": int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "files": len(list((proc / "fd").iterdir())),
        "threads": threading.active_count(),
        "tasks": trio.lowlevel.current_statistics().tasks_living,
        "children": len((proc / "task" / str(os.getpid()) / "children").read_text().split()),
    }


async def main(host: str, folder: Path, seconds: float, samples: int, count: int, seed: int) -> None:
    """Run it: so many sessions at a time."""
    project = folder / "project"
    project.mkdir()
    env = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": host}
    model = resolve("anthropic/claude-sonnet-5-5", env, Config())
    permissions = PermissionOptions(approver=AllowAll())
    store = await open_sqlite_store(folder / "sessions.db")
    # A disk that other programs use may take longer than the default to confirm what hundreds of sessions write.
    settings = engine.Settings(durable_within=60)
    async with engine.open_engine(
        model=model, tools=builtin_tools(), store=store, permissions=permissions, settings=settings
    ) as eng:
        soak = Soak(eng, store, project, count)
        async with trio.open_nursery() as nursery:
            served = await nursery.start(serve, eng, ServeOptions(folder=folder / "run"))
            for number in range(count):
                nursery.start_soon(soak.work, f"{seed} session {number}")
            for number in range(count // 10):
                nursery.start_soon(soak.watch, served.url, served.token, f"{seed} client {number}")
            for _ in range(samples):
                await soak.sample(seconds / samples)
            nursery.cancel_scope.cancel(reason="the soak is over")
    await store.aclose()
    await model.aclose()
    print(json.dumps({"problems": soak.problems}), flush=True)


if __name__ == "__main__":
    _, address, place, seconds, samples, count, seed = sys.argv
    trio.run(main, address, Path(place), float(seconds), int(samples), int(count), int(seed))
