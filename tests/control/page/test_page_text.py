"""What the page makes of texts, in a browser: the same Markdown as exports, the same escapes as the engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import trio
from hypothesis import strategies as st

from engine.export.html_text import render_text
from engine.export.sanitize import BLANK_RANGES, UNSAFE_RANGES, escape_unsafe_chars
from tests.support.browser import Page, connect_browser
from tests.support.served_engine import served

pytestmark = [pytest.mark.os, pytest.mark.slow]

CASES = json.loads((Path(__file__).parents[2] / "export" / "markdown_cases.json").read_text())
# Each text whole, and in pieces of three characters, as it might stream.
RENDER = """
(async () => {
  const { Markdown } = await import(`${ASSETS}/markdown.js`);
  return TEXTS.map((text) => [Infinity, 3].map((size) => {
    const root = document.createElement("div");
    const markdown = new Markdown(root);
    for (let at = 0; at < text.length; at += size) markdown.add(text.slice(at, at + size));
    markdown.end();
    return [...root.childNodes].map((node) => node.outerHTML).join("\\n");
  }));
})()
"""
VISIBLE = "(async () => { const { visible } = await import(`${ASSETS}/text.js`); return TEXTS.map(visible); })()"
ASSETS = "const ASSETS = new URL(document.querySelector('script').src + '/..').href.replace(/\\/$/, '');"
DIFF = """
(async () => {
  const { diffTable, parseDiff } = await import(`${ASSETS}/diff.js`);
  return parseDiff(TEXTS[0]).map((file) => {
    const rows = [...diffTable(file).tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    const marks = [...diffTable(file).querySelectorAll("mark")].map((mark) => mark.textContent);
    return { path: file.path, added: file.added, removed: file.removed, rows, marks, wide: diffTable(file, { wide: true }).rows.length };
  });
})()
"""
CLEAN = (
    "(async () => { const { terminalText } = await import(`${ASSETS}/text.js`); return TEXTS.map(terminalText); })()"
)
ALPHABET = "#`~*\\ \n|->1.)+_:ab<&\t\u202e"


async def run(page: Page, program: str, texts: list[str]) -> Any:
    # JSON text is a text of JavaScript, too; the page itself must not make code of text, but its debugger may.
    return await page.js(f"{{ {ASSETS} const TEXTS = {json.dumps(texts)}; {program} }}")


@pytest.fixture
def in_browser(tmp_path: Path, browser_address: str) -> Any:
    """Run a program in the page with some texts, and return what it returns."""

    async def main(program: str, texts: list[str]) -> Any:
        async with served(tmp_path) as server, connect_browser(browser_address) as browser, browser.page() as page:
            await page.goto(server.at.url)
            await page.text("Open the link of the server")
            return await run(page, program, texts)

    return lambda program, texts: trio.run(main, program, texts)


def test_markdown_is_the_same_in_both_renderers(in_browser: Any) -> None:
    generated: list[str] = []

    @hypothesis.given(st.text(ALPHABET, max_size=60))
    def collect(text: str) -> None:
        generated.append(text)

    collect()
    texts = [case["text"] for case in CASES] + generated
    expected = [case["html"] for case in CASES] + [render_text(text) for text in generated]
    for text, html, (whole, streamed) in zip(texts, expected, in_browser(RENDER, texts), strict=True):
        # As the browser writes it.
        written = html.replace("&quot;", '"').replace("&#x27;", "'").replace("\xa0", "&nbsp;")
        assert whole == written, text
        assert streamed == written, text


def test_characters_are_escaped_as_by_the_engine(in_browser: Any) -> None:
    edges = [
        code
        for first, last in (*UNSAFE_RANGES, *BLANK_RANGES)
        for code in (first - 1, first, last, last + 1)
        if code >= 0
    ]
    texts = [f"a{chr(code)}b" for code in edges] + ["\ud83d\ude00", "\ud83d", "\ude00\ud83d", "a\r\nb\r"]
    assert in_browser(VISIBLE, texts) == [escape_unsafe_chars(text) for text in texts]


def test_output_of_programs_loses_colours(in_browser: Any) -> None:
    texts = ["\x1b[1;31mred\x1b[0m", "\x1b]0;title\x07text", "10%\r50%\r100%\r\nend\r", "\x1b", "\r" * 20_000 + "x"]
    assert in_browser(CLEAN, texts) == ["red", "text", "100%\nend", "\\u001b", "x"]


def test_diff_is_a_table(in_browser: Any) -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@ def f():\n same\n-x = one + 1\n+x = two + 1\n--- not a header\n\\ No newline at end of file\n"
    (file,) = in_browser(DIFF, [diff.replace("+1,3 @@", "+1,2 @@")])
    assert (file["path"], file["added"], file["removed"]) == ("x.py", 1, 2)
    assert file["rows"] == [
        ["⋯ def f():"],
        ["1", " ", "same"],
        ["2", "\u2212", "x = one + 1"],
        ["2", "+", "x = two + 1"],
        ["3", "\u2212", "-- not a header"],
        ["No newline at end of file"],
    ]
    assert file["marks"] == ["one", "two"]
    assert file["wide"] == 5
