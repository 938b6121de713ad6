"""A strict parser of bash's grammar: it refuses everything that it does not support.

Its result is compared with that of tree-sitter's grammar (`treesitter_check`). It works as bash does, in one pass from
left to right: here-documents after the end of their line, reserved words only where a command may begin,
substitutions with the same grammar inside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import attrs

from engine.permission.shell.parser.compound import CompoundReader
from engine.permission.shell.parser.expansion import MAX_DEPTH
from engine.permission.shell.parser.nodes import AndOr, ArithmeticCommand, Command, Function, Pipeline, Script

_BASH_ONLY: Final = frozenset({"select", "function", "coproc", "time", "[["})


@attrs.define(eq=False)
class Parser(CompoundReader):
    """Parses commands."""

    def script(self) -> Script:
        """Parse the whole text."""
        body = self._list(frozenset())
        if self.at < len(self.source):
            raise self.unsupported("the script goes on where it should end")
        if self._pending_documents:
            raise self.unsupported("a here-document does not end")
        return body

    def read_until_closed(self) -> Script:
        """Parse commands up to the closing parenthesis, and consume it."""
        # A here-document inside of a substitution must end inside of it.
        pending, self._pending_documents = self._pending_documents, []
        start = self.at
        body = self._list(frozenset(")"))
        if self._pending_documents or (pending and "\n" in self.source[start : self.at]):
            raise self.unsupported("a here-document around a substitution")
        self._pending_documents = pending
        self._expect(")")
        return body

    def read_text(self, text: str) -> Script:
        """Parse another text as a script."""
        if self.depth >= MAX_DEPTH:
            raise self.unsupported("too deeply nested")
        if self._pending_documents and "\n" in text:
            raise self.unsupported("a here-document around a substitution")
        parser = Parser(text, is_posix=self.is_posix, depth=self.depth + 1)
        self.inner.append((text, parser))
        return parser.script()

    def _list(self, ends: frozenset[str]) -> Script:
        """Parse commands up to one of the ends, which is not consumed; at least one, unless it is the whole text."""
        items: Script = []
        source = self.source
        while True:
            self._newlines()
            if self._is_at_end(ends):
                return items
            items.append(self._and_or())
            self._blanks()
            sign = source[self.at : self.at + 1]
            if sign == "&" and not source.startswith("&&", self.at):
                self.move_to(self.at + 1)
                items[-1].background = True
                self._no_continuation()
            elif sign == ";" and not source.startswith((";;", ";&"), self.at):
                self.move_to(self.at + 1)
                self._no_continuation()
            elif sign not in ("", "\n", ")", ";"):
                raise self.unsupported(f"unexpected {sign!r}")

    def _is_at_end(self, ends: frozenset[str]) -> bool:
        """Return whether a list of commands ends here; refuse an end that is not one of these (empty: the whole text)."""
        sign = self.source[self.at : self.at + 1]
        if sign and sign != ")" and not self.source.startswith((";;", ";&"), self.at) and self._reserved() not in ends:
            return False
        is_expected = sign in ends or (not sign and not ends) or self._end() in ends
        if not is_expected:
            raise self.unsupported(f"unexpected {sign!r}" if sign else "the script ends too early")
        return True

    def _end(self) -> str:
        if self.source.startswith((";;", ";&"), self.at):
            return ";;"
        return self._reserved()

    def _and_or(self) -> AndOr:
        chain = AndOr([("", self._pipeline())], background=False)
        while True:
            self._blanks()
            operator = self.source[self.at : self.at + 2]
            if operator not in ("&&", "||"):
                return chain
            self.move_to(self.at + 2)
            self._no_continuation()
            self._newlines()
            chain.pipelines.append((operator, self._pipeline()))

    def _pipeline(self) -> Pipeline:
        pipeline = Pipeline([], negated=False)
        while (word := self._reserved()) in ("!", "time"):
            start = self.at
            self.move_to(start + len(word))
            pipeline.negated = pipeline.negated != (word == "!")
            self._blanks()
            if word == "time":
                self._time_option()
            self.masked.append((start, self.at))
        while True:
            pipeline.commands.append(self._command())
            self._blanks()
            if not self.source.startswith("|", self.at) or self.source.startswith("||", self.at):
                return pipeline
            self.move_to(self.at + 1)
            if self._skip_sign("&") and self.is_posix:
                raise self.unsupported("`|&`, which only bash supports")
            self._no_continuation()
            self._newlines()

    def _time_option(self) -> None:
        """Parse the option of `time`: only `-p` is supported."""
        if self.is_posix:
            raise self.unsupported("`time`, which only bash supports")
        if re.compile(r"-p(?=[ \t\n])").match(self.source, self.at):
            self.move_to(self.at + 2)
            self._blanks()
        if self.source.startswith("-", self.at):
            raise self.unsupported("an option of `time`")

    def _command(self) -> Command:
        source = self.source
        if source.startswith("((", self.at):
            if self.is_posix:
                raise self.unsupported("`((`, which only bash supports")
            self.move_to(self.at + 2)
            return self._with_redirects(ArithmeticCommand(self.arithmetic("))")))
        if self._skip_sign("("):
            self._no_continuation()
            return self._with_redirects(self._subshell())
        word = self._reserved()
        if not word or word in ("in", "]]"):
            return self._simple()
        reader = self._readers().get(word)
        if reader is None or (self.is_posix and word in _BASH_ONLY):
            raise self.unsupported(f"unexpected {word!r}")
        if self.depth >= MAX_DEPTH:
            raise self.unsupported("too deeply nested")
        self.move_to(self.at + len(word))
        self.enter()
        command = reader()
        self.leave()
        return command if isinstance(command, Function) else self._with_redirects(command)

    def _readers(self) -> dict[str, Callable[[], Command]]:
        return {
            "{": self._group,
            "if": self._if,
            "while": self._while,
            "until": self._until,
            "for": self._for,
            "select": self._select,
            "case": self._case,
            "[[": self._conditional,
            "function": self._function,
        }


def parse_script(source: str, *, is_posix: bool = False, depth: int = 0) -> tuple[Script, Parser]:
    """Parse a script; return its commands, and the parser with its positions. Raises `UnsupportedSyntax`."""
    parser = Parser(source, is_posix=is_posix, depth=depth)
    return parser.script(), parser
