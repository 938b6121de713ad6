"""What is said once about a model is not said again."""

from __future__ import annotations

from pathlib import Path

from engine.cli.turn.seen_notices import SeenNotices
from engine.core.events import Notice

UNKNOWN = Notice(level="warning", code="unknown_model", text="Unknown model a/b: assuming much")


def test_each_model_is_mentioned_once(tmp_path: Path) -> None:
    file = tmp_path / "state" / "seen.json"
    assert [SeenNotices(file).hides(UNKNOWN) for _ in range(3)] == [False, True, True]
    other = Notice(level="warning", code="unknown_model", text="Unknown model a/c: assuming much")
    assert [SeenNotices(file).hides(other) for _ in range(2)] == [False, True]
    assert SeenNotices(file).hides(UNKNOWN)


def test_other_notices_are_always_shown(tmp_path: Path) -> None:
    seen = SeenNotices(tmp_path / "seen.json")
    notice = Notice(level="warning", code="close_failed", text="x")
    assert [seen.hides(notice) for _ in range(2)] == [False, False]


def test_unusable_file_costs_only_a_repetition(tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_text("{")
    assert not SeenNotices(tmp_path / "nonsense").hides(UNKNOWN)
    assert SeenNotices(tmp_path / "nonsense").hides(UNKNOWN)
    assert not SeenNotices(tmp_path / "nonsense" / "seen.json").hides(UNKNOWN)
