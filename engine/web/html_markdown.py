"""Convert a page to Markdown: headings, paragraphs, lists, links, code, tables.

It processes the tokens of `engine.web.html_tokens` one by one and builds no tree, so nesting costs no memory or stack.
Structure is kept; pure decoration, and what is not text (scripts, drawings, select menus), is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import attrs

from engine.web.html_flow import Container, Flow, squeezed
from engine.web.html_links import LinkResolver
from engine.web.html_table import Table
from engine.web.html_tokens import End, HtmlText, Start, tokens

# Pages that use tables for layout nest them; deeper ones are written as plain text.
MAX_TABLES_INSIDE: Final = 3
# Tokens between two checks of the time limit: about a millisecond's work.
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
# Highlighters put the language into the class: Prism, highlight.js, GitHub, SyntaxHighlighter.
_LANGUAGE: Final = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-source-|brush: ?)([A-Za-z0-9_+#.-]{1,30})")


class OutOfTime(Exception):
    """The page took longer than its time limit."""


@attrs.frozen(kw_only=True)
class Markdown:
    """A page as Markdown.

    Attributes:
        title: its title.
        text: its text.
    """

    title: str
    text: str


def markdown_of(page: str, base_url: str = "", *, is_late: Callable[[], bool] = lambda: False) -> Markdown:
    """Convert *page*, HTML, to Markdown; links become absolute, resolved against *base_url*.

    *is_late* is called now and then; if it returns True, `OutOfTime` is raised.
    """
    reader = _Reader(LinkResolver(base_url))
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
    """The state of the conversion; it dispatches tokens to the functions below."""

    links: LinkResolver
    title: list[str] = attrs.field(factory=list[str], init=False)
    flow: Flow = attrs.field(factory=Flow, init=False)
    tables: list[Table] = attrs.field(factory=list[Table], init=False)
    # How many open tables exceed the limit: only counted, so that their end tags match.
    surplus_tables: int = attrs.field(default=0, init=False)
    # The pieces of an open <pre>, and the language of its code.
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
        # Only the first: drawings in SVG have titles too.
        elif name == "title":
            self.in_title = not self.title
        elif self.code is not None:
            # Inside <pre> other tags are highlighting, and are dropped.
            _start_in_code(self, token)
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
            # Before `skipped`: a title that is never closed would swallow the page.
            self.in_title = False
        elif self.skipped:
            self.skipped_depth -= name == self.skipped
            self.skipped = self.skipped if self.skipped_depth else ""
        elif self.code is not None:
            if name in {"pre", "listing"}:
                _end_code(self)
        elif name in _EMPHASIS or name in _CODE or name == "a":
            self.flow.close_mark(name)
        elif name in _BLOCKS:
            self.flow.end_line()
        elif name in _ENDS:
            _ENDS[name](self, name)

    def finish(self) -> str:
        """Close what is open, and return the Markdown."""
        if self.code is not None:
            _end_code(self)
        self.surplus_tables = 0
        while self.tables:
            _end_table(self, "table")
        self.flow.end_line()
        return self.flow.text


# -- code --------------------------------------------------------------------------------


def _start_pre(reader: _Reader, token: Start) -> None:
    reader.flow.end_line()
    reader.code = []
    reader.language = _language(token)


def _start_in_code(reader: _Reader, token: Start) -> None:
    assert reader.code is not None
    reader.language = reader.language or _language(token)
    if token.name == "br":
        reader.code.append("\n")


def _end_code(reader: _Reader) -> None:
    text = "".join(reader.code or ()).replace("\r\n", "\n").strip("\n")
    reader.code = None
    if text.strip():
        # Longer than any run of backticks inside, so that the code can't end the block.
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        reader.flow.write(f"{fence}{reader.language}\n{text}\n{fence}")
    reader.flow.end_line()


# -- lines -------------------------------------------------------------------------------


def _start_break(reader: _Reader, _: Start) -> None:
    reader.flow.say("\n")


def _start_rule(reader: _Reader, _: Start) -> None:
    reader.flow.end_line()
    reader.flow.write("---")
    reader.flow.end_line()


def _start_heading(reader: _Reader, token: Start) -> None:
    reader.flow.end_line()
    reader.flow.heading = int(token.name[1])


def _end_heading(reader: _Reader, _: str) -> None:
    reader.flow.end_line()
    reader.flow.heading = 0


def _start_link(reader: _Reader, token: Start) -> None:
    # Links can't be nested: a new one ends the one before.
    reader.flow.close_mark("a")
    if url := reader.links.resolve(token.attributes.get("href", "")):
        reader.flow.open_mark("a", "[", f"]({url})")


def _start_image(reader: _Reader, token: Start) -> None:
    # An image without a description is decoration.
    if words := squeezed(token.attributes.get("alt", "")).strip():
        reader.flow.say(f"![{words}]({reader.links.resolve(token.attributes.get('src', ''))})")


def _start_base(reader: _Reader, token: Start) -> None:
    reader.links.set_base(token.attributes.get("href", ""))


# -- lists and quotations ----------------------------------------------------------------


def _start_list(reader: _Reader, token: Start) -> None:
    reader.flow.end_line(1 if reader.flow.innermost("li") else 2)
    begin = token.attributes.get("start", "1")
    # Digits only, and few: `int` accepts signs, underscores and other scripts, and converts long numbers slowly.
    number = int(begin) if begin.isascii() and begin.isdigit() and len(begin) < 7 else 1
    reader.flow.open(Container(token.name, number=number if token.name == "ol" else None))


def _end_list(reader: _Reader, name: str) -> None:
    reader.flow.end_line(0)
    reader.flow.close(name)
    reader.flow.gap = 1 if reader.flow.innermost("li") else 2


def _start_item(reader: _Reader, _: Start) -> None:
    reader.flow.end_line(0)
    # <li> without an end tag: the next one closes it.
    if reader.flow.close("li", within=_LISTS):
        reader.flow.gap = 1
    owner = reader.flow.innermost(*_LISTS)
    marker = "- "
    if owner is not None and owner.number is not None:
        marker = f"{owner.number}. "
        owner.number += 1
    reader.flow.open(Container("li", first=marker, rest=" " * len(marker), gap=reader.flow.gap))


def _end_item(reader: _Reader, _: str) -> None:
    reader.flow.end_line(0)
    reader.flow.close("li", within=_LISTS)
    reader.flow.gap = 1


def _start_quote(reader: _Reader, _: Start) -> None:
    reader.flow.end_line()
    reader.flow.open(Container("blockquote", first="> ", rest="> "))


def _end_quote(reader: _Reader, name: str) -> None:
    reader.flow.end_line()
    reader.flow.close(name)
    reader.flow.gap = 2


# -- tables ------------------------------------------------------------------------------


def _start_table(reader: _Reader, _: Start) -> None:
    reader.flow.end_line()
    if reader.tables:
        reader.tables[-1].has_table = True
    if len(reader.tables) == MAX_TABLES_INSIDE:
        reader.surplus_tables += 1
        return
    reader.tables.append(Table(reader.flow))
    reader.flow = Flow()  # for text outside of any cell


def _start_row(reader: _Reader, _: Start) -> None:
    reader.flow.end_line()
    if reader.tables and not reader.surplus_tables:
        _end_cell(reader)
        reader.tables[-1].add_row()


def _start_cell(reader: _Reader, _: Start) -> None:
    reader.flow.end_line()
    if reader.tables and not reader.surplus_tables:
        _end_cell(reader)
        reader.flow = Flow()
        reader.tables[-1].add_cell(reader.flow)


def _end_cell(reader: _Reader) -> None:
    table = reader.tables[-1]
    reader.flow.end_line()
    # Text outside of cells becomes a row of its own, so that nothing is lost.
    if not table.holds(reader.flow) and reader.flow.count:
        table.add_row()
        table.add_cell(reader.flow)
        table.add_row()
    reader.flow = Flow()


def _end_table(reader: _Reader, _: str) -> None:
    if reader.surplus_tables:
        reader.surplus_tables -= 1
    elif reader.tables:
        _end_cell(reader)
        table = reader.tables.pop()
        reader.flow = table.outer
        for block in table.blocks():
            reader.flow.write(block)
            reader.flow.gap = 2


def _language(token: Start) -> str:
    # Bounded, as an attribute may have any length.
    match = _LANGUAGE.search(token.attributes.get("class", "")[:200])
    return match[1].lower() if match else ""


_HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_STARTS: Final[dict[str, Callable[[_Reader, Start], None]]] = {
    "pre": _start_pre,
    "listing": _start_pre,
    "br": _start_break,
    "hr": _start_rule,
    "a": _start_link,
    "img": _start_image,
    "base": _start_base,
    "ul": _start_list,
    "ol": _start_list,
    "li": _start_item,
    "blockquote": _start_quote,
    "table": _start_table,
    "tr": _start_row,
    "td": _start_cell,
    "th": _start_cell,
    **dict.fromkeys(_HEADINGS, _start_heading),
}
_ENDS: Final[dict[str, Callable[[_Reader, str], None]]] = {
    "ul": _end_list,
    "ol": _end_list,
    "li": _end_item,
    "blockquote": _end_quote,
    "table": _end_table,
    **dict.fromkeys(_HEADINGS, _end_heading),
}
