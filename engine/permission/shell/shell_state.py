"""The state of the simulated shell: the folder, the variables, the functions, as far as they are known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

import attrs

from engine.permission.effects.program_effects import FILE_NAME, Stdin, UnknownInput
from engine.permission.effects.scan_result import ListedFiles
from engine.permission.shell.parser.nodes import Function

# A `cd` in each branch of a script doubles them.
# With more possible folders the folder is unknown.
_MAX_FOLDERS: Final = 4
# The name that a process substitution expands to.
# bash uses descriptors from 63 downwards; the exact number does not matter.
PIPE: Final = "/dev/fd/63"
# Octal numbers (010) would be another value in arithmetic.
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_RESERVED_IN_PATTERNS: Final = re.compile(r"([*?\[\\])")


class ValueKind(Enum):
    """A value that is not certain."""

    UNKNOWN = "unknown"
    NUMBER = "a whole number"


@attrs.frozen
class PatternMatch:
    """The name of a file that matches a pattern, or the pattern itself where no file does.

    Attributes:
        pattern: as in a `PathUse`.
        text: as in the script.
    """

    pattern: str
    text: str


@attrs.frozen
class Field:
    """A word as a command receives it.

    Attributes:
        text: the word, or the pattern as in the script; None: unknown.
        prefix: the certain beginning of the word, where the rest is unknown.
        pattern: the pattern that it matches, if that is certain.
        is_many: it may be no word, or several.
        listing: of a name that a program has listed, which files it may be.
    """

    text: str | None
    prefix: str = ""
    pattern: str | None = None
    is_many: bool = False
    listing: ListedFiles | None = None

    @property
    def is_listed(self) -> bool:
        """Whether it is a name that a program has listed."""
        return self.text is None and self.prefix == FILE_NAME

    @property
    def exact_text(self) -> str | None:
        """The word itself, if all of it is certain."""
        return None if self.pattern is not None else self.text

    @property
    def may_be_option(self) -> bool:
        """Whether it is uncertain and may begin with a dash."""
        return self.exact_text is None and (self.is_many or not self.prefix or self.prefix.startswith("-"))


@attrs.frozen
class Listed:
    """What a program has printed that prints names: none of them looks like an option.

    Attributes:
        listing: which files these are; None: unknown.
        is_one: it is one of the names.
    """

    listing: ListedFiles | None
    is_one: bool = False


# An array is a tuple of fields.
Value = str | ValueKind | PatternMatch | Listed | tuple[Field, ...]
# Folders that the shell may be in, absolute; None: it may be in any.
Folders = tuple[str, ...] | None


@attrs.define
class ShellState:
    """The state of the shell at one point of the script.

    Attributes:
        variables: the values of variables; one that is missing is unknown.
        untracked: variables that always count as unknown, because an assignment changes its value (`declare -l`).
        readonly: readonly variables.
        associative_arrays: the associative arrays.
        arrays: variables that may be arrays; None: any may be one.
        functions: the possible definitions of each name; None among them: it may be no function.
        folders: the possible working directories.
        folder_stack: the folders that `popd` returns to; None: unknown.
        previous_folders: the folders that `cd -` may return to.
        positional: `$1` and so on; None: unknown.
        stdin: the standard input of a command that is started now.
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
        """Return an independent copy."""
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
        """Set a variable."""
        self.variables[name] = ValueKind.UNKNOWN if name in self.untracked else value

    def may_be_array(self, name: str) -> bool:
        """Return whether a variable may be an array."""
        return self.arrays is None or name in self.arrays

    def add_array(self, name: str) -> None:
        """Record that a variable may be an array."""
        if self.arrays is not None:
            self.arrays |= {name}

    def merge(self, other: ShellState) -> None:
        """Keep only what is certain in both this state and another one."""
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
        """Forget everything but the functions."""
        self.variables = {}
        self.arrays = None
        self.folders = None
        self.positional = None
        self.folder_stack = None
        self.previous_folders = None
        self.stdin = UnknownInput()


def is_number(value: Value) -> bool:
    """Return whether a value is certainly a whole number."""
    return value is ValueKind.NUMBER or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


def escape_pattern(text: str) -> str:
    """Escape a text for use in a pattern."""
    return _RESERVED_IN_PATTERNS.sub(r"\\\1", text)


def join_states(one: ShellState | None, other: ShellState | None) -> ShellState | None:
    # All differences become unknown: too little certainty makes a scan ask, too much would make it wrong.
    """Return what is certain if the shell is in one of two states; None: that state is not reached."""
    if one is None or other is None or one is other:
        return one if other is None else other
    result = one.copy()
    result.variables = _join_variables(one.variables, other.variables)
    result.untracked = one.untracked | other.untracked
    # May be readonly in one of them: assigning it may fail.
    result.readonly = one.readonly | other.readonly
    # Certainly associative in both.
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
    """Return the possible folders of two states."""
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
