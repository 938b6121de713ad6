"""The reference of the command line, from the table of commands: a page of the documentation."""

from collections.abc import Iterator, Sequence

from engine.cli.command_table.command_help import example_lines, usage_line
from engine.cli.command_table.command_list import COMMANDS
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag
from engine.cli.command_table.find_command import load_spec

INTRODUCTION = """\
<!-- Written by scripts/command_files.py: change engine/cli/command_table, then run `make surface`. -->

# The command line

`engine COMMAND -h` prints a line for each flag, `engine COMMAND --help` and `engine help COMMAND` print everything, and
`man engine` and `man engine-run` hold the same where the package has installed its man pages. `engine completion` prints a
completion script for bash, zsh or fish.

Flags can't be abbreviated. They may be in front of a subcommand's name: they belong to the subcommand. `--flag=VALUE`
is `--flag VALUE`. After `--`, words that begin with a dash are arguments. `engine --version --json` is for programs.

| command | what it does |
| --- | --- |
"""


def page_text() -> str:
    """Return the page."""
    specs = [load_spec(name) for name in COMMANDS]
    rows = "".join(f"| [`engine {spec.name}`](#engine-{spec.name}) | {_cell(spec.help)} |\n" for spec in specs)
    sections = ("\n".join(_section(each)) for spec in specs for each in spec.with_subcommands())
    return f"{INTRODUCTION}{rows}\n" + "\n".join(sections).rstrip() + "\n"


def _section(spec: CommandSpec) -> Iterator[str]:
    level = 2 + spec.name.count(" ")
    yield from (f"{'#' * level} engine {spec.name}", "", spec.description, "", "```text", usage_line(spec), "```", "")
    if spec.subcommands:
        rows = [(f"[`{each.name}`](#engine-{each.name.replace(' ', '-')})", each.help) for each in spec.subcommands]
        default = f"Without a subcommand, `{spec.default}` runs." if spec.default else ""
        yield from (*_table(("subcommand", "what it does"), rows), "", *((default, "") if default else ()))
    if spec.arguments:
        rows = [(f"`{each.shown}`", _meaning(each)) for each in spec.arguments]
        yield from (*_table(("argument", "what it is"), rows), "")
    for group in spec.groups:
        flags = [(_names(flag), _meaning(flag), flag.shown_default) for flag in group.flags]
        yield from (*_table((group.title, "what it does", "default"), flags), "")
    for note in spec.notes:
        yield from (note, "")
    if spec.examples:
        yield from ("```console", *(f"$ {line}" for line in example_lines(spec)), "```", "")
    if spec.exit_codes:
        yield from (*_table(("exit code", "when"), [(str(code), text) for code, text in spec.exit_codes.items()]), "")


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{' --- |' * len(heading)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _names(flag: Flag) -> str:
    value = flag.value or "|".join(flag.choices)
    shown = f"[{value}]" if flag.is_optional else value
    return ", ".join(f"`{name}`" for name in flag.names) + (f" `{shown}`" if shown else "")


def _meaning(row: Argument | Flag) -> str:
    text = row.help + (f". {row.detail}" if row.detail else "")
    if isinstance(row, Flag):
        text += " (required)" if row.is_required else " (may be repeated)" if row.is_repeated else ""
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
