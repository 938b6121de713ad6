"""Figure `control`, the page: what a stream costs in Chromium."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from benchmarks.control_processes import Served, new_server
from benchmarks.control_server import Stream
from benchmarks.report import Row, seconds
from tests.support.browser import EXECUTABLE, Browser, Page, chromium, connect_browser

_RATE: Final = 500
_SECONDS: Final = 8
# Frames, and those that took long, as the page sees them.
_COUNT_FRAMES: Final = """
  globalThis.frames_seen = 0;
  const count = () => { globalThis.frames_seen += 1; requestAnimationFrame(count); };
  count();
"""


@attrs.frozen
class Cost:
    """What some seconds of a page have cost.

    Attributes:
        cpu: of its process, as a share of a core.
        task: of its main thread, for a frame, in CPU seconds.
        frames: in a second.
    """

    cpu: float
    task: float
    frames: float


async def _cost(browser: Browser, page: Page) -> Cost:
    began, (cpu, task, frames) = time.perf_counter(), await _counters(browser, page)
    await trio.sleep(_SECONDS)
    cpu_after, task_after, frames_after = await _counters(browser, page)
    took = time.perf_counter() - began
    seen = max(1.0, frames_after - frames)
    return Cost((cpu_after - cpu) / took, (task_after - task) / seen, seen / took)


async def _counters(browser: Browser, page: Page) -> tuple[float, float, float]:
    processes: list[dict[str, Any]] = (await browser.send("SystemInfo.getProcessInfo"))["processInfo"]
    cpu = sum(each["cpuTime"] for each in processes if each["type"] == "renderer")
    metrics = {each["name"]: each["value"] for each in (await page.send("Performance.getMetrics"))["metrics"]}
    return cpu, metrics["TaskDuration"], await page.js("globalThis.frames_seen")


async def _measure(server: Served, address: str) -> tuple[Cost, Cost]:
    session = server.session()
    async with connect_browser(address) as browser, browser.page() as page:
        # What a user's browser does not do.
        for domain in ("Network", "Log"):
            await page.send(f"{domain}.disable")
        await page.send("Performance.enable", timeDomain="threadTicks")
        await page.goto(server.link)
        await page.wait("document.querySelector('.connection')?.textContent === 'Connected'")
        await page.js(f"location.hash = '#/s/{session}'")
        await page.wait("document.querySelector('.composer-field')")
        await page.js(_COUNT_FRAMES)
        await trio.sleep(2)
        idle = await _cost(browser, page)
        turn = server.prompt(session, Stream(deltas=(_SECONDS + 4) * _RATE, rate=_RATE))
        await trio.sleep(2)
        busy = await _cost(browser, page)
        await trio.to_thread.run_sync(server.ended, session, turn)
        # Also its last words are shown.
        await page.wait("document.body.innerText.includes('median')")
    return idle, busy


def page_rows() -> list[Row]:
    """A page that shows a turn."""
    name = f"control: a page fed {_RATE} deltas/s"
    if EXECUTABLE is None:
        return [Row(name=f"{name}: there is no chromium here", measured="", target="≤ 20% of a core")]
    with new_server() as server, tempfile.TemporaryDirectory() as folder, chromium(Path(folder)) as address:
        idle, busy = trio.run(_measure, server, address)
    return [
        Row(
            name=f"{name}: CPU of its process, versus an idle one",
            measured=f"{busy.cpu:.1%}",
            baseline=f"{idle.cpu:.1%}",
            target="≤ 20% of a core",
            ok=busy.cpu <= 0.2,
        ),
        Row(
            name=f"{name}: its main thread, for a frame",
            measured=seconds(busy.task),
            baseline=seconds(idle.task),
            target="≤ 8 ms",
            ok=busy.task <= 0.008,
        ),
        Row(name=f"{name}: frames", measured=f"{busy.frames:.0f}/s", baseline=f"{idle.frames:.0f}/s"),
    ]
