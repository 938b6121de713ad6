"""The notation of the tables for options and what they do, and the parser of arguments.

A table lists options in a notation of its own, separated by spaces:

    -abc            three options of one letter, without a value
    -v|--verbose    two spellings of one option
    -o|--output=writes      it takes a value, which has a role; `=` alone: the value has no effect
    --color?        it may have an attached value: `--color=auto`, `-i.bak`
    --rawfile&reads     it takes two values; the second has the role
    --delete!changes        it takes no value, and has a role itself

Single-dash options of several letters (`-name`) are written as they are, for programs whose `dashes` is "single".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, get_args

import attrs

from engine.permission.effects.program_effects import WordPrefix
from engine.permission.effects.scan_result import Argument

# What a program does with a value or an operand:
#   plain     nothing relevant
#   reads, writes, edits    a path that is read, written, or read and then written
#   lists     a file whose content names further files that are read
#   folder    the working directory from here on, also for commands it starts
#   shell     a script for a shell
#   command   a command, its words separated by spaces, without a shell
#   program   the name of a program
#   runs      a file that it executes
#   code      program text, or anything else that makes it opaque
#   sets      NAME=VALUE, for the environment
#   split     a text that is replaced by the words in it, as with `env -S`
#   changes   harmless, but the program no longer only reads
#   reading   with this option, a program that may otherwise change something only reads
#   stops     its value has no effect, and all words after it are operands, as with `python -m NAME`
Role = Literal[
    "plain",
    "reads",
    "writes",
    "edits",
    "lists",
    "folder",
    "shell",
    "command",
    "program",
    "runs",
    "code",
    "sets",
    "split",
    "changes",
    "reading",
    "stops",
]
_BY_NAME: Final[Mapping[str, Role]] = {role: role for role in get_args(Role)}
# The roles that execute something: an uncertain word must not be an option with one of them.
EXECUTING: Final[frozenset[Role]] = frozenset({"shell", "command", "program", "runs", "code", "sets", "split"})

Takes = Literal["nothing", "value", "attached", "pair"]
_ENTRY: Final = re.compile(r"(?P<names>[^=?!&\s]+?)(?:(?P<sign>[=?!&])(?P<role>[a-z]*))?")
_SIGNS: Final[Mapping[str, Takes]] = {"=": "value", "?": "attached", "!": "nothing", "&": "pair"}


@attrs.frozen
class ProgramOption:
    """An option: whether it takes a value, and what the value, or the option itself, does."""

    takes: Takes = "nothing"
    role: Role = "plain"


def parse_options(notation: str, *, single: bool = False) -> dict[str, ProgramOption]:
    """Parse a notation; return the options by their spellings.

    Raises:
        ValueError: the notation is invalid.
    """
    options: dict[str, ProgramOption] = {}
    for entry in notation.split():
        parts = _ENTRY.fullmatch(entry)
        role = (parts["role"] if parts is not None else None) or "plain"
        if parts is None or role not in _BY_NAME:
            raise ValueError(f"an option is written `-x`, `-x|--long=role` or the like, not {entry!r}")
        option = ProgramOption(_SIGNS.get(parts["sign"] or "!", "nothing"), role_of(role))
        for spelling in _spellings(parts["names"], single=single):
            if options.setdefault(spelling, option) != option:
                raise ValueError(f"the option {spelling} has two meanings")
    return options


def role_of(text: str) -> Role:
    """Return the role with a name. Raises `ValueError` if there is none."""
    if text not in _BY_NAME:
        raise ValueError(f"{text!r} is not a role")
    return _BY_NAME[text]


def _spellings(names: str, *, single: bool) -> Iterator[str]:
    for name in names.split("|"):
        if name in {"", "-", "--"} or name[0] not in "-+":
            raise ValueError(f"an option begins with a dash, not like {name!r}")
        # `-abc` in the notation means three options, except where a dash begins a word.
        if single or name.startswith("--") or name == "+":
            yield name
        else:
            yield from (f"{name[0]}{letter}" for letter in name[1:])


@attrs.frozen
class UsedOption:
    """An option in the arguments: its spelling, its definition, and its value (None if unknown)."""

    name: str
    option: ProgramOption
    value: Argument = None


@attrs.frozen(kw_only=True)
class Arguments:
    """The arguments of a program, split into options and operands.

    Attributes:
        used: its options.
        operands: its other words.
        is_uncertain: whether one of the operands is an uncertain word that may be an option.
        unknown: an option that is not in the table.
    """

    used: Sequence[UsedOption]
    operands: Sequence[Argument]
    is_uncertain: bool
    unknown: str

    def without(self, role: Role) -> Arguments:
        """Return the arguments without the options of a role."""
        return attrs.evolve(self, used=[used for used in self.used if used.option.role != role])


@attrs.define(eq=False)
class ArgumentParser:
    """Splits words into options and operands, one after the other.

    Attributes:
        options: the options in the table.
        permutes: options may follow operands.
        single: a single dash begins a name of several letters, so options can't be clustered.
    """

    options: Mapping[str, ProgramOption]
    permutes: bool = attrs.field(kw_only=True)
    single: bool = attrs.field(kw_only=True)
    used: list[UsedOption] = attrs.field(factory=list[UsedOption], init=False)
    operands: list[Argument] = attrs.field(factory=list[Argument], init=False)
    is_uncertain: bool = attrs.field(default=False, init=False)
    unknown: str = attrs.field(default="", init=False)
    _words: Sequence[Argument] = attrs.field(default=(), init=False)
    _at: int = attrs.field(default=0, init=False)

    def parse(self, words: Sequence[Argument]) -> Arguments:
        """Split words into options and operands."""
        self._words = words
        while self._at < len(words):
            if not self._parse_word():
                self.operands += words[self._at :]
                break
        return Arguments(used=self.used, operands=self.operands, is_uncertain=self.is_uncertain, unknown=self.unknown)

    def _parse_word(self) -> bool:
        """Parse the next word; return whether options may follow."""
        word = self._next()
        if word == "--" and not isinstance(word, WordPrefix):
            self._end_options()
            return False
        if may_be_option(word):
            # `--output=$file`: the option is certain, its value is not.
            if isinstance(word, WordPrefix) and self._take_prefix(word):
                return True
            self.is_uncertain = True
        elif word is not None and len(word) > 1 and word[0] in "-+" and self._take(word):
            return not self.used or self.used[-1].option.role != "stops"
        self.operands.append(word)
        return self.permutes

    def _end_options(self) -> None:
        """Handle `--`, which may also be the value of the unknown option before it."""
        rest = self._words[self._at :]
        # An unknown option may take `--` as its value; then the words after it are options.
        if self.unknown and any(map(self._executes, rest)):
            self.is_uncertain = True

    def _executes(self, word: Argument) -> bool:
        """Return whether a word may be an option that executes something."""
        if may_be_option(word):
            return True
        if word is None or word[:1] != "-":
            return False
        name = word.partition("=")[0]
        return any(
            option.role in EXECUTING
            and (
                spelling.startswith(name) if name.startswith("--") else spelling[:2] == name[:2] or spelling[1:] in name
            )
            for spelling, option in self.options.items()
        )

    def _take(self, word: str) -> bool:
        """Parse an option; return whether it is one."""
        if word[0] == "+":
            return self._take_plus(word)
        if word.startswith("--") or self.single:
            return self._take_long(word)
        self._take_cluster(word)
        return True

    def _take_prefix(self, word: WordPrefix) -> bool:
        """Parse a word with only a known prefix, if the rest is an option's value."""
        text = str(word)
        name, sign, _ = text.partition("=")
        if text.startswith("--") or self.single:
            option = self.options.get(name) if sign or len(name) == 2 else None
            if option is None or option.takes == "nothing":
                return False
            self.used.append(UsedOption(name, option, None))
            return True
        for letter in text[1:]:
            option = self.options.get(f"-{letter}")
            if option is None:
                return False
            if option.takes in {"value", "attached"}:
                self.used.append(UsedOption(f"-{letter}", option, None))
                return True
            self.used.append(UsedOption(f"-{letter}", option, ""))
        return False

    def _take_plus(self, word: str) -> bool:
        """Parse a word with a plus, which may be an option, one with a value, or an operand."""
        if word in self.options:
            option = self.options[word]
            self.used.append(UsedOption(word, option, self._next() if option.takes == "value" else ""))
        elif "+" in self.options:
            self.used.append(UsedOption("+", self.options["+"], word[1:]))
        elif all(f"+{letter}" in self.options for letter in word[1:]):
            self._take_signs(word)
        else:
            return False
        return True

    def _take_signs(self, word: str) -> None:
        for letter in word[1:]:
            option = self.options[f"+{letter}"]
            self.used.append(UsedOption(f"+{letter}", option, self._next() if option.takes == "value" else ""))

    def _take_long(self, word: str) -> bool:
        name, sign, value = word.partition("=")
        if self.single and word in self.options:
            name, sign = word, ""
        full = name if name in self.options else self._in_full(name)
        if full is None:
            self.unknown = self.unknown or name
            return True
        option = self.options[full]
        if not sign:
            self.used.append(UsedOption(full, option, self._value(option)))
        else:
            self.used.append(UsedOption(full, option, value))
        return True

    def _in_full(self, name: str) -> str | None:
        """Return the option that a name abbreviates; if there are several, the most dangerous one."""
        if self.single:
            return name[1:] if name.startswith("--") and name[1:] in self.options else None
        # getopt accepts any unique prefix of a long option.
        if len(name) < 3:
            return None
        # An ambiguous abbreviation is an error to the program; the most dangerous reading is safe.
        matches = [spelling for spelling in self.options if spelling.startswith(name)]
        return max(matches, key=lambda spelling: _badness(self.options[spelling]), default=None)

    def _take_cluster(self, word: str) -> None:
        for at, letter in enumerate(word[1:], start=1):
            option = self.options.get(f"-{letter}")
            if option is None:
                # `head -20`: the table writes such numbers as `-0`.
                if not letter.isdigit() or "-0" not in self.options:
                    self.unknown = self.unknown or f"-{letter}"
                continue
            rest = word[at + 1 :]
            if option.takes == "nothing":
                self.used.append(UsedOption(f"-{letter}", option, ""))
                continue
            value: Argument = rest
            # `-n5` and `-n 5` are the same; an optional value must be attached.
            if option.takes != "attached" and not rest:
                value = self._value(option)
            self.used.append(UsedOption(f"-{letter}", option, value))
            return

    def _value(self, option: ProgramOption) -> Argument:
        """Return the value that follows an option."""
        if option.takes == "pair":
            self._next()
        return self._next() if option.takes in {"value", "pair"} else ""

    def _next(self) -> Argument:
        """Return the next word as a value."""
        if self._at >= len(self._words):
            return ""
        self._at += 1
        return self._words[self._at - 1]


def may_be_option(word: Argument) -> bool:
    """Return whether an uncertain word may begin with a dash."""
    return word is None or (isinstance(word, WordPrefix) and (word == "" or word[0] in "-+"))


def _badness(option: ProgramOption) -> tuple[bool, bool, bool]:
    return option.role in EXECUTING, option.role in {"writes", "edits", "changes"}, option.takes == "value"
