"""Convert a page to Markdown: headings, paragraphs, lists, links, code, tables.

It takes the tokens of `engine.web.html_tokens` one after the other and keeps no
tree. What shapes the text is kept; what only looks good, and what is no text (scripts,
drawings, menus of choices), is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urljoin

import attrs

from engine.web.html_flow import Container, Flow, squeezed
from engine.web.html_table import Table
from engine.web.html_tokens import End, HtmlText, Start, tokens

MAX_TABLES_INSIDE: Final = 3
# By how much absolute links may be longer than relative ones: a page could hold a million links.
MAX_ADDED_CHARS: Final = 2_000_000
_LOOK_EVERY: Final = 2_000

_BLOCKS: Final = frozenset(
    [
        "address",
        "article",
        "aside",
        "body",
        "caption",
        "center",
        "colgroup",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "head",
        "header",
        "hgroup",
        "html",
        "legend",
        "main",
        "menu",
        "nav",
        "p",
        "search",
        "section",
        "summary",
        "tbody",
        "tfoot",
        "thead",
    ]
)
# Nothing in these is text of the page.
_SKIPPED: Final = frozenset({"svg", "template", "select", "datalist", "object", "canvas", "audio", "video", "map"})
_EMPHASIS: Final = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE: Final = frozenset({"code", "kbd", "samp", "tt"})
_LISTS: Final = ("ul", "ol")
_LANGUAGE: Final = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-source-|brush: ?)([A-Za-z0-9_+#.-]{1,30})")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FOLLOWED: Final = ("http:", "https:", "ftp:", "mailto:")


class OutOfTime(Exception):
    """The page took longer than its time limit."""


@attrs.frozen(kw_only=True)
class Markdown:
    """What a page says.

    Attributes:
        title: as it names itself.
        text: the page as markdown.
    """

    title: str
    text: str


def markdown_of(page: str, base_url: str = "", *, is_late: Callable[[], bool] = lambda: False) -> Markdown:
    """Return *page*, HTML, as markdown; links are absolute, resolved against *base_url*.

    *is_late* is asked now and then; when it says yes, `OutOfTime` is raised.
    """
    reader = _Reader(base_url)
    for number, token in enumerate(tokens(page)):
        if number % _LOOK_EVERY == 0 and is_late():
            raise OutOfTime
        match token:
            case HtmlText():
                reader.text(token.text)
            case Start():
                reader.start(token)
            case End():
                reader.end(token.name)
    text = reader.finish()
    return Markdown(title=squeezed("".join(reader.title)).strip(), text=text)


@attrs.define(eq=False)
class _Reader:
    """Takes tokens, and keeps what they make."""

    base_url: str
    has_base: bool = attrs.field(default=False, init=False)
    room: int = attrs.field(default=MAX_ADDED_CHARS, init=False)
    title: list[str] = attrs.field(factory=list[str], init=False)
    flow: Flow = attrs.field(factory=Flow, init=False)
    tables: list[Table] = attrs.field(factory=list[Table], init=False)
    # Tables in tables in tables: no more than this is known of them.
    surplus_tables: int = attrs.field(default=0, init=False)
    # Inside of <pre>: its pieces, and the language of its code.
    code: list[str] | None = attrs.field(default=None, init=False)
    language: str = attrs.field(default="", init=False)
    skipped: str = attrs.field(default="", init=False)
    skipped_depth: int = attrs.field(default=0, init=False)
    in_title: bool = attrs.field(default=False, init=False)

    def text(self, text: str) -> None:
        if self.in_title:
            self.title.append(text)
        elif self.skipped:
            return
        elif self.code is not None:
            self.code.append(text)
        else:
            self.flow.say(squeezed(text))

    def start(self, token: Start) -> None:
        name = token.name
        if self.skipped:
            self.skipped_depth += name == self.skipped
        elif name in _SKIPPED:
            self.skipped, self.skipped_depth = name, 1
        elif name == "title":
            self.in_title = not self.title
        elif self.code is not None:
            self._start_in_code(token)
        elif name in _EMPHASIS:
            self.flow.open_mark(name, _EMPHASIS[name], _EMPHASIS[name])
        elif name in _CODE:
            self.flow.open_mark(name, "`", "`")
        elif name in _BLOCKS:
            self.flow.end_line()
        elif name in _STARTS:
            _STARTS[name](self, token)

    def end(self, name: str) -> None:
        if name == "title":
            self.in_title = False
        elif self.skipped:
            self.skipped_depth -= name == self.skipped
            self.skipped = self.skipped if self.skipped_depth else ""
        elif self.code is not None:
            if name in {"pre", "listing"}:
                self._end_code()
        elif name in _EMPHASIS or name in _CODE or name == "a":
            self.flow.close_mark(name)
        elif name in _BLOCKS:
            self.flow.end_line()
        elif name in _ENDS:
            _ENDS[name](self, name)

    def finish(self) -> str:
        """End what is open, and return it all."""
        if self.code is not None:
            self._end_code()
        self.surplus_tables = 0
        while self.tables:
            self.end_table("table")
        self.flow.end_line()
        return self.flow.text

    # -- code -----------------------------------------------------------------------------

    def start_pre(self, token: Start) -> None:
        self.flow.end_line()
        self.code = []
        self.language = _language(token)

    def _start_in_code(self, token: Start) -> None:
        assert self.code is not None
        self.language = self.language or _language(token)
        if token.name == "br":
            self.code.append("\n")

    def _end_code(self) -> None:
        text = "".join(self.code or ()).replace("\r\n", "\n").strip("\n")
        self.code = None
        if text.strip():
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
            self.flow.write(f"{fence}{self.language}\n{text}\n{fence}")
        self.flow.end_line()

    # -- lines ----------------------------------------------------------------------------

    def start_break(self, _: Start) -> None:
        self.flow.say("\n")

    def start_rule(self, _: Start) -> None:
        self.flow.end_line()
        self.flow.write("---")
        self.flow.end_line()

    def start_heading(self, token: Start) -> None:
        self.flow.end_line()
        self.flow.heading = int(token.name[1])

    def end_heading(self, _: str) -> None:
        self.flow.end_line()
        self.flow.heading = 0

    def start_link(self, token: Start) -> None:
        self.flow.close_mark("a")
        if url := self._absolute(token.attributes.get("href", "")):
            self.flow.open_mark("a", "[", f"]({url})")

    def start_image(self, token: Start) -> None:
        # One without words is there to look good.
        if words := squeezed(token.attributes.get("alt", "")).strip():
            self.flow.say(f"![{words}]({self._absolute(token.attributes.get('src', ''))})")

    def start_base(self, token: Start) -> None:
        if not self.has_base:  # the first one counts
            self.has_base = True
            self.base_url = self._absolute(token.attributes.get("href", "")) or self.base_url

    def _absolute(self, href: str) -> str:
        """Return where a link leads; empty if it leads nowhere that one could go."""
        href = href.strip()
        if not href or href.startswith("#"):
            return ""
        try:
            url = urljoin(self.base_url, href) if self.room > 0 else href
        except ValueError:  # brackets that hold no address
            return ""
        self.room -= max(0, len(url) - len(href))
        if _SCHEME.match(url) and not url.lower().startswith(_FOLLOWED):
            return ""
        return squeezed(url).replace(" ", "%20").replace("(", "%28").replace(")", "%29")

    # -- lists and quotations ---------------------------------------------------------------

    def start_list(self, token: Start) -> None:
        self.flow.end_line(1 if self.flow.innermost("li") else 2)
        begin = token.attributes.get("start", "1")
        number = int(begin) if begin.isascii() and begin.isdigit() and len(begin) < 7 else 1
        self.flow.open(Container(token.name, number=number if token.name == "ol" else None))

    def end_list(self, name: str) -> None:
        self.flow.end_line(0)
        self.flow.close(name)
        self.flow.gap = 1 if self.flow.innermost("li") else 2

    def start_item(self, _: Start) -> None:
        self.flow.end_line(0)
        if self.flow.close("li", within=_LISTS):
            self.flow.gap = 1
        owner = self.flow.innermost(*_LISTS)
        marker = "- "
        if owner is not None and owner.number is not None:
            marker = f"{owner.number}. "
            owner.number += 1
        self.flow.open(Container("li", first=marker, rest=" " * len(marker), gap=self.flow.gap))

    def end_item(self, _: str) -> None:
        self.flow.end_line(0)
        self.flow.close("li", within=_LISTS)
        self.flow.gap = 1

    def start_quote(self, _: Start) -> None:
        self.flow.end_line()
        self.flow.open(Container("blockquote", first="> ", rest="> "))

    def end_quote(self, name: str) -> None:
        self.flow.end_line()
        self.flow.close(name)
        self.flow.gap = 2

    # -- tables -----------------------------------------------------------------------------

    def start_table(self, _: Start) -> None:
        self.flow.end_line()
        if self.tables:
            self.tables[-1].has_table = True
        if len(self.tables) == MAX_TABLES_INSIDE:
            self.surplus_tables += 1
            return
        self.tables.append(Table(self.flow))
        self.flow = Flow()  # for what stands in no cell

    def start_row(self, _: Start) -> None:
        self.flow.end_line()
        if self.tables and not self.surplus_tables:
            self._end_cell()
            self.tables[-1].add_row()

    def start_cell(self, _: Start) -> None:
        self.flow.end_line()
        if self.tables and not self.surplus_tables:
            self._end_cell()
            self.flow = Flow()
            self.tables[-1].add_cell(self.flow)

    def _end_cell(self) -> None:
        table = self.tables[-1]
        self.flow.end_line()
        if not table.holds(self.flow) and self.flow.count:
            table.add_row()
            table.add_cell(self.flow)
            table.add_row()
        self.flow = Flow()

    def end_table(self, _: str) -> None:
        if self.surplus_tables:
            self.surplus_tables -= 1
        elif self.tables:
            self._end_cell()
            table = self.tables.pop()
            self.flow = table.outer
            for block in table.blocks():
                self.flow.write(block)
                self.flow.gap = 2


def _language(token: Start) -> str:
    match = _LANGUAGE.search(token.attributes.get("class", "")[:200])
    return match[1].lower() if match else ""


_HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_STARTS: Final[dict[str, Callable[[_Reader, Start], None]]] = {
    "pre": _Reader.start_pre,
    "listing": _Reader.start_pre,
    "br": _Reader.start_break,
    "hr": _Reader.start_rule,
    "a": _Reader.start_link,
    "img": _Reader.start_image,
    "base": _Reader.start_base,
    "ul": _Reader.start_list,
    "ol": _Reader.start_list,
    "li": _Reader.start_item,
    "blockquote": _Reader.start_quote,
    "table": _Reader.start_table,
    "tr": _Reader.start_row,
    "td": _Reader.start_cell,
    "th": _Reader.start_cell,
    **dict.fromkeys(_HEADINGS, _Reader.start_heading),
}
_ENDS: Final[dict[str, Callable[[_Reader, str], None]]] = {
    "ul": _Reader.end_list,
    "ol": _Reader.end_list,
    "li": _Reader.end_item,
    "blockquote": _Reader.end_quote,
    "table": _Reader.end_table,
    **dict.fromkeys(_HEADINGS, _Reader.end_heading),
}
