"""A session as a web page: nothing in it is alive but what we wrote, and nothing in it leads out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from engine.core.events import SessionCreated
from engine.core.ids import CallId, MessageId, PartId, SessionId
from engine.core.messages import ImagePart, TextPart, UserMessage
from engine.export.history import HistoryEntry, render_history
from engine.export.html_page import ContextUsage, render_html
from engine.export.html_style import STYLE, policy
from engine.export.html_text import render_text
from tests.export.histories import journal_of
from tests.export.said import HOSTILE, TEXTS, session_of
from tests.store.journals import A, session

ALLOWED = {
    "html": {"lang"},
    "head": set[str](),
    "meta": {"charset", "http-equiv", "content", "name"},
    "title": set[str](),
    "style": set[str](),
    "body": set[str](),
    "header": set[str](),
    "main": set[str](),
    "footer": set[str](),
    "article": {"class", "id"},
    "h1": set[str](),
    "h2": set[str](),
    "a": {"href", "title"},
    "p": {"class", "dir", "data-level"},
    "div": set[str](),
    "pre": {"data-language"},
    "code": set[str](),
    "b": set[str](),
    "i": set[str](),
    "hr": set[str](),
    "ul": set[str](),
    "ol": {"start"},
    "li": set[str](),
    "blockquote": set[str](),
    "span": {"class"},
    "details": set[str](),
    "summary": set[str](),
    "img": {"alt", "src"},
    "table": set[str](),
    "tr": set[str](),
    "th": {"scope", "class"},
    "td": {"class"},
    "meter": {"min", "max", "value"},
}
MARKDOWN = Path(__file__).parent / "markdown_cases.json"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Page(HTMLParser):
    """Reads a page as a browser does, and notes what is alive in it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "img", "hr"}:
            self._open.append(tag)
        allowed = ALLOWED.get(tag)
        for name, value in attrs:
            if allowed is None or name not in allowed:
                self.wrong.append(f"<{tag} {name}={value}>")
            if name == "href" and not re.fullmatch(r"#m\d+", value or ""):
                self.wrong.append(f"href {value}")
            if name == "src" and not re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64,[\w+/]+=*", value or ""):
                self.wrong.append(f"src {value}")
        if allowed is None:
            self.wrong.append(f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.wrong.append("a comment")

    def handle_pi(self, data: str) -> None:
        self.wrong.append("an instruction")


@hypothesis.given(texts=st.lists(TEXTS, min_size=1, max_size=3))
def test_session_text_is_inert(texts: list[str]) -> None:
    written = render_html([session_of(texts)], texts[0], engine="1")
    written.encode()
    assert Page(written).wrong == []
    assert written.count("<meta ") == 4


@pytest.mark.parametrize("text", HOSTILE)
def test_session_text_is_readable(text: str) -> None:
    shown = Page(render_html([session_of([text])], "x", engine="1")).text
    for word in re.findall(r"[a-zA-Z]{4,}", text.replace("```", "").replace("**", "")):
        assert word in shown


def test_content_policy_allows_only_own_style() -> None:
    written = render_html([session_of(["x"])], "x", engine="1")
    (style,) = re.findall(r"<style>(.*?)</style>", written, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy()
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy()}">' in written
    assert "default-src 'none'" in policy()
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_images_are_embedded_but_svg_is_not() -> None:
    parts = (
        TextPart(id=PartId("p"), text="look"),
        ImagePart(media_type="image/png", data=PIXEL),
        ImagePart(media_type="image/svg+xml", data=PIXEL),
        ImagePart(media_type="image/png", data='"><script>'),
    )
    story = session_of([])
    message = UserMessage(id=MessageId("m"), parts=parts)
    written = render_html([attrs.evolve(story, entries=(HistoryEntry(message=message, time=0.0),))], "x", engine="1")
    assert written.count("<img ") == 1
    assert f'src="data:image/png;base64,{PIXEL}"' in written
    assert "image/svg+xml, 72 bytes: not shown" in written


def test_calls_are_folded_with_sub_agents_below() -> None:
    child = session(SessionId("ses_child"), ("for the child", "found it"), parent=A)
    first = child[0]
    assert isinstance(first, SessionCreated)
    child[0] = attrs.evolve(first, parent_call_id=CallId("m1.1.c"), agent="explore")
    written = render_html(
        [render_history(session(A, ("ask", "answer"), steps=2)), render_history(child)], "Title", engine="1"
    )
    inside = written[written.index("<details>") : written.rindex("</details>")]
    assert '<span class="good">done</span> <b>read</b> engine/service.py</summary>' in inside
    assert "<summary>explore</summary>" in inside
    assert "found it" in inside
    assert Page(written).wrong == []


def test_spending_includes_sub_agents_and_small_sums() -> None:
    root, child = (
        render_history(session(name, ("ask", "answer"), parent=above))
        for name, above in ((A, None), (SessionId("ses_child"), A))
    )
    tokens = root.state.usage.total + child.state.usage.total
    assert f" · {tokens:,} tokens · $0.50</p>" in render_html([root, child], "x", engine="1")
    little = attrs.evolve(root, state=attrs.evolve(root.state, cost=0.0037))
    assert " tokens · $0.0037</p>" in render_html([little], "x", engine="1")


def test_context_window_is_an_inert_table() -> None:
    kinds = (("results of </table><script>x", 9_000), ("system", 1_000))
    filling = ContextUsage(tokens=10_000, usable=40_000, kinds=kinds)
    written = Page(render_html([session_of(["x"])], "x", engine="1", window=filling))
    assert written.wrong == []
    assert "The next request takes about 10,000 of 40,000 tokens" in written.text
    assert "results of </table><script>x9,000" in written.text
    assert "takes about" not in Page(render_html([session_of(["x"])], "x", engine="1")).text


def test_compacted_session_is_shown_whole() -> None:
    shown = Page(
        render_html([render_history(journal_of(["turn", "compact", "turn", "turn", "undo"]))], "", engine="1")
    ).text
    assert [word in shown for word in ("ask 2", "the summary", "ask 4", "ask 5")] == [True, True, True, False]
    assert "Untitled session" in shown


@pytest.mark.parametrize("case", json.loads(MARKDOWN.read_text()), ids=lambda case: str(case["name"]))
def test_markdown_is_rendered_for_reading(case: Mapping[str, str]) -> None:
    # The page's own renderer passes the same cases: tests/control/page/test_page_text.py.
    assert render_text(case["text"]) == case["html"]


@pytest.mark.parametrize("part", ["`", "**", "* *", "#", "# ", " #", "~", "```\n", "\n", "<", "\u202e", "`a", "**a"])
def test_long_texts_take_linear_time(part: str) -> None:
    began = time.process_time()
    render_text(part * 100_000)
    render_text(f"# {part * 100_000}")
    assert time.process_time() - began < 5
