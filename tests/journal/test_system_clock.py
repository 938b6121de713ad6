"""Identifiers: those of sessions are typed by people."""

from __future__ import annotations

from engine.journal.system_clock import RandomIds


def test_session_ids_differ_at_both_ends() -> None:
    engines = [RandomIds() for _ in range(3)]
    ids = [ids.new("ses") for ids in engines for _ in range(300)]
    bare = [each.removeprefix("ses_") for each in ids]
    assert len({each[:8] for each in bare}) == len({each[-8:] for each in bare}) == 900
    assert {len(each) for each in bare} == {18}


def test_other_ids_are_counted() -> None:
    ids = RandomIds()
    assert ids.new("msg")[:-1] == ids.new("msg")[:-1]
