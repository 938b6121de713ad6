"""From words of the command line to the command that they call."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module

from engine.cli.command_table.command_list import COMMANDS
from engine.cli.command_table.command_parser import SpecParser
from engine.cli.command_table.command_spec import CommandSpec
from engine.cli.flags.arg_types import similar_name_hint
from engine.core.errors import ConfigError


def load_spec(name: str) -> CommandSpec:
    """Return the specification of a command of `COMMANDS`."""
    module, constant, _ = COMMANDS[name]
    spec: CommandSpec = getattr(import_module(f"engine.cli.command_table.{module}"), constant)
    return spec


def find_spec(name: str) -> CommandSpec:
    """Return the specification of a command or a subcommand, such as `sessions show`."""
    return next(spec for spec in load_spec(name.partition(" ")[0]).with_subcommands() if spec.name == name)


def parse_arguments(name: str, arguments: Sequence[str]) -> Namespace:
    """Parse *arguments* of a command. Raises `ConfigError`, or `SystemExit` after the help was printed."""
    return SpecParser(find_spec(name)).parse(arguments)


def all_specs() -> tuple[CommandSpec, ...]:
    """Return all commands, subcommands included, each group before its subcommands."""
    return tuple(spec for name in COMMANDS for spec in load_spec(name).with_subcommands())


def find_subcommand(spec: CommandSpec, arguments: Sequence[str]) -> tuple[CommandSpec, list[str]]:
    """Return the subcommand that *arguments* call, or *spec* itself, and its own arguments.

    Flags in front of the subcommand's name belong to the subcommand. Raises `ConfigError` for an unknown subcommand.
    """
    if not spec.subcommands:
        return spec, list(arguments)
    position = _first_word(spec, arguments)
    word = arguments[position] if position < len(arguments) else ""
    named = {each.name.rpartition(" ")[2]: each for each in spec.subcommands}
    if word in named:
        return find_subcommand(named[word], [*arguments[:position], *arguments[position + 1 :]])
    if spec.run:
        return spec, list(arguments)
    if word:
        raise ConfigError(
            f"unknown subcommand {word!r}{similar_name_hint(word, named)}\nNext: engine {spec.name} --help"
        )
    if arguments[:1] and arguments[0] in {"-h", "--help"}:
        return spec, list(arguments)
    return named.get(spec.default, spec), list(arguments)


def _first_word(spec: CommandSpec, arguments: Sequence[str]) -> int:
    """Return the position of the first word that is neither a flag nor the value of one."""
    with_value = {
        name for each in spec.with_subcommands() for flag in each.flags if flag.takes_value for name in flag.names
    }
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        position += 2 if arguments[position] in with_value else 1
    return position
