"""Foreign code that blocks the event loop, as the engine reports it."""

from __future__ import annotations

from trio.testing import MockClock

from engine.core.foreign_calls import call_foreign_now, note_continued, reporting_blocks


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


async def test_process_that_was_stopped_blames_no_code(mock_clock: MockClock) -> None:
    reports: list[str] = []

    def stop_and_continue() -> None:
        mock_clock.jump(60)
        note_continued()

    with reporting_blocks(lambda _level, code, _text: reports.append(code)):
        call_foreign_now("a hook", stop_and_continue)
        assert reports == []
        call_foreign_now("a hook", lambda: mock_clock.jump(60))
    assert reports == ["loop_blocked"]


def test_continuing_outside_of_a_run_does_nothing() -> None:
    note_continued()
