"""Foreign code that blocks the event loop, as the engine reports it."""

from __future__ import annotations

from trio.testing import MockClock

from engine.core.foreign_calls import call_foreign_now, reporting_blocks


async def test_failing_reporter_leaves_the_result(mock_clock: MockClock) -> None:
    reports: list[str] = []

    def report(level: str, code: str, text: str) -> None:
        reports.append(code)
        raise OSError("the journal can't be written")

    def block() -> int:
        mock_clock.jump(60)
        return 7

    with reporting_blocks(report):
        assert call_foreign_now("a hook", block) == 7
    assert reports == ["loop_blocked"]
