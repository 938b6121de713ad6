"""Conditions: `[[ … ]]`, `[ … ]` and `test`, which may evaluate what they compare."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from engine.permission.shell.parser.nodes import Conditional, Word
from engine.permission.shell.shell_state import Field, ShellState, Value, ValueKind, is_number

if TYPE_CHECKING:
    from engine.permission.shell.word_expansion import Expander

# In `[[ … ]]`, the operands of these are arithmetic, and `a[$(cmd)]` in arithmetic executes cmd.
_ARITHMETIC: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_BINARY: Final = _ARITHMETIC | frozenset({"=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"})
_UNARY: Final = frozenset(f"-{letter}" for letter in "abcdefghknoprstuwxzGLNOS")
# `-v name` evaluates a subscript in the name.
_NAMED: Final = frozenset({"-v", "-R"})


def check_condition(expander: Expander, condition: Conditional, state: ShellState) -> None:
    """Check `[[ … ]]` for operands that bash would evaluate."""
    # So an assignment such as `${x:=1}` in them may or may not have happened.
    # Bash may not expand the operands after && and || at all.
    before = state.copy()
    values = [item if isinstance(item, str) else expander.expand_to_value(item, state) for item in condition.items]
    state.merge(before)
    for index, item in enumerate(condition.items):
        operator = item.plain if isinstance(item, Word) else None
        following = next(iter(values[index + 1 :]), ValueKind.UNKNOWN)
        if operator in _NAMED and not _is_identifier(following):
            expander.findings.mark_opaque(f"a condition with {operator}")
        if operator in _ARITHMETIC and index and not (is_number(values[index - 1]) and is_number(following)):
            expander.findings.mark_opaque("a condition that may calculate with a value that is not a number")


def _is_identifier(value: Value) -> bool:
    return isinstance(value, str) and value.isidentifier()


def is_safe_test(fields: Sequence[Field]) -> bool:
    """Return whether `test` evaluates nothing in these words."""
    if any(field.is_many and field.pattern is None for field in fields):
        # An unquoted expansion may bring operators of its own: `test $x` with x='-v a[$(cmd)]'.
        return False
    if all(field.exact_text is not None for field in fields):
        return _names_are_plain(fields)
    return _is_plain_expression(fields)


def _names_are_plain(fields: Sequence[Field]) -> bool:
    for field, following in pairwise(fields):
        if field.exact_text in _NAMED and not (following.exact_text or "").isidentifier():
            return False
    return True


def _is_plain_expression(fields: Sequence[Field]) -> bool:
    """Simulate `a = b`, `-f x` and the like, joined by `-a` and `-o`, where each operator is certain."""
    at = 0
    count = len(fields)
    if count == 1:
        return True
    while at < count:
        while fields[at].exact_text == "!" and at + 1 < count:
            at += 1
        if at + 2 < count and fields[at + 1].exact_text in _BINARY:
            at += 3
        elif at + 1 < count and fields[at].exact_text in _UNARY:
            at += 2
        else:
            return False
        if at == count:
            return True
        if fields[at].exact_text not in ("-a", "-o"):
            return False
        at += 1
    return False
