"""What bounds a fleet, computed from measured costs: cores, commits, connections, the host of the models, the disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from benchmarks.fleet_model import Costs, Fleet, Outcome, simulate

# What is assumed of the work, for the tables: a step of eight seconds, of which five stream, with 4,000 tokens that count.
STEP_SECONDS: Final = 8.0
TOKENS: Final = 4_000.0
REQUESTS_MINUTE, TOKENS_MINUTE = 10_000.0, 20_000_000.0
ENGINE_CORES, DATABASE_CORES = 64.0, 16.0
MAX_CONNECTIONS: Final = 500
CONNECTIONS: Final = 4
DISK_BYTES: Final = 1e12
DAY: Final = 86_400.0


@attrs.frozen(kw_only=True)
class Bound:
    """How many turns at the same time one thing allows."""

    what: str
    turns: float
    because: str


def bounds(costs: Costs, turns: int, commits_measured: float) -> Sequence[Bound]:
    """Return what bounds a fleet with *turns* in each engine, the tightest first.

    Args:
        costs: as measured.
        turns: at the same time in each engine.
        commits_measured: in a second, of the most writers that were measured.
    """
    fleet = Fleet(engines=1, turns=turns, answer_seconds=STEP_SECONDS, database_cores=DATABASE_CORES)
    one = simulate(costs, fleet, seconds=20, warm_up=20)
    step_cpu = costs.step + costs.events * costs.event + one.commits / max(one.steps, 1e-9) * costs.commit
    drafts = one.drafts / turns
    commits = one.commits / turns
    database_cpu = (
        commits * costs.database_commit
        + costs.events / STEP_SECONDS * costs.database_event
        + drafts * costs.database_draft
    )
    host = min(REQUESTS_MINUTE / 60, TOKENS_MINUTE / 60 / TOKENS) * STEP_SECONDS
    found = [
        Bound(
            what="host of the models",
            turns=host,
            because=f"{REQUESTS_MINUTE:,.0f} requests and {TOKENS_MINUTE:,.0f} tokens a minute",
        ),
        Bound(
            what="cores of the engines",
            turns=ENGINE_CORES * STEP_SECONDS / step_cpu,
            because=f"{step_cpu * 1e3:.1f} ms for a step, {ENGINE_CORES:.0f} cores",
        ),
        Bound(
            what="cores of the database",
            turns=DATABASE_CORES / database_cpu,
            because=f"{drafts:.1f} drafts and {commits:.2f} commits a second for a turn, {DATABASE_CORES:.0f} cores",
        ),
        Bound(
            what="commits, as measured here",
            turns=commits_measured / commits,
            because=f"{commits_measured:,.0f} a second with 128 writers on this machine",
        ),
        Bound(
            what="connections",
            turns=(MAX_CONNECTIONS - 20) / CONNECTIONS * turns,
            because=f"max_connections = {MAX_CONNECTIONS}, {CONNECTIONS} for an engine",
        ),
        Bound(
            what="disk, for 30 days",
            turns=DISK_BYTES / (costs.events * costs.event_bytes / STEP_SECONDS * 30 * DAY),
            because=f"{costs.events:.1f} events of {costs.event_bytes:,.0f} bytes in a step, {DISK_BYTES / 1e12:.0f} TB",
        ),
    ]
    return sorted(found, key=lambda each: each.turns)


# For a thousand engines, and for the same turns in fewer engines.
SHAPES: Final[Mapping[str, tuple[int, int]]] = {
    "1,000 engines of 1 turn": (1_000, 1),
    "40 engines of 25 turns": (40, 25),
    "1,000 engines of 25 turns": (1_000, 25),
}


def thousand(costs: Costs, *, has_limits: bool) -> Mapping[str, Outcome]:
    """Simulate a thousand workers, and a thousand engines."""
    return {
        name: simulate(
            costs,
            Fleet(
                engines=engines,
                turns=turns,
                answer_seconds=STEP_SECONDS,
                engine_cores=ENGINE_CORES,
                database_cores=DATABASE_CORES,
                requests_minute=REQUESTS_MINUTE if has_limits else None,
                tokens_minute=TOKENS_MINUTE if has_limits else None,
                tokens_step=TOKENS,
            ),
            seconds=6,
            warm_up=20,
        )
        for name, (engines, turns) in SHAPES.items()
    }
