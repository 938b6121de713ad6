"""A trace file in a real browser, from disk and without a network: what it shows, and what the keys do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from engine.export import render_trace
from tests.support import lane_sessions
from tests.support.browser import Page, connect_browser
from tests.support.lane_sessions import Recorded

pytestmark = [pytest.mark.os, pytest.mark.slow]

FOCUSED = "document.activeElement.getAttribute('aria-label')"


@pytest.fixture(scope="module")
def cancelled() -> Recorded:
    return trio.run(lane_sessions.play_cancel, clock=MockClock(autojump_threshold=0))


@asynccontextmanager
async def opened(address: str, session: Recorded, folder: Path, **size: Any) -> AsyncGenerator[Page]:
    """Open the trace file of a session from disk, without a network; it must ask for nothing and break nothing."""
    file = folder / "trace.html"
    file.write_text(render_trace(session.journals, "The session", engine="1.2.3", at=0.0), encoding="utf-8")
    async with connect_browser(address) as browser, browser.page(**size) as page:
        await page.send(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
        )
        await page.goto(file.as_uri())
        await page.wait("document.querySelectorAll('[role=row]').length > 3")
        yield page
        assert page.requests == [file.as_uri()], "it asks for nothing but itself"
        assert page.errors == []
        assert await page.violations() == []


async def test_trace_file_shows_the_cancel_without_a_network(
    browser_address: str, cancelled: Recorded, tmp_path: Path
) -> None:
    async with opened(browser_address, cancelled, tmp_path) as page:
        await page.wait("document.querySelectorAll('[role=row]').length === 11")
        cells = await page.names("gridcell")
        assert "cancelled by phone at 0:04.00; grace until 0:06.00 (2.00 s)" in cells
        assert "fetch: running: 4.00 s, from 0:00.50 to 0:04.50" in cells
        headers = await page.names("rowheader")
        assert "fetch: http://localhost:9090/metrics, aborted, outcome unknown (cancelled)" in headers
        assert len(headers) == len(await page.names("row"))
        # The band of the grace begins at the line of the cancel, and every row of the turn is in it.
        band, line, rows = await page.js(
            "['.lanes-grace', '.lanes-ending', '[role=rowgroup]'].map((each) => document.querySelector(each).getBoundingClientRect().toJSON())"
        )
        assert band["left"] == pytest.approx(line["left"] + line["width"] / 2, abs=1.5)
        assert (band["top"], band["bottom"]) == (
            pytest.approx(rows["top"], abs=8),
            pytest.approx(rows["bottom"], abs=8),
        )


async def test_keys_reach_every_bar(browser_address: str, cancelled: Recorded, tmp_path: Path) -> None:
    async with opened(browser_address, cancelled, tmp_path) as page:
        await page.js("document.querySelector('[role=treegrid] [tabindex=\"0\"]').focus()")
        assert await page.js(FOCUSED) == "Turn 1: run the load test, aborted"
        assert await page.js("document.querySelectorAll('[role=treegrid] [tabindex=\"0\"]').length") == 1
        for _ in range(2):
            await page.key("ArrowDown")
        await page.wait(f"{FOCUSED} === 'fetch: http://localhost:9090/metrics, aborted, outcome unknown (cancelled)'")
        await page.key("ArrowRight")
        await page.wait(f"{FOCUSED}.startsWith('fetch: running')")
        await page.text("It did not stop within its grace. It may still be running.")
        await page.key("c")
        await page.wait(f"{FOCUSED}.startsWith('cancelled by phone')")
        await page.key("Home")
        rows = await page.js("document.querySelectorAll('[role=row]').length")
        await page.key(" ")
        await page.wait("document.querySelectorAll('[role=row]').length === 1")
        assert await page.js("document.querySelector('[role=row]').getAttribute('aria-expanded')") == "false"
        await page.key(" ")
        await page.wait(f"document.querySelectorAll('[role=row]').length === {rows}")


async def test_pointer_shows_details_and_a_tap_keeps_them(
    browser_address: str, cancelled: Recorded, tmp_path: Path
) -> None:
    async with opened(browser_address, cancelled, tmp_path) as page:
        bar = "[...document.querySelectorAll('[role=gridcell]')].find((each) => each.ariaLabel.startsWith('fetch: running: 1.10 s'))"
        await page.wait(bar)
        box = await page.js(f"{bar}.getBoundingClientRect().toJSON()")
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        await page.send("Input.dispatchMouseEvent", type="mouseMoved", **place)
        details = "document.querySelector('.lanes-details').innerText"
        await page.wait(f"{details}.includes('did http://localhost:9090/alerts')")
        await page.send("Input.dispatchMouseEvent", type="mouseMoved", x=5, y=5)
        await page.wait(f"{details}.includes('run the load test')")
        for kind in ("mousePressed", "mouseReleased"):
            await page.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)
        await page.send("Input.dispatchMouseEvent", type="mouseMoved", x=5, y=5)
        await page.wait(f"{details}.includes('did http://localhost:9090/alerts')")
        assert "http://localhost:9090/alerts" in await page.js(details)


async def test_zoom_draws_only_what_is_in_view(browser_address: str, tmp_path: Path) -> None:
    many = await _played(lane_sessions.play_many, 20, 20, 20)
    async with opened(browser_address, many, tmp_path) as page:
        assert await page.js("document.querySelectorAll('[role=row]').length") < 60
        await page.click("button", "Slowest")
        await page.wait("document.activeElement.getAttribute('role') === 'gridcell'")
        box = await page.js("document.activeElement.getBoundingClientRect().toJSON()")
        assert box["width"] > 24, "it is large enough to be read"
        assert 0 < box["left"] < 1280
        await page.js("document.querySelector('.lanes-scroll').scrollTop = 1e6")
        await page.wait("[...document.querySelectorAll('[role=row]')].at(-1).getAttribute('aria-rowindex') > 400")
        assert await page.js("document.querySelectorAll('[role=row]').length") < 60
        assert await page.js("document.activeElement.getAttribute('role')") == "gridcell", "the focus stays"
        # Twenty sub-agents deep, each with a turn, a step, and the call that runs the next one: names still have room.
        deepest = "[...document.querySelectorAll('[role=row]')].sort((a, b) => b.ariaLevel - a.ariaLevel)[0]"
        assert int(await page.js(f"{deepest}.ariaLevel")) > 40
        assert (await page.js(f"{deepest}.querySelector('.lanes-name').textContent")).startswith("Step ")
        box = await page.js(f"{deepest}.querySelector('.lanes-name').getBoundingClientRect().toJSON()")
        assert 80 < box["left"] < box["right"] < 320


async def test_table_and_phone(browser_address: str, cancelled: Recorded, tmp_path: Path) -> None:
    async with opened(browser_address, cancelled, tmp_path, width=400, height=800, touch=True) as page:
        assert await page.js("document.documentElement.scrollWidth") <= 400, "nothing scrolls sideways"
        small = "[...document.querySelectorAll('button')].filter((each) => each.checkVisibility() && each.offsetHeight < 44)"
        assert await page.js(f"{small}.length") == 0
        await page.click("button", "Table")
        await page.wait("document.querySelectorAll('.lanes-table tbody tr').length === 11")
        assert "cancelled by phone" in await page.js("document.querySelector('.lanes-table').innerText")
        assert await page.js("document.documentElement.scrollWidth") <= 400


async def test_hostile_texts_are_only_shown(browser_address: str, tmp_path: Path) -> None:
    hostile = await _played(lane_sessions.play_hostile)
    async with opened(browser_address, hostile, tmp_path) as page:
        everything = "document.documentElement.outerHTML"
        await page.wait(f"{everything}.includes('u202e')")
        assert not {"\u202e", "\x1b"} & set(await page.js(everything))
        await page.click("button", "Table")
        shown = await page.js("document.body.innerText")
        assert "<img src=x onerror=" in shown
        assert "\\u202e" in shown, "what reverses text is written out"
        assert not {"\u202e", "\x1b"} & set(await page.js(everything))
        assert await page.js("window.hostile") is None
        assert await page.js("document.querySelectorAll('img, b, script:not([type])').length") == 0


async def _played(play: Callable[..., Awaitable[Recorded]], *arguments: int) -> Recorded:
    def run() -> Recorded:
        return trio.run(play, *arguments, clock=MockClock(autojump_threshold=0))

    return await trio.to_thread.run_sync(run)
