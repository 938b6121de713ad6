"""Many tabs, long sessions."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from engine.testing.script import done, text
from tests.support.served_page import served_page

pytestmark = [pytest.mark.os, pytest.mark.slow]


async def test_twelve_tabs_show_one_turn(tmp_path: Path, browser_address: str, is_full: bool) -> None:
    count = 12 if is_full else 4
    async with (
        served_page(tmp_path, browser_address, [*text("To all of you.", pieces=3), *done()]) as shown,
        AsyncExitStack() as stack,
    ):
        session_id = await shown.open_session()
        tabs = [
            await stack.enter_async_context(shown.browser.page(context=shown.page.context)) for _ in range(count - 1)
        ]
        for tab in tabs:
            await tab.goto(f"{shown.url}/#/s/{session_id}")
        for tab in tabs:
            await tab.text("Nothing has been said yet")
        await shown.prompt("Speak.")
        for tab in (shown.page, *tabs):
            await tab.text("To all of you.")
            assert len(tab.sockets) == 1
            assert sum(traffic.count for traffic in tab.traffic.values()) > 5  # each compared with the schema
            assert tab.errors == []
        await shown.page.wait(f"document.querySelector('.presence').textContent === '{count - 1}'")


async def test_tabs_without_websockets_say_so(tmp_path: Path, browser_address: str, is_full: bool) -> None:
    count = 7 if is_full else 5
    async with served_page(tmp_path, browser_address, [*text("To all."), *done()]) as shown, AsyncExitStack() as stack:
        session_id = await shown.open_session()
        tabs = [await stack.enter_async_context(shown.browser.page(context=shown.page.context)) for _ in range(count)]
        for tab in tabs:
            await tab.send("Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.WebSocket;")
            await tab.goto(f"{shown.url}/#/s/{session_id}")
        for tab in tabs:
            await tab.text("Connected, without a WebSocket")
            await tab.wait("/Nothing has been said yet|close another tab/.test(document.body.innerText)")
        told = [await tab.js("document.body.innerText.includes('close another tab')") for tab in tabs]
        assert sum(told) == count - 4
        await shown.prompt("Speak.")
        for tab, has_no_room in zip(tabs, told, strict=True):
            assert tab.sockets == []
            if not has_no_room:
                await tab.text("To all.")


NO_ANSWER = """
    const ask = fetch;
    globalThis.fetch = (...request) => (globalThis.answers ? ask(...request) : Promise.reject(new TypeError("refused")));
"""


async def test_page_without_an_answer_says_so(tmp_path: Path, browser_address: str) -> None:
    async with (
        served_page(tmp_path, browser_address) as shown,
        shown.browser.page(context=shown.page.context) as tab,
    ):
        await tab.send("Page.addScriptToEvaluateOnNewDocument", source=NO_ANSWER)
        await tab.goto(f"{shown.url}/")
        await tab.text("No answer from the server, trying again.")
        await tab.js("globalThis.answers = true")
        await tab.text("Connected")


async def test_page_of_another_version_is_loaded_again(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address) as shown:
        page = shown.page
        session_id = await shown.new_session()
        # As after an update of the server, which has other files.
        await page.send("Network.setBlockedURLs", urls=["*/session-view.js"])
        await page.js("globalThis.isBefore = true")
        await page.js(f"location.hash = '#/s/{session_id}'")
        # Once, and not again and again.
        await page.text("The page has to be loaded again")
        assert await page.js("globalThis.isBefore") is None
        await page.send("Network.setBlockedURLs", urls=[])
        await page.send("Page.reload")
        await page.text("Nothing has been said yet")
        page.errors.clear()


async def test_only_visible_rows_are_in_the_document(tmp_path: Path, browser_address: str) -> None:
    script = [[*text(f"Answer {number}. " + "More words. " * 30), *done()] for number in range(90)]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        session_id = await shown.new_session()
        for tens in range(0, 90, 30):
            # A connection may send so many requests in a second.
            async with shown.server.unix() as client:
                await client.hello("program")
                for number in range(tens, tens + 30):
                    turn = await client.result(
                        "prompt", session_id=session_id, text=f"Prompt {number}", key=f"k{number}"
                    )
                    await client.result("wait", session_id=session_id, turn_id=turn["turn_id"], timeout=30)
        await shown.show(session_id)
        await page.text("Answer 89.")
        assert await page.js("document.querySelectorAll('.row').length") < 60
        # The beginning is loaded as one scrolls there, and what is in view stays where it is.
        for _ in range(200):
            await page.scroll(".transcript", -5000)
            if await page.js("document.body.innerText.includes('Prompt 0\\n')"):
                break
        await page.text("Prompt 0\n")
        assert await page.js("document.querySelectorAll('.row').length") < 60
        await page.click(".latest")
        await page.text("Answer 89.")
        assert await page.js("document.querySelectorAll('.row').length") < 60


async def test_search_finds_what_was_said(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, [*text("The needle is here."), *done()]) as shown:
        await shown.open_session()
        await shown.prompt("Where?")
        await shown.page.text("The needle is here.")
        await shown.page.wait("document.querySelector('.row-end')")
        await shown.page.js("location.hash = '#/'")
        await shown.page.key("/")
        await shown.page.type("needle")
        await shown.page.wait("document.querySelector('.session-row-snippet mark')?.textContent === 'needle'")
        await shown.page.click(".session-row")
        await shown.page.text("The needle is here.")
