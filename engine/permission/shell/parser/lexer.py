"""Parsing what is between the words of a shell script: blanks, newlines, comments, redirections, here-documents."""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine.permission.shell.parser.nodes import LiteralText, Part, Redirect, Word
from engine.permission.shell.parser.words import WordReader

# A double backslash is a literal one; a backslash before a newline joins two lines.
_BACKSLASH: Final = re.compile(r"\\(\n|.)")
_BLANK: Final = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT: Final = re.compile(r"#[^\n]*")
# Reserved words, only if a separator follows.
_RESERVED: Final = re.compile(
    r"(?:if|then|elif|else|fi|while|until|for|do|done|case|esac|select|function|coproc|time|in|\{|\}|\[\[|\]\]|!)"
    r"(?=[ \t\n;&|()<>]|\Z)"
)
_REDIRECT: Final = re.compile(
    r"(\d+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<&|<>|<(?!\()|>>|>&|>\||>(?!\())|()(&>>|&>)", re.ASCII
)
# `>&-x`: a word right after a closed descriptor, which is easily misread.
_CLOSED_AND_MORE: Final = re.compile(r"(?:[ \t]|\\\n)*-[^ \t\n;&|()<>]")
_BAD_REDIRECT: Final = re.compile(r"\d+[<>]\(")
_BORDERS: Final = frozenset(" \t\n;&|()<>")


@attrs.define(eq=False)
class _HereDocument:
    """A here-document whose text follows after the current line."""

    redirect: Redirect
    end: str
    is_literal: bool
    strips_tabs: bool


@attrs.define(eq=False)
class LineReader(WordReader):
    """Parses what is between words."""

    _pending_documents: list[_HereDocument] = attrs.field(factory=list[_HereDocument], init=False)

    def _blanks(self) -> None:
        """Skip blanks, and a comment."""
        match = _BLANK.match(self.source, self.at)
        if match is not None:
            self.move_to(match.end())
        # A "#" begins a comment only at the beginning of a word.
        if (self.source.startswith("#", self.at) and self.at and self.source[self.at - 1] in _BORDERS) or (
            self.source.startswith("#", self.at) and not self.at
        ):
            self._comment()

    def _comment(self) -> None:
        match = _COMMENT.match(self.source, self.at)
        self.move_to(match.end() if match is not None else self.at)

    def _newlines(self) -> None:
        """Skip blanks, comments and newlines, and parse the here-documents that begin there."""
        while True:
            self._blanks()
            if not self._skip_sign("\n"):
                return
            # Here-documents begin after the line, in the order of their redirections.
            for document in self._pending_documents:
                self._here_document(document)
            self._pending_documents = []

    def _expect(self, sign: str) -> None:
        if not self._skip_sign(sign):
            raise self.unsupported(f"{sign!r} is missing")

    def _reserved(self) -> str:
        """Return the reserved word at the current position, or an empty text."""
        match = _RESERVED.match(self.source, self.at)
        return match.group() if match is not None else ""

    def _keyword(self, word: str) -> None:
        """Consume a reserved word."""
        self._newlines()
        if self._reserved() != word:
            raise self.unsupported(f"{word!r} is missing")
        self.move_to(self.at + len(word))

    def _no_continuation(self) -> None:
        """Refuse an operator that may continue on the next line."""
        if self.source.startswith("\\\n", self.at) and re.compile(r"(?:\\\n)+[&|;<>()\-]").match(self.source, self.at):
            raise self.unsupported("an operator split over two lines")

    def _required_word(self) -> Word:
        start = self.at
        word = self.word()
        if self.at == start:
            raise self.unsupported("a word is missing")
        return word

    # ---- redirections and here-documents -----------------------------------------------------------------------------

    def _redirect(self) -> Redirect | None:
        """Parse a redirection, if there is one."""
        if _BAD_REDIRECT.match(self.source, self.at):
            raise self.unsupported("an unsupported redirection")
        match = _REDIRECT.match(self.source, self.at)
        if match is None:
            return None
        self._refuse_bash_redirect(match)
        self.move_to(match.end())
        fd, operator, _, both = match.groups()
        if operator in (">&", "<&") and _CLOSED_AND_MORE.match(self.source, self.at):
            raise self.unsupported("a word right after a closed file descriptor")
        self._no_continuation()
        blank = _BLANK.match(self.source, self.at)
        self.move_to(blank.end() if blank is not None else self.at)
        redirect = Redirect(operator or both, fd or "", self._required_word())
        # The grammar of tree-sitter does not know `<>`.
        if operator == "<>":
            self.masked.append((match.start(2), match.start(2) + 1))
        elif operator in ("<<", "<<-"):
            self.masked.append((match.start(), self.at))
            self._start_here_document(redirect, strips_tabs=operator == "<<-")
        return redirect

    def _refuse_bash_redirect(self, match: re.Match[str]) -> None:
        """Refuse a redirection of bash in a script for another shell."""
        if not self.is_posix:
            return
        fd, operator, _, both = match.groups(default="")
        if both or operator == "<<<" or fd.startswith("{"):
            raise self.unsupported("a redirection that only bash supports")
        if len(fd) > 1:
            raise self.unsupported("a file descriptor of two digits, which other shells take for a word")

    def _start_here_document(self, redirect: Redirect, *, strips_tabs: bool) -> None:
        word = redirect.target
        if (
            not all(isinstance(part, LiteralText) for part in word.parts)
            or "\\\n" in self.source[word.start : word.end]
        ):
            raise self.unsupported("an unsupported end mark of a here-document")
        end = "".join(part.text for part in word.parts if isinstance(part, LiteralText))
        # The mark would be the text itself, dollar signs included: too rare to support.
        if "\n" in end or not end or "$" in self.source[word.start : word.end]:
            raise self.unsupported("an unsupported end mark of a here-document")
        is_literal = any(isinstance(part, LiteralText) and part.quoted for part in word.parts)
        redirect.operator = "<<"
        self._pending_documents.append(_HereDocument(redirect, end, is_literal, strips_tabs))

    def _here_document(self, document: _HereDocument) -> None:
        source = self.source
        lines: list[str] = []
        start = self.at
        while True:
            if self.at >= len(source):
                raise self.unsupported("a here-document does not end")
            line = self._line(joins=not document.is_literal)
            if document.strips_tabs:
                line = line.lstrip("\t")
            if line.rstrip("\n") == document.end:
                break
            lines.append(line)
        text = "".join(lines)
        parts: tuple[Part, ...] = (LiteralText(text, quoted=True),)
        if not document.is_literal:
            inner = type(self)(text, is_posix=self.is_posix, depth=self.depth + 1)
            self.inner.append((text, inner))
            parts = inner.here_document()
        plain = "".join(part.text for part in parts if isinstance(part, LiteralText))
        is_plain = all(isinstance(part, LiteralText) for part in parts)
        document.redirect.target = Word(parts, start, self.at, plain if is_plain else None)
        self.masked.append((start, self.at))

    def _line(self, *, joins: bool) -> str:
        """Parse a line of a here-document, and with *joins* the lines that it continues on."""
        start = self.at
        while True:
            end = self.source.find("\n", self.at)
            end = len(self.source) if end < 0 else end
            body = self.source[self.at : end]
            self.move_to(min(end + 1, len(self.source)))
            goes_on = joins and (len(body) - len(body.rstrip("\\"))) % 2 == 1
            if not goes_on or self.at >= len(self.source):
                break
        line = self.source[start : self.at]
        return _BACKSLASH.sub(lambda match: "" if match.group(1) == "\n" else match.group(), line) if joins else line
