"""Parsing compound commands: groups, branches, loops, conditions, functions."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Final

import attrs

from engine.permission.shell.parser.expansion import MAX_DEPTH
from engine.permission.shell.parser.nodes import (
    ArithmeticFor,
    Case,
    Command,
    Conditional,
    For,
    Function,
    Group,
    If,
    LiteralText,
    Part,
    Redirect,
    Redirected,
    Script,
    While,
    Word,
)
from engine.permission.shell.parser.simple import FUNCTION_NAME, PARENTHESES, SimpleReader

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CONDITION_SIGN: Final = re.compile(r"&&|\|\||[()<>]")
_REGEX_TEXT: Final = re.compile(r"[\w.+*?^|()\[\]:/@%,=~#!\-]+")
_BORDERS: Final = frozenset(" \t\n;&|()<>")


@attrs.define(eq=False)
class CompoundReader(SimpleReader):
    """Parses compound commands."""

    @abstractmethod
    def _list(self, ends: frozenset[str]) -> Script:
        """Parse commands up to one of the ends, which is not consumed."""

    @abstractmethod
    def _command(self) -> Command:
        """Parse a command."""

    def _body(self, *ends: str) -> Script:
        """Parse at least one command, up to one of the reserved words, which is not consumed."""
        items = self._list(frozenset(ends))
        if not items:
            raise self.unsupported(f"nothing comes before {ends[0]!r}")
        return items

    def _with_redirects(self, command: Command) -> Command:
        redirects: list[Redirect] = []
        while True:
            self._blanks()
            redirect = self._redirect()
            if redirect is None:
                break
            redirects.append(redirect)
        # `{ a; } b` is an error.
        if self.source[self.at : self.at + 1] not in ("", "\n", ";", "&", "|", ")"):
            raise self.unsupported("unexpected words after a command")
        return Redirected(command, redirects) if redirects else command

    def _subshell(self) -> Command:
        if self.depth >= MAX_DEPTH:
            raise self.unsupported("too deeply nested")
        self.enter()
        body = self._body(")")
        self.leave()
        self._expect(")")
        return Group(body, is_subshell=True)

    def _group(self) -> Command:
        body = self._body("}")
        self._keyword("}")
        return Group(body, is_subshell=False)

    def _if(self) -> Command:
        command = If([], [])
        word = "if"
        while word in ("if", "elif"):
            condition = self._body("then")
            self._keyword("then")
            command.branches.append((condition, self._body("elif", "else", "fi")))
            word = self._reserved()
            self.move_to(self.at + len(word))
        if word == "else":
            command.otherwise = self._body("fi")
            self._keyword("fi")
        return command

    def _case(self) -> Command:
        self._blanks()
        command = Case(self._required_word(), [])
        self._keyword("in")
        while True:
            self._newlines()
            if self._reserved() == "esac":
                self.move_to(self.at + 4)
                return command
            self._skip_sign("(")
            patterns: list[Word] = []
            while True:
                self._blanks()
                patterns.append(self._required_word())
                # It may end the `case` instead.
                if patterns[-1].plain == "esac":
                    raise self.unsupported("a pattern that may be the end of the case")
                self._blanks()
                if not self._skip_sign("|"):
                    break
            self._expect(")")
            body = self._list(frozenset({";;", "esac"}))
            command.branches.append((patterns, body))
            if self._reserved() == "esac":
                continue
            # `;&` and `;;&` continue with the next branch, which the interpreter does not simulate.
            if self.source.startswith(";;&", self.at) or not self._skip_sign(";;"):
                raise self.unsupported("a case branch that falls through")

    # ---- loops -------------------------------------------------------------------------------------------------------

    def _while(self) -> Command:
        condition = self._body("do")
        return While(condition, self._do(), until=False)

    def _until(self) -> Command:
        condition = self._body("do")
        return While(condition, self._do(), until=True)

    def _do(self) -> Script:
        self._keyword("do")
        body = self._body("done")
        self._keyword("done")
        return body

    def _for(self) -> Command:
        self._blanks()
        # `for ((` is arithmetic.
        if not self.source.startswith("((", self.at):
            return self._for_words(is_select=False)
        if self.is_posix:
            raise self.unsupported("`for ((`, which only bash supports")
        self.move_to(self.at + 2)
        expression = self.arithmetic("))")
        self._blanks()
        self._skip_sign(";")
        self._newlines()
        return ArithmeticFor(expression, self._loop_body())

    def _select(self) -> Command:
        self._blanks()
        return self._for_words(is_select=True)

    def _loop_body(self) -> Script:
        if self._reserved() != "{":
            return self._do()
        if self.is_posix:
            raise self.unsupported("a loop in braces, which only bash supports")
        self.move_to(self.at + 1)
        body = self._body("}")
        self._keyword("}")
        return body

    def _for_words(self, *, is_select: bool) -> Command:
        name = self._name()
        words: list[Word] | None = None
        self._blanks()
        if self._skip_sign(";"):
            self._newlines()
            return For(name, words, self._loop_body(), is_select)
        self._newlines()
        if self._reserved() == "in":
            self.move_to(self.at + 2)
            words = []
            while True:
                self._blanks()
                if self.source[self.at : self.at + 1] in (";", "\n"):
                    break
                words.append(self._required_word())
            self.move_to(self.at + self.source.startswith(";", self.at))
            self._newlines()
        return For(name, words, self._loop_body(), is_select)

    def _name(self) -> str:
        match = _NAME.match(self.source, self.at)
        if match is None or self.source[match.end() : match.end() + 1] not in _BORDERS:
            raise self.unsupported("a name is missing")
        self.move_to(match.end())
        return match.group()

    # ---- functions and conditions ------------------------------------------------------------------------------------

    def _function(self) -> Command:
        self._blanks()
        match = FUNCTION_NAME.match(self.source, self.at)
        if match is None:
            raise self.unsupported("a function name is missing")
        self.move_to(match.end())
        parentheses = PARENTHESES.match(self.source, self.at)
        if parentheses is not None:
            self.move_to(parentheses.end())
        elif self.source[self.at : self.at + 1] not in (" ", "\t", "\n"):
            raise self.unsupported("an unsupported function name")
        return self._definition(match.group())

    def _definition(self, name: str) -> Function:
        self._newlines()
        if self._reserved() not in ("{", "if", "while", "until", "for", "case", "[[") and not self.source.startswith(
            "(", self.at
        ):
            raise self.unsupported("a function body is missing")
        return Function(name, self._command())

    def _conditional(self) -> Command:
        command = Conditional([])
        is_regex = False
        while True:
            self._newlines()
            if self._reserved() == "]]":
                self.move_to(self.at + 2)
                return command
            sign = _CONDITION_SIGN.match(self.source, self.at)
            if sign is not None and not is_regex:
                self.move_to(sign.end())
                command.items.append(sign.group())
                continue
            word = self._regex() if is_regex else self._required_word()
            if is_regex and not word.parts:
                raise self.unsupported("a pattern is missing")
            is_regex = self.source[word.start : word.end] == "=~" and not is_regex
            command.items.append(word)

    def _regex(self) -> Word:
        """Parse the right side of `=~`: a word in which parentheses and bars are literal."""
        start = self.at
        parts: list[Part] = []
        while (sign := self.source[self.at : self.at + 1]) not in ("", " ", "\t", "\n"):
            match = _REGEX_TEXT.match(self.source, self.at)
            if match is not None:
                parts.append(LiteralText(match.group(), quoted=True))
                self.move_to(match.end())
            elif sign in "<>`":
                raise self.unsupported("an unsupported pattern")
            else:
                self._word_piece(sign, parts)
        text = "".join(part.text for part in parts if isinstance(part, LiteralText))
        # With an unbalanced bracket, bash may read on where this parser stops.
        if text.count("(") != text.count(")"):
            raise self.unsupported("an unsupported pattern")
        return Word(tuple(parts), start, self.at)
