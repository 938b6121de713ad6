"""Figure `fleet`: engines that share a PostgreSQL, measured and simulated. `python -m benchmarks.fleet` takes five minutes.

python -m benchmarks.fleet            all of it, and the tables of docs/explanation/capacity.md on standard output
python -m benchmarks.fleet --write    the same, and puts them into that page
python -m benchmarks.fleet --quick    a tenth of the rows and of the time, to see that it works
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from benchmarks.fleet_capacity import SHAPES, bounds, thousand
from benchmarks.fleet_database import (
    CommitCosts,
    Growth,
    Writers,
    a_disk_server,
    measure_commits,
    measure_growth,
    measure_notifications,
    measure_writers,
    server_cpu,
)
from benchmarks.fleet_engine import EngineRun
from benchmarks.fleet_model import Costs, Fleet, Outcome, simulate
from benchmarks.importing import ROOT
from benchmarks.report import Figure, Row, rate, seconds
from tests.store.server import MISSING, Server, programs

ENGINES: Final = (1, 2, 4)
SESSIONS: Final = 8
PAGE: Final = ROOT / "docs" / "explanation" / "capacity.md"
BEGIN, END = "<!-- measured: python -m benchmarks.fleet --write -->", "<!-- end of what was measured -->"


@attrs.frozen(kw_only=True)
class Size:
    """How much is measured: seconds of a run, rounds, rows."""

    run: float = 6.0
    rounds: int = 3
    bench: int = 3
    few: int = 100_000
    many: int = 10_000_000


QUICK: Final = Size(run=2.0, rounds=1, bench=1, few=10_000, many=100_000)


@attrs.frozen(kw_only=True)
class Together:
    """Some engines at the same time.

    Attributes:
        steps: in a second, of all.
        runs: of each engine.
        server: CPU seconds of the server.
        cores: how many cores there were for all of them, measured before and after.
        predicted: what the simulation says.
    """

    steps: float
    runs: Sequence[EngineRun]
    server: float
    cores: float
    predicted: Outcome | None = None

    @property
    def used(self) -> float:
        """How many cores they and the server got: as many as there were, if they were short of them."""
        return self.server / self.runs[0].seconds + sum(run.cpu / run.seconds for run in self.runs)


@attrs.frozen(kw_only=True)
class Measured:
    """All that was measured in one run."""

    costs: Costs
    together: Mapping[int, Together]
    writers: Mapping[int, Writers]
    notifications: float
    memory: Mapping[str, float]
    growth: Sequence[Growth]
    load: str


# ---- engines ---------------------------------------------------------------------------------------------------------


def run_engines(server: Server, count: int, length: float) -> Together:
    """Let so many engines work at the same time, in a database of their own."""
    name = server.name()
    server.do(f"CREATE DATABASE {name}")
    command = [sys.executable, "-m", "benchmarks.fleet_engine", server.dsn(name), str(SESSIONS), str(length)]
    before = available_cores()
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        cpu = server_cpu(server)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        runs = [EngineRun(**json.loads(process.communicate(timeout=120)[0])) for process in processes]
    finally:
        for process in processes:
            process.kill()
    used = server_cpu(server) - cpu
    server.do(f"DROP DATABASE {name} WITH (FORCE)")
    steps = sum(run.steps / run.seconds for run in runs)
    cores = (before + available_cores()) / 2
    return Together(steps=steps, runs=runs, server=used, cores=cores)


def measure_memory(server: Server) -> Mapping[str, float]:
    """Return the bytes of an idle session, of one in a call, and of the process without them."""
    command = [sys.executable, "-m", "benchmarks.fleet_engine", server.dsn(), "0", "0"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120).stdout
    return dict(json.loads(text))


def available_cores(length: float = 0.5) -> float:
    """Return how many cores' work this machine does for us now: that of all at once, by what one does alone when it runs."""
    count = os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        pool.map(_spin, [0.05] * count)
        (alone,) = pool.map(_spin, [length])
        both = pool.map(_spin, [length] * count)
    # By CPU time alone, so that other programs count only below.
    return sum(rounds for rounds, _ in both) / length / (alone[0] / alone[1])


def _spin(length: float) -> tuple[int, float]:
    """Compute for so long; return how often, and the CPU seconds."""
    rounds, cpu, until = 0, time.process_time(), time.perf_counter() + length
    while time.perf_counter() < until:
        sum(range(1_000))
        rounds += 1
    return rounds, time.process_time() - cpu


def costs_of(one: Together, commit: CommitCosts) -> Costs:
    """Return the costs of the model: those of a step are what one engine has used, without its commits."""
    (run,) = one.runs
    events = run.events / run.steps
    step = run.cpu / run.steps - run.commits / run.steps * commit.commit - events * commit.event
    # What a commit costs the server while it is busy, as here, and not when it wakes up for each.
    in_commits = run.commits * commit.database_commit + run.events * commit.database_event
    scale = one.server / in_commits if in_commits else 1.0
    return Costs(
        step=max(step, 0.0),
        commit=commit.commit,
        event=commit.event,
        database_commit=commit.database_commit * scale,
        database_event=commit.database_event * scale,
        database_draft=commit.database_draft * scale,
        sync=commit.sync,
        events=events,
        event_bytes=commit.event_bytes,
        wal_bytes=commit.wal_bytes,
    )


def predict(costs: Costs, count: int, cores: float) -> Outcome:
    """Simulate engines on this machine, with a model that answers at once."""
    return simulate(costs, Fleet(engines=count, turns=SESSIONS, engine_cores=cores))


# ---- all of it -------------------------------------------------------------------------------------------------------


def measure_all(size: Size, report: bool = True) -> Measured:  # noqa: FBT001, FBT002
    """Measure everything, in a server on the disk."""
    found = programs()
    if found is None:
        raise SystemExit(MISSING)
    load = os.getloadavg()

    def note(what: str) -> None:
        if report:
            print(f"{time.perf_counter() - began:5.0f} s  {what} …", file=sys.stderr, flush=True)

    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="engine-fleet-", dir="/var/tmp") as folder:
        with a_disk_server(found, _below(folder, "busy")) as server:
            note("what a commit costs")
            commit = measure_commits(server)
            note(f"{', '.join(map(str, ENGINES))} engines")
            samples = [{count: run_engines(server, count, size.run) for count in ENGINES} for _ in range(size.rounds)]
            note("memory")
            memory = measure_memory(server)
        with a_disk_server(found, _below(folder, "writers")) as server:
            note("8, 32 and 128 writers")
            writers = measure_writers(server, size.bench, size.rounds)
            note("notifications")
            notifications = measure_notifications(server, size.bench)
        options = ("wal_level=minimal", "max_wal_senders=0", "max_wal_size=8GB", "maintenance_work_mem=512MB")
        with a_disk_server(found, _below(folder, "growth"), *options) as server:
            note(f"a table of {size.many:,} events")
            growth = measure_growth(server, size.few, size.many)
    note("the simulation")
    together = {count: _middle([sample[count] for sample in samples]) for count in ENGINES}
    costs = costs_of(together[1], commit)
    return Measured(
        costs=costs,
        together={
            count: attrs.evolve(each, predicted=predict(costs, count, each.cores)) for count, each in together.items()
        },
        writers=writers,
        notifications=notifications,
        memory=memory,
        growth=growth,
        load=", ".join(f"{value:.1f}" for value in (*load, os.getloadavg()[0])),
    )


def _below(folder: str, name: str) -> Path:
    place = Path(folder) / name
    place.mkdir()
    # The server's user has to get there.
    Path(folder).chmod(0o755)
    return place


def _middle(samples: Sequence[Together]) -> Together:
    return sorted(samples, key=lambda each: each.steps)[len(samples) // 2]


# ---- what is printed -------------------------------------------------------------------------------------------------


def tables(found: Measured) -> str:
    """Return the measurements, the bounds and the simulation as Markdown."""
    costs = found.costs
    parts = [
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load before (1, 5, 15 minutes) and after: {found.load}.",
        _engines(found),
        _table(
            (
                "writers",
                "commits a second",
                "without the lock",
                "CPU of the server for one",
                "without the lock",
                "its share",
            ),
            [
                (
                    f"{count}",
                    f"{each.commits:,.0f}",
                    f"{each.unlocked:,.0f}",
                    seconds(each.cpu),
                    seconds(each.unlocked_cpu),
                    f"{each.lock_share:.1%}",
                )
                for count, each in found.writers.items()
            ],
        ),
        _table(
            ("constant", "value"),
            [
                ("events in a step, *e*", f"{costs.events:.1f}"),
                ("bytes of an event with its indexes, *b*", f"{costs.event_bytes:,.0f}"),
                ("write-ahead log for an event", f"{costs.wal_bytes:,.0f} bytes"),
                ("CPU of the engine for a step, without commits", seconds(costs.step)),
                (
                    "CPU of the engine for a commit; for each event in it",
                    f"{seconds(costs.commit)}; {seconds(costs.event)}",
                ),
                (
                    "CPU of the server for a commit; for each event; for each draft",
                    f"{seconds(costs.database_commit)}; {seconds(costs.database_event)}; {seconds(costs.database_draft)}",
                ),
                ("sync of the disk", seconds(costs.sync)),
                ("transactions that notify", rate(found.notifications)),
                ("memory of an engine without sessions", f"{found.memory['process'] / 2**20:.0f} MiB"),
                (
                    "memory of an idle session; of one in a turn",
                    f"{found.memory['idle'] / 1024:.0f} KiB; {found.memory['active'] / 1024:.0f} KiB",
                ),
                ("longest stall of the loop, 1 engine", seconds(max(run.stall for run in found.together[1].runs))),
            ],
        ),
        _table(
            ("with 10⁵ and 10⁷ events", "10⁵", "10⁷", "ratio"),
            [(each.name, seconds(each.few), seconds(each.many), f"{each.ratio:.2f}") for each in found.growth],
        ),
        *(_bounds(found, turns) for turns in (25, 1)),
        _thousand(found),
    ]
    return "\n\n".join(parts)


def _engines(found: Measured) -> str:
    rows: list[tuple[str, ...]] = []
    for count, each in found.together.items():
        assert each.predicted is not None
        engine = statistics.mean(run.cpu / run.seconds for run in each.runs)
        again = predict(found.costs, count, each.used)
        rows.append((
            f"{count}",
            f"{each.steps:,.0f}",
            f"{each.predicted.steps:,.0f}",
            f"{each.predicted.steps / each.steps - 1:+.0%}",
            f"{again.steps:,.0f}",
            f"{again.steps / each.steps - 1:+.0%}",
            f"{engine:.2f}",
            f"{each.server / each.runs[0].seconds:.2f}",
            f"{each.cores:.2f}; {each.used:.2f}",
        ))  # fmt: skip
    return _table(
        (
            "engines",
            "steps a second",
            "simulated, with the cores there were",
            "error",
            "with those they got",
            "error",
            "cores of each engine",
            "of the server",
            "there were; they got",
        ),
        rows,
    )


def _bounds(found: Measured, turns: int) -> str:
    rows = [
        (each.what, f"{each.turns:,.0f}", each.because)
        for each in bounds(found.costs, turns, found.writers[128].commits)
    ]
    return _table((f"bound, {turns} turn{'s' * (turns > 1)} in each engine", "turns at once, *W*", "with"), rows)


def _thousand(found: Measured) -> str:
    rows: list[tuple[str, ...]] = []
    for has_limits in (True, False):
        for name, each in thousand(found.costs, has_limits=has_limits).items():
            engines, turns = SHAPES[name]
            rows.append((
                name,
                "yes" if has_limits else "no",
                f"{each.steps:,.0f}",
                f"{each.steps / (engines * turns / 8.0):.0%}",
                f"{each.commits:,.0f}",
                f"{each.drafts:,.0f}",
                f"{each.engine_use:.0%}",
                f"{each.database_use:.0%}",
                f"{each.disk_use:.0%}",
                f"{each.step_seconds:.1f} s",
            ))  # fmt: skip
    return _table(
        (
            "simulated",
            "the host's limits",
            "steps a second",
            "of what was asked for",
            "commits",
            "drafts",
            "engines' cores",
            "database's cores",
            "disk",
            "a step takes",
        ),
        rows,
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" | ".join(cells) for cells in (head, ["---", *["---:"] * (len(head) - 1)], *rows)]
    return "\n".join(f"| {line} |" for line in lines)


def measure() -> Sequence[Row]:
    """Return the rows of the figure, from a short run."""
    found = measure_all(attrs.evolve(QUICK, run=4.0, rounds=3), report=False)
    rows = [
        Row(
            name=f"fleet: {count} engine{'s' * (count > 1)} of {SESSIONS} sessions, model at once: steps, versus simulated",
            measured=rate(each.steps),
            baseline=rate(each.predicted.steps if each.predicted is not None else 0.0),
            ratio=each.steps / each.predicted.steps if each.predicted is not None else None,
        )
        for count, each in found.together.items()
    ]
    return rows + [
        Row(
            name=f"fleet: {count} writers: CPU of the server for a commit, versus without the lock of the tables' version",
            measured=seconds(each.cpu),
            baseline=seconds(each.unlocked_cpu),
            ratio=each.cpu / each.unlocked_cpu,
            target="ratio ≤ 1.05",
            ok=each.lock_share <= 0.05,
        )
        for count, each in found.writers.items()
    ]


FIGURE = Figure(name="fleet", about="engines that share a PostgreSQL, and what bounds a thousand", measure=measure)


def main() -> None:
    """Measure, print, and write the page if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description="Measure and simulate a fleet.")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    options = parser.parse_args()
    text = tables(measure_all(QUICK if options.quick else Size()))
    print(text)
    if options.write:
        page = PAGE.read_text()
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
