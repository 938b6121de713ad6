"""Arithmetic in the shell: whether an expression contains nothing but numbers, and is certainly valid.

Bash evaluates the value of a variable as an expression again, and an array subscript in that may contain a
substitution: `x='a[$(rm y)]'; ((x))` runs rm. So every variable has to be a number for certain. And an invalid
expression makes bash skip the rest of a line, so that variables keep their old values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from engine.permission.shell.shell_state import ShellState, ValueKind, is_number
from engine.permission.shell.special_variables import SPECIAL_VARIABLES

_TOKEN: Final = re.compile(
    r"(?P<number>(?:10#\d+|16#[\da-fA-F]+|8#[0-7]+|2#[01]+|0[xX][\da-fA-F]+|0[0-7]*|[1-9]\d{0,17})(?![\w#@]))"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<blank>\s+)|(?P<step>\+\+|--)|(?P<open>\()|(?P<close>\))"
    r"|(?P<change>(?:<<|>>|[-+*&|^])?=(?!=))|(?P<unary>[!~](?!=))|(?P<divide>[/%]=?(?!=))"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||<<|>>|\*(?!\*)|[-+<>&|^?:,;])",
    re.ASCII,
)
_CONDITIONAL: Final = frozenset({"&&", "||", "?"})
_OPERANDS: Final = frozenset({"number", "name", "close"})
Token = tuple[str, str]
_NONE: Final[Token] = ("", "")


def assigned_numbers(text: str, state: ShellState) -> list[str] | None:
    """Return the variables that an expression sets to numbers; None: it may evaluate something else, or be invalid."""
    tokens = _tokens(text)
    if tokens is None or not _is_well_formed(tokens):
        return None
    is_conditional = any(value in _CONDITIONAL for _, value in tokens)
    assigned: list[str] = []
    made: set[str] = set()
    for before, name, after in _names(tokens):
        if name not in made and not _is_numeric(name, state):
            if after != ("change", "=") or is_conditional:
                return None
            made.add(name)
        if before[0] == "step" or after[0] in ("step", "change") or after[1] in ("/=", "%="):
            assigned.append(name)
    return assigned


def _names(tokens: Sequence[Token]) -> Iterator[tuple[Token, str, Token]]:
    """Yield each name between the tokens around it."""
    for before, (kind, name), after in zip([_NONE, *tokens], tokens, [*tokens[1:], _NONE], strict=False):
        if kind == "name":
            yield before, name, after


def _is_numeric(name: str, state: ShellState) -> bool:
    if SPECIAL_VARIABLES.get(name) is ValueKind.NUMBER:
        return True
    return is_number(state.variables.get(name, ValueKind.UNKNOWN))


def _tokens(text: str) -> list[Token] | None:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        at = match.end()
        if match.lastgroup != "blank":
            tokens.append((match.lastgroup or "", match.group()))
    return tokens


def _is_well_formed(tokens: Sequence[Token]) -> bool:
    """Return whether an expression is certainly well formed, and never divides by 0."""
    after_operand = False
    opened = choices = 0
    for (before, _), (kind, value), following in zip([_NONE, *tokens], tokens, [*tokens[1:], _NONE], strict=False):
        if kind == "step":
            if not (before == "name" if after_operand else following[0] == "name"):
                return False
            continue
        if not _is_allowed(kind, value, before, following, after_operand=after_operand):
            return False
        opened += (kind == "open") - (kind == "close")
        choices += (value == "?") - (value == ":")
        after_operand = kind in _OPERANDS
        if opened < 0:
            return False
    is_ended = after_operand or not tokens or tokens[-1] in (("step", "++"), ("step", "--"), ("sign", ";"))
    return is_ended and not opened and not choices


def _is_allowed(kind: str, value: str, before: str, following: Token, *, after_operand: bool) -> bool:
    """Return whether a token may stand where it does."""
    if kind in ("number", "name", "open", "unary"):
        return not after_operand
    if kind == "divide":
        # This holds for `/=`, too.
        return after_operand and following[0] == "number" and bool(following[1].strip("0xX"))
    if kind == "change":
        return before == "name"
    return after_operand or (kind == "sign" and value in ("+", "-", ",", ";"))


def is_safe_subscript(subscript: str | None, name: str, state: ShellState) -> bool:
    """Return whether reading or writing `name[subscript]` evaluates no unknown text."""
    if subscript is None or subscript in ("@", "*") or name in state.associative_arrays:
        return True
    if subscript.isascii() and subscript.isdecimal():
        return True
    variable = subscript.strip('"').removeprefix("$").strip("{}")
    return _is_numeric(variable, state)
