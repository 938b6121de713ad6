"""What is known at a place in a script: the folder, the values of variables, the functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

import attrs

from engine.permission.effects.program_effects import Stdin, UnknownInput
from engine.permission.shell.parser.nodes import Function

# More folders than these, and we say that we don't know.
_MAX_FOLDERS: Final = 4
# What a process substitution becomes.
PIPE: Final = "/dev/fd/63"
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_RESERVED_IN_PATTERNS: Final = re.compile(r"([*?\[\\])")


class ValueKind(Enum):
    """What is known of a value that is not known itself."""

    UNKNOWN = "unknown"
    NUMBER = "a whole number"


@attrs.frozen
class PatternMatch:
    """The name of some file that a pattern fits, or the pattern itself where there is none.

    Attributes:
        pattern: as it is written in a `PathUse`.
        text: as it stands in the script.
    """

    pattern: str
    text: str


@attrs.frozen
class Field:
    """A word as a command gets it.

    Attributes:
        text: what it says, or the pattern as it is written; None: unknown.
        begun: how it begins, where the rest is unknown.
        pattern: what its file fits, if that is known of it.
        is_many: it may be none, or several.
    """

    text: str | None
    prefix: str = ""
    pattern: str | None = None
    is_many: bool = False

    @property
    def exact_text(self) -> str | None:
        """The word itself, if it is wholly known."""
        return None if self.pattern is not None else self.text

    @property
    def may_be_option(self) -> bool:
        """Whether it may begin with a dash without our knowing all of it."""
        return self.exact_text is None and (self.is_many or not self.prefix or self.prefix.startswith("-"))


# An array is a tuple of fields.
Value = str | ValueKind | PatternMatch | tuple[Field, ...]
# Folders that the shell may be in, absolute; None: it may be in any.
Folders = tuple[str, ...] | None


@attrs.define
class ShellState:
    """What is known at one place.

    Attributes:
        variables: values of variables; of one that is not here nothing is known.
        pinned: variables whose value we don't follow, because an assignment may do something else than assign.
        fixed: variables that cannot be assigned to any more.
        maps: associative arrays.
        arrays: variables that may be arrays; None: any may be one.
        functions: the definitions that a name may have; None among them: it may be no function.
        folders: where it may be.
        stack: the folders that `popd` goes back to; None: unknown.
        previous: where `cd -` goes back to.
        positional: `$1` and so on; None: unknown.
        stdin: what a command that is started here reads.
    """

    variables: dict[str, Value]
    folders: Folders
    positional: tuple[Field, ...] | None
    untracked: frozenset[str] = frozenset()
    readonly: frozenset[str] = frozenset()
    associative_arrays: frozenset[str] = frozenset()
    arrays: frozenset[str] | None = frozenset()
    functions: dict[str, tuple[Function | None, ...]] = attrs.field(factory=dict[str, tuple[Function | None, ...]])
    folder_stack: tuple[Folders, ...] | None = ()
    previous_folders: Folders = None
    stdin: Stdin = None

    def copy(self) -> ShellState:
        """Return one that may go its own way."""
        return ShellState(
            self.variables.copy(),
            self.folders,
            self.positional,
            self.untracked,
            self.readonly,
            self.associative_arrays,
            self.arrays,
            self.functions.copy(),
            self.folder_stack,
            self.previous_folders,
            self.stdin,
        )

    def assign(self, name: str, value: Value) -> None:
        """Remember a variable's value."""
        self.variables[name] = ValueKind.UNKNOWN if name in self.untracked else value

    def may_be_array(self, name: str) -> bool:
        """Tell whether a variable may be an array."""
        return self.arrays is None or name in self.arrays

    def add_array(self, name: str) -> None:
        """Remember that a variable may be an array from now on."""
        if self.arrays is not None:
            self.arrays |= {name}

    def merge(self, other: ShellState) -> None:
        """Know no more than what is known here and in another state."""
        both = join_states(self, other)
        if both is not None and both is not self:
            self.variables, self.folders, self.positional = both.variables, both.folders, both.positional
            self.untracked, self.readonly, self.associative_arrays = (
                both.untracked,
                both.readonly,
                both.associative_arrays,
            )
            self.arrays = both.arrays
            self.functions, self.folder_stack, self.previous_folders = (
                both.functions,
                both.folder_stack,
                both.previous_folders,
            )

    def forget_all(self) -> None:
        """Keep what may never change: nothing but the functions."""
        self.variables = {}
        self.arrays = None
        self.folders = None
        self.positional = None
        self.folder_stack = None
        self.previous_folders = None
        self.stdin = UnknownInput()


def is_number(value: Value) -> bool:
    """Tell whether a value is certainly a whole number."""
    return value is ValueKind.NUMBER or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


def escape_pattern(text: str) -> str:
    """Return a text as it is written in a pattern."""
    return _RESERVED_IN_PATTERNS.sub(r"\\\1", text)


def join_states(one: ShellState | None, other: ShellState | None) -> ShellState | None:
    """Return what is known where one of two states holds; None: that place is not reached."""
    if one is None or other is None or one is other:
        return one if other is None else other
    result = one.copy()
    result.variables = _join_variables(one.variables, other.variables)
    result.untracked = one.untracked | other.untracked
    result.readonly = one.readonly | other.readonly
    result.associative_arrays = one.associative_arrays & other.associative_arrays
    result.arrays = None if one.arrays is None or other.arrays is None else one.arrays | other.arrays
    if one.functions != other.functions:
        result.functions = _join_functions(one.functions, other.functions)
    result.folders = join_folders(one.folders, other.folders)
    if one.positional != other.positional:
        result.positional = None
    if one.folder_stack != other.folder_stack:
        result.folder_stack = None
    result.previous_folders = join_folders(one.previous_folders, other.previous_folders)
    if one.stdin != other.stdin:
        result.stdin = UnknownInput()
    return result


def join_folders(one: Folders, other: Folders) -> Folders:
    """Return the folders of both."""
    if one is None or other is None:
        return None
    folders = tuple(dict.fromkeys(one + other))
    return folders if len(folders) <= _MAX_FOLDERS else None


def _join_variables(one: Mapping[str, Value], other: Mapping[str, Value]) -> dict[str, Value]:
    if one == other:
        return dict(one)
    result: dict[str, Value] = {}
    for name in one.keys() & other.keys():
        first, second = one[name], other[name]
        if first == second:
            result[name] = first
        elif is_number(first) and is_number(second):
            result[name] = ValueKind.NUMBER
    return result


def _join_functions(
    one: Mapping[str, tuple[Function | None, ...]], other: Mapping[str, tuple[Function | None, ...]]
) -> dict[str, tuple[Function | None, ...]]:
    result: dict[str, tuple[Function | None, ...]] = {}
    for name in {**one, **other}:
        choices = list(one.get(name, (None,)))
        choices += [choice for choice in other.get(name, (None,)) if choice not in choices]
        result[name] = tuple(choices)
    return result
