"""A simulated fleet: engines, their database and a host of models, as queues with measured service times. Seeded; no I/O.

    turn ──► host's limits ──► host answers ──► CPU of the engine ──► next step
                                                  │ events, drafts
    engine's writer: all that is queued ──► CPU of the engine ──► CPU of the database ──► disk, shared by all ──► next batch

An engine uses one core at a time, as Python does. The cores of its machine, and those of the database, serve who comes first.
A sync of the disk covers all transactions that wait when it begins.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from engine.store.draft_pace import LONGEST, SHORTEST

Done = Callable[[], None]
# A turn waits for the disk in each of so many steps: see docs/explanation/recovery.md.
FLUSHED_STEPS: Final = 8
GATHER: Final = 0.01


@attrs.frozen(kw_only=True)
class Costs:
    """What was measured, in seconds of a core unless it says otherwise.

    Attributes:
        step: the engine's, for a step, without its commits.
        commit: the engine's, for a commit.
        event: the engine's, for each event in a commit.
        database_commit: the server's, for a commit.
        database_event: the server's, for each event in it.
        database_draft: the server's, for each draft in it.
        sync: seconds of the disk for a sync.
        events: how many events a step has.
        event_bytes: of an event in the tables, with its share of indexes.
        wal_bytes: of the write-ahead log, for each event.
    """

    step: float
    commit: float
    event: float
    database_commit: float
    database_event: float
    database_draft: float
    sync: float
    events: float
    event_bytes: float
    wal_bytes: float


@attrs.frozen(kw_only=True)
class Fleet:
    """Who works, and with what.

    Attributes:
        engines: how many.
        turns: how many turns run in each at the same time.
        answer_seconds: how long the host takes for a step; 0: it answers at once, and nothing is streamed.
        streaming: the part of that time in which text arrives.
        engine_cores: of all engines' machines together.
        database_cores: of the database's machine; None: everything is on one machine, with `engine_cores`.
        requests_minute: what the host allows; None: as many as there are.
        tokens_minute: what the host allows.
        tokens_step: input and output of a request that count for the host.
        drafts_per_second: of each engine.
    """

    engines: int
    turns: int
    answer_seconds: float = 0.0
    streaming: float = 0.6
    engine_cores: float = 2.0
    database_cores: float | None = None
    requests_minute: float | None = None
    tokens_minute: float | None = None
    tokens_step: float = 4_000.0
    drafts_per_second: float = 50.0


@attrs.frozen(kw_only=True)
class Outcome:
    """What the simulated fleet did.

    Attributes:
        steps: in a second.
        commits: in a second.
        drafts: in a second.
        engine_use: how much of the engines' cores was used, from 0 to 1.
        database_use: of the database's; the same where they share a machine.
        disk_use: of the time in which the disk synced.
        step_seconds: how long a step took from its request to the next.
    """

    steps: float
    commits: float
    drafts: float
    engine_use: float
    database_use: float
    disk_use: float
    step_seconds: float


@attrs.define(eq=False)
class Simulation:
    """The clock, and what is to happen."""

    now: float = 0.0
    _due: list[tuple[float, int, Done]] = attrs.field(factory=list[tuple[float, int, Done]])
    _numbers: itertools.count[int] = attrs.field(factory=itertools.count)

    def after(self, seconds: float, done: Done) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), done))

    def run(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, done = heapq.heappop(self._due)
            done()
        self.now = until


@attrs.define(eq=False)
class Cores:
    """Some cores, also half a one: each job runs on one, in the order in which they came."""

    simulation: Simulation
    count: float
    busy: float = 0.0
    _running: int = 0
    _waiting: deque[tuple[float, Done]] = attrs.field(factory=deque[tuple[float, Done]])

    def use(self, seconds: float, done: Done) -> None:
        # Of 1.6 cores, two jobs at a time have 0.8 each.
        if self._running < max(1, round(self.count + 0.49)):
            self._start(seconds, done)
        else:
            self._waiting.append((seconds, done))

    def _start(self, seconds: float, done: Done) -> None:
        self._running += 1
        self.busy += seconds
        share = min(1.0, self.count / self._running)
        self.simulation.after(seconds / share, lambda: self._end(done))

    def _end(self, done: Done) -> None:
        self._running -= 1
        if self._waiting:
            self._start(*self._waiting.popleft())
        done()


@attrs.define(eq=False)
class Disk:
    """The server's disk: one sync at a time, for all that wait."""

    simulation: Simulation
    seconds: float
    busy: float = 0.0
    _is_syncing: bool = False
    _waiting: list[Done] = attrs.field(factory=list[Done])

    def sync(self, done: Done) -> None:
        self._waiting.append(done)
        if not self._is_syncing:
            self._begin()

    def _begin(self) -> None:
        self._is_syncing, batch, self._waiting = True, self._waiting, []
        self.busy += self.seconds
        self.simulation.after(self.seconds, lambda: self._end(batch))

    def _end(self, batch: list[Done]) -> None:
        self._is_syncing = False
        if self._waiting:
            self._begin()
        for done in batch:
            done()


@attrs.define(eq=False)
class Host:
    """The host of the models: it lets requests in at its rate, and answers after a time that varies."""

    simulation: Simulation
    fleet: Fleet
    random: random.Random
    _free_at: float = 0.0

    def answer(self, done: Done) -> None:
        fleet, gap = self.fleet, 0.0
        if fleet.requests_minute is not None:
            gap = 60 / fleet.requests_minute
        if fleet.tokens_minute is not None:
            gap = max(gap, 60 * fleet.tokens_step / fleet.tokens_minute)
        self._free_at = max(self._free_at, self.simulation.now) + gap
        wait = self._free_at - self.simulation.now
        # From half to one and a half times the mean.
        self.simulation.after(wait + fleet.answer_seconds * (0.5 + self.random.random()), done)


@attrs.define(eq=False)
class World:
    """What all engines share, and what is counted."""

    simulation: Simulation
    costs: Costs
    fleet: Fleet
    host: Host
    engine_cores: Cores
    database_cores: Cores
    disk: Disk
    steps: int = 0
    commits: int = 0
    drafts: int = 0
    step_seconds: float = 0.0


@attrs.define(eq=False)
class SimulatedEngine:
    """One engine: its interpreter's lock, its writer, its turns."""

    world: World
    _is_computing: bool = False
    _jobs: deque[tuple[float, Done]] = attrs.field(factory=deque[tuple[float, Done]])
    _events: float = 0.0
    _drafts: int = 0
    _flushes: list[Done] = attrs.field(factory=list[Done])
    _is_committing: bool = False
    _commit_seconds: float = 0.0

    def start(self) -> None:
        simulation, fleet = self.world.simulation, self.world.fleet
        for _ in range(fleet.turns):
            # Not all at the same time.
            begins = self.world.host.random.random() * max(fleet.answer_seconds, 0.01)
            first = self.world.host.random.randrange(FLUSHED_STEPS)
            simulation.after(begins, partial(self._step, first))
        if fleet.answer_seconds:
            simulation.after(self.world.host.random.random() * SHORTEST, self._save_drafts)

    def _step(self, number: int) -> None:
        began = self.world.simulation.now

        def answered() -> None:
            self._compute(self.world.costs.step, computed)

        def computed() -> None:
            self._events += self.world.costs.events
            if number % FLUSHED_STEPS == FLUSHED_STEPS - 1:
                self._flushes.append(ended)
                self._write()
            else:
                self._write()
                ended()

        def ended() -> None:
            self.world.steps += 1
            self.world.step_seconds += self.world.simulation.now - began
            self._step(number + 1)

        self.world.host.answer(answered)

    def _save_drafts(self) -> None:
        fleet = self.world.fleet
        # Not all turns stream at this moment; on average, so many do.
        streams = int(fleet.turns * fleet.streaming + self.world.host.random.random())
        if streams:
            self._drafts += streams
            self._write()
        interval = max(SHORTEST, streams / fleet.drafts_per_second, 5 * self._commit_seconds)
        self.world.simulation.after(min(interval, LONGEST), self._save_drafts)

    def _compute(self, seconds: float, done: Done) -> None:
        self._jobs.append((seconds, done))
        if not self._is_computing:
            self._next_job()

    def _next_job(self) -> None:
        self._is_computing = True
        seconds, done = self._jobs.popleft()

        def computed() -> None:
            self._is_computing = False
            done()
            if self._jobs and not self._is_computing:
                self._next_job()

        self.world.engine_cores.use(seconds, computed)

    def _write(self) -> None:
        if not self._is_committing:
            self._is_committing = True
            self.world.simulation.after(0.0 if self._flushes else GATHER, self._commit)

    def _commit(self) -> None:
        world, costs, began = self.world, self.world.costs, self.world.simulation.now
        events, drafts, flushes = self._events, self._drafts, self._flushes
        self._events, self._drafts, self._flushes = 0.0, 0, []

        def encoded() -> None:
            seconds = costs.database_commit + events * costs.database_event + drafts * costs.database_draft
            world.database_cores.use(seconds, lambda: world.disk.sync(committed))

        def committed() -> None:
            world.commits += 1
            world.drafts += drafts
            self._commit_seconds += 0.3 * (world.simulation.now - began - self._commit_seconds)
            self._is_committing = False
            for done in flushes:
                done()
            if self._events or self._drafts or self._flushes:
                self._write()

        self._compute(costs.commit + events * costs.event, encoded)


def simulate(costs: Costs, fleet: Fleet, *, seconds: float = 10.0, warm_up: float = 5.0, seed: int = 1) -> Outcome:
    """Let a fleet work for so many seconds, after it has warmed up."""
    simulation, dice = Simulation(), random.Random(seed)
    engine_cores = Cores(simulation, fleet.engine_cores)
    database_cores = engine_cores if fleet.database_cores is None else Cores(simulation, fleet.database_cores)
    disk = Disk(simulation, costs.sync)
    world = World(simulation, costs, fleet, Host(simulation, fleet, dice), engine_cores, database_cores, disk)
    for _ in range(fleet.engines):
        SimulatedEngine(world).start()
    simulation.run(warm_up)
    steps, commits, drafts, waited = world.steps, world.commits, world.drafts, world.step_seconds
    busy = (engine_cores.busy, database_cores.busy, disk.busy)
    simulation.run(warm_up + seconds)
    done = world.steps - steps
    return Outcome(
        steps=done / seconds,
        commits=(world.commits - commits) / seconds,
        drafts=(world.drafts - drafts) / seconds,
        engine_use=(engine_cores.busy - busy[0]) / seconds / engine_cores.count,
        database_use=(database_cores.busy - busy[1]) / seconds / database_cores.count,
        disk_use=(disk.busy - busy[2]) / seconds,
        step_seconds=(world.step_seconds - waited) / done if done else float("inf"),
    )
