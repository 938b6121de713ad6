"""`SharedLimits`: how several processes share the limits of hosts, as one table in memory: in an actor, say. Pure.

The function `exchange_permits` of the PostgreSQL schema does the same with rows; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import final

import attrs

from engine.pace.adaptive_limit import PAUSE, AdaptiveLimit
from engine.pace.leased_pace import LEASE_SECONDS, LaneGrant, LaneReport
from engine.pace.pace_port import PaceKey


@attrs.frozen(eq=False, kw_only=True)
class _Block:
    """The permits that one process has until a time."""

    permits: int
    report: LaneReport
    until: float


@attrs.define(eq=False)
class _Row:
    adaptive: AdaptiveLimit = attrs.field(factory=AdaptiveLimit)
    cooldown_until: float = -inf
    blocks: dict[str, _Block] = attrs.field(factory=dict[str, _Block])


@final
class SharedLimits:
    """The limits of hosts, and who has how many permits."""

    def __init__(self) -> None:
        """Make an empty table."""
        self._rows: dict[PaceKey, _Row] = {}

    def exchange(self, owner: str, reports: Sequence[LaneReport], now: float) -> list[LaneGrant]:
        """Take in what *owner* reports, and return its permits; *now* is on the table's own clock, for all owners."""
        return [_exchange(self._rows.setdefault(report.key, _Row()), owner, report, now) for report in reports]


def _exchange(row: _Row, owner: str, report: LaneReport, now: float) -> LaneGrant:
    row.blocks = {name: block for name, block in row.blocks.items() if name != owner and block.until > now}
    others = tuple(row.blocks.values())
    _note_outcomes(row, report, now, _leased(others))
    permits = _grant(row.adaptive.permits(report.reserve), others, report.need)
    # What is under way can't be taken back: it counts until it is over.
    counted = max(report.held, permits)
    if counted or report.need:
        row.blocks[owner] = _Block(permits=counted, report=report, until=now + LEASE_SECONDS)
    # A limit holds as long as an engine that has set it.
    reports = [report, *(block.report for block in others)]
    return LaneGrant(
        key=report.key,
        permits=permits,
        limit=row.adaptive.limit,
        cooldown=max(0.0, row.cooldown_until - now),
        sharers=_hungry(others) + 1,
        requests_minute=_least(report.requests_minute for report in reports),
        tokens_minute=_least(report.tokens_minute for report in reports),
    )


def _grant(most: int, others: Sequence[_Block], need: int) -> int:
    """Return the permits for one engine: what the others leave, but no more than a share while one of them has less."""
    share = max(1, most // (1 + _hungry(others)))
    is_starving = any(block.report.need > block.permits and block.permits < share for block in others)
    allowed = min(need, share) if is_starving else need
    return max(0, min(allowed, most - _leased(others)))


def _leased(blocks: Iterable[_Block]) -> int:
    return sum(block.permits for block in blocks)


def _hungry(blocks: Iterable[_Block]) -> int:
    return sum(block.report.need > 0 for block in blocks)


def _note_outcomes(row: _Row, report: LaneReport, now: float, leased: int) -> None:
    is_cut = False
    if report.is_rate_limited:
        is_cut = row.adaptive.note_rate_limit(now, leased + report.held)
    elif report.answered:
        row.adaptive.note_answers(report.answered, now, reserve=report.reserve)
    wait = report.wait or (PAUSE if is_cut else 0.0)
    if wait:
        row.cooldown_until = max(row.cooldown_until, now + wait)


def _least(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
