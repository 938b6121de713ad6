"""As much Markdown as makes a model's text readable, line by line: paragraphs, headings, code, lists, quotes, tables. Pure.

There are no links, no images and no HTML: foreign content must not link to anything, or load it. `page/markdown.js` is
the same machine over the nodes of a document; `tests/export/markdown_cases.json` holds both to the same results.

Each line is looked at once, and appended to what is open; no pattern can pass the sign that ends it. So the time grows
with the length of the text only, and text that streams in is never parsed again.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final, Literal, final

import attrs

DEEPEST: Final = 20
# Browsers take seconds to lay out a table with thousands of columns.
MOST_COLUMNS: Final = 50

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)\Z")
_HEADING: Final = re.compile(r" {0,3}(#{1,6}) +([^ ].*)\Z")
_QUOTE: Final = re.compile(r" {0,3}> ?")
_MARKER: Final = re.compile(r"( {0,3})([-*+]|[0-9]{1,9}[.)])( +|\Z)")
_DELIMITER: Final = re.compile(r" *:?-+:? *\Z")
_CELL_END: Final = re.compile(r"(?<!\\)\|")
_LEADING: Final = re.compile(r"[ \t]*")
_INLINE: Final = re.compile(
    r"`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![A-Za-z0-9_/.*])\*(?![ \t*])([^*\n]+)(?<![ \t])\*(?![A-Za-z0-9_*])"
)


@attrs.define(eq=False)
class _Node:
    """An element; its children are elements and HTML that is escaped already."""

    tag: str
    attributes: str = ""
    children: list[_Node | str] = attrs.field(factory=list["_Node | str"])

    def add(self, tag: str, attributes: str = "") -> _Node:
        """Append an element; return it."""
        node = _Node(tag, attributes)
        self.children.append(node)
        return node

    def html(self) -> Iterator[str]:
        """Yield its HTML."""
        yield f"<{self.tag}{self.attributes}>"
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child.html()
        if self.tag != "hr":
            yield f"</{self.tag}>"


@attrs.frozen(eq=False, kw_only=True)
class _Container:
    """A quote or an item of a list that is open.

    Attributes:
        indent: of an item: the columns before its content.
        marker: of an item: what all items of its list have in common, `-` or `.`, say.
    """

    kind: Literal["quote", "item"]
    node: _Node
    parent: _Node
    indent: int = 0
    marker: str = ""


@attrs.define(eq=False, kw_only=True)
class _Leaf:
    """A paragraph, a block of code or a table that is open."""

    kind: Literal["paragraph", "code", "table"]
    node: _Node
    fence: str = ""
    # Of a paragraph: its last line, and where that begins among the children; of code, the number of lines.
    line: str = ""
    start: int = 0
    # Of a table: a class for each column.
    columns: tuple[str, ...] = ()


@final
class BlockParser:
    """Takes a text line by line."""

    def __init__(self) -> None:
        """Begin an empty text."""
        self._root = _Node("div")
        self._open: list[_Container] = []
        self._leaf: _Leaf | None = None

    def add_line(self, line: str) -> None:
        """Add a line, without its end."""
        matched, rest = self._match_containers(line)
        leaf = self._leaf
        if matched == len(self._open) and leaf is not None and leaf.kind == "code":
            self._add_code(leaf, rest)
            return
        sibling = None
        if matched < len(self._open):
            sibling = self._open[matched]
            del self._open[matched:]
            self._leaf = None
        self._add_leaf(self._open_containers(rest, sibling))

    def html_blocks(self) -> list[str]:
        """Return the HTML of the blocks so far."""
        return [child if isinstance(child, str) else "".join(child.html()) for child in self._root.children]

    @property
    def _inner(self) -> _Node:
        return self._open[-1].node if self._open else self._root

    def _match_containers(self, line: str) -> tuple[int, str]:
        """Return how many of the open containers go on in *line*, and what is left of it inside of them."""
        rest = line
        for index, container in enumerate(self._open):
            if container.kind == "quote":
                quote = _QUOTE.match(rest)
                if quote is None:
                    return index, rest
                rest = rest[quote.end() :]
            elif rest.strip(" \t"):
                stripped = _without_indent(rest, container.indent)
                if stripped is None:
                    return index, rest
                rest = stripped
        return len(self._open), rest

    def _open_containers(self, rest: str, sibling: _Container | None) -> str:
        """Open the quotes and items that begin in a line; return what is left of it inside of them."""
        while len(self._open) < DEEPEST:
            marker = None if _is_rule(rest) else _MARKER.match(rest)
            if quote := _QUOTE.match(rest):
                parent = self._inner
                self._open.append(_Container(kind="quote", node=parent.add("blockquote"), parent=parent))
                rest = rest[quote.end() :]
            elif marker is not None and not self._is_text(marker, rest):
                rest = self._open_item(marker, rest, sibling)
            else:
                break
            sibling = self._leaf = None
        return rest

    def _is_text(self, marker: re.Match[str], rest: str) -> bool:
        """Whether a marker inside a paragraph is a part of it: a line that begins with a year, say."""
        if self._leaf is None or self._leaf.kind != "paragraph":
            return False
        is_numbered = len(marker[2]) > 1
        return marker.end() == len(rest) or (is_numbered and marker[2][:-1] != "1")

    def _open_item(self, marker: re.Match[str], rest: str, sibling: _Container | None) -> str:
        sign = marker[2][-1]
        if sibling is not None and sibling.marker == sign:
            parent = sibling.parent
        elif sign in ".)":
            start = int(marker[2][:-1])
            parent = self._inner.add("ol", "" if start == 1 else f' start="{start}"')
        else:
            parent = self._inner.add("ul")
        # Four spaces and more belong to the content.
        spaces = len(marker[3]) if 1 <= len(marker[3]) <= 4 else 1
        indent = len(marker[1]) + len(marker[2]) + spaces
        self._open.append(_Container(kind="item", node=parent.add("li"), parent=parent, indent=indent, marker=sign))
        return rest[indent:]

    def _add_leaf(self, rest: str) -> None:
        leaf = self._leaf
        if not rest.strip(" \t"):
            self._leaf = None
        elif fence := _FENCE.match(rest):
            language = fence[2].strip(" \t").partition(" ")[0]
            attribute = f' data-language="{html.escape(language)}"' if language else ""
            self._leaf = _Leaf(kind="code", node=self._inner.add("pre", attribute), fence=fence[1])
        elif heading := _HEADING.match(rest):
            self._leaf = None
            node = self._inner.add("p", f' dir="auto" class="heading" data-level="{len(heading[1])}"')
            node.children += render_inline(heading[2].rstrip(" \t").rstrip("#").rstrip(" \t"))
        elif leaf is not None and leaf.kind == "table" and "|" in rest:
            _add_row(leaf, "td", _cells(rest))
        elif columns := _table_columns(leaf, rest):
            assert leaf is not None
            self._begin_table(leaf, columns)
        elif _is_rule(rest):
            self._leaf = None
            self._inner.add("hr")
        else:
            self._add_text(rest)

    def _add_text(self, rest: str) -> None:
        leaf = self._leaf
        if leaf is None or leaf.kind != "paragraph":
            leaf = self._leaf = _Leaf(kind="paragraph", node=self._inner.add("p", ' dir="auto"'))
        leaf.line, leaf.start = rest, len(leaf.node.children)
        if leaf.start:
            leaf.node.children.append("\n")
        leaf.node.children += render_inline(rest)

    def _add_code(self, leaf: _Leaf, rest: str) -> None:
        end = _FENCE.match(rest)
        if end is not None and end[1].startswith(leaf.fence) and rest.strip(" \t") == end[1]:
            self._leaf = None
            return
        leaf.node.children.append(html.escape(f"\n{rest}" if leaf.start else rest))
        leaf.start += 1

    def _begin_table(self, header: _Leaf, columns: tuple[str, ...]) -> None:
        """Turn the last line of a paragraph into the head of a table."""
        del header.node.children[header.start :]
        if not header.node.children:
            self._inner.children.pop()
        self._leaf = _Leaf(kind="table", node=self._inner.add("table"), columns=columns)
        _add_row(self._leaf, "th", _cells(header.line))


def render_inline(text: str) -> list[_Node | str]:
    """Return the HTML of one line: code, bold and emphasised text."""
    parts: list[_Node | str] = []
    at = 0
    for span in _INLINE.finditer(text):
        if span.start() > at:
            parts.append(html.escape(text[at : span.start()]))
        tag = "code" if span[1] is not None else "b" if span[2] is not None else "i"
        inner = span[span.lastindex or 0]
        parts.append(_Node(tag, "", [html.escape(inner)] if tag == "code" else _with_code(inner)))
        at = span.end()
    if at < len(text):
        parts.append(html.escape(text[at:]))
    return parts


def _with_code(text: str) -> list[_Node | str]:
    """Return the HTML of bold or emphasised text, in which there may be code."""
    parts: list[_Node | str] = []
    pieces = text.split("`")
    for index, piece in enumerate(pieces):
        is_code = index % 2 == 1 and index < len(pieces) - 1
        if is_code and piece:
            parts.append(_Node("code", "", [html.escape(piece)]))
        else:
            sign = "``" if is_code else "`" if index % 2 else ""
            parts.append(html.escape(sign + piece))
    return [part for part in parts if part]


def _is_rule(line: str) -> bool:
    signs = line.replace(" ", "")
    return len(signs) >= 3 and signs[0] in "-*_" and signs == signs[0] * len(signs)


def _without_indent(line: str, columns: int) -> str | None:
    """Return *line* without its first *columns*, or None if something is written there; a tab is four columns wide."""
    end = 0
    width = 0
    while width < columns and end < len(line) and line[end] in " \t":
        width += 4 if line[end] == "\t" else 1
        end += 1
    return " " * (width - columns) + line[end:] if width >= columns else None


def _cells(line: str) -> list[str]:
    inner = line.strip(" \t")
    inner = inner.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip(" \t").replace("\\|", "|") for cell in _CELL_END.split(inner)]


def _table_columns(leaf: _Leaf | None, rest: str) -> tuple[str, ...]:
    """Return a class for each column, if *rest* is the line below the head of a table; nothing otherwise."""
    if leaf is None or leaf.kind != "paragraph" or "|" not in leaf.line or "-" not in rest:
        return ()
    cells = _cells(rest)
    if len(cells) > MOST_COLUMNS or len(cells) != len(_cells(leaf.line)) or not all(map(_DELIMITER.match, cells)):
        return ()
    return tuple("center" if cell[0] == cell[-1] == ":" else "right" if cell[-1] == ":" else "" for cell in cells)


def _add_row(table: _Leaf, tag: str, cells: list[str]) -> None:
    row = table.node.add("tr")
    for index, column in enumerate(table.columns):
        cell = row.add(tag, f' class="{column}"' if column else "")
        if index < len(cells):
            cell.children += render_inline(cells[index])
