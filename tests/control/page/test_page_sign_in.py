"""Signing in to the page: links, restarts, other programs at the server's port."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from engine.control.listen import ServeOptions
from engine.control.token_file import revoke_token
from engine.testing.script import done, text
from tests.support.browser import Page
from tests.support.pages import page as http_answer
from tests.support.served_engine import served
from tests.support.served_page import ServedPage, served_page

pytestmark = [pytest.mark.os, pytest.mark.slow]


def new_link(shown: ServedPage) -> str:
    link = shown.server.at.link()
    assert link is not None
    return link.replace(shown.server.at.url, shown.url)


async def is_connected(page: Page) -> None:
    await page.wait("document.querySelector('.connection')?.textContent === 'Connected'")


async def test_link_leaves_no_trace(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address) as shown, shown.browser.page() as stranger:
        link = new_link(shown)
        await stranger.goto(link)
        await is_connected(stranger)
        # Neither the address nor the history keeps the ticket, and no script can read what was kept.
        assert "k=" not in await stranger.js("location.href")
        entries = (await stranger.send("Page.getNavigationHistory"))["entries"]
        assert not any("k=" in entry["url"] for entry in entries)
        assert await stranger.js("Object.keys(localStorage).length + Object.keys(sessionStorage).length") == 0
        assert await stranger.js("document.cookie") == ""
        assert await stranger.js(f"{KEPT}.then(({{secret}}) => secret.extractable)") is False
        await stranger.click(".sidebar-head button")
        await stranger.click(".dialog-actions button", "Sign out")
        await stranger.text("Open the link of the server")
        async with shown.browser.page() as late:
            await late.goto(link)
            await late.text("Open the link of the server")
            await late.text("That link was used already, or is too old.")
            late.errors.clear()


KEPT = """new Promise((resolve) => {
    const opening = indexedDB.open("engine");
    opening.onsuccess = () => {
        const asked = opening.result.transaction("sign-in").objectStore("sign-in").get("browser");
        asked.onsuccess = () => resolve(asked.result);
    };
})"""


async def test_used_link_goes_on_to_the_page(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, [*text("Here."), *done()]) as shown:
        page = shown.page
        link = new_link(shown)
        async with shown.browser.page(context=page.context) as other:
            await other.goto(link)
            await is_connected(other)
            other.errors.clear()
        async with shown.browser.page(context=page.context) as used:
            await used.goto(link)
            await is_connected(used)
        # In a tab that shows a session, which it goes on to show; there the browser loads nothing anew.
        session_id = await shown.open_session()
        await page.js(f"location.hash = {link.partition('#')[2]!r}")
        await page.wait(f"location.hash === '#/s/{session_id}'")
        await page.text("Nothing has been said yet")


async def test_page_comes_back_to_a_restarted_server(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, [*text("Still here."), *done()]) as shown:
        page = shown.page
        await shown.open_session()
        async with shown.successor(tmp_path / "next"):
            await page.wait("document.querySelector('.connection').textContent !== 'Connected'")
            await is_connected(page)
            await shown.prompt("Are you there?")
            await page.text("Still here.")
            # Also a tab that is opened after it, and one that is loaded again.
            async with shown.browser.page(context=page.context) as other:
                await other.goto(f"{shown.url}/")
                await is_connected(other)
            await page.send("Page.reload")
            await page.text("Still here.")
        page.errors.clear()


async def test_other_server_is_refused(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, [*text("Still here."), *done()]) as shown:
        page = shown.page
        await shown.open_session()
        await shown.prompt("Stay.")
        await page.text("Still here.")
        other = tmp_path / "other"
        other.mkdir()
        async with served(other, options=ServeOptions(folder=other / "run", public_url=shown.url)) as stranger:
            shown.line.cut()
            shown.line.port = stranger.port
            shown.line.is_cut = False
            await page.text("This page is signed out")
            # What was there can still be read. A link of that server, opened in the same tab, signs in to it.
            await page.text("Still here.")
            asked = len([each for each in page.requests if each.endswith("/v1/login")])
            assert asked < 10
            link = stranger.at.link()
            assert link is not None
            await page.js(f"location.hash = {link.partition('#')[2]!r}")
            await is_connected(page)
        page.errors.clear()


async def test_revoked_token_signs_browsers_out(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address) as shown:
        assert revoke_token(tmp_path / "run", "owner")
        await shown.page.text("This page is signed out")
        await shown.page.send("Page.reload")
        await shown.page.text("This browser is signed in no more")
        shown.page.errors.clear()


async def test_program_at_the_port_learns_nothing(tmp_path: Path, browser_address: str) -> None:
    seen: list[bytes] = []

    async def pretend(stream: trio.SocketStream) -> None:
        """Say yes to whatever is asked."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive_some() or b"\r\n\r\n"
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += await stream.receive_some()
        seen.append(head + b"\r\n\r\n" + body)
        answer = b'{"challenge": "c", "key": "k", "proof": "cHJvb2Y", "ticket": "t"}'
        await stream.send_all(http_answer(answer, "application/json"))
        await stream.aclose()

    async with served_page(tmp_path, browser_address) as shown, trio.open_nursery() as nursery:
        page = shown.page
        listeners = await nursery.start(trio.serve_tcp, pretend, 0)
        ours, shown.line.port = shown.line.port, listeners[0].socket.getsockname()[1]
        shown.line.cut()
        shown.line.is_cut = False
        await page.text("Another program answers at this address.")
        # Nothing but proofs, which hold for its own challenges: no key, and no message of the protocol.
        assert {each.split(b" ")[1] for each in seen} == {b"/v1/challenge", b"/v1/login"}
        assert not any(b"authorization" in each.lower() for each in seen)
        shown.line.port = ours
        await is_connected(page)
        nursery.cancel_scope.cancel()
        page.errors.clear()


async def test_plain_connection_from_elsewhere_signs_in(tmp_path: Path, browser_address: str) -> None:
    # Without encryption, browsers have keys that scripts can't read only on their own machine.
    async with served_page(tmp_path, browser_address) as shown, shown.browser.page() as other:
        await other.send("Page.addScriptToEvaluateOnNewDocument", source=INSECURE)
        await other.goto(new_link(shown))
        await is_connected(other)
        await other.send("Page.reload")
        await is_connected(other)
        await other.js(f"location.hash = '#/s/{await shown.new_session()}'")
        await other.text("Nothing has been said yet")


INSECURE = """
    Object.defineProperty(Crypto.prototype, "subtle", { get: () => undefined });
    delete Crypto.prototype.randomUUID;
"""
