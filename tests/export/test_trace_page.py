"""The trace file: one page, which asks nobody for anything, and holds what the lanes need."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from functools import cache
from typing import Any

import trio
from attrs import evolve
from trio.testing import MockClock

from engine.core.events import CallSettled, Durable, SessionCreated
from engine.export import render_trace
from engine.export.trace_page import MOST_BYTES
from tests.support.lane_sessions import Recorded, play_cancel, play_long_command


@cache
def cancelled() -> Recorded:
    return trio.run(play_cancel, clock=MockClock(autojump_threshold=0))


def page_of(*journals: list[Durable], title: str = "a session") -> str:
    return render_trace(journals or cancelled().journals, title, engine="1.2.3", at=10.0)


def data_in(page: str) -> Any:
    found = re.search('<script type="application/json" id="trace">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])


def events_in(page: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(base64.b64decode(data_in(page)["events"])))
    return events


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_policy_allows_this_script_and_nothing_else() -> None:
    page = page_of()
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    script = re.search('<script type="module">(.*?)</script>', page, re.DOTALL)
    style = re.search("<style>(.*?)</style>", page, re.DOTALL)
    assert policy and script and style  # noqa: PT018  # each is there
    assert policy[1].split("; ") == [
        "default-src 'none'",
        f"script-src 'sha256-{digest(script[1])}'",
        f"style-src 'sha256-{digest(style[1])}'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]


def test_page_names_no_address() -> None:
    page = page_of()
    script = re.sub("data-[a-z]+", "", page)
    assert set(re.findall(r"https?://[^\"' )]+", script)) == {"http://www.w3.org/2000/svg"}, "a namespace, no address"
    assert not re.search(r"\b(?:src|href)=", page)
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import)\(", page)
    assert not re.search(r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|eval|document\.write)\b", page)
    assert not re.search(r"^(?:import|export)\b", page, re.MULTILINE), "the scripts are one"


def test_title_is_only_text() -> None:
    page = page_of(title="</title><script>alert(1)</script>\u202e")
    assert "<title>&lt;/title&gt;&lt;script&gt;" in page
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_equal_sessions_give_equal_pages() -> None:
    assert page_of() == page_of()


def test_page_keeps_the_order_and_no_long_text() -> None:
    events = events_in(page_of())
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    for journal in cancelled().journals:
        numbers = [event["seq"] for event in events if event["session_id"] == journal[0].session_id]
        assert numbers == sorted(numbers)
    assert max(len(str(value)) for event in events for value in event.values()) < 2_000
    assert {event["type"] for event in events} >= {"turn_ended", "call_queued", "call_settled", "session_created"}


def test_too_large_sessions_lose_their_oldest_events() -> None:
    (journal, *_) = trio.run(play_long_command, clock=MockClock(autojump_threshold=0)).journals
    settled = next(event for event in journal if isinstance(event, CallSettled))
    # Random text can't be compressed.
    noise = ["".join(hashlib.sha512(f"{n} {m}".encode()).hexdigest() for m in range(6)) for n in range(6_000)]
    long = [
        evolve(settled, seq=n + 100, settlement=evolve(settled.settlement, text=text)) for n, text in enumerate(noise)
    ]
    page = page_of([*journal, *long])
    left_out, events = data_in(page)["left_out"], events_in(page)
    assert len(page.encode()) <= MOST_BYTES
    assert 0 < left_out < len(long)
    assert events[-1]["seq"] == long[-1].seq, "the newest is there"
    assert events[0]["type"] == "session_created"
    assert isinstance(journal[0], SessionCreated)
