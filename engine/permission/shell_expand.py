"""What words become: the expansions of bash, as far as what they give is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from engine.permission.shell_arithmetic import assigned_numbers, is_safe_subscript
from engine.permission.shell_braces import brace_expanded
from engine.permission.shell_findings import Findings
from engine.permission.shell_state import PIPE, Field, Fitting, Kind, State, Value, escaped, is_number
from engine.permission.shell_syntax import (
    Arithmetic,
    Parameter,
    Part,
    Process,
    Script,
    Substitution,
    Text,
    Word,
)
from engine.permission.shell_trimming import trimmed
from engine.permission.shell_variables import MAGIC, is_dangerous

# Where a process substitution is found, and what else is open.
OPEN_FILES: Final = "/dev/fd/"
_TILDE: Final = re.compile(r"~([^/:]*)(?=/|:|\Z)")
_ASSIGNMENT_LIKE: Final = re.compile(r"([A-Za-z_]\w*\+?=)(.*)", re.DOTALL | re.ASCII)
_PLAIN: Final = re.compile(r"[\w./:@%+=,\-]*", re.ASCII)
_BLANKS: Final = re.compile(r"[ \t\n]+")
_MAGIC_SIGNS: Final = re.compile(r"[*?\[(\\]")
_NUMERIC_SIGNS: Final = frozenset("#?$!")
_QUOTING: Final = frozenset({"@Q", "@U", "@u", "@L"})
_DEFAULTS: Final = frozenset({"-", ":-", "+", ":+", "?", ":?", "=", ":="})
_MAX_TEXT: Final = 100_000


@attrs.define
class _Growing:
    """A field that is being put together."""

    text: str = ""
    begun: str = ""
    pattern: str = ""
    is_known: bool = True
    is_fixed: bool = True
    is_pattern: bool = False
    is_many: bool = False
    exists: bool = False

    def literal(self, text: str) -> None:
        self.exists = True
        self.text += text
        self.pattern += escaped(text)
        if self.is_known and not self.is_pattern:
            self.begun += text

    def magic(self, pattern: str, text: str, *, is_many: bool) -> None:
        self.exists = True
        self.text += text
        self.pattern += pattern
        self.is_pattern = True
        self.is_many = self.is_many or is_many

    def unknown(self, *, is_many: bool) -> None:
        self.exists = self.exists or not is_many
        self.is_known = False
        self.is_many = self.is_many or is_many

    def field(self) -> Field:
        if not self.is_known:
            return Field(None, self.begun, None, self.is_many)
        if self.is_pattern:
            return Field(self.text, self.begun, self.pattern, self.is_many)
        return Field(self.text, self.text)


@attrs.define(eq=False)
class Expander:
    """Expands words, and has the substitutions in them looked at.

    Attributes:
        findings: where doubts go.
        home: the user's home folder; None: another user runs this, or another machine.
        substitute: looks at the commands of a substitution, and returns what they print.
        process: looks at those of a process substitution.
    """

    findings: Findings
    home: str | None
    substitute: Callable[[Script, State], Value]
    process: Callable[[Script, State], None]

    # ---- words -------------------------------------------------------------------------------------------------------

    def fields(self, words: Sequence[Word], state: State) -> list[Field]:
        """Return what words become as the arguments of a command."""
        fields: list[Field] = []
        for word in words:
            if word.plain is not None:
                fields.append(Field(word.plain, word.plain))
            elif not word.has_braces:
                fields += self._fields(word.parts, state)
            else:
                choices = brace_expanded(word.parts)
                if choices is None:
                    self._look(word.parts, state)
                    fields.append(Field(None, is_many=True))
                    continue
                for parts in choices:
                    fields += self._fields(parts, state)
        return fields

    def list_of(self, words: Sequence[Word], state: State) -> list[Field] | Kind:
        """Return what words become; of numbers that a single substitution prints, only that they are some."""
        if len(words) != 1 or len(words[0].parts) != 1 or not isinstance(words[0].parts[0], Substitution):
            return self.fields(words, state)
        value = self._value(words[0].parts[0], state)
        if value is Kind.NUMBER:
            return value
        fields: list[Field] = []
        growing = self._split(value, fields, _Growing())
        return [*fields, growing.field()] if growing.exists or not growing.is_known else fields

    def value(self, word: Word, state: State) -> Value:
        """Return what a word becomes where it stays one: in assignments, after `case`, in here-documents."""
        if word.plain is not None:
            return word.plain
        if len(word.parts) == 1 and not isinstance(word.parts[0], Text):
            found = self._value(word.parts[0], state)
            return Kind.UNKNOWN if isinstance(found, tuple) else found
        text = ""
        is_known = True
        for part in self._without_tilde(word.parts, state, is_assigned=True):
            value = part.text if isinstance(part, Text) else self._value(part, state)
            if isinstance(value, str) and len(text) < _MAX_TEXT:
                text += value
            else:
                is_known = False
        return text if is_known else Kind.UNKNOWN

    def _fields(self, parts: Sequence[Part], state: State) -> list[Field]:
        fields: list[Field] = []
        growing = _Growing()
        # A bracket that is not closed means itself.
        closes = any(not isinstance(part, Text) or (part.text == "]" and not part.quoted) for part in parts)
        for part in self._without_tilde(parts, state, is_assigned=False):
            if isinstance(part, Text):
                if not part.quoted and (part.text in ("*", "?") or (part.text == "[" and closes)):
                    growing.magic(part.text, part.text, is_many=True)
                else:
                    growing.literal(part.text)
                continue
            if isinstance(part, Process):
                self.process(part.body, state)
                growing.literal(PIPE)
                continue
            value = self._value(part, state)
            if isinstance(value, tuple):
                growing = self._spread(value, part, fields, growing)
            elif part.quoted:
                self._quoted(value, growing)
            else:
                growing = self._split(value, fields, growing)
        if growing.exists or not growing.is_known:
            fields.append(growing.field())
        return fields

    def _quoted(self, value: Value, growing: _Growing) -> None:
        if isinstance(value, str):
            growing.literal(value)
        elif isinstance(value, Fitting):
            growing.magic(value.pattern, value.text, is_many=False)
        else:
            growing.unknown(is_many=False)

    def _split(self, value: Value, fields: list[Field], growing: _Growing) -> _Growing:
        """Add a value that stands without quotes: it is split at blanks, and may be a pattern."""
        if not isinstance(value, str):
            growing.unknown(is_many=value is not Kind.NUMBER)
            return growing
        if len(value) > _MAX_TEXT // 100:
            growing.unknown(is_many=True)
            return growing
        pieces = _BLANKS.split(value)
        for index, piece in enumerate(pieces):
            if index:
                if growing.exists or not growing.is_known:
                    fields.append(growing.field())
                growing = _Growing()
            if not piece:
                continue
            if _MAGIC_SIGNS.search(piece):
                growing.unknown(is_many=True)
            else:
                growing.literal(piece)
        return growing

    def _spread(self, values: tuple[Field, ...], part: Part, fields: list[Field], growing: _Growing) -> _Growing:
        """Add `"$@"` or `"${array[@]}"`: each of its values is a word."""
        if not (isinstance(part, Parameter) and part.quoted) or any(value.known is None for value in values):
            if values:
                growing.unknown(is_many=True)
            return growing
        for index, value in enumerate(values):
            if index:
                fields.append(growing.field())
                growing = _Growing()
            growing.literal(value.known or "")
        return growing

    def _without_tilde(self, parts: Sequence[Part], state: State, *, is_assigned: bool) -> Sequence[Part]:
        """Expand the tildes of a word."""
        if not any(isinstance(part, Text) and part.text == "~" and not part.quoted for part in parts):
            return parts
        result: list[Part] = []
        # What stands before a piece, as far as a tilde may follow it.
        before = ""
        pieces = iter(enumerate(parts))
        for index, part in pieces:
            if not (isinstance(part, Text) and part.text == "~" and not part.quoted):
                before = before + part.text if isinstance(part, Text) and not part.quoted else before + "\0"
                result.append(part)
                continue
            assigns = is_assigned or _ASSIGNMENT_LIKE.fullmatch(before) is not None
            if before and not (assigns and before[-1] in "=:"):
                result.append(part)
                before += "~"
                continue
            following = parts[index + 1] if index + 1 < len(parts) else None
            name = self._tilde_name(following)
            if name == "" and self.home is not None:
                result.append(Text(self.home, quoted=True))
            else:
                # Another user's home, or `~+`.
                result.append(Parameter("0", quoted=True))
            before += "~"
        return result

    def _tilde_name(self, following: Part | None) -> str | None:
        if following is None:
            return ""
        if isinstance(following, Text) and not following.quoted and following.text[0] in "/:":
            return ""
        return None

    # ---- expansions --------------------------------------------------------------------------------------------------

    def _look(self, parts: Sequence[Part], state: State) -> None:
        """Look at the substitutions of parts whose value does not matter."""
        for part in parts:
            if isinstance(part, Process):
                self.process(part.body, state)
            elif not isinstance(part, Text):
                self._value(part, state)

    def _value(self, part: Part, state: State) -> Value:
        match part:
            case Substitution():
                return self.substitute(part.body, state)
            case Arithmetic():
                self.arithmetic(part.expression, state)
                return Kind.NUMBER
            case Parameter():
                return self._parameter(part, state)
            case Process():
                self.process(part.body, state)
                return Kind.UNKNOWN
            case Text():
                return part.text

    def check_subscript(self, subscript: str | None, name: str, state: State) -> None:
        """Doubt a subscript that may evaluate something."""
        if not is_safe_subscript(subscript, name, state):
            self.findings.doubt("the subscript of an array that is not known to be a number")

    def _parameter(self, part: Parameter, state: State) -> Value:
        operator = part.operator
        self.check_subscript(part.subscript, part.name, state)
        if not operator:
            return self._variable(part, state)
        if operator == "slice":
            self._slice(part, state)
            return _ANY_FIELDS if _is_list(part) else Kind.UNKNOWN
        if operator == "length":
            return Kind.NUMBER
        if operator in ("keys", "names"):
            return _ANY_FIELDS
        if operator == "indirect":
            self.findings.doubt("a variable whose name is not known")
            return Kind.UNKNOWN
        if operator.startswith("@"):
            if operator not in _QUOTING:
                self.findings.doubt(f"an expansion with {operator}")
            return _ANY_FIELDS if _is_list(part) else Kind.UNKNOWN
        return self._with_operand(part, state)

    def _slice(self, part: Parameter, state: State) -> None:
        """Look at the expressions of `${x:a:b}`; a length below 0 may be an error."""
        slices = expressions(part.operand, ":")
        for expression in slices:
            self.arithmetic(expression, state)
        if len(slices) > 1 and any(not isinstance(piece, Text) or "-" in piece.text for piece in slices[1]):
            self.findings.doubt("the length of a piece of text, which may be wrong")

    def _with_operand(self, part: Parameter, state: State) -> Value:
        operator = part.operator
        other = self._operand(part.operand, state)
        if _is_list(part):
            return _ANY_FIELDS
        own = self._variable(Parameter(part.name, part.quoted, subscript=part.subscript), state)
        if operator not in _DEFAULTS:
            # In quotes, or where the pattern comes from elsewhere, it may mean something else than it says.
            is_plain = all(isinstance(piece, Text) and piece.quoted == part.quoted for piece in part.operand)
            return trimmed(own, operator, other) if is_plain and isinstance(other, str) else Kind.UNKNOWN
        if operator in ("=", ":="):
            if is_dangerous(part.name, None):
                self.findings.doubt(f"it sets {part.name}")
            state.assign(part.name, Kind.UNKNOWN)
        if not isinstance(own, str):
            return Kind.UNKNOWN
        if operator in ("-", ":-", "=", ":="):
            if not own and operator[0] == ":" and isinstance(other, str) and _PLAIN.fullmatch(other):
                return other
            return own or Kind.UNKNOWN
        return own if operator == ":?" and own else Kind.UNKNOWN

    def _operand(self, operand: Sequence[Part], state: State) -> Value:
        """Expand what stands after an operator, which may or may not happen: that depends on the variable."""
        word = Word(tuple(operand), 0, 0)
        if all(isinstance(piece, Text) for piece in operand):
            return self.value(word, state)
        aside = state.copy()
        value = self.value(word, aside)
        state.merge(aside)
        return value

    def _variable(self, part: Parameter, state: State) -> Value:
        name = part.name
        if name in ("@", "*"):
            if state.positional is None:
                return _ANY_FIELDS if name == "@" else Kind.UNKNOWN
            return state.positional if name == "@" or not part.quoted else Kind.UNKNOWN
        if name in _NUMERIC_SIGNS:
            return Kind.NUMBER
        if name.isdecimal():
            return self._positional(int(name), state)
        if name == "PWD":
            return state.folders[0] if state.folders is not None and len(state.folders) == 1 else Kind.UNKNOWN
        if name == "HOME":
            return self.home if self.home is not None else Kind.UNKNOWN
        if name in MAGIC:
            return MAGIC[name]
        value = state.variables.get(name, Kind.UNKNOWN)
        if not isinstance(value, tuple):
            return value if part.subscript is None else Kind.UNKNOWN
        if part.subscript == "@":
            return value
        if any(field.is_many for field in value):
            return Kind.UNKNOWN
        if part.subscript is None or part.subscript.isdecimal():
            index = int(part.subscript or "0")
            return (value[index].known or Kind.UNKNOWN) if index < len(value) else Kind.UNKNOWN
        return Kind.UNKNOWN

    def _positional(self, index: int, state: State) -> Value:
        if index == 0 or state.positional is None or any(field.is_many for field in state.positional):
            return Kind.UNKNOWN
        if index > len(state.positional):
            return ""
        field = state.positional[index - 1]
        if field.pattern is not None and field.text is not None:
            return Fitting(field.pattern, field.text)
        return field.text if field.text is not None else Kind.UNKNOWN

    def arithmetic(self, expression: Sequence[Part], state: State) -> None:
        """Look at an arithmetic expression, and remember which variables it makes numbers."""
        text = ""
        for part in expression:
            if isinstance(part, Text):
                text += part.text
                continue
            value = self._value(part, state)
            text += "1" if is_number(value) else "\0"
        assigned = assigned_numbers(text, state)
        if assigned is None:
            self.findings.doubt("arithmetic with what is not known to be a number")
            return
        for name in assigned:
            if is_dangerous(name, None):
                self.findings.doubt(f"it sets {name}")
            state.assign(name, Kind.NUMBER)


_ANY_FIELDS: Final = (Field(None, is_many=True),)


def _is_list(part: Parameter) -> bool:
    """Whether an expansion may become several words even in double quotes."""
    if part.name == "@" or part.subscript == "@" or part.operator == "names":
        return True
    return any(isinstance(piece, Parameter) and _is_list(piece) for piece in part.operand)


def expressions(operand: Sequence[Part], border: str) -> list[list[Part]]:
    """Part `a:b` or `a;b;c` into its expressions."""
    found: list[list[Part]] = [[]]
    for part in operand:
        if not isinstance(part, Text):
            found[-1].append(part)
            continue
        for index, text in enumerate(part.text.split(border)):
            if index:
                found.append([])
            if text.strip():
                found[-1].append(Text(text, quoted=True))
    return found
