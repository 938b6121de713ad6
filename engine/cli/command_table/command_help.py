"""The help of a command: `-h` has a line for each flag, `--help` and `engine help` have everything."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.cli.command_table.command_spec import Argument, CommandSpec, Count, Flag
from engine.cli.terminal.terminal_text import stdout_width

_WIDEST: Final = 100
_NARROWEST: Final = 40
# Names that are longer have their help on the next line.
_MAX_NAMES: Final = 26
_USAGE: Final[dict[Count, str]] = {"one": "{}", "optional": "[{}]", "any": "[{} ...]", "some": "{} ..."}


def help_text(spec: CommandSpec, *, is_long: bool) -> str:
    """Return the help of *spec*, wrapped for standard output."""
    width = min(max(stdout_width(), _NARROWEST), _WIDEST)
    sections = [(title, rows) for title, rows in _sections(spec, is_long=is_long) if rows]
    parts = [
        f"usage: {usage_line(spec)}",
        _wrapped(spec.description, width),
        *("\n".join([f"{title}:", *_columns(rows, width)]) for title, rows in sections),
        *_ending(spec, width, is_long=is_long),
    ]
    return "\n\n".join(parts) + "\n"


def _sections(spec: CommandSpec, *, is_long: bool) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the tables of the help: names, and what they mean."""
    yield "subcommands", [(each.name.rpartition(" ")[2], _command_help(spec, each)) for each in spec.subcommands]
    yield "arguments", [(each.shown, _row_help(each, is_long=is_long)) for each in spec.arguments]
    for group in spec.groups:
        yield group.title, [(each.shown, _row_help(each, is_long=is_long)) for each in group.flags]
    if is_long:
        yield "exit codes", [(str(code), meaning) for code, meaning in spec.exit_codes.items()]


def _ending(spec: CommandSpec, width: int, *, is_long: bool) -> Iterator[str]:
    if is_long:
        yield from (_wrapped(note, width) for note in spec.notes)
        if spec.examples:
            yield "\n".join(["examples:", *(f"  {line}" for line in example_lines(spec))])
    elif spec.groups or spec.arguments:
        yield f"More: engine {spec.name} --help"
    if spec.subcommands:
        yield f"More about one: engine help {spec.name} SUBCOMMAND"


def usage_line(spec: CommandSpec) -> str:
    """Return how the command is called, such as `engine run [FLAGS] [TASK]`."""
    words = ["engine", spec.name]
    if spec.subcommands:
        words.append("[SUBCOMMAND]" if spec.default else "SUBCOMMAND")
    if spec.subcommands or spec.groups:
        words.append("[FLAGS]")
    words += [f"{flag.name} {flag.value}" for flag in spec.flags if flag.is_required]
    words += [_USAGE[each.count].format(each.shown) for each in spec.arguments]
    return " ".join(words)


def example_lines(spec: CommandSpec) -> Iterator[str]:
    """Yield command lines, each with what it does as a comment."""
    for line, purpose in spec.examples:
        yield f"engine {line}  # {purpose}"


def _command_help(group: CommandSpec, spec: CommandSpec) -> str:
    return f"{spec.help} (default)" if spec.name == f"{group.name} {group.default}" else spec.help


def _row_help(row: Argument | Flag, *, is_long: bool) -> str:
    """Return the help of an argument or a flag; the paragraphs of the long help are lines of it."""
    brief = row.help
    if isinstance(row, Flag):
        if row.shown_default:
            brief += f" (default: {row.shown_default})"
        if row.is_repeated:
            brief += " (may be repeated)"
    return f"{brief}\n{row.detail}" if is_long and row.detail else brief


def _columns(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield rows of two columns; the second one wraps inside itself."""
    left = min(max((len(name) for name, _ in rows), default=0), _MAX_NAMES)
    for name, text in rows:
        lines = list(_wrapped_lines(text.splitlines(), width - left - 4))
        if len(name) > left:
            yield f"  {name}"
        else:
            yield f"  {name:<{left}}  {lines.pop(0)}"
        yield from (f"  {'':<{left}}  {line}" for line in lines)


def _wrapped_lines(paragraphs: Iterable[str], width: int) -> Iterator[str]:
    for paragraph in paragraphs:
        # A flag in a text must not be broken at its hyphens.
        yield from textwrap.wrap(paragraph, width, break_on_hyphens=False) or [""]


def _wrapped(text: str, width: int) -> str:
    return "\n".join(_wrapped_lines(text.splitlines(), width))
