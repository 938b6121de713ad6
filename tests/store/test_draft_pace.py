"""The pace of drafts: how often many streams write, and what slow commits change."""

from __future__ import annotations

import heapq
import itertools

import pytest

from engine.store.draft_pace import LONGEST, SHORTEST, DraftPace


def drafts_of(streams: int, *, per_second: float = 50.0, parts: int = 1, seconds: int = 60) -> list[tuple[float, int]]:
    """Let that many streams write; return the time and the stream of each draft."""
    pace = DraftPace(per_second)
    due = [(0.001 * number, number) for number in range(streams)]
    drafts: list[tuple[float, int]] = []
    while due[0][0] < seconds:
        now, stream = heapq.heappop(due)
        for _ in range(parts):
            pace.note_draft(now)
            drafts.append((now, stream))
        heapq.heappush(due, (now + pace.interval(now), stream))
    return drafts


@pytest.mark.parametrize(
    ("streams", "per_second", "parts"), [(1, 50, 1), (20, 50, 1), (90, 50, 1), (10, 50, 4), (20, 10, 1)]
)
def test_streams_share_the_rate(streams: int, per_second: float, parts: int) -> None:
    drafts = drafts_of(streams, per_second=per_second, parts=parts)
    late = [each for each in drafts if each[0] > 10]
    assert len(late) / 50 <= per_second * 1.02
    # All of it is used, unless each stream writes as often as it may.
    assert len(late) / 50 >= min(per_second, streams * parts / SHORTEST) * 0.9
    for stream in range(streams):
        times = sorted({time for time, writer in late if writer == stream})
        gaps = [after - before for before, after in itertools.pairwise(times)]
        assert max(gaps) <= LONGEST + 1e-9
        assert min(gaps) >= SHORTEST - 1e-9


def test_more_streams_than_the_rate_allows_wait_the_longest() -> None:
    drafts = [time for time, stream in drafts_of(300) if stream == 7 and time > 10]
    assert {round(after - before, 6) for before, after in itertools.pairwise(drafts)} == {LONGEST}


def test_commits_take_at_most_a_fifth() -> None:
    pace = DraftPace(50.0)
    assert pace.interval(0.0) == SHORTEST
    pace.note_commits(10, 0.6)
    assert pace.interval(0.0) == pytest.approx(0.3)
    pace.note_commits(10, 0.6)  # none since
    assert pace.interval(0.0) == pytest.approx(0.3)
    for commits in range(11, 40):
        pace.note_commits(commits, 0.6 + commits - 10)
    assert pace.interval(0.0) == LONGEST
    for commits in range(40, 80):
        pace.note_commits(commits, 29.6 + 0.001 * (commits - 39))
    assert pace.interval(0.0) == pytest.approx(SHORTEST)
