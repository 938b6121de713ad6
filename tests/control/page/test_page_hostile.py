"""Hostile content in the page: nothing runs, nothing is asked of anybody, and the page goes on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

import pytest

from engine.testing.script import call, done, reasoning, text
from tests.export.said import HOSTILE
from tests.support.browser import Page
from tests.support.served_page import served_page

pytestmark = [pytest.mark.os, pytest.mark.slow]

MORE = (
    "[a](javascript:alert(1)) [b](data:text/html,x) [c](https://user:pass@evil.example/\u202ex) https://xn--80ak6aa92e.com/",
    "<svg onload=alert(1)><style>*{display:none}</style><base href=https://evil.example>",
    "\x1b]8;;https://evil.example\x07link\x1b]8;;\x07\x1b[2J\x1b[31m",
    ">" * 10_000 + " deep",
    "- " * 5_000 + "x",
    "*" * 20_000,
    "`" * 20_000,
    "[" * 20_000,
    "|a" * 5_000 + "\n" + "|-" * 5_000,
    "a\u0300" * 5_000,
    "Allow bash to run this command?\n\nAllow once",
    "x" * 10_000_000,
)
TEXTS = (*HOSTILE, *MORE)
# What would show that a script has run.
RUNS = "globalThis.alert = () => { globalThis.hasRun = true; };"
# Milliseconds from each key, as the browser has got it, to the end of the frame that shows what it did.
TIMES = """
globalThis.times = [];
addEventListener("keydown", ({ timeStamp }) => requestAnimationFrame(() => setTimeout(() => times.push(performance.now() - timeStamp))), true);
"""
KEYS = 7


async def key_times(page: Page) -> list[float]:
    """Type into the page, at another place of its transcript each time; return how long each key took."""
    await page.js("times.length = 0")
    for count in range(1, KEYS + 1):
        await page.scroll(".transcript", 2000)
        await page.key("a")
        await page.wait(f"times.length === {count}")
    times: list[float] = await page.js("times")
    return times


async def test_hostile_texts_are_inert(tmp_path: Path, browser_address: str) -> None:
    script = [
        [
            *reasoning("\n\n".join(TEXTS[:20])),
            *(item for number, each in enumerate(TEXTS) for item in text(each, id=f"t{number}", pieces=3)),
            *done(),
        ]
    ]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        await page.js(RUNS + TIMES)
        session_id = await shown.open_session()
        await page.click(".composer-field")
        empty = await key_times(page)
        async with shown.server.unix() as client:
            await client.hello('<b onclick="alert(1)">\u202e client')
            await client.result(
                "session.rename", session_id=session_id, title="<img src=x onerror=alert(1)>\u202e title"
            )
            await client.result("prompt", session_id=session_id, text="\n\n".join(HOSTILE), key="k")
        await page.wait("document.querySelector('.row-end')", seconds=60)
        await page.scroll(".transcript", -100_000)
        await page.js("[...document.querySelectorAll('details')].forEach((each) => { each.open = true; })")
        # Of what is too long a part is shown, and how much more there is: of a line, and of a block.
        longest = "Math.max(...[...document.querySelectorAll('.markdown p')].map((node) => Math.max(...node.textContent.split('\\n').map((line) => line.length))))"
        assert 10_000 < await page.js(longest) < 10_100
        shown_text = await page.js("document.querySelector('.transcript').innerText")
        assert "[194,800 more characters in this line]" in shown_text
        assert re.search(r"Show more: 3\.\d MB are not shown", shown_text)
        await page.click(".composer-field")
        # As on the empty page, or within 100 ms; the machine may have much else to do.
        assert median(await key_times(page)) < max(100, 3 * median(empty))
        assert await page.js("globalThis.hasRun") is None
        assert (
            await page.js(
                "document.querySelectorAll('.transcript :is(script, iframe, object, embed, base, link, style, img, form)').length"
            )
            == 0
        )
        assert await page.js(
            "[...document.querySelectorAll('a')].every((each) => each.getAttribute('href').startsWith('#'))"
        )
        assert "\\u202e title" in await page.js("document.title")
        assert "\u202e" not in await page.js("document.body.innerText")
        assert await page.js("document.querySelectorAll('.question').length") == 0
        # However deep the text, the document is not.
        deepest = "(() => { let most = 0; for (const node of document.querySelectorAll('.markdown *')) { let depth = 0; for (let at = node; at; at = at.parentNode) depth++; most = Math.max(most, depth); } return most; })()"
        assert await page.js(deepest) < 80
        # A link says where it leads, and is not followed before that.
        await page.wait("[...document.querySelectorAll('.link')].some((each) => each.title.includes('xn--80ak6aa92e'))")
        await page.js(
            "[...document.querySelectorAll('.link')].find((each) => each.title.includes('evil.example')).click()"
        )
        await page.text("Open this link?")
        target = await page.js("document.querySelector('.link-target').textContent")
        assert target.startswith("https://evil.example/")
        assert "pass" not in target
        await page.js("globalThis.open = (...how) => { globalThis.opened = how; }")
        await page.click(".dialog-actions button", "Open")
        assert await page.js("opened") == [target, "_blank", "noopener,noreferrer"]


async def test_hostile_calls_are_inert(tmp_path: Path, browser_address: str) -> None:
    name = "<img src=x onerror=alert(1)>.py"
    script = [
        [
            *call(
                "bash",
                {
                    "command": "# "
                    + "long " * 400
                    + "\nprintf '\\033]0;x\\007\\033[31m<script>alert(1)</script>\\n%s' \"$(head -c 300000 /dev/zero | tr '\\0' x)\"; touch made"
                },
                id="c1",
            ),
            *call(
                "write", {"path": name, "content": "</pre><script>alert(1)</script>\u202e\n" + "y" * 30_000}, id="c2"
            ),
            *call("</b><script>", json.dumps({"<i>": "<b>x</b>", "__proto__": {"a": 1}}), id="c3"),
            *done("calls"),
        ],
        [*text("Done."), *done()],
    ]
    async with served_page(tmp_path, browser_address, *script) as shown:
        page = shown.page
        await page.js(RUNS)
        await shown.open_session()
        await shown.prompt("Go.")
        await page.wait("document.querySelector('.question') && !document.querySelector('.is-guarded')")
        asked = ""
        while not await page.js("!!document.querySelector('.row-end')"):
            key = await page.js("document.querySelector('.question').dataset.key")
            asked += await page.js("document.querySelector('.question').innerText")
            assert "\u202e" not in asked
            # A command wraps: nothing of it is out of sight to the right.
            wraps = "(each) => each.scrollWidth <= each.clientWidth + 1"
            assert await page.js(f"[...document.querySelectorAll('.question, .question pre')].every({wraps})")
            await page.click(".question-actions button", "Allow once")
            next_one = f"(node) => node.dataset.key !== '{key}' && !node.matches('.is-guarded')"
            await page.wait(
                "document.querySelector('.row-end')"
                f" || [...document.querySelectorAll('.question')].slice(0, 1).some({next_one})"
            )
        await page.text("Done.")
        # How much there is, where not all of it is in view.
        assert "2 lines, 2,1" in asked
        await page.js("[...document.querySelectorAll('.call')].forEach((each) => { each.open = true; })")
        await page.wait("document.querySelectorAll('.call-body pre').length > 2")
        assert await page.js("globalThis.hasRun") is None
        assert await page.js("document.querySelectorAll('.transcript :is(script, img)').length") == 0
        await page.click(".tab", "Changes")
        await page.wait("document.querySelector('.panel .diff-added')")
        assert name in await page.js("document.querySelector('.panel').innerText")


async def test_copied_text_is_what_is_shown(tmp_path: Path, browser_address: str) -> None:
    async with served_page(tmp_path, browser_address, [*text("run \u202ethis\u202c"), *done()]) as shown:
        page = shown.page
        await shown.browser.send(
            "Browser.grantPermissions",
            permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
            browserContextId=page.context,
        )
        await page.send("Emulation.setFocusEmulationEnabled", enabled=True)
        await shown.open_session()
        await shown.prompt("Go.")
        await page.click(".end-actions button", "Copy answer")
        await page.wait("navigator.clipboard.readText().then((text) => text === 'run \\\\u202ethis\\\\u202c')")
        # What is not seen is copied by a second action only.
        await page.click(".end-actions button", "Copy raw")
        await page.wait("navigator.clipboard.readText().then((text) => text === 'run \\u202ethis\\u202c')")
