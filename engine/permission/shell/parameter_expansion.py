"""Expansion of `$name`, `${name…}` and arithmetic, as far as the result is certain."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import Stdin, UnknownInput
from engine.permission.shell.arithmetic import assigned_numbers, is_safe_subscript
from engine.permission.shell.findings import Findings
from engine.permission.shell.parser.nodes import (
    LiteralText,
    Parameter,
    Part,
    Script,
    Word,
)
from engine.permission.shell.shell_state import Field, PatternMatch, ShellState, Value, ValueKind, is_number
from engine.permission.shell.special_variables import SPECIAL_VARIABLES, is_dangerous
from engine.permission.shell.trim_expansion import trim_value

# Texts without quotes, blanks or patterns, which expand to themselves.
_PLAIN: Final = re.compile(r"[\w./:@%+=,\-]*", re.ASCII)
# `$#`, `$?`, `$$`, `$!`: always numbers.
_NUMERIC_SIGNS: Final = frozenset("#?$!")
# Other transformations (`@P`, `@E`, `@A`, `@a`) interpret the value.
_QUOTING: Final = frozenset({"@Q", "@U", "@u", "@L"})
_DEFAULTS: Final = frozenset({"-", ":-", "+", ":+", "?", ":?", "=", ":="})
_ANY_FIELDS: Final = (Field(None, is_many=True),)


@attrs.define(eq=False)
class ParameterExpander(ABC):
    """Expands parameters, and simulates the substitutions in them.

    Attributes:
        findings: collects the reasons for opacity.
        home: the user's home folder; None: another user or another machine runs this.
        substitute: simulates the commands of a substitution, and returns what they print.
        process: simulates those of a process substitution, and returns what they print.
        process_output: what the last process substitution prints.
    """

    findings: Findings
    home: str | None
    run_substitution: Callable[[Script, ShellState], Value]
    run_process_substitution: Callable[[Script, ShellState], Stdin]
    process_output: Stdin = attrs.field(factory=UnknownInput, init=False)

    @abstractmethod
    def expand_to_value(self, word: Word, state: ShellState) -> Value:
        """Expand a word where it stays one word."""

    @abstractmethod
    def expand_part(self, part: Part, state: ShellState) -> Value:
        """Expand a part of a word."""

    def check_subscript(self, subscript: str | None, name: str, state: ShellState) -> None:
        """Mark the scan as opaque if bash may evaluate a subscript."""
        if not is_safe_subscript(subscript, name, state):
            self.findings.mark_opaque("an array subscript that may not be a number")

    def expand_parameter(self, part: Parameter, state: ShellState) -> Value:
        """Expand a parameter."""
        operator = part.operator
        self.check_subscript(part.subscript, part.name, state)
        if not operator:
            return self._variable(part, state)
        if operator == "slice":
            self._slice(part, state)
            return _ANY_FIELDS if _is_list(part) else ValueKind.UNKNOWN
        if operator == "length":
            return ValueKind.NUMBER
        if operator in ("keys", "names"):
            return _ANY_FIELDS
        # `${!name}`: the variable to expand is chosen by another one's value.
        if operator == "indirect":
            self.findings.mark_opaque("a variable with an unknown name")
            return ValueKind.UNKNOWN
        if operator.startswith("@"):
            if operator not in _QUOTING:
                self.findings.mark_opaque(f"an expansion with {operator}")
            return _ANY_FIELDS if _is_list(part) else ValueKind.UNKNOWN
        return self._with_operand(part, state)

    def _slice(self, part: Parameter, state: ShellState) -> None:
        """Check the expressions of `${x:a:b}`; a negative length may be an error."""
        slices = split_expressions(part.operand, ":")
        for expression in slices:
            self.check_arithmetic(expression, state)
        if len(slices) > 1 and any(not isinstance(piece, LiteralText) or "-" in piece.text for piece in slices[1]):
            self.findings.mark_opaque("a substring length that may be invalid")

    def _with_operand(self, part: Parameter, state: ShellState) -> Value:
        operator = part.operator
        other = self._operand(part.operand, state)
        if _is_list(part):
            return _ANY_FIELDS
        own = self._variable(Parameter(part.name, part.quoted, subscript=part.subscript), state)
        if operator in _DEFAULTS:
            return self._with_default(part, own, other, state)
        # A pattern that is quoted otherwise, or expanded, may match differently.
        is_plain = all(isinstance(piece, LiteralText) and piece.quoted == part.quoted for piece in part.operand)
        return trim_value(own, operator, other) if is_plain and isinstance(other, str) else ValueKind.UNKNOWN

    def _with_default(self, part: Parameter, own: Value, other: Value, state: ShellState) -> Value:
        """Expand `${x:-word}` and the like, from the variable's own value and the other word."""
        operator = part.operator
        if operator in ("=", ":="):
            # `${PATH:=x}` assigns.
            if is_dangerous(part.name, None):
                self.findings.mark_opaque(f"it sets {part.name}")
            state.assign(part.name, ValueKind.UNKNOWN)
        if not isinstance(own, str):
            return ValueKind.UNKNOWN
        if operator in ("-", ":-", "=", ":="):
            if not own and operator[0] == ":" and isinstance(other, str) and _PLAIN.fullmatch(other):
                return other
            return own or ValueKind.UNKNOWN
        return own if operator == ":?" and own else ValueKind.UNKNOWN

    def _operand(self, operand: Sequence[Part], state: ShellState) -> Value:
        """Expand the word after an operator; whether bash does depends on the variable."""
        word = Word(tuple(operand), 0, 0)
        # Nothing to run in it, so it makes no difference whether bash expands it.
        if all(isinstance(piece, LiteralText) for piece in operand):
            return self.expand_to_value(word, state)
        branch = state.copy()
        value = self.expand_to_value(word, branch)
        state.merge(branch)
        return value

    def _variable(self, part: Parameter, state: ShellState) -> Value:
        name = part.name
        if name in ("@", "*"):
            return _all_positional(part, state)
        if name.isdecimal():
            return self._positional(int(name), state)
        # The shell keeps it up to date, so an assigned value does not last.
        if name == "PWD":
            return state.folders[0] if state.folders is not None and len(state.folders) == 1 else ValueKind.UNKNOWN
        if name == "HOME":
            return self.home if self.home is not None else ValueKind.UNKNOWN
        if name in _NUMERIC_SIGNS:
            return ValueKind.NUMBER
        if name in SPECIAL_VARIABLES:
            return SPECIAL_VARIABLES[name]
        value = state.variables.get(name, ValueKind.UNKNOWN)
        if isinstance(value, tuple):
            return _element(value, part.subscript)
        return value if part.subscript is None else ValueKind.UNKNOWN

    def _positional(self, index: int, state: ShellState) -> Value:
        # `$0` is the name of the shell or of the script.
        if index == 0 or state.positional is None or any(field.is_many for field in state.positional):
            return ValueKind.UNKNOWN
        if index > len(state.positional):
            return ""
        field = state.positional[index - 1]
        if field.pattern is not None and field.text is not None:
            return PatternMatch(field.pattern, field.text)
        return field.text if field.text is not None else ValueKind.UNKNOWN

    def check_arithmetic(self, expression: Sequence[Part], state: ShellState) -> None:
        """Check an arithmetic expression, and set the variables that it assigns to numbers."""
        text = ""
        for part in expression:
            if isinstance(part, LiteralText):
                text += part.text
                continue
            value = self.expand_part(part, state)
            # Inside of arithmetic, a value that is no number would be evaluated itself.
            text += "1" if is_number(value) else "\0"
        assigned = assigned_numbers(text, state)
        if assigned is None:
            self.findings.mark_opaque("arithmetic with a value that may not be a number")
            return
        for name in assigned:
            if is_dangerous(name, None) or name in state.readonly:
                self.findings.mark_opaque(f"it sets {name}")
            state.assign(name, ValueKind.NUMBER)


def _all_positional(part: Parameter, state: ShellState) -> Value:
    """Expand `$@` and `$*`."""
    if state.positional is None:
        return _ANY_FIELDS if part.name == "@" else ValueKind.UNKNOWN
    return state.positional if part.name == "@" or not part.quoted else ValueKind.UNKNOWN


def _element(fields: tuple[Field, ...], subscript: str | None) -> Value:
    """Expand an array with a subscript; without one it is the first element."""
    if subscript == "@":
        return fields
    subscript = subscript or "0"
    if any(field.is_many for field in fields) or not subscript.isdecimal() or int(subscript) >= len(fields):
        return ValueKind.UNKNOWN
    return fields[int(subscript)].exact_text or ValueKind.UNKNOWN


def _is_list(part: Parameter) -> bool:
    """Whether an expansion may become several words even in double quotes."""
    if part.name == "@" or part.subscript == "@" or part.operator == "names":
        return True
    return any(isinstance(piece, Parameter) and _is_list(piece) for piece in part.operand)


def split_expressions(operand: Sequence[Part], border: str) -> list[list[Part]]:
    """Split `a:b` or `a;b;c` into its expressions."""
    groups: list[list[Part]] = [[]]
    for part in operand:
        if not isinstance(part, LiteralText):
            groups[-1].append(part)
            continue
        for index, text in enumerate(part.text.split(border)):
            if index:
                groups.append([])
            if text.strip():
                groups[-1].append(LiteralText(text, quoted=True))
    return groups
