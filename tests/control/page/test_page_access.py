"""The page by keyboard, by the accessibility tree, and with little room."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from engine.testing.script import call, done, reasoning, text
from tests.support.served_page import UNTIL_GO, ServedPage, served_page

pytestmark = [pytest.mark.os, pytest.mark.slow]

ASKS = [
    [*text("# Plan\n\nI run `it`."), *call("bash", {"command": "touch made"}, id="c1"), *done("calls")],
    [*text("Made."), *done()],
]
LONG = (
    "word " * 400
    + "\n\n"
    + "unbroken" * 60
    + "\n\n```\n"
    + "x" * 300
    + "\n```\n\n| a | b |\n|---|---|\n| "
    + "y" * 90
    + " | z |\n"
)
# Elements that are wider than the page, and can't be scrolled by themselves.
TOO_WIDE = """
[...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() && !node.closest('.visually-hidden, .skip, table, pre, svg'))
  .filter((node) => node.getBoundingClientRect().right > innerWidth + 1).map((node) => node.className || node.tagName)
"""
SMALL_TARGETS = """
[...document.querySelectorAll('button, select, summary, a, input:not([type=file])')].filter((node) => node.checkVisibility() && !node.closest('.skip, .markdown'))
  .map((node) => (node.matches('input[type=radio], input[type=checkbox]') ? node.closest('label') : node))
  .map((node) => [node.getBoundingClientRect(), node]).filter(([box]) => Math.min(box.width, box.height) < LEAST - 0.5)
  .map(([box, node]) => `${node.className} ${node.textContent.slice(0, 30)} ${box.width}x${box.height}`)
"""
# The contrast of each text with what is behind it, below 4.5 (3 for large ones).
LOW_CONTRAST = """
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => { const f = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const behind = (node) => { for (let at = node; at; at = at.parentElement) { const color = rgba(getComputedStyle(at).backgroundColor); if (color[3] === 255) return color; } return [255, 255, 255, 255]; };
  const low = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility() || node.closest('.visually-hidden, .skip, :disabled, svg')) continue;
    const [a, b] = [light(rgba(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${node.className || node.tagName} ${node.textContent.slice(0, 20)} ${ratio.toFixed(2)}`);
  }
  return low;
})()
"""


async def asked(shown: ServedPage) -> None:
    await shown.open_session()
    await shown.prompt("Make it.")
    await shown.page.wait("document.querySelector('.question')")


async def test_question_never_takes_the_focus(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, *ASKS) as shown:
        page = shown.page
        await shown.open_session()
        await page.click(".composer-field")
        async with shown.server.unix() as client:
            await client.hello("other")
            session_id = (await page.js("location.hash")).rpartition("/")[2]
            await client.result("prompt", session_id=session_id, text="Make it.", key="k")
            await page.wait("document.querySelector('.question')")
        await page.type("I was typing")
        assert await page.js("document.activeElement.className") == "composer-field"
        assert await page.js("document.activeElement.value") == "I was typing"
        assert "Allow bash to run this command?" in await page.js("document.getElementById('status-line').textContent")
        await page.key("Alt+q")
        assert await page.js("document.activeElement.matches('.question')")
        # Neither Enter nor Escape is an answer.
        await page.key("Enter")
        await page.key("Escape")
        await page.key(" ")
        await trio.sleep(0.5)
        assert not (shown.project / "made").exists()
        assert await page.js("document.querySelectorAll('.question').length") == 1


# Clicks in the very moment in which the first question appears, and in which the other one takes its place.
CLICKS = """
globalThis.clicks = 0;
new MutationObserver((_, observer) => {
  const [button, other] = document.querySelectorAll('.question-actions .primary');
  if (!button || clicks === (other ? 1 : 2) || (other === undefined && !clicks)) return;
  globalThis.clicks += 1;
  button.click();
}).observe(document.querySelector('.questions'), { childList: true })
"""
GUARD = "import(new URL('questions.js', document.querySelector('script').src)).then(({ GUARD_MS }) => GUARD_MS)"


async def test_buttons_wait_before_they_answer(tmp_path: Path, browser_address: str) -> None:
    notes = [tmp_path / "one.txt", tmp_path / "two.txt"]
    reads = [item for path in notes for item in call("read", {"path": str(path)}, id=path.stem)]
    async with served_page(tmp_path, browser_address, [*reads, *done("calls")], [*text("Read."), *done()]) as shown:
        page = shown.page
        for path in notes:
            path.write_text("a note\n")
        await shown.open_session()
        assert await page.js(GUARD) == 400
        await page.js(CLICKS)
        await shown.prompt("Read both.")
        await page.wait("clicks === 1 && document.querySelectorAll('.question').length === 2")
        await page.wait("!document.querySelector('.question.is-guarded')")
        assert await page.js("document.querySelectorAll('.question').length") == 2
        await page.click(".question-actions button", "Always allow")
        # What would be allowed is shown exactly.
        offered = await page.js("document.querySelector('.question-form').innerText")
        assert any(f"read {path}\n" in offered for path in notes)
        await page.wait("!document.querySelector('.question.is-guarded')")
        await page.click(".question-actions button", "Allow once")
        await page.wait("clicks === 2 && !document.querySelector('.question.is-guarded')")
        assert await page.js("document.querySelectorAll('.question').length") == 1
        await page.click(".question-actions button", "Allow once")
        await page.text("Read.")


async def test_turn_by_keyboard_only(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, *ASKS) as shown:
        page = shown.page
        await page.key("Tab")
        assert await page.js("document.activeElement.matches('.skip') && document.activeElement.checkVisibility()")
        await page.key("Enter")
        assert await page.js("document.activeElement.id") == "main"
        await page.key("n")
        await page.wait("document.querySelector('dialog[open] input')")
        await page.js("document.activeElement.select()")
        await page.type(str(shown.project))
        await page.key("Enter")
        await page.wait("document.activeElement.className === 'composer-field'")
        await page.type("Make")
        await page.key("Shift+Enter")
        await page.type("it.")
        assert await page.js("document.activeElement.value") == "Make\nit."
        await page.key("Enter")
        await page.wait("document.querySelector('.question') && !document.querySelector('.is-guarded')")
        await page.key("Alt+q")
        for _ in range(8):
            await page.key("Tab")
            if await page.js("document.activeElement.textContent === 'Allow once'"):
                break
        assert await page.js("getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus is seen"
        await page.key("Enter")
        await page.text("Made.")
        assert (shown.project / "made").exists()
        await page.js("document.activeElement.blur()")
        await page.key("?")
        await page.wait("document.querySelector('dialog[open]')")
        await page.key("Escape")
        await page.wait("!document.querySelector('dialog[open]')")
        await page.key("d")
        await page.wait("document.querySelector('.panel').checkVisibility()")
        await page.js("document.activeElement.blur()")
        await page.key("d")
        await page.wait("!document.querySelector('.panel').checkVisibility()")
        # Single letters can be switched off: by voice they are typed by accident.
        await page.click(".sidebar-head button")
        await page.click("dialog[open] .choice", "Single letters are keys")
        await page.key("Escape")
        await page.wait("!document.querySelector('dialog[open]')")
        await page.js("document.activeElement.blur()")
        await page.key("d")
        await page.key("?")
        await page.text("Single letters are switched off")
        assert not await page.js("document.querySelector('.panel').checkVisibility()")


async def test_names_in_the_accessibility_tree(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, *ASKS) as shown:
        page = shown.page
        await asked(shown)
        await page.wait("document.querySelector('.group-name')?.textContent === 'Waits for you'")
        assert await page.names("main") == [""]
        assert await page.names("navigation") == ["Sessions"]
        assert "Transcript" in await page.names("region")
        assert {"Allow once", "Refuse and stop", "Attach files", "Stop", "Settings", "More"} <= set(
            await page.names("button")
        )
        assert all(await page.names("button")), "a button without a name"
        assert all(await page.names("textbox") + await page.names("searchbox"))
        headings = await page.names("heading")
        assert "Make it." in headings  # what the session is called
        assert "Allow bash to run this command?" in headings
        assert any(name.startswith("scripted/model") for name in headings)
        assert "Waits for you" in headings
        # What streams is not read out word by word: only the one line of status is live.
        live = "[...document.querySelectorAll('[aria-live], [role=status], [role=alert]')].filter((node) => node.closest('.transcript')).map((node) => node.className)"
        assert await page.js(live) == ["rows-oldest"]
        assert await page.js("document.documentElement.lang") == "en"


async def test_growing_text_is_busy(tmp_path: Path, browser_address: str) -> None:
    grows = [*reasoning("Hm."), *text("It grows. "), *call("bash", {"command": UNTIL_GO}, id="c1"), *done("calls")]
    script = [grows, [*text("It ends."), *done()]]
    async with served_page(tmp_path, browser_address, *script) as shown:
        await shown.open_session()
        await shown.page.click(".sidebar-head button")
        await shown.page.click("dialog[open] .choice", "in whole sentences")
        await shown.page.click("dialog[open] button", "Close")
        await shown.prompt("Grow.")
        await shown.page.text("It grows.")
        await shown.page.wait("document.getElementById('status-line').textContent.includes('It grows.')")
        assert await shown.page.js("document.querySelector('.row-assistant').ariaBusy") == "true"
        (shown.project / "go").touch()
        await shown.page.text("It ends.")
        await shown.page.wait("document.querySelector('.row-assistant').ariaBusy === 'false'")
        await shown.page.wait("document.getElementById('status-line').textContent.includes('The turn is over: Done')")


@pytest.mark.parametrize(("width", "height", "touch"), [(400, 800, True), (320, 256, False)], ids=["phone", "zoom-400"])
async def test_little_room(tmp_path: Path, browser_address: str, *, width: int, height: int, touch: bool) -> None:
    script = [
        [*text(LONG), *call("bash", {"command": "touch made; echo " + "z" * 300}, id="c1"), *done("calls")],
        ASKS[1],
    ]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        await page.resize(width, height, touch=touch)
        assert await page.js(TOO_WIDE) == []
        await asked(shown)
        assert await page.js(TOO_WIDE) == []
        assert await page.js("document.documentElement.scrollWidth <= innerWidth")
        assert await page.js(f"const LEAST = {44 if touch else 24}; {SMALL_TARGETS}") == []
        # The question can be reached and answered.
        await page.wait("!document.querySelector('.is-guarded')")
        await page.click(".question-actions button", "Allow once")
        await page.text("Made.")
        for tab in ("Lanes", "Changes", "Context"):
            await page.js(
                f"[...document.querySelectorAll('.tab')].find((each) => each.textContent === '{tab}').click()"
            )
            await page.wait("document.querySelector('.panel').checkVisibility()")
            assert await page.js("document.documentElement.scrollWidth <= innerWidth"), tab
            await page.key("Escape")
            await page.wait("!document.querySelector('.panel').checkVisibility()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_contrast(tmp_path: Path, browser_address: str, scheme: str) -> None:
    async with served_page(tmp_path, browser_address, *ASKS) as shown:
        await shown.page.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
        await asked(shown)
        await shown.page.wait("!document.querySelector('.is-guarded')")
        assert await shown.page.js(LOW_CONTRAST) == []
        assert await shown.page.js("document.getAnimations().length") == 0
        await shown.page.click(".question-actions button", "Allow once")
        await shown.page.text("Made.")
        await shown.page.js("[...document.querySelectorAll('.call')].forEach((each) => { each.open = true; })")
        await shown.page.click(".tab", "Context")
        await shown.page.text("of the context window")
        assert await shown.page.js(LOW_CONTRAST) == []
        # Where a user's colours replace all others, what was a ground has an edge.
        await shown.page.media(forced_colors="active")
        edges = "[...document.querySelectorAll('.composer-box, .call, .bar')].map((node) => getComputedStyle(node).borderTopStyle)"
        assert set(await shown.page.js(edges)) == {"solid"}
