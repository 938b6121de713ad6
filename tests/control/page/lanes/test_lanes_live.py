"""The lanes on the page while a turn runs and is cancelled: a real server, a scripted model, Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import engine
from engine.export import render_trace
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing.script import call, done, text
from tests.support.browser import Page
from tests.support.served_page import served_page

pytestmark = [pytest.mark.os, pytest.mark.slow]

CELLS = "[...document.querySelectorAll('[role=gridcell]')].map((each) => each.getAttribute('aria-label'))"


COVERED = """(() => {
  const flag = document.querySelector('.lanes-flag').getBoundingClientRect();
  return [...document.querySelectorAll('.lanes-tick')].map((each) => each.getBoundingClientRect())
    .filter(({ left, right, top, bottom }) => left < flag.right && right > flag.left && top < flag.bottom && bottom > flag.top).length;
})()"""


@attrs.frozen(kw_only=True)
class Hold:
    """Hold `what`."""

    what: str


async def keys_zoom_and_open(page: Page) -> None:
    """Zoom in and out, fold waits, and open a call in the conversation, by keys; the lanes are shown again at the end."""
    is_wider = "document.querySelector('.lanes-size').width.baseVal.value > document.querySelector('.lanes-scroll').clientWidth"
    await page.js(f"{row_of('hold: the door')}.focus()")
    await page.key("+")
    await page.wait(is_wider)
    await page.key("-")
    await page.wait(f"!({is_wider})")
    pressed = (
        "[...document.querySelectorAll('.lanes-button')].find((each) => each.innerText === 'Fold waits').ariaPressed"
    )
    for state in ("false", "true"):
        await page.key("w")
        await page.wait(f"{pressed} === '{state}'")
    await page.key("Enter")
    await page.wait("document.activeElement.matches('.call[open] > summary')")
    assert "the door" in await page.js("document.activeElement.innerText")
    await page.wait(f"{row_of('hold: the door')}.isConnected")


def row_of(name: str) -> str:
    return (
        f"[...document.querySelectorAll('.lanes [role=rowheader]')].find((each) => each.ariaLabel.startsWith('{name}'))"
    )


async def test_cancel_and_its_grace_are_drawn_live(tmp_path: Path, browser_address: str) -> None:
    released = trio.Event()

    @engine.tool(read_only=True, grace=60)
    async def hold(args: Hold, ctx: engine.ToolContext) -> str:
        """Hold something until it may let go of it."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 60):
                await released.wait()

    script = [
        [*text("I hold both."), *call("hold", {"what": "the door"}, id="c1"), *call("hold", {"what": "on"}, id="c2"), *done("calls")]
    ]  # fmt: skip
    options: dict[str, Any] = {"tools": [hold], "permissions": PermissionOptions(approver=AllowAll())}
    async with served_page(tmp_path, browser_address, *script, **options) as shown:
        page = shown.page
        session_id = await shown.open_session()
        await page.click(".tab", "Lanes")
        await page.text("Nothing has run yet.")
        await shown.prompt("Hold it.")
        await page.wait("document.querySelectorAll('.lanes-picture .lanes-is-running').length === 2")
        await page.wait("document.querySelector('.lanes-now')")
        assert await page.js("document.querySelector('.lanes-grace')") is None
        # The present stays in view until somebody wants it otherwise.
        follows = (
            "[...document.querySelectorAll('.lanes-button')].find((each) => each.innerText === 'Follow').ariaPressed"
        )
        await page.js("document.querySelector('.lanes [tabindex=\"0\"][role=rowheader]').focus()")
        for state in ("false", "true"):
            await page.key("f")
            await page.wait(f"{follows} === '{state}'")
        # A view as high as all rows would have to draw them all.
        assert await page.js("getComputedStyle(document.querySelector('.lanes-scroll')).maxHeight") == "560px"
        await page.click(".composer button", "Stop")
        # The grace is drawn while it lasts, and the calls go on inside of it.
        await page.wait("document.querySelector('.lanes-grace')?.getBoundingClientRect().width > 20")
        assert await page.js("document.querySelectorAll('.lanes-picture .lanes-is-running').length") == 2
        assert "cancelled by browser" in await page.js("document.querySelector('.lanes-cause').textContent")
        # No time stands half behind these words; and what is written now is for the next turn.
        assert await page.js(COVERED) == 0
        await page.wait("document.querySelector('.composer-hint').textContent === 'Enter queues for the next turn'")
        # Who comes in the middle of it sees it as well.
        await page.send("Page.reload")
        await page.wait("document.querySelector('.tab')")
        await page.click(".tab", "Lanes")
        await page.wait("document.querySelector('.lanes-grace')?.getBoundingClientRect().width > 20")
        released.set()
        await page.wait("document.querySelectorAll('.lanes-picture .lanes-cap.lanes-is-aborted').length === 2")
        await page.wait("!document.querySelector('.lanes-now')")
        await keys_zoom_and_open(page)
        live = await page.js(CELLS)
        session = await shown.server.engine.open_session(session_id)
        trace = tmp_path / "trace.html"
        trace.write_text(render_trace([session.events()], "", engine="0", at=0.0), encoding="utf-8")
        async with shown.browser.page() as other:
            await other.goto(trace.as_uri())
            await other.wait(f"{CELLS}.length >= {len(live)}")
            assert await other.js(CELLS) == live, "the file shows what the page shows"
