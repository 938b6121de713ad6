"""Expanding words as bash does, as far as the result is certain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import FILE_NAME, Stdin
from engine.permission.shell.brace_expansion import expand_braces
from engine.permission.shell.parameter_expansion import ParameterExpander
from engine.permission.shell.parser.nodes import (
    Arithmetic,
    LiteralText,
    Parameter,
    Part,
    Process,
    Substitution,
    Word,
)
from engine.permission.shell.shell_state import (
    PIPE,
    Field,
    Listed,
    PatternMatch,
    ShellState,
    Value,
    ValueKind,
    escape_pattern,
)

# The folder of open files, with process substitutions among them.
OPEN_FILES: Final = "/dev/fd/"
_ASSIGNMENT_LIKE: Final = re.compile(r"([A-Za-z_]\w*\+?=)(.*)", re.DOTALL | re.ASCII)
_BLANKS: Final = re.compile(r"[ \t\n]+")
_MAGIC_SIGNS: Final = re.compile(r"[*?\[(\\]")
# Longer results count as unknown.
_MAX_TEXT: Final = 100_000


@attrs.define
class _FieldBuilder:
    """A field while its parts are added."""

    text: str = ""
    prefix: str = ""
    pattern: str = ""
    is_exact: bool = True
    is_fixed: bool = True
    is_pattern: bool = False
    is_many: bool = False
    exists: bool = False
    listed: Listed | None = None

    def add_literal(self, text: str) -> None:
        self._end_name()
        self.exists = True
        self.text += text
        self.pattern += escape_pattern(text)
        if self.is_exact and not self.is_pattern:
            self.prefix += text

    def add_pattern(self, pattern: str, text: str, *, is_many: bool) -> None:
        self._end_name()
        self.exists = True
        self.text += text
        self.pattern += pattern
        self.is_pattern = True
        self.is_many = self.is_many or is_many

    # `is_many`: an unquoted unknown value may become any number of words, or none.
    def add_unknown(self, *, is_many: bool) -> None:
        self._end_name()
        self.exists = self.exists or not is_many
        self.is_exact = False
        self.is_many = self.is_many or is_many

    def add_listed(self, listed: Listed, *, is_many: bool) -> None:
        """Add a name that a program has listed, or all of them."""
        is_whole = self.is_exact and not self.text and not self.is_pattern
        self.add_unknown(is_many=is_many)
        self.listed = listed if is_whole else None

    def _end_name(self) -> None:
        # What follows a name changes it, but does not make it an option.
        if self.listed is not None:
            self.listed, self.prefix = None, "./"

    def build(self) -> Field:
        if self.listed is not None:
            # Several names in one word are no file.
            listing = self.listed.listing if self.is_many or self.listed.is_one else None
            return Field(None, FILE_NAME, None, self.is_many, listing)
        if not self.is_exact:
            return Field(None, self.prefix, None, self.is_many)
        if self.is_pattern:
            return Field(self.text, self.prefix, self.pattern, self.is_many)
        return Field(self.text, self.text)


@attrs.define(eq=False)
class Expander(ParameterExpander):
    """Expands words."""

    def expand_words(self, words: Sequence[Word], state: ShellState) -> list[Field]:
        """Expand words to the arguments of a command."""
        fields: list[Field] = []
        for word in words:
            # The fast path: most words have no expansion.
            if word.plain is not None:
                fields.append(Field(word.plain, word.plain))
            elif not word.has_braces:
                fields += self._expand_parts(word.parts, state)
            else:
                choices = expand_braces(word.parts)
                # Too many alternatives; what runs inside them still counts.
                if choices is None:
                    self._run_substitutions(word.parts, state)
                    fields.append(Field(None, is_many=True))
                    continue
                for parts in choices:
                    fields += self._expand_parts(parts, state)
        return fields

    def expand_loop_words(self, words: Sequence[Word], state: ShellState) -> list[Field] | ValueKind:
        """Expand the words of a loop; ValueKind.NUMBER for a single substitution that prints numbers."""
        if len(words) != 1 or len(words[0].parts) != 1 or not isinstance(words[0].parts[0], Substitution):
            return self.expand_words(words, state)
        value = self.expand_part(words[0].parts[0], state)
        if value is ValueKind.NUMBER:
            return value
        fields: list[Field] = []
        builder = self._add_split(value, fields, _FieldBuilder())
        return [*fields, builder.build()] if builder.exists or not builder.is_exact else fields

    def expand_to_value(self, word: Word, state: ShellState) -> Value:
        """Expand a word where it stays one word: in assignments, after `case`, in here-documents."""
        if word.plain is not None:
            return word.plain
        if len(word.parts) == 1 and not isinstance(word.parts[0], LiteralText):
            value = self.expand_part(word.parts[0], state)
            return ValueKind.UNKNOWN if isinstance(value, tuple) else value
        text = ""
        is_exact = True
        for part in self._expand_tildes(word.parts, is_assigned=True):
            value = part.text if isinstance(part, LiteralText) else self.expand_part(part, state)
            if isinstance(value, str) and len(text) < _MAX_TEXT:
                text += value
            else:
                is_exact = False
        return text if is_exact else ValueKind.UNKNOWN

    def _expand_parts(self, parts: Sequence[Part], state: ShellState) -> list[Field]:
        fields: list[Field] = []
        builder = _FieldBuilder()
        # An unclosed bracket is literal.
        # So `[ a = b ]` and `echo [x` are no patterns.
        closes = any(not isinstance(part, LiteralText) or (part.text == "]" and not part.quoted) for part in parts)
        for part in self._expand_tildes(parts, is_assigned=False):
            if isinstance(part, LiteralText):
                if not part.quoted and (part.text in ("*", "?") or (part.text == "[" and closes)):
                    builder.add_pattern(part.text, part.text, is_many=True)
                else:
                    builder.add_literal(part.text)
            else:
                builder = self._add_expansion(part, state, fields, builder)
        if builder.exists or not builder.is_exact:
            fields.append(builder.build())
        return fields

    def _add_expansion(
        self,
        part: Parameter | Substitution | Arithmetic | Process,
        state: ShellState,
        fields: list[Field],
        builder: _FieldBuilder,
    ) -> _FieldBuilder:
        """Add the result of an expansion; return the builder of the field that continues after it."""
        if isinstance(part, Process):
            self.process_output: Stdin = self.run_process_substitution(part.body, state)
            builder.add_literal(PIPE)
            return builder
        value = self.expand_part(part, state)
        if isinstance(value, tuple):
            return self._add_fields(value, part, fields, builder)
        if part.quoted:
            self._add_quoted(value, builder)
            return builder
        return self._add_split(value, fields, builder)

    def _add_quoted(self, value: Value, builder: _FieldBuilder) -> None:
        if isinstance(value, str):
            builder.add_literal(value)
        elif isinstance(value, PatternMatch):
            builder.add_pattern(value.pattern, value.text, is_many=False)
        elif isinstance(value, Listed):
            builder.add_listed(value, is_many=False)
        else:
            builder.add_unknown(is_many=False)

    def _add_split(self, value: Value, fields: list[Field], builder: _FieldBuilder) -> _FieldBuilder:
        """Add an unquoted value: it is split at blanks, and may be a pattern."""
        if isinstance(value, Listed):
            builder.add_listed(value, is_many=True)
            return builder
        if not isinstance(value, str):
            builder.add_unknown(is_many=value is not ValueKind.NUMBER)
            return builder
        # A long value would become thousands of fields.
        if len(value) > _MAX_TEXT // 100:
            builder.add_unknown(is_many=True)
            return builder
        # At blanks only: a script that sets IFS is opaque.
        pieces = _BLANKS.split(value)
        for index, piece in enumerate(pieces):
            if index:
                if builder.exists or not builder.is_exact:
                    fields.append(builder.build())
                builder = _FieldBuilder()
            if not piece:
                continue
            # A value that contains a pattern is expanded by bash; which files match is unknown here.
            if _MAGIC_SIGNS.search(piece):
                builder.add_unknown(is_many=True)
            else:
                builder.add_literal(piece)
        return builder

    def _add_fields(
        self, values: tuple[Field, ...], part: Part, fields: list[Field], builder: _FieldBuilder
    ) -> _FieldBuilder:
        """Add `"$@"` or `"${array[@]}"`: each of its values is a word."""
        # `"a$@b"`: the first value joins "a", the last one "b".
        if not (isinstance(part, Parameter) and part.quoted) or any(value.exact_text is None for value in values):
            if values:
                builder.add_unknown(is_many=True)
            return builder
        for index, value in enumerate(values):
            if index:
                fields.append(builder.build())
                builder = _FieldBuilder()
            builder.add_literal(value.exact_text or "")
        return builder

    def _expand_tildes(self, parts: Sequence[Part], *, is_assigned: bool) -> Sequence[Part]:
        """Expand the tildes of a word."""
        if not any(map(_is_tilde, parts)):
            return parts
        expanded: list[Part] = []
        # The unquoted text before a part, with a NUL for each quoted or expanded part.
        before = ""
        for index, part in enumerate(parts):
            if not _is_tilde(part):
                before += part.text if isinstance(part, LiteralText) and not part.quoted else "\0"
                expanded.append(part)
                continue
            # Bash also expands tildes after `=` and `:` in words that look like assignments, as in `dd of=~/x`.
            assigns = is_assigned or _ASSIGNMENT_LIKE.fullmatch(before) is not None
            if before and not (assigns and before[-1] in "=:"):
                expanded.append(part)
            else:
                expanded.append(self._home_at(parts[index + 1 : index + 2]))
            before += "~"
        return expanded

    def _home_at(self, following: Sequence[Part]) -> Part:
        """Expand a tilde before another part: the home folder, or something unknown (`~user`, `~+`)."""
        is_own = not following or (
            isinstance(text := following[0], LiteralText) and not text.quoted and text.text[0] in "/:"
        )
        return LiteralText(self.home, quoted=True) if is_own and self.home is not None else Parameter("0", quoted=True)

    def _run_substitutions(self, parts: Sequence[Part], state: ShellState) -> None:
        """Simulate the substitutions in parts whose value does not matter."""
        for part in parts:
            if isinstance(part, Process):
                self.run_process_substitution(part.body, state)
            elif not isinstance(part, LiteralText):
                self.expand_part(part, state)

    def expand_part(self, part: Part, state: ShellState) -> Value:
        """Expand a part of a word."""
        match part:
            case Substitution():
                return self.run_substitution(part.body, state)
            case Arithmetic():
                self.check_arithmetic(part.expression, state)
                return ValueKind.NUMBER
            case Parameter():
                return self.expand_parameter(part, state)
            case Process():
                self.run_process_substitution(part.body, state)
                return ValueKind.UNKNOWN
            case LiteralText():
                return part.text


def _is_tilde(part: Part) -> bool:
    return isinstance(part, LiteralText) and part.text == "~" and not part.quoted
