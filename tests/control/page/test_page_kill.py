"""A server that is killed in the middle of a call: the page comes back, says so, and the model goes on."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
import trio

from tests.support.browser import Page, connect_browser
from tests.support.killed_server import KilledServer, killed_server

pytestmark = [pytest.mark.os, pytest.mark.slow]

FACTS = "document.querySelector('.call-facts')?.textContent"


async def open_session(server: KilledServer, page: Page) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
        made = await http.post("/v1/sessions", json={"cwd": str(server.folder), "key": "k"})
        ticket = (await http.post("/v1/link", json={})).json()["ticket"]
    await page.goto(f"{server.url}/#k={ticket}")
    await page.wait("document.querySelector('.connection')?.textContent === 'Connected'")
    await page.js(f"location.hash = '#/s/{made.json()['row']['id']}'")
    await page.text("Nothing has been said yet")


async def status(page: Page, text: str) -> None:
    await page.wait(f"document.querySelector('.status')?.textContent === '{text}'")


async def test_page_goes_on_after_a_kill(folder: Path, browser_address: str) -> None:
    async with (
        killed_server(folder, work=3600) as server,
        connect_browser(browser_address) as browser,
        browser.page() as page,
    ):
        await open_session(server, page)
        await page.click(".composer-field")
        await page.type("Go.")
        await page.key("Enter")
        await page.wait("document.querySelector('.question:not(.is-guarded)')")
        await page.click(".question-actions button", "Allow once")
        await page.wait(f"{FACTS}?.includes('running')")
        server.kill()
        await page.text("No connection since")
        # What is shown is from then: nobody knows whether the call still runs.
        before = await page.js(FACTS)
        await trio.sleep(1.2)
        assert await page.js(FACTS) == before
        await trio.to_thread.run_sync(server.start)
        await page.wait("document.querySelector('.connection').textContent === 'Connected'")
        # The longest pause between two attempts, and what a machine that stands still may take besides.
        assert time.monotonic() - server.started < 40
        await status(page, "Interrupted")
        await page.wait(f"{FACTS} === 'interrupted'")
        # The lanes end where the server did, and grow no more.
        await page.click(".tab", "Lanes")
        await page.wait("document.querySelector('.lanes svg [data-cell]')")
        facts = "document.querySelector('.lanes').innerText"
        before = await page.wait(f"{facts}.includes('interrupted') && {facts}")
        assert "to now" not in before
        assert await page.js("document.querySelector('.lanes-now')") is None
        await trio.sleep(1.2)
        assert await page.js(facts) == before
        await page.click(".composer-buttons button", "Resume")
        await page.text("Continue where you left off")
        await page.text("Let me look at it.")
        await page.wait(f"{FACTS} === 'cut off by a crash: outcome unknown'")
        # The end of the first turn says nothing of how long nobody worked on it.
        assert await page.js("document.querySelector('.end-line b').textContent") == "Interrupted"
        assert await page.js("document.querySelector('.end-facts').textContent") == ""
        await status(page, "Waits for your answer")
        page.errors.clear()
