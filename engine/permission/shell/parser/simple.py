"""Parsing simple commands: assignments, words, redirections."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Final

import attrs

from engine.permission.shell.parser.expansion import SUBSCRIPT
from engine.permission.shell.parser.lexer import LineReader
from engine.permission.shell.parser.nodes import (
    Arithmetic,
    Assignment,
    Command,
    Function,
    LiteralText,
    Process,
    Simple,
    Word,
)

_ASSIGNMENT: Final = re.compile(rf"([A-Za-z_]\w*)(?:\[({SUBSCRIPT})\])?(\+?)=", re.ASCII)
_SUBSCRIPTED: Final = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)
_ELEMENT: Final = re.compile(rf"\[({SUBSCRIPT})\](\+?)=", re.ASCII)
# The names that all shells accept; bash itself allows nearly anything.
FUNCTION_NAME: Final = re.compile(r"[A-Za-z_][\w.:\-]*", re.ASCII)
PARENTHESES: Final = re.compile(r"[ \t]*\([ \t]*\)")
_DECLARING: Final = frozenset({"declare", "typeset", "local", "export", "readonly"})
_KEYWORDS: Final = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "while",
        "until",
        "for",
        "do",
        "done",
        "case",
        "esac",
        "select",
        "function",
        "coproc",
        "time",
        "{",
        "}",
        "[[",
        "!",
    ]
)


@attrs.define(eq=False)
class SimpleReader(LineReader):
    """Parses simple commands."""

    @abstractmethod
    def _definition(self, name: str) -> Function:
        """Parse the body of a function."""

    def _simple(self) -> Command:
        command = Simple()
        begin = self.at
        source = self.source
        while True:
            self._blanks()
            redirect = self._redirect()
            if redirect is not None:
                command.redirects.append(redirect)
                continue
            sign = source[self.at : self.at + 1]
            # The order of words and redirections is free.
            if sign in ("", "\n", ";", "&", "|", ")"):
                break
            if sign == "(":
                return self._function_of(command)
            if self._assigns(command):
                continue
            word = self._required_word()
            self._refuse_array_redirect(word)
            if not command.words:
                self._check_first(word)
                self.starts.append(word.start)
            command.words.append(word)
        if self.at == begin or not (command.words or command.assignments or command.redirects):
            raise self.unsupported("a command is missing")
        return command

    def _refuse_array_redirect(self, word: Word) -> None:
        """Refuse `{name[subscript]}>file`."""
        ends = self.source[self.at - 1 : self.at + 1]
        if ends in ("}<", "}>") and self.source[word.start] == "{":
            raise self.unsupported("a redirection that stores its number in an array element")

    def _check_first(self, word: Word) -> None:
        """Refuse a first word that is a reserved word, or an assignment, split over two lines."""
        written = self.source[word.start : word.end]
        if "\\\n" in written and ("=" in written or "[" in written):
            raise self.unsupported("an assignment split over two lines")
        if word.plain in _KEYWORDS and "\\\n" in written:
            raise self.unsupported("a reserved word split over two lines")
        if written in _KEYWORDS:
            raise self.unsupported(f"unexpected {written!r}")

    def _assigns(self, command: Simple) -> bool:
        """Parse an assignment, if there is one and one is allowed here."""
        declares = bool(command.words) and isinstance(first := command.words[0], Word) and first.plain in _DECLARING
        # After the command's name, `a=b` is an argument, except for these builtins.
        if command.words and not declares:
            return False
        match = _ASSIGNMENT.match(self.source, self.at)
        if match is None:
            if _SUBSCRIPTED.match(self.source, self.at):
                raise self.unsupported("an unsupported subscript")
            return False
        assignment = self._assignment(match)
        # `export x=$y` splits $y in dash, and does not in bash.
        if declares and self.is_posix and not _is_whole(assignment.value):
            raise self.unsupported("an assignment whose value other shells may split")
        if declares:
            command.words.append(assignment)
        else:
            command.assignments.append(assignment)
        return True

    def _assignment(self, match: re.Match[str]) -> Assignment:
        start = self.at
        self.move_to(match.end())
        name, subscript, plus = match.groups()
        if self.is_posix and (subscript or plus or self.source.startswith("(", self.at)):
            raise self.unsupported("an assignment that only bash supports")
        if self._skip_sign("("):
            return Assignment(name, subscript, bool(plus), Word((), start, start), self._elements(), start)
        return Assignment(name, subscript, bool(plus), self.word(), None, start)

    def _elements(self) -> tuple[Word | Assignment, ...]:
        elements: list[Word | Assignment] = []
        while True:
            self._newlines()
            if self._skip_sign(")"):
                return tuple(elements)
            match = _ELEMENT.match(self.source, self.at)
            if match is not None:
                start = self.at
                self.move_to(match.end())
                elements.append(Assignment("", match.group(1), bool(match.group(2)), self.word(), None, start))
            elif self.source.startswith("[", self.at):
                raise self.unsupported("an unsupported subscript")
            else:
                elements.append(self._required_word())

    def _function_of(self, command: Simple) -> Command:
        """Parse the parentheses and the body of a function whose name was parsed as a command."""
        parentheses = PARENTHESES.match(self.source, self.at)
        is_name = len(command.words) == 1 and not command.assignments and not command.redirects
        word = command.words[0] if is_name else None
        if parentheses is None or not isinstance(word, Word):
            raise self.unsupported("unexpected '('")
        name = self.source[word.start : word.end]
        if not FUNCTION_NAME.fullmatch(name):
            raise self.unsupported("an unsupported function name")
        self.starts.pop()
        self.move_to(parentheses.end())
        return self._definition(name)


def _is_whole(word: Word) -> bool:
    """Return whether a word certainly expands to one word."""
    return all(isinstance(part, LiteralText | Process | Arithmetic) or part.quoted for part in word.parts)
