"""A parser of bash's grammar, strict enough to be believed: what it does not know it refuses.

This is the first of two witnesses; the second is tree-sitter's grammar (`shell_tree`). It reads as bash does,
with one pass from the left to the right: here-documents at the ends of lines, reserved words only
where a command may begin, substitutions with the same grammar inside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import attrs

from engine.permission.shell_syntax import (
    AndOr,
    Arithmetic,
    ArithmeticCommand,
    ArithmeticFor,
    Assignment,
    Case,
    Command,
    Conditional,
    For,
    Function,
    Group,
    If,
    Part,
    Pipeline,
    Process,
    Redirect,
    Redirected,
    Script,
    Simple,
    Text,
    While,
    Word,
)
from engine.permission.shell_words import MAX_DEPTH, SUBSCRIPT, WordReader

# Two backslashes are one that is meant; the one before the end of a line joins it with the next.
_BACKSLASH: Final = re.compile(r"\\(\n|.)")
_BLANK: Final = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT: Final = re.compile(r"#[^\n]*")
_RESERVED: Final = re.compile(
    r"(?:if|then|elif|else|fi|while|until|for|do|done|case|esac|select|function|coproc|time|in|\{|\}|\[\[|\]\]|!)"
    r"(?=[ \t\n;&|()<>]|\Z)"
)
_REDIRECT: Final = re.compile(
    r"(\d+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<&|<>|<(?!\()|>>|>&|>\||>(?!\())|()(&>>|&>)", re.ASCII
)
_BAD_REDIRECT: Final = re.compile(r"\d+[<>]\(")
_ASSIGNMENT: Final = re.compile(rf"([A-Za-z_]\w*)(?:\[({SUBSCRIPT})\])?(\+?)=", re.ASCII)
_SUBSCRIPTED: Final = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)
_ELEMENT: Final = re.compile(rf"\[({SUBSCRIPT})\](\+?)=", re.ASCII)
_FUNCTION_NAME: Final = re.compile(r"[A-Za-z_][\w.:\-]*", re.ASCII)
_PARENTHESES: Final = re.compile(r"[ \t]*\([ \t]*\)")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CONDITION_SIGN: Final = re.compile(r"&&|\|\||[()<>]")
_REGEX_TEXT: Final = re.compile(r"[\w.+*?^|()\[\]:/@%,=~#!\-]+")
_BORDERS: Final = frozenset(" \t\n;&|()<>")
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
_BASH_ONLY: Final = frozenset({"select", "function", "coproc", "time", "[["})


@attrs.define(eq=False)
class _HereDocument:
    """A here-document whose text is yet to come."""

    redirect: Redirect
    end: str
    is_literal: bool
    strips_tabs: bool


@attrs.define(eq=False)
class Parser(WordReader):
    """Reads commands."""

    _waiting: list[_HereDocument] = attrs.field(factory=list[_HereDocument], init=False)

    def __attrs_post_init__(self) -> None:
        self.read_until_closed = self._until_closed
        self.read_text = self._other_text

    def script(self) -> Script:
        """Read the whole text."""
        body = self._list(frozenset())
        if self.at < len(self.source):
            raise self.refuse("the script does not end where it seems to")
        if self._waiting:
            raise self.refuse("a here-document does not end")
        return body

    def _until_closed(self) -> Script:
        waiting, self._waiting = self._waiting, []
        start = self.at
        body = self._list(frozenset(")"))
        if self._waiting or (waiting and "\n" in self.source[start : self.at]):
            raise self.refuse("a here-document around a substitution")
        self._waiting = waiting
        self._expect(")")
        return body

    def _other_text(self, text: str, start: int, is_posix: bool) -> Script:  # noqa: FBT001 - a callback's
        if self.depth >= MAX_DEPTH:
            raise self.refuse("too deeply nested")
        if self._waiting and "\n" in text:
            raise self.refuse("a here-document around a substitution")
        parser = Parser(text, is_posix=is_posix, depth=self.depth + 1)
        self.inner.append((text, parser))
        return parser.script()

    # ---- between the words -------------------------------------------------------------------------------------------

    def _blanks(self) -> None:
        """Skip blanks, and a comment."""
        found = _BLANK.match(self.source, self.at)
        if found is not None:
            self.at = found.end()
        if (self.source.startswith("#", self.at) and self.at and self.source[self.at - 1] in _BORDERS) or (
            self.source.startswith("#", self.at) and not self.at
        ):
            self._comment()

    def _comment(self) -> None:
        found = _COMMENT.match(self.source, self.at)
        self.at = found.end() if found is not None else self.at

    def _newlines(self) -> None:
        """Skip blanks, comments and ends of lines, and read the here-documents that begin there."""
        while True:
            self._blanks()
            if not self._takes("\n"):
                return
            for document in self._waiting:
                self._here_document(document)
            self._waiting = []

    def _here_document(self, document: _HereDocument) -> None:
        source = self.source
        lines: list[str] = []
        start = self.at
        while True:
            if self.at >= len(source):
                raise self.refuse("a here-document does not end")
            line = self._line(joins=not document.is_literal)
            if document.strips_tabs:
                line = line.lstrip("\t")
            if line.rstrip("\n") == document.end:
                break
            lines.append(line)
        text = "".join(lines)
        parts: tuple[Part, ...] = (Text(text, quoted=True),)
        if not document.is_literal:
            inner = Parser(text, is_posix=self.is_posix, depth=self.depth + 1)
            self.inner.append((text, inner))
            parts = inner.here_document()
        plain = "".join(part.text for part in parts if isinstance(part, Text))
        is_plain = all(isinstance(part, Text) for part in parts)
        document.redirect.target = Word(parts, start, self.at, plain if is_plain else None)
        self.masked.append((start, self.at))

    def _line(self, *, joins: bool) -> str:
        """Read a line of a here-document: where backslashes count, with those that it goes on in."""
        start = self.at
        while True:
            end = self.source.find("\n", self.at)
            end = len(self.source) if end < 0 else end
            body = self.source[self.at : end]
            self.at = min(end + 1, len(self.source))
            goes_on = joins and (len(body) - len(body.rstrip("\\"))) % 2 == 1
            if not goes_on or self.at >= len(self.source):
                break
        line = self.source[start : self.at]
        return _BACKSLASH.sub(lambda found: "" if found.group(1) == "\n" else found.group(), line) if joins else line

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self.refuse(f"{sign!r} is missing")

    def _reserved(self) -> str:
        """Return the reserved word that stands here, if one does."""
        found = _RESERVED.match(self.source, self.at)
        return found.group() if found is not None else ""

    def _keyword(self, word: str) -> None:
        """Read a reserved word."""
        self._newlines()
        if self._reserved() != word:
            raise self.refuse(f"{word!r} is missing")
        self.at += len(word)

    # ---- lists and pipelines -----------------------------------------------------------------------------------------

    def _list(self, ends: frozenset[str]) -> Script:
        """Read commands up to one of the ends, which is left; at least one, unless it is the whole text."""
        items: Script = []
        source = self.source
        while True:
            self._newlines()
            sign = source[self.at : self.at + 1]
            if not sign or sign == ")" or source.startswith((";;", ";&"), self.at) or self._reserved() in ends:
                if (sign or "") not in ends and not (not sign and not ends) and self._end() not in ends:
                    raise self.refuse("the script ends too early" if not sign else f"unexpected {sign!r}")
                return items
            items.append(self._and_or())
            self._blanks()
            sign = source[self.at : self.at + 1]
            if sign == "&" and not source.startswith("&&", self.at):
                self.at += 1
                items[-1].background = True
                self._no_continuation()
            elif sign == ";" and not source.startswith((";;", ";&"), self.at):
                self.at += 1
                self._no_continuation()
            elif sign not in ("", "\n", ")", ";"):
                raise self.refuse(f"unexpected {sign!r}")

    def _end(self) -> str:
        if self.source.startswith((";;", ";&"), self.at):
            return ";;"
        return self._reserved()

    def _no_continuation(self) -> None:
        """Refuse an operator that may go on in the next line."""
        if self.source.startswith("\\\n", self.at) and re.compile(r"(?:\\\n)+[&|;<>()\-]").match(self.source, self.at):
            raise self.refuse("an operator in two lines")

    def _body(self, *ends: str) -> Script:
        """Read commands up to one of the reserved words, which is left; at least one."""
        items = self._list(frozenset(ends))
        if not items:
            raise self.refuse(f"nothing stands before {ends[0]!r}")
        return items

    def _and_or(self) -> AndOr:
        found = AndOr([("", self._pipeline())], background=False)
        while True:
            self._blanks()
            operator = self.source[self.at : self.at + 2]
            if operator not in ("&&", "||"):
                return found
            self.at += 2
            self._no_continuation()
            self._newlines()
            found.pipelines.append((operator, self._pipeline()))

    def _pipeline(self) -> Pipeline:
        found = Pipeline([], negated=False)
        while (word := self._reserved()) in ("!", "time"):
            if word == "time" and self.is_posix:
                raise self.refuse("`time` in a shell that may not know it")
            self.at += len(word)
            found.negated = found.negated != (word == "!")
            start = self.at - len(word)
            self._blanks()
            if word == "time" and re.compile(r"-p(?=[ \t\n])").match(self.source, self.at):
                self.at += 2
                self._blanks()
            if word == "time" and self.source.startswith("-", self.at):
                raise self.refuse("an option of `time`")
            self.masked.append((start, self.at))
        while True:
            found.commands.append(self._command())
            self._blanks()
            if not self.source.startswith("|", self.at) or self.source.startswith("||", self.at):
                return found
            self.at += 1
            if self._takes("&") and self.is_posix:
                raise self.refuse("`|&` in a shell that may not know it")
            self._no_continuation()
            self._newlines()

    def _command(self) -> Command:
        source = self.source
        if source.startswith("((", self.at):
            if self.is_posix:
                raise self.refuse("`((` in a shell that may not know it")
            self.at += 2
            return self._with_redirects(ArithmeticCommand(self.arithmetic("))")))
        if self._takes("("):
            self._no_continuation()
            return self._with_redirects(self._subshell())
        word = self._reserved()
        if not word or word in ("in", "]]"):
            return self._simple()
        reader = self._readers().get(word)
        if reader is None or (self.is_posix and word in _BASH_ONLY):
            raise self.refuse(f"unexpected {word!r}")
        if self.depth >= MAX_DEPTH:
            raise self.refuse("too deeply nested")
        self.at += len(word)
        self.depth += 1
        command = reader()
        self.depth -= 1
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

    def _with_redirects(self, command: Command) -> Command:
        redirects: list[Redirect] = []
        while True:
            self._blanks()
            redirect = self._redirect()
            if redirect is None:
                break
            redirects.append(redirect)
        if self.source[self.at : self.at + 1] not in ("", "\n", ";", "&", "|", ")"):
            raise self.refuse("unexpected words after a command")
        return Redirected(command, redirects) if redirects else command

    # ---- compound commands -------------------------------------------------------------------------------------------

    def _subshell(self) -> Command:
        if self.depth >= MAX_DEPTH:
            raise self.refuse("too deeply nested")
        self.depth += 1
        body = self._body(")")
        self.depth -= 1
        self._expect(")")
        return Group(body, is_subshell=True)

    def _group(self) -> Command:
        body = self._body("}")
        self._keyword("}")
        return Group(body, is_subshell=False)

    def _if(self) -> Command:
        found = If([], [])
        word = "if"
        while word in ("if", "elif"):
            condition = self._body("then")
            self._keyword("then")
            found.branches.append((condition, self._body("elif", "else", "fi")))
            word = self._reserved()
            self.at += len(word)
        if word == "else":
            found.otherwise = self._body("fi")
            self._keyword("fi")
        return found

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
        if not self.source.startswith("((", self.at):
            return self._for_words(is_select=False)
        if self.is_posix:
            raise self.refuse("`for ((` in a shell that may not know it")
        self.at += 2
        expression = self.arithmetic("))")
        self._blanks()
        self._takes(";")
        self._newlines()
        return ArithmeticFor(expression, self._loop_body())

    def _select(self) -> Command:
        self._blanks()
        return self._for_words(is_select=True)

    def _loop_body(self) -> Script:
        if self._reserved() != "{":
            return self._do()
        if self.is_posix:
            raise self.refuse("a loop in braces in a shell that may not know it")
        self.at += 1
        body = self._body("}")
        self._keyword("}")
        return body

    def _for_words(self, *, is_select: bool) -> Command:
        name = self._name()
        words: list[Word] | None = None
        self._blanks()
        if self._takes(";"):
            self._newlines()
            return For(name, words, self._loop_body(), is_select)
        self._newlines()
        if self._reserved() == "in":
            self.at += 2
            words = []
            while True:
                self._blanks()
                if self.source[self.at : self.at + 1] in (";", "\n"):
                    break
                words.append(self._some_word())
            self.at += self.source.startswith(";", self.at)
            self._newlines()
        return For(name, words, self._loop_body(), is_select)

    def _name(self) -> str:
        found = _NAME.match(self.source, self.at)
        if found is None or self.source[found.end() : found.end() + 1] not in _BORDERS:
            raise self.refuse("a name is missing")
        self.at = found.end()
        return found.group()

    def _some_word(self) -> Word:
        start = self.at
        word = self.word()
        if self.at == start:
            raise self.refuse("a word is missing")
        return word

    def _case(self) -> Command:
        self._blanks()
        found = Case(self._some_word(), [])
        self._keyword("in")
        while True:
            self._newlines()
            if self._reserved() == "esac":
                self.at += 4
                return found
            self._takes("(")
            patterns: list[Word] = []
            while True:
                self._blanks()
                patterns.append(self._some_word())
                if patterns[-1].plain == "esac":
                    raise self.refuse("a pattern that may be the end")
                self._blanks()
                if not self._takes("|"):
                    break
            self._expect(")")
            body = self._list(frozenset({";;", "esac"}))
            found.branches.append((patterns, body))
            if self._reserved() == "esac":
                continue
            if self.source.startswith(";;&", self.at) or not self._takes(";;"):
                raise self.refuse("a branch of a case that falls through")

    def _function(self) -> Command:
        self._blanks()
        found = _FUNCTION_NAME.match(self.source, self.at)
        if found is None:
            raise self.refuse("a function's name is missing")
        self.at = found.end()
        parentheses = _PARENTHESES.match(self.source, self.at)
        if parentheses is not None:
            self.at = parentheses.end()
        elif self.source[self.at : self.at + 1] not in (" ", "\t", "\n"):
            raise self.refuse("a function's name that is not understood")
        return self._definition(found.group())

    def _definition(self, name: str) -> Function:
        self._newlines()
        if self._reserved() not in ("{", "if", "while", "until", "for", "case", "[[") and not self.source.startswith(
            "(", self.at
        ):
            raise self.refuse("a function's body is missing")
        return Function(name, self._command())

    def _conditional(self) -> Command:
        found = Conditional([])
        is_regex = False
        while True:
            self._newlines()
            if self._reserved() == "]]":
                self.at += 2
                return found
            sign = _CONDITION_SIGN.match(self.source, self.at)
            if sign is not None and not is_regex:
                self.at = sign.end()
                found.items.append(sign.group())
                continue
            word = self._regex() if is_regex else self._some_word()
            if is_regex and not word.parts:
                raise self.refuse("a pattern is missing")
            is_regex = self.source[word.start : word.end] == "=~" and not is_regex
            found.items.append(word)

    def _regex(self) -> Word:
        """Read the right side of `=~`: a word in which parentheses and bars mean themselves."""
        start = self.at
        parts: list[Text] = []
        while self.source[self.at : self.at + 1] not in ("", " ", "\t", "\n"):
            found = _REGEX_TEXT.match(self.source, self.at)
            if found is not None:
                parts.append(Text(found.group(), quoted=True))
                self.at = found.end()
                continue
            inner: list[object] = []
            self._piece(self.source[self.at], inner)  # type: ignore[arg-type]
            if self.source[start : self.at].endswith("`"):
                raise self.refuse("backticks in a pattern")
            parts.extend(inner)  # type: ignore[arg-type]
        text = "".join(part.text for part in parts if isinstance(part, Text))
        if text.count("(") != text.count(")"):
            raise self.refuse("a pattern that is not understood")
        return Word(tuple(parts), start, self.at)

    # ---- simple commands ---------------------------------------------------------------------------------------------

    def _simple(self) -> Command:
        found = Simple()
        begin = self.at
        source = self.source
        while True:
            self._blanks()
            redirect = self._redirect()
            if redirect is not None:
                found.redirects.append(redirect)
                continue
            sign = source[self.at : self.at + 1]
            if sign in ("", "\n", ";", "&", "|", ")"):
                break
            if sign == "(":
                return self._function_of(found)
            if self._assigns(found):
                continue
            word = self._some_word()
            if source[self.at - 1] == "}" and source[self.at : self.at + 1] in ("<", ">") and source[word.start] == "{":
                raise self.refuse("a redirection whose number goes to an element of an array")
            if not found.words:
                self._check_first(word)
                self.starts.append(word.start)
            found.words.append(word)
        if self.at == begin or not (found.words or found.assignments or found.redirects):
            raise self.refuse("a command is missing")
        return found

    def _check_first(self, word: Word) -> None:
        """Refuse what bash would take for a reserved word, but for how it is written."""
        written = self.source[word.start : word.end]
        if "\\\n" in written and ("=" in written or "[" in written):
            raise self.refuse("an assignment in two lines")
        if word.plain in _KEYWORDS and "\\\n" in written:
            raise self.refuse("a reserved word in two lines")
        if written in _KEYWORDS:
            raise self.refuse(f"unexpected {written!r}")

    def _assigns(self, command: Simple) -> bool:
        """Read an assignment, if one stands here and may."""
        declares = bool(command.words) and isinstance(first := command.words[0], Word) and first.plain in _DECLARING
        if command.words and not declares:
            return False
        found = _ASSIGNMENT.match(self.source, self.at)
        if found is None:
            if _SUBSCRIPTED.match(self.source, self.at):
                raise self.refuse("a subscript that is not understood")
            return False
        assignment = self._assignment(found)
        if declares and self.is_posix and not _is_whole(assignment.value):
            raise self.refuse("an assignment in a shell that may split its value")
        (command.words if declares else command.assignments).append(assignment)  # type: ignore[attr-defined]
        return True

    def _assignment(self, found: re.Match[str]) -> Assignment:
        start = self.at
        self.at = found.end()
        name, subscript, plus = found.groups()
        if self.is_posix and (subscript or plus or self.source.startswith("(", self.at)):
            raise self.refuse("an assignment in a shell that may not know it")
        if self._takes("("):
            return Assignment(name, subscript, bool(plus), Word((), start, start), self._elements(), start)
        return Assignment(name, subscript, bool(plus), self.word(), None, start)

    def _elements(self) -> tuple[Word | Assignment, ...]:
        elements: list[Word | Assignment] = []
        while True:
            self._newlines()
            if self._takes(")"):
                return tuple(elements)
            found = _ELEMENT.match(self.source, self.at)
            if found is not None:
                start, self.at = self.at, found.end()
                elements.append(Assignment("", found.group(1), bool(found.group(2)), self.word(), None, start))
            elif self.source.startswith("[", self.at):
                raise self.refuse("a subscript that is not understood")
            else:
                elements.append(self._some_word())

    def _function_of(self, command: Simple) -> Command:
        """Read the parentheses and the body of a function whose name was taken for a command's."""
        parentheses = _PARENTHESES.match(self.source, self.at)
        word = command.words[0] if len(command.words) == 1 and not command.assignments + command.redirects else None  # type: ignore[operator]
        if parentheses is None or not isinstance(word, Word):
            raise self.refuse("unexpected '('")
        name = self.source[word.start : word.end]
        if not _FUNCTION_NAME.fullmatch(name):
            raise self.refuse("a function's name that is not understood")
        self.starts.pop()
        self.at = parentheses.end()
        return self._definition(name)

    def _redirect(self) -> Redirect | None:
        """Read a redirection, if one stands here."""
        if _BAD_REDIRECT.match(self.source, self.at):
            raise self.refuse("a redirection that is not understood")
        found = _REDIRECT.match(self.source, self.at)
        if found is None:
            return None
        fd, operator, _, both = found.groups()
        if self.is_posix and (both or operator == "<<<" or (fd or "").startswith("{")):
            raise self.refuse("a redirection in a shell that may not know it")
        self.at = found.end()
        self._no_continuation()
        blank = _BLANK.match(self.source, self.at)
        self.at = blank.end() if blank is not None else self.at
        redirect = Redirect(operator or both, fd or "", self._some_word())
        if operator == "<>":
            self.masked.append((found.start(2), found.start(2) + 1))
        if operator in ("<<", "<<-"):
            self.masked.append((found.start(), self.at))
        if operator in ("<<", "<<-"):
            self._announce(redirect, strips_tabs=operator == "<<-")
        return redirect

    def _announce(self, redirect: Redirect, *, strips_tabs: bool) -> None:
        word = redirect.target
        if not all(isinstance(part, Text) for part in word.parts) or "\\\n" in self.source[word.start : word.end]:
            raise self.refuse("the end of a here-document that is not understood")
        end = "".join(part.text for part in word.parts if isinstance(part, Text))
        if "\n" in end or not end or "$" in self.source[word.start : word.end]:
            raise self.refuse("the end of a here-document that is not understood")
        is_literal = any(isinstance(part, Text) and part.quoted for part in word.parts)
        redirect.operator = "<<"
        self._waiting.append(_HereDocument(redirect, end, is_literal, strips_tabs))


def _is_whole(word: Word) -> bool:
    """Tell whether a word stays one, whatever its expansions give."""
    return all(isinstance(part, Text | Process | Arithmetic) or part.quoted for part in word.parts)


def parsed(source: str, *, is_posix: bool = False, depth: int = 0) -> tuple[Script, Parser]:
    """Return the commands of a script, and the parser with what it noted; raise NotUnderstood for what is refused."""
    parser = Parser(source, is_posix=is_posix, depth=depth)
    return parser.script(), parser
