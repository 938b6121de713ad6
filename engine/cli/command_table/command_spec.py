"""What describes a command: its arguments, its flags in groups, its subcommands, all as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import attrs

from engine.core.value_base import Value

# What a shell offers for a value: files, or names that the engine keeps in a file for it. "": nothing.
Completion = Literal["", "file", "directory", "session", "model", "agent", "host", "grant", "tool"]
Count = Literal["one", "optional", "any", "some"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Argument(Value):
    """A word of the command line that belongs to no flag.

    Attributes:
        name: the attribute of the parsed arguments.
        help: what it is, in at most 60 characters.
        label: how usage and help call it.
        count: one; optional; any: none or several; some: at least one.
        detail: sentences that the long help adds.
        choices: the only values that are accepted; empty: any.
        parse: makes the value from its text; raises `argparse.ArgumentTypeError`.
        default: the value of an optional argument that is missing.
        completes: what a shell offers.
    """

    name: str
    help: str
    label: str = ""
    count: Count = "one"
    detail: str = ""
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] = str
    default: object = None
    completes: Completion = ""

    @property
    def shown(self) -> str:
        """How usage and help call it."""
        return self.label or ("|".join(self.choices) if self.choices else self.name.upper())


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Flag(Value):
    """A flag, with or without a value.

    Attributes:
        names: all names of it, such as `-o` and `--output-file`; the last one names the attribute of the parsed
            arguments, unless `dest` does.
        help: what it does, in at most 60 characters: a verb first, no full stop.
        value: the label of its value; empty: it has none, unless it has choices.
        detail: sentences that the long help adds.
        example: it with a value, as it may be pasted; by default its last name.
        choices: the only values that are accepted; empty: any.
        parse: makes the value from its text; raises `argparse.ArgumentTypeError`.
        default: the value where the flag is missing.
        default_text: how the help calls that default, where it is not the value itself.
        variable: the variable of the environment whose value counts where the flag is missing; empty: none.
        const: what a flag without a value stores.
        dest: the attribute of the parsed arguments.
        is_repeated: it may be repeated, and its values are a list.
        is_optional: its value may be missing: then `const` counts.
        is_required: the command can't do without it.
        excludes: flags of a command with the same text here exclude each other.
        completes: what a shell offers for the value.
    """

    names: tuple[str, ...]
    help: str
    value: str = ""
    detail: str = ""
    example: str = ""
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] = str
    default: object = None
    default_text: str = ""
    variable: str = ""
    const: object = True
    dest: str = ""
    is_repeated: bool = False
    is_optional: bool = False
    is_required: bool = False
    excludes: str = ""
    completes: Completion = ""

    @property
    def name(self) -> str:
        """The name by which messages and examples call it."""
        return self.names[-1]

    @property
    def takes_value(self) -> bool:
        """Whether the next word is its value."""
        return bool(self.value or self.choices)

    @property
    def attribute(self) -> str:
        """The attribute of the parsed arguments."""
        return self.dest or self.name.lstrip("-").replace("-", "_")

    @property
    def shown(self) -> str:
        """Its names and its value, as help and reference show them."""
        names = ", ".join(self.names)
        value = self.value or "|".join(self.choices)
        return f"{names} {f'[{value}]' if self.is_optional else value}".rstrip()

    @property
    def shown_default(self) -> str:
        """What the help says about the default; empty if there is nothing to say."""
        has_default = self.takes_value and self.default not in (None, "") and not self.is_repeated
        text = self.default_text or (str(self.default) if has_default else "")
        return ", or ".join(part for part in (f"${self.variable}" if self.variable else "", text) if part)


@attrs.frozen(eq=False, repr=False)
class FlagGroup(Value):
    """Flags under a heading of the help."""

    title: str
    flags: tuple[Flag, ...]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CommandSpec(Value):
    """A command or a subcommand.

    Attributes:
        name: the words after `engine`, such as `run` or `sessions show`.
        help: what it does, in at most 60 characters: a verb first, no full stop.
        description: the same in sentences.
        run: the function that gets the arguments and returns the exit code, as `module:function`; empty: it only has
            subcommands.
        arguments: its arguments, in their order.
        groups: its flags; `-h` and `--help` belong to every command.
        notes: paragraphs after the flags.
        exit_codes: what each code means that it can end with.
        sample: arguments that the examples of its flags begin with, as a shell takes them, required flags included.
        examples: further command lines, after `engine`, with what each does.
        subcommands: what its first word selects.
        default: the subcommand where no word selects one.
    """

    name: str
    help: str
    description: str
    run: str = ""
    arguments: tuple[Argument, ...] = ()
    groups: tuple[FlagGroup, ...] = ()
    notes: tuple[str, ...] = ()
    exit_codes: Mapping[int, str] = attrs.field(factory=dict[int, str])
    sample: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    subcommands: tuple[CommandSpec, ...] = ()
    default: str = ""

    @property
    def flags(self) -> tuple[Flag, ...]:
        """All of its flags, without those of its subcommands."""
        return tuple(flag for group in self.groups for flag in group.flags)

    def with_subcommands(self) -> Iterator[CommandSpec]:
        """Yield it and everything below it."""
        yield self
        for subcommand in self.subcommands:
            yield from subcommand.with_subcommands()

    def example_of(self, flag: Flag) -> str:
        """Return a command line with *flag*, as it may be pasted."""
        example = "" if flag.is_required else flag.example or flag.name
        return " ".join(part for part in ("engine", self.name, self.sample, example) if part)
