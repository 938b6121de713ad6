"""Markdown within a line: emphasis, code, links.

A simplified CommonMark that reads from left to right, so that the beginning of a line can be shown before its end is there:
what a marker means depends on the marker that closes it, and on nothing else behind that.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine.cli.text.styled_text import Line, Span, Style
from engine.core.value_base import Value

_MAX_DEPTH: Final = 6
# What can begin something other than plain text.
_SPECIAL: Final = re.compile(r"[\\`*_~\[!<h]")
_ESCAPE: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_BACKTICKS: Final = re.compile(r"`+")
_LINK: Final = re.compile(r"!?\[(?P<text>[^\[\]]*)\]\((?P<url>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)")
_URL: Final = re.compile(r"<(?P<marked>[a-z][a-z+.-]*:[^<>\s]+)>|https?://[^\s<>`]*[^\s<>`.,;:!?*_~)\]'\"]")
_DELIMITERS: Final = re.compile(r"\*{1,3}|(?<!\w)_{1,3}|~~")
_STYLES: Final = {
    "*": Style.EMPHASIS,
    "_": Style.EMPHASIS,
    "**": Style.STRONG,
    "__": Style.STRONG,
    "***": Style.STRONG | Style.EMPHASIS,
    "___": Style.STRONG | Style.EMPHASIS,
    "~~": Style.STRUCK,
}


@attrs.frozen(eq=False, repr=False)
class Inline(Value):
    """A line's spans.

    Attributes:
        line: the spans.
        settled: how many characters of the source mean the same whatever comes after them.
    """

    line: Line
    settled: int


def parse_inline(text: str, style: Style = Style.NONE, *, keeps_marks: bool = False) -> Inline:
    """Parse the Markdown of a line.

    Args:
        text: the line, without its block's marker. Control characters have to be escaped.
        style: of all of it.
        keeps_marks: leave the markers in the text, for terminals without styles.
    """
    parser = _Parser(text, keeps_marks)
    parser.parse(0, len(text), style, 0)
    return Inline(tuple(parser.spans), parser.settled)


@attrs.define(eq=False, repr=False)
class _Parser:
    text: str
    keeps_marks: bool
    spans: list[Span] = attrs.field(factory=list[Span], init=False)
    settled: int = attrs.field(init=False)
    # Markers that nothing closes any more: looking again for each would take quadratic time.
    _unclosed: set[tuple[str, int]] = attrs.field(factory=set[tuple[str, int]], init=False)

    def __attrs_post_init__(self) -> None:
        self.settled = len(self.text)

    def parse(self, start: int, end: int, style: Style, depth: int) -> None:
        """Add the spans of a part of the text."""
        plain = position = start
        while (match := _SPECIAL.search(self.text, position, end)) is not None:
            begin = match.start()
            mark = len(self.spans)
            after = self._special(begin, end, style, depth)
            if after is None:
                position = self._after_literal(begin, end)
                continue
            # The plain text before it goes in front.
            self._insert(mark, plain, begin, style)
            plain = position = after
        self._insert(len(self.spans), plain, end, style)

    def _insert(self, index: int, start: int, end: int, style: Style) -> None:
        if start < end:
            self.spans.insert(index, Span(self.text[start:end], style))

    def _after_literal(self, begin: int, end: int) -> int:
        """Return where to go on after a marker that is plain text: a run of markers is one."""
        run = _BACKTICKS.match(self.text, begin, end) or _DELIMITERS.match(self.text, begin, end)
        return begin + 1 if run is None else run.end()

    def _special(self, begin: int, end: int, style: Style, depth: int) -> int | None:
        """Add the spans of what begins at *begin*; return its end, or None if it is plain text."""
        match self.text[begin]:
            case "\\":
                return self._escape(begin, end, style)
            case "`":
                return self._code(begin, end, style, depth)
            case "[" | "!":
                return self._link(begin, end, style, depth)
            case "<" | "h":
                return self._url(begin, end, style)
            case _:
                return self._emphasis(begin, end, style, depth)

    def _add(self, text: str, style: Style) -> None:
        if text:
            self.spans.append(Span(text, style))

    def _escape(self, begin: int, end: int, style: Style) -> int | None:
        match = _ESCAPE.match(self.text, begin, end)
        if match is None:
            return None
        self._add(match[0] if self.keeps_marks else match[1], style)
        return match.end()

    def _code(self, begin: int, end: int, style: Style, depth: int) -> int | None:
        run = _run(_BACKTICKS, self.text, begin, end)
        close = self._close_of_code(run, begin + len(run), end)
        if close is None:
            self._wait(begin, depth)
            return None
        inner = self.text[begin + len(run) : close]
        # Blanks around it separate it from its marks only.
        if inner.startswith(" ") and inner.endswith(" ") and inner.strip():
            inner = inner[1:-1]
        after = close + len(run)
        self._add(self.text[begin:after] if self.keeps_marks else inner, style | Style.CODE)
        return after

    def _close_of_code(self, run: str, position: int, end: int) -> int | None:
        if (run, end) in self._unclosed:
            return None
        for match in _BACKTICKS.finditer(self.text, position, end):
            if len(match[0]) == len(run):
                return match.start()
        self._unclosed.add((run, end))
        return None

    def _link(self, begin: int, end: int, style: Style, depth: int) -> int | None:
        match = _LINK.match(self.text, begin, end)
        if match is None:
            if self._may_become_link(begin, end):
                self._wait(begin, depth)
            return None
        if self.keeps_marks:
            self._add(match[0], style)
            return match.end()
        mark = len(self.spans)
        self.parse(match.start("text"), match.end("text"), style | Style.LINK, depth + 1)
        shown = "".join(span.text for span in self.spans[mark:])
        if not shown:
            self._add(match["url"], style | Style.LINK)
        elif match["url"] not in {"", shown, f"mailto:{shown}"}:
            self._add(f" ({match['url']})", style | Style.DIM)
        return match.end()

    def _may_become_link(self, begin: int, end: int) -> bool:
        """Return whether what comes after the line's end so far could make this a link."""
        opening = begin + 1 if self.text[begin] == "!" else begin
        if not self.text.startswith("[", opening, end):
            return opening >= end  # a "!" at the end
        closing = re.compile(r"[\[\]]").search(self.text, opening + 1, end)
        if closing is None:
            return True
        if closing[0] == "[":
            return False
        rest = self.text[closing.end() : end]
        return not rest or (rest.startswith("(") and ")" not in rest)

    def _url(self, begin: int, end: int, style: Style) -> int | None:
        match = _URL.match(self.text, begin, end)
        if match is None or (begin and self.text[begin] == "h" and self.text[begin - 1].isalnum()):
            return None
        self._add(match[0] if self.keeps_marks else match["marked"] or match[0], style | Style.LINK)
        return match.end()

    def _emphasis(self, begin: int, end: int, style: Style, depth: int) -> int | None:
        match = _DELIMITERS.match(self.text, begin, end)
        if match is None or depth >= _MAX_DEPTH:
            return None
        run, inner = match[0], match.end()
        if inner >= end or self.text[inner].isspace():
            if inner >= len(self.text):
                self._wait(begin, depth)
            return None
        close, is_sure = self._close_of_emphasis(run, inner, end)
        if not is_sure:
            self._wait(begin, depth)
        if close is None:
            return None
        added = style | _STYLES[run]
        self._add(run if self.keeps_marks else "", style)
        self.parse(inner, close, added, depth + 1)
        self._add(run if self.keeps_marks else "", style)
        return close + len(run)

    def _close_of_emphasis(self, run: str, inner: int, end: int) -> tuple[int | None, bool]:
        """Return where the marker is that closes *run*, and whether later text can't change that."""
        if (run, end) in self._unclosed:
            return None, False
        position, is_sure = inner, True
        closing = re.compile(rf"`+|\\.|{re.escape(run[0])}+")
        while (match := closing.search(self.text, position, end)) is not None:
            position = match.end()
            if match[0][0] == "`":
                close = self._close_of_code(match[0], position, end)
                # Its partner may come later: what is between them is code then.
                is_sure = is_sure and close is not None
                position = position if close is None else close + len(match[0])
            elif match[0][0] != "\\" and self._closes(match, run, inner):
                return match.end() - len(run), is_sure
        self._unclosed.add((run, end))
        return None, False

    def _closes(self, match: re.Match[str], run: str, inner: int) -> bool:
        if len(match[0]) != len(run) and len(match[0]) != 3:
            return False
        if match.start() <= inner or self.text[match.start() - 1].isspace():
            return False
        # An underscore within a word is part of the word.
        after = self.text[match.end() : match.end() + 1]
        return run[0] != "_" or not (after.isalnum() or after == "_")

    def _wait(self, begin: int, depth: int) -> None:
        """Note that what comes later may change the meaning of what is at *begin*."""
        if depth == 0:
            self.settled = min(self.settled, begin)


def _run(pattern: re.Pattern[str], text: str, begin: int, end: int) -> str:
    match = pattern.match(text, begin, end)
    return "" if match is None else match[0]
