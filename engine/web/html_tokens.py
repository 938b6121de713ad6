"""Split HTML into tokens, in time linear in its length.

Anyone may have written a page. The standard library's parser, and everything built on it, takes minutes for 300 kB of
`<a `, in a thread that can't be stopped. Here each character is scanned a bounded number of times: a search that failed
is never repeated. Broken markup is read as it stands; browsers would repair it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import attrs

_NAME: Final = re.compile(r"[A-Za-z][^\s/>]*")
_BLANKS: Final = re.compile(r"[\s/]*")
_ATTRIBUTE: Final = re.compile(r"[^\s/>][^\s/>=]*")
_EQUALS: Final = re.compile(r"\s*=\s*")
_UNQUOTED: Final = re.compile(r"[^\s>]*")
# Bounded: converting a number of any length takes quadratic time, or raises.
_REFERENCE: Final = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});?")

# Elements whose content is not markup; that of the first two is text.
_TEXTS: Final = frozenset({"title", "textarea"})
_RAW: Final = _TEXTS | {"script", "style", "xmp", "iframe", "noembed", "noframes", "plaintext"}
_RAW_END: Final = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE | re.ASCII) for name in _RAW}


@attrs.frozen
class HtmlText:
    """Text, with its character references resolved."""

    text: str


@attrs.frozen
class Start:
    """The start of an element."""

    name: str
    attributes: Mapping[str, str]


@attrs.frozen
class End:
    """The end of an element."""

    name: str


Token: TypeAlias = HtmlText | Start | End


def tokens(markup: str) -> Iterator[Token]:
    """Return the tokens of a document. Comments, scripts and style sheets are left out."""
    return _Scanner(markup).run()


def unescaped(text: str) -> str:
    """Return *text* with its character references resolved."""
    return _REFERENCE.sub(lambda found: html.unescape(found[0]), text) if "&" in text else text


@attrs.define(eq=False)
class _Scanner:
    markup: str
    at: int = attrs.field(default=0, init=False)

    def run(self) -> Iterator[Token]:
        markup = self.markup
        while (opening := markup.find("<", self.at)) >= 0:
            if opening > self.at:
                yield HtmlText(unescaped(markup[self.at : opening]))
            self.at = opening + 1
            following = markup[self.at : self.at + 1]
            if following.isascii() and following.isalpha():
                start = self._start()
                if start is None:
                    return
                yield start
                if start.name in _RAW:
                    yield from self._raw(start.name)
            elif following and following in "/!?":
                closed = self._closed(following)
                if closed is None:
                    return
                if closed:
                    yield End(closed)
            else:
                yield HtmlText("<")
        if self.at < len(markup):
            yield HtmlText(unescaped(markup[self.at :]))

    def _closed(self, kind: str) -> str | None:
        """Skip an end tag, comment or declaration; return the name of the ended element, None at the end of the page."""
        markup = self.markup
        is_comment = markup.startswith("!--", self.at)
        end = markup.find("-->" if is_comment else ">", self.at + 1)
        # No later search for this text would succeed either, so scanning ends here, in linear time.
        if end < 0:
            return None
        name = _NAME.match(markup, self.at + 1, end) if kind == "/" else None
        self.at = end + (3 if is_comment else 1)
        return name[0].lower() if name else ""

    def _start(self) -> Start | None:
        """Read a start tag; None if the page ends inside it."""
        markup = self.markup
        name = _NAME.match(markup, self.at)
        assert name is not None
        self.at = name.end()
        attributes: dict[str, str] = {}
        while True:
            self.at = _skip(_BLANKS, markup, self.at)
            match = _ATTRIBUTE.match(markup, self.at)
            if match is None:
                break
            self.at = match.end()
            equals = _EQUALS.match(markup, self.at)
            value = ""
            if equals is not None:
                self.at = equals.end()
                value = self._value()
            # The first of two attributes of the same name counts, as in browsers.
            attributes.setdefault(match[0].lower(), value)
        if not markup.startswith(">", self.at):
            return None
        self.at += 1
        return Start(name[0].lower(), attributes)

    def _value(self) -> str:
        markup = self.markup
        quote = markup[self.at : self.at + 1]
        # An unclosed quote occurs at most once per kind: after it, none of that kind is left to search for.
        end = markup.find(quote, self.at + 1) if quote in {'"', "'"} else -1
        if end >= 0:
            value = markup[self.at + 1 : end]
            self.at = end + 1
            return unescaped(value)
        begin = self.at
        self.at = _skip(_UNQUOTED, markup, begin)
        return unescaped(markup[begin : self.at])

    def _raw(self, name: str) -> Iterator[Token]:
        end = _RAW_END[name].search(self.markup, self.at)
        # An element that is never closed extends to the end of the page, as in browsers.
        stop = len(self.markup) if end is None else end.start()
        if name in _TEXTS:
            yield HtmlText(unescaped(self.markup[self.at : stop]))
        self.at = stop


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
