"""Parsing the words of a shell script: quotes, expansions, substitutions."""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine.permission.shell.parser.expansion import DollarReader
from engine.permission.shell.parser.nodes import LiteralText, Part, Process, Word

_PLAIN: Final = re.compile(r"[\w./:=@%+,^\-]+")
# The fast path: most words have neither quotes nor expansions.
_PLAIN_WORD: Final = re.compile(r"[\w./:@%+,^\-=]+(?=[\s;&|)]|\Z)")
_SPECIAL: Final = "*?[]{}~!#"
_MAGIC: Final = frozenset("*?{}~")
_DOUBLE_TEXT: Final = re.compile(r'[^"\\$`]+')
_HERE_TEXT: Final = re.compile(r"[^\\$`]+")


@attrs.define(eq=False)
class WordReader(DollarReader):
    """Parses words."""

    def word(self) -> Word:
        """Parse a word; it is empty where there is none."""
        source, start = self.source, self.at
        match = _PLAIN_WORD.match(source, start)
        if match is not None:
            self.move_to(match.end())
            text = match.group()
            return Word((LiteralText(text, quoted=False),), start, self.at, text)
        parts: list[Part] = []
        while self.at < len(source):
            sign = source[self.at]
            if sign in " \t\n;&|()" or (sign in "<>" and source[self.at + 1 : self.at + 2] != "("):
                break
            self._word_piece(sign, parts)
        word = _word(parts, start, self.at)
        self._check_word(word)
        if word.has_braces or source.startswith("$'", start):
            self.filled.append((start, self.at))
        return word

    def _check_word(self, word: Word) -> None:
        """Refuse a word that ends in an unsupported way, or that another shell may read otherwise."""
        written = self.source[word.start : word.end]
        if written.endswith("\\\n") and self.source[self.at : self.at + 1] in ("<", ">", "(", "&"):
            raise self.unsupported("a word that ends on the line before")
        # dash does not expand braces: `rm {a,b}` removes a file called "{a,b}".
        if self.is_posix and "{" in written and ("," in written or ".." in written):
            raise self.unsupported("a brace expansion, which only bash supports")

    def _word_piece(self, sign: str, parts: list[Part]) -> None:
        """Parse one part of a word."""
        source = self.source
        match = _PLAIN.match(source, self.at)
        if match is not None:
            parts.append(LiteralText(match.group(), quoted=False))
            self.move_to(match.end())
        elif sign == "'":
            parts.append(LiteralText(self._quoted_text("'"), quoted=True))
        elif sign == '"':
            self.move_to(self.at + 1)
            parts.extend(self.double_quoted())
        elif sign == "\\":
            self._escaped(parts)
        elif sign == "$":
            self.dollar(parts, quoted=False)
        elif sign == "`":
            parts.append(self._backticks(quoted=False))
        elif sign in "<>":
            if self.is_posix:
                raise self.unsupported("a process substitution, which only bash supports")
            self.move_to(self.at + 2)
            parts.append(Process(self._nested()))
        else:
            # The other signs are literal, or belong to a pattern.
            # Other characters are letters of file names, in any script.
            if sign not in _SPECIAL and sign.isascii():
                raise self.unsupported(f"unexpected {sign!r}")
            parts.append(LiteralText(sign, quoted=False))
            self.move_to(self.at + 1)

    def _escaped(self, parts: list[Part]) -> None:
        """Parse a backslash outside of quotes, and the character behind it."""
        source = self.source
        following = source[self.at + 1 : self.at + 2]
        if not following:
            raise self.unsupported("the script ends with a backslash")
        if following == "\n" and parts and source[self.at + 2 : self.at + 3] not in ("", " ", "\t", "\n"):
            # It may be the name of an assignment, or the number of a redirection.
            raise self.unsupported("a word split over two lines")
        if following != "\n":
            parts.append(LiteralText(following, quoted=True))
        self.move_to(self.at + 2)

    # ---- quotes ------------------------------------------------------------------------------------------------------

    def double_quoted(self) -> list[Part]:
        """Parse a text in double quotes from behind the opening quote, and consume the closing one."""
        source = self.source
        parts: list[Part] = []
        while True:
            match = _DOUBLE_TEXT.match(source, self.at)
            if match is not None:
                parts.append(LiteralText(match.group(), quoted=True))
                self.move_to(match.end())
            sign = source[self.at : self.at + 1]
            if not sign:
                raise self.unsupported("a double quote is not closed")
            if sign == '"':
                self.move_to(self.at + 1)
                return parts or [LiteralText("", quoted=True)]
            self._in_double(sign, parts, '$`"\\')

    def _in_double(self, sign: str, parts: list[Part], escapable: str) -> None:
        """Parse a backslash, a dollar or backticks in double quotes or in a here-document."""
        if sign == "\\":
            following = self.source[self.at + 1 : self.at + 2]
            if following == "\n":
                pass
            elif following and following in escapable:
                parts.append(LiteralText(following, quoted=True))
            # Before any other character the backslash stays.
            else:
                parts.append(LiteralText("\\" + following, quoted=True))
            self.move_to(self.at + 2)
        elif sign == "$":
            self.dollar(parts, quoted=True)
        else:
            parts.append(self._backticks(quoted=True))

    def here_document(self) -> tuple[Part, ...]:
        """Parse the text of a here-document whose end mark is not quoted."""
        parts: list[Part] = []
        while self.at < len(self.source):
            start = self.at
            match = _HERE_TEXT.match(self.source, self.at)
            if match is not None:
                parts.append(LiteralText(match.group(), quoted=True))
                self.move_to(match.end())
            else:
                self._in_double(self.source[self.at], parts, "$`\\")
            if not parts or isinstance(parts[-1], LiteralText):
                self.masked.append((start, self.at))
            else:
                self.starts.append(start)
        return tuple(parts)


def _word(parts: list[Part], start: int, end: int) -> Word:
    signs = {part.text for part in parts if isinstance(part, LiteralText) and not part.quoted and len(part.text) == 1}
    plain: str | None = None
    # An unclosed bracket is literal.
    if not signs & _MAGIC and not {"[", "]"} <= signs and all(isinstance(part, LiteralText) for part in parts):
        plain = "".join(part.text for part in parts if isinstance(part, LiteralText))
    return Word(tuple(parts), start, end, plain, "{" in signs)
