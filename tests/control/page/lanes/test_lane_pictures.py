"""The lanes as data (T27): fixed sessions give fixed pictures, live, half loaded, and from a trace file.

`python -m tests.control.page.lanes.test_lane_pictures --write` writes the golden pictures; read the difference.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import pytest
import trio
from trio.testing import MockClock

from engine.core.events import Durable, Live
from engine.export import render_trace
from engine.journal.codec import encode_event
from tests.support import lane_sessions
from tests.support.lane_sessions import Recorded

Json: TypeAlias = "dict[str, Any]"

HERE: Final = Path(__file__).parent
NODE: Final = shutil.which("node")
SESSIONS: Final[Mapping[str, Callable[[], Awaitable[Recorded]]]] = {
    "parallel": lane_sessions.play_parallel,
    "cancel": lane_sessions.play_cancel,
    "long_command": lane_sessions.play_long_command,
    "nested": lane_sessions.play_nested,
    "retries": lane_sessions.play_retries,
    "turns": lane_sessions.play_turns,
}
# A picture is data of seconds on a mock clock; sums of floats differ in the last digits.
DIGITS: Final = 6

pytestmark = pytest.mark.skipif(NODE is None, reason="node draws the lanes here, and there is none")


@cache
def played(name: str) -> Recorded:
    return trio.run(SESSIONS[name], clock=MockClock(autojump_threshold=0))


@cache
def many() -> Recorded:
    return trio.run(lane_sessions.play_many, clock=MockClock(autojump_threshold=0))


def documents(events: Iterable[Durable | Live]) -> list[Json]:
    return [json.loads(encode_event(event)) for event in events]


def draw(**request: object) -> Any:
    """Return what the lanes' own code makes of a request; see `draw_lanes.mjs`."""
    (answer,) = draw_all([request])
    return answer


def draw_all(requests: Sequence[Json]) -> list[Any]:
    assert NODE is not None
    command, text = [NODE, str(HERE / "draw_lanes.mjs")], json.dumps(requests)
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    answers: list[Any] = json.loads(done.stdout, parse_float=lambda text: round(float(text), DIGITS))
    return answers


@cache
def pictures(kind: str) -> Mapping[str, Any]:
    """Return the pictures of all sessions, in one run of node: starting it takes longer than drawing."""
    return dict(zip(SESSIONS, draw_all([_request(kind, played(name)) for name in SESSIONS]), strict=True))


def _request(kind: str, session: Recorded) -> Json:
    events = documents(session.seen)
    half, durable = len(events) // 2, [event for event in events if event["seq"] is not None]
    match kind:
        case "file":
            return {"page": render_trace(session.journals, "a session", engine="0", at=0.0)}
        case "growing":
            return {"events": events, "prefixes": True}
        case "halves":
            return {"events": events, "cuts": 7}
        case "twice":
            return {"events": [*events[:half], *durable[: half // 2], *events[half // 3 :]]}
        case _:
            return {"events": events}


def renumbered(picture: Json) -> Json:
    """Return *picture* with ids that say only which is which: tasks that begin together get theirs in any order."""
    numbers: dict[str, str] = {}
    text = re.sub(r"\b[a-z]+_\d+\b", lambda id_: numbers.setdefault(id_[0], f"id_{len(numbers)}"), json.dumps(picture))
    renamed: Json = json.loads(text)
    return renamed


def rows_of(picture: Json) -> Iterator[Json]:
    """Yield all rows, as they are drawn."""

    def below(rows: Sequence[Json]) -> Iterator[Json]:
        for row in rows:
            yield row
            yield from below(row["children"])

    yield from below(picture["rows"])


def one(picture: Json, name: str, detail: str = "") -> Json:
    (row,) = [row for row in rows_of(picture) if row["name"] == name and row["detail"].startswith(detail)]
    return row


def phases(row: Json) -> list[tuple[str, float, float | None]]:
    return [(segment["kind"], segment["from"], segment["to"]) for segment in row["segments"]]


# -- fixed sessions, fixed pictures ------------------------------------------------------------------


@pytest.mark.parametrize("name", SESSIONS)
def test_session_has_its_picture(name: str) -> None:
    golden = (HERE / "pictures" / f"{name}.json").read_text(encoding="utf-8")
    assert renumbered(pictures("live")[name]) == json.loads(golden)


@pytest.mark.parametrize("name", SESSIONS)
def test_trace_file_shows_the_live_picture(name: str) -> None:
    assert pictures("file")[name] == pictures("live")[name]


@pytest.mark.parametrize("name", SESSIONS)
def test_picture_grows_without_jumps(name: str) -> None:
    growing = pictures("growing")[name]
    assert growing[-1] == pictures("live")[name]
    for before, after in pairwise(growing):
        assert_grows(before, after)


@pytest.mark.parametrize("name", SESSIONS)
def test_events_that_come_twice_change_nothing(name: str) -> None:
    assert pictures("twice")[name] == pictures("live")[name]


def assert_grows(before: Json, after: Json) -> None:
    """Assert that what was drawn stays: nothing that is over moves, and what lasts begins where it began."""
    old, new = [row["id"] for row in rows_of(before)], {row["id"]: row for row in rows_of(after)}
    assert [row for row in new if row in set(old)] == old, "rows keep their order"
    for row in rows_of(before):
        now = new[row["id"]]
        assert now["from"] == row["from"]
        assert now["marks"][: len(row["marks"])] == row["marks"]
        assert row["outcome"] in (None, now["outcome"]) or row["kind"] == "step"
        assert row["ending"] in (None, now["ending"])
        for n, segment in enumerate(row["segments"]):
            assert_segment_grows(segment, now["segments"][n] if n < len(now["segments"]) else None)


def assert_segment_grows(segment: Json, now: Json | None) -> None:
    if now is None or (now["kind"] != segment["kind"] and now["from"] == segment["from"]):
        assert segment["to"] is None, "only what took no time is left out"
        return
    assert (now["kind"], now["from"]) == (segment["kind"], segment["from"])
    if segment["to"] is not None:
        # A reader's bar rests between two parts: nothing tells whether there will be another.
        assert now["to"] == segment["to"] or (segment["kind"] == "stream" and (now["to"] or 1e9) >= segment["to"])


@pytest.mark.parametrize("name", SESSIONS)
def test_rest_of_a_session_has_a_picture(name: str) -> None:
    for picture in pictures("halves")[name]:
        assert picture["end"] == pictures("live")[name]["end"]
        assert all(row["to"] is not None for row in rows_of(picture) if row["kind"] == "turn"), "its end is known"


def test_page_loads_what_its_transcript_lacks() -> None:
    # What the page of a session has: the last of its events, one of them only as a reference, and none of sub-agents.
    journals = [documents(journal) for journal in played("nested").journals]
    server = {journal[0]["session_id"]: journal for journal in journals}
    *_, large, last = journals[0]
    reference = {
        "type": "elided",
        "of": large["type"],
        "seq": large["seq"],
        "href": f"v1/sessions/{large['session_id']}/events",
    }
    record = draw(server=server, loaded=[reference, last])
    assert draw(events=[*record, last]) == pictures("live")["nested"]


# -- what the pictures show ------------------------------------------------------------------------------


def test_cancel_shows_its_grace_and_each_end_in_it() -> None:
    picture = pictures("live")["cancel"]
    turn = picture["rows"][0]
    assert turn["ending"] == {"cause": "user", "detail": "cancelled by the user", "at": 4, "until": 6, "by": "phone"}
    assert [(mark["kind"], mark["at"], mark["by"]) for mark in turn["marks"]] == [
        ("steer", 2, "phone"),
        ("warning", 4.5, ""),
    ]
    stubborn = one(picture, "fetch", "http://localhost:9090/metrics")
    assert stubborn["outcome"]["unknown"]
    assert phases(stubborn) == [("running", 0.5, 4.5), ("settled", 4.5, 6)]
    prompt = one(picture, "fetch", "http://localhost:9090/targets")
    assert (prompt["outcome"]["reason"], phases(prompt)[0]) == ("cancelled", ("running", 0.5, 4))
    waiting = one(picture, "read", "report.json")
    assert waiting["outcome"]["reason"] == "not_executed"
    assert {kind for kind, _, _ in phases(waiting)} == {"queued", "settled"}
    (child,) = one(picture, "task")["children"]
    assert child["ending"]["at"] == 4, "the sub-agent ends with it"
    assert child["to"] <= 6


def test_queued_calls_say_what_they_wait_for() -> None:
    picture = pictures("live")["parallel"]
    assert notes(one(picture, "bash", "git diff")) == ["bash make test runs alone"]
    assert notes(one(picture, "read", "CHANGES.md")) == [
        "behind bash git diff --stat: bash make test runs alone",
        "bash git diff --stat runs alone",
    ]


def test_queued_calls_name_the_limit() -> None:
    picture = draw(events=limited(12, parallel=10))
    waiting = [row for row in rows_of(picture) if row["kind"] == "call" and notes(row)]
    assert [notes(row)[0] for row in waiting] == [
        "10 calls run already, the limit",
        "behind read 10: 10 calls run already, the limit",
    ]


def test_call_that_may_start_is_being_checked() -> None:
    events = limited(3, parallel=10)
    started = [event for event in events if event["type"] != "call_started"]
    picture = draw(
        events=[*started, {**started[-1], "seq": 99, "type": "notice", "level": "info", "text": "", "time": 1.0}]
    )
    assert [phases(row) for row in rows_of(picture) if row["kind"] == "call"] == [[("judged", 0, None)]] * 3


def notes(row: Json) -> list[str]:
    return [segment["note"] for segment in row["segments"] if segment["kind"] == "queued" and "note" in segment]


def limited(calls: int, *, parallel: int) -> list[Json]:
    """Return the events of calls that are all safe, of which so many may run."""
    base: Json = {"session_id": "s", "turn_id": "t", "path": ["s"], "time": 0.0}
    events: list[Json] = [
        {"type": "turn_started", "call_id": None},
        {"type": "step_started", "step": 1, "attempt": 1, "model": "m", "parallel": parallel},
    ]
    for n in range(calls):
        events.append({"type": "call_announced", "call_id": f"c{n}", "tool": "read"})
        queued = {
            "type": "call_queued",
            "call_id": f"c{n}",
            "tool": "read",
            "arguments": f'{{"a": "{n}"}}',
            "safe": True,
        }
        events.append(queued)
        if n < parallel:
            events.append({"type": "call_started", "call_id": f"c{n}"})
    return [{**base, "seq": seq, **event} for seq, event in enumerate(events, 1)]


def test_strip_counts_the_calls_that_run() -> None:
    strip = pictures("live")["nested"]["strip"]
    assert max(level["running"] for level in strip) == 4, "a call that waits for its sub-agent does not count"
    assert strip[-1]["running"] == 0


def test_sub_agents_are_below_their_calls() -> None:
    picture = pictures("live")["nested"]
    grammar = one(picture, "task", "check the grammar")
    (child,) = grammar["children"]
    assert (child["kind"], child["depth"]) == ("turn", 2)
    assert [row["detail"] for step in child["children"] for row in step["children"]] == [
        "grammar.txt",
        "https://example.org/bnf",
    ]


def test_retries_are_phases_of_their_step() -> None:
    picture = pictures("live")["retries"]
    (step,) = picture["rows"][0]["children"]
    assert [kind for kind, _, _ in phases(step)] == [
        "request", "retry", "request", "retry", "request", "stream", "retry", "request", "stream",
    ]  # fmt: skip
    assert step["facts"]["attempt"] == 4


def turn_of(*events: Json) -> list[Json]:
    """Return the events of a turn with a second between two of them."""
    base: Json = {"session_id": "s", "turn_id": "t", "path": ["s"], "call_id": None}
    started: Json = {"type": "turn_started"}
    return [{**base, "seq": n, "time": float(n), **event} for n, event in enumerate((started, *events), 1)]


RESULT: Json = {"stop_reason": "completed", "detail": "", "usage": None, "cost": 0, "steps": 1}


def test_summary_is_a_phase_of_its_turn() -> None:
    ended: Json = {"type": "turn_ended", "result": RESULT, "ending": None}
    summary: list[Json] = [
        {"type": "compaction_started", "trigger": "full"},
        {"type": "compaction_ended", "outcome": "compacted", "detail": ""},
    ]
    (turn,) = draw(events=turn_of(*summary, ended))["rows"]
    assert phases(turn) == [("turn", 1, 2), ("compaction", 2, 3), ("turn", 3, 4)]
    assert [mark["kind"] for mark in turn["marks"]] == ["compaction", "compacted"]


def test_tool_that_asks_waits_in_its_middle() -> None:
    events = turn_of(
        {"type": "step_started", "step": 1, "attempt": 1, "model": "m", "parallel": 10},
        {"type": "call_announced", "call_id": "c", "tool": "ask"},
        {"type": "call_queued", "call_id": "c", "tool": "ask", "arguments": "{}", "safe": True},
        {"type": "call_started", "call_id": "c"},
        {"type": "question_asked", "call_id": "c", "request_id": "q", "question": "Which?"},
        {"type": "question_answered", "request_id": "q", "outcome": "answered", "answers": ["this"], "by": "phone"},
    )
    row = one(draw(events=events), "ask")
    assert [kind for kind, _, _ in phases(row)] == ["receiving", "judged", "running", "question", "running"]
    assert [(mark["kind"], mark["text"], mark["by"]) for mark in row["marks"]] == [
        ("asked", "Which?", ""),
        ("answered", "answered: this", "phone"),
    ]


def test_model_that_fails_waits_for_the_user_in_its_step() -> None:
    events = turn_of(
        {"type": "step_started", "step": 1, "attempt": 1, "model": "m", "parallel": 10},
        {"type": "recovery_asked", "request_id": "q", "message": "no credit"},
        {"type": "recovery_answered", "request_id": "q", "answer": "switch", "by": "phone"},
        {"type": "step_started", "step": 1, "attempt": 2, "model": "n", "parallel": 10},
    )
    step = one(draw(events=events), "Step 1")
    assert [kind for kind, _, _ in phases(step)] == ["request", "question", "request"]
    assert (step["detail"], step["facts"]["attempt"]) == ("n", 2)


def test_background_command_outlives_its_turn() -> None:
    begun: Json = {
        "type": "background_started",
        "work_id": "w",
        "kind": "command",
        "name": "server",
        "detail": "make run",
    }
    ended: Json = {"type": "turn_ended", "result": RESULT, "ending": None}
    row = one(draw(events=turn_of(begun, ended)), "server")
    assert phases(row) == [("background", 2, None)]
    over: Json = {"type": "background_ended", "work_id": "w", "turn_id": None}
    assert one(draw(events=turn_of(begun, ended, over)), "server")["to"] == 4


def test_session_without_a_turn_has_no_rows() -> None:
    created: Json = {"type": "session_created", "agent": "", "parent_id": None, "parent_call_id": None, "turn_id": None}
    assert draw(events=turn_of(created)[1:])["rows"] == []


def test_undone_turn_says_so() -> None:
    ended: Json = {"type": "turn_ended", "result": RESULT, "ending": None}
    undone: Json = {"type": "turn_undone", "undone": "t", "turn_id": None}
    assert draw(events=turn_of(ended, undone), table=True)[0][1] == "completed, undone later"
    redone: Json = {"type": "turn_redone", "redone": "t", "turn_id": None}
    assert draw(events=turn_of(ended, undone, redone), table=True)[0][1] == "completed"


def test_crash_leaves_a_gap_and_no_long_bar() -> None:
    events = documents(played("long_command").seen)
    started = next(n for n, event in enumerate(events) if event["type"] == "call_started")
    alive, day = events[: started + 1], 86_400.0
    call = alive[-1]
    late: list[Json] = [
        {"type": "call_settled", "call_id": call["call_id"], "settlement": {"status": "aborted", "reason": "interrupted_by_crash", "outcome_unknown": True, "text": ""}},
        {"type": "turn_ended", "result": {"stop_reason": "aborted", "detail": "", "usage": None, "cost": 0, "steps": 1}, "ending": None},
    ]  # fmt: skip
    base = {**call, "time": day}
    closed = [*alive, *({**base, "seq": call["seq"] + n, **event} for n, event in enumerate(late, 1))]
    picture = draw(events=closed)
    row = one(picture, "bash")
    assert phases(row)[:2] == [("running", call["time"], call["time"]), ("gone", call["time"], day)]
    # Nor does the gap count in the durations, which are the fourth column.
    assert all(cells[3].endswith(" ms") for cells in draw(events=closed, table=True))


# -- the axis, the view, the keys ---------------------------------------------------------------------------


def test_long_waits_are_folded_to_five_seconds() -> None:
    view = {"width": 1000, "height": 600, "top": 0, "zoom": 10, "fold": True}
    scene = draw(events=documents(played("turns").seen), view=view)
    assert [wait["length"] for wait in scene["waits"]] == [5, 5]
    assert scene["waits"][0]["to"] - scene["waits"][0]["from"] == pytest.approx(3600, abs=5)
    whole = draw(events=documents(played("turns").seen), view={**view, "fold": False})
    assert whole["length"] - scene["length"] == pytest.approx(3600 + 90 - 2 * 5, abs=5)
    assert whole["waits"] == []


def test_wait_that_goes_on_grows_to_five_seconds() -> None:
    events = turn_of(
        {"type": "step_started", "step": 1, "attempt": 1, "model": "m", "parallel": 10},
        {"type": "part_started", "message_id": "m", "part_id": "p"},
        {"type": "part_ended", "message_id": "m", "part": {"id": "p"}},
        {"type": "call_announced", "call_id": "c", "tool": "read"},
        {"type": "call_queued", "call_id": "c", "tool": "read", "arguments": "{}", "safe": True},
        {
            "type": "permission_asked",
            "call_id": "c",
            "request_id": "q",
            "detail": "",
            "patterns": [],
            "permission": "read",
        },
    )
    asked = events[-1]["time"]
    view = {"width": 1000, "height": 600, "top": 0, "zoom": 10, "fold": True}
    lengths = [draw(events=events, view={**view, "now": asked + wait})["length"] for wait in (2, 4, 100, 1000)]
    assert lengths == [asked - 1 + shown for shown in (2, 4, 5, 5)]


@pytest.mark.slow
def test_thousand_calls_draw_what_is_in_view() -> None:
    events = documents(many().seen)
    assert sum(event["type"] == "call_settled" for event in events) == 1000
    scene = draw(events=events, view={"width": 1200, "height": 600, "top": 9000, "zoom": 40, "fold": True})
    rows = next(node for node in scene["nodes"] if node["key"] == "rows")["children"]
    assert 15 <= len(rows) <= 30
    assert len(render_trace(many().journals, "many", engine="0", at=0.0)) <= 2_000_000


def test_arrow_keys_follow_time_and_lanes() -> None:
    events = documents(played("parallel").seen)
    cells = draw(
        events=events, keys=[*["ArrowDown"] * 5, "ArrowRight", "ArrowRight", "ArrowDown", "End", "Home", "Ctrl+End"]
    )
    labels = [cell.split("|")[1] for cell in cells[4:]]
    assert labels == ["label", "bar 0", "mark 0", "bar 0", "bar 1", "label", "label"]
    assert cells[0].startswith("step ")
    assert cells[-1].startswith("step "), "the last row is the last step"


def test_table_has_every_row_and_the_same_facts() -> None:
    table = draw(events=documents(played("cancel").seen), table=True)
    by_name = {cells[0]: cells for cells in table}
    turn = by_name["Turn 1: run the load test"]
    assert "cancelled by phone at 0:04.00; grace until 0:06.00 (2.00 s)" in turn[7]
    assert by_name["fetch: http://localhost:9090/metrics"][1] == "aborted, outcome unknown (cancelled)"
    assert len(table) == len(list(rows_of(pictures("live")["cancel"])))


def test_jumps_go_through_the_failed_and_the_slowest() -> None:
    events = documents(played("parallel").seen)
    picture = draw(events=events)
    (failed,) = draw(events=events, jump="failed")
    assert failed == one(picture, "read", "src/missing.py")["id"]
    assert draw(events=events, jump="slowest")[0] == one(picture, "fetch")["id"]
    assert draw(events=events, jump="running") == []
    assert draw(events=documents(played("cancel").seen), jump="ended") == [pictures("live")["cancel"]["rows"][0]["id"]]


def write() -> None:
    for name, picture in pictures("live").items():
        text = json.dumps(renumbered(picture), indent=1, ensure_ascii=False)
        (HERE / "pictures" / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__" and cast("Sequence[str]", sys.argv)[1:] == ["--write"]:
    write()
