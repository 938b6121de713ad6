"""Arithmetic in the shell: whether an expression is nothing but numbers.

The value of a variable in it is read as an expression again, which may have substitutions in the
subscripts of arrays: `x='a[$(rm y)]'; ((x))` runs rm. So each has to be known to be a number.
"""

from __future__ import annotations

import re
from typing import Final

from engine.permission.shell_state import Kind, State, Value, is_number

_TOKEN: Final = re.compile(
    r"(?P<number>\d[\w#@]*)|(?P<name>[A-Za-z_]\w*)|(?P<blank>\s+)|(?P<step>\+\+|--)"
    r"|(?P<sign><<=|>>=|\*\*|[-+*/%&|^]=|==|!=|<=|>=|&&|\|\||<<|>>|[-+*/%<>=!&|^~?:,();])",
    re.ASCII,
)
# Of these we can't say whether what follows is evaluated, or whether the whole fails.
_UNSURE: Final = frozenset({"&&", "||", "?", "/", "%", "/=", "%=", "**", "<<", ">>"})
_CHANGES: Final = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})


def assigned_numbers(text: str, state: State) -> list[str] | None:
    """Return the variables that an expression makes numbers; None: it may be more than numbers."""
    tokens = _tokens(text)
    if tokens is None:
        return None
    is_sure = not any(value in _UNSURE for _, value in tokens)
    assigned: list[str] = []
    made: set[str] = set()
    for index, (kind, name) in enumerate(tokens):
        if kind != "name":
            continue
        before = tokens[index - 1][0] if index else ""
        after = tokens[index + 1] if index + 1 < len(tokens) else ("", "")
        is_numeric = is_number(state.variables.get(name, Kind.UNKNOWN)) or name in made
        changes = before == "step" or after[0] == "step" or after[1] in _CHANGES
        if after[1] == "=" and not is_numeric and is_sure and _begins(tokens, index):
            made.add(name)
        elif not is_numeric:
            return None
        if changes:
            assigned.append(name)
    return assigned


def _begins(tokens: list[tuple[str, str]], index: int) -> bool:
    """Whether an assignment is the first thing that is done, so that nothing may fail before it."""
    return index == 0 or tokens[index - 1][1] in (",", ";")


def _tokens(text: str) -> list[tuple[str, str]] | None:
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        at = found.end()
        if found.lastgroup != "blank":
            tokens.append((found.lastgroup or "", found.group()))
    return tokens


def is_safe_subscript(subscript: str | None, name: str, state: State) -> bool:
    """Tell whether reading or writing `name[subscript]` evaluates nothing unknown."""
    if subscript is None or subscript in ("@", "*") or name in state.maps:
        return True
    if subscript.isascii() and subscript.isdecimal():
        return True
    variable = subscript.strip('"').removeprefix("$").strip("{}")
    value: Value = state.variables.get(variable, Kind.UNKNOWN)
    return is_number(value)
