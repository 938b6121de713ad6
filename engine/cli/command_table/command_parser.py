"""From a command's specification to parsed arguments."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from engine.cli.command_table.command_help import help_text
from engine.cli.command_table.command_spec import Argument, CommandSpec, Count, Flag
from engine.cli.terminal.standard_streams import print_text
from engine.core.errors import ConfigError

_NARGS: Final[dict[Count, str | None]] = {"one": None, "optional": "?", "any": "*", "some": "+"}


class SpecParser(argparse.ArgumentParser):
    """The parser of a command. Its errors are `ConfigError`: what is wrong, and what to do next."""

    def __init__(self, spec: CommandSpec) -> None:
        """Make the parser of *spec*; flags can't be abbreviated, so that a new one breaks no script."""
        super().__init__(prog=f"engine {spec.name}", allow_abbrev=False, add_help=False)
        self.spec = spec
        self.add_argument("-h", action=_Help, is_long=False)
        self.add_argument("--help", action=_Help, is_long=True)
        for argument in spec.arguments:
            _add_argument(self, argument)
        sets: dict[str, argparse._ActionsContainer] = {}  # pyright: ignore[reportPrivateUsage]  # it has no other name
        for flag in spec.flags:
            if flag.excludes and flag.excludes not in sets:
                sets[flag.excludes] = self.add_mutually_exclusive_group()
            _add_flag(sets[flag.excludes] if flag.excludes else self, flag)

    def error(self, message: str) -> NoReturn:
        """Raise `ConfigError`: argparse would print the whole usage, which pushes the message out of sight."""
        message = message.replace("the following arguments are required:", "missing:")
        raise ConfigError(message if "\nNext: " in message else f"{message}\nNext: {self.prog} --help")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse *arguments*. Raises `ConfigError`, or `SystemExit` after the help was printed."""
        args, unknown = self.parse_known_args(arguments)
        if unknown:
            word = unknown[0]
            if word.startswith("-") and word != "-":
                self.error(f"unknown flag: {word}{_similar_flag_hint(word, self.spec)}")
            self.error(f"too many arguments: {word}")
        return args


def _similar_flag_hint(word: str, spec: CommandSpec) -> str:
    # Imported here: difflib is needed only for a wrong name.
    from difflib import get_close_matches

    # Without the dashes, which would make all short names similar.
    names = {name.lstrip("-"): name for flag in spec.flags for name in flag.names}
    close = get_close_matches(word.partition("=")[0].lstrip("-"), names, n=1)
    return f": did you mean {names[close[0]]}?" if close else ""


class _Help(argparse.Action):
    """Print the help and end the process, as argparse's own action does."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, is_long: bool) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS)
        self.is_long = is_long

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> NoReturn:
        assert isinstance(parser, SpecParser)
        raise SystemExit(print_text(help_text(parser.spec, is_long=self.is_long)))


def _add_argument(parser: argparse.ArgumentParser, argument: Argument) -> None:
    parser.add_argument(
        argument.name,
        metavar=argument.shown,
        nargs=_NARGS[argument.count],
        type=_value_of(argument),
        default=argument.default,
    )


def _add_flag(parser: argparse._ActionsContainer, flag: Flag) -> None:  # pyright: ignore[reportPrivateUsage]  # it has no other name
    if not flag.takes_value:
        # Of several flags with one attribute, the first one's default counts.
        parser.add_argument(
            *flag.names,
            dest=flag.attribute,
            action="store_const",
            const=flag.const,
            default=_default_of(flag),
        )
        return
    parser.add_argument(
        *flag.names,
        dest=flag.attribute,
        metavar=flag.value or None,
        nargs="?" if flag.is_optional else None,
        const=flag.const if flag.is_optional else None,
        type=_value_of(flag),
        default=[] if flag.is_repeated else _default_of(flag),
        required=flag.is_required,
        action="append" if flag.is_repeated else "store",
    )


def _default_of(flag: Flag) -> object:
    """Return the value where the flag is missing: that of its variable, if one is set. Raises `ConfigError`."""
    default = False if flag.const is True and not flag.takes_value else flag.default
    text = os.environ.get(flag.variable, "").strip() if flag.variable else ""
    if not text:
        return default
    try:
        if flag.takes_value:
            return _value_of(flag)(text)
        return flag.const if _yes_or_no(text) else default
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"{flag.variable} {error}\nNext: unset {flag.variable}") from error


def _yes_or_no(text: str) -> bool:
    if text.lower() not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
        raise argparse.ArgumentTypeError(f"must be 1 or 0, not {text!r}")
    return text.lower() in {"1", "true", "yes", "on"}


def _value_of(row: Argument | Flag) -> Callable[[str], object]:
    """Return what makes the value from its text. Not `choices=` of argparse: its message differs between Pythons."""
    if not row.choices:
        return row.parse

    def choose(text: str) -> object:
        if text not in row.choices:
            *most, last = row.choices
            choices = f"{', '.join(most)} or {last}" if most else last
            raise argparse.ArgumentTypeError(f"must be {choices}, not {text!r}")
        return row.parse(text)

    return choose
