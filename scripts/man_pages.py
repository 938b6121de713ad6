"""The man pages: engine(1) and engine-run(1) from the table of commands, engine-config(5) from the page about configuration."""

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from engine.cli.command_table.command_help import usage_line
from engine.cli.command_table.command_list import COMMANDS
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag
from engine.cli.command_table.find_command import load_spec

CONFIGURATION = Path(__file__).resolve().parent.parent / "docs" / "reference" / "configuration.md"
ORIGIN = '.\\" Written by scripts/command_files.py: run `make surface`.\n'
_RELATIVE_LINK = re.compile(r"\[((?:[^\]`]|`[^`]*`)*)\]\((?!\w+:)[^)\s]+\)")


def engine_page() -> str:
    """Return engine(1): the commands, and each but `engine run` with its flags."""
    specs = [load_spec(name) for name in COMMANDS]
    lines = [
        *_head("engine", "a coding agent that can be cancelled at any instant"),
        ".SH SYNOPSIS",
        r".B engine",
        r"\fICOMMAND\fR [\fIARGUMENTS\fR]",
        ".br",
        r".B engine help",
        r"[\fICOMMAND\fR]",
        ".br",
        r".B engine \-\-version",
        r"[\fB\-\-json\fR]",
        ".SH COMMANDS",
    ]
    for spec in specs:
        for each in spec.with_subcommands():
            lines += _command(each)
    lines += [
        ".SH FILES",
        ".TP",
        r"\fI~/.config/engine/config.toml\fR",
        "The configuration, see engine\\-config(5).",
        ".SH SEE ALSO",
        "engine\\-run(1), engine\\-config(5)",
    ]
    return ORIGIN + "\n".join(lines) + "\n"


def run_page() -> str:
    """Return engine-run(1)."""
    spec = load_spec("run")
    lines = [
        *_head("engine-run", spec.help),
        ".SH SYNOPSIS",
        _escaped(usage_line(spec)),
        ".SH DESCRIPTION",
        _escaped(spec.description),
        *_arguments(spec),
    ]
    for group in spec.groups:
        lines += [f".SH {_escaped(group.title.upper())}", *(line for flag in group.flags for line in _row(flag))]
    for note in spec.notes:
        lines += [".PP", _escaped(note)]
    lines += [".SH EXIT STATUS", *_exit_codes(spec), ".SH EXAMPLES"]
    for line, purpose in spec.examples:
        lines += [".TP", f"\\fBengine {_escaped(line)}\\fR", _escaped(purpose)]
    lines += [".SH SEE ALSO", "engine(1), engine\\-config(5)"]
    return ORIGIN + "\n".join(lines) + "\n"


def configuration_page() -> str:
    """Return engine-config(5), by docutils."""
    # A man page has no other pages to link to.
    text = _RELATIVE_LINK.sub(r"\1", CONFIGURATION.read_text("utf-8"))
    # By name: docutils has no types that both checkers take.
    publish: Callable[..., str] = import_module("docutils.core").publish_string
    settings = {"report_level": 5, "output_encoding": "unicode"}
    page = publish(
        text, parser=import_module("myst_parser.docutils_").Parser(), writer="manpage", settings_overrides=settings
    )
    body = page[page.index("\n.sp", page.index('.TH "')) :]
    comments = re.compile(r'^\.\\".*\n', flags=re.MULTILINE)
    macros = comments.sub("", page[: page.index('.TH "')])
    head = "\n".join(_head("engine-config", "the configuration of engine"))
    # The first line asks for the preprocessor of tables.
    return f"'\\\" t\n{ORIGIN}{macros.removeprefix(page.splitlines()[0])[1:]}{head}\n.SH DESCRIPTION{comments.sub('', body).rstrip()}\n"


def _head(name: str, what: str) -> list[str]:
    section = 5 if name.endswith("config") else 1
    return [f'.TH {name.upper()} {section} "" "engine" "engine"', ".SH NAME", f"{_escaped(name)} \\- {_escaped(what)}"]


def _command(spec: CommandSpec) -> Iterator[str]:
    yield f".SS {_escaped(usage_line(spec))}"
    yield _escaped(spec.description)
    if spec.name == "run":
        yield "Its flags are in engine\\-run(1)."
        return
    yield from _arguments(spec, heading="")
    for flag in spec.flags:
        yield from _row(flag)
    for note in spec.notes:
        yield from (".PP", _escaped(note))
    if spec.exit_codes:
        yield from (".PP", "Exit status:", *_exit_codes(spec))


def _arguments(spec: CommandSpec, heading: str = "ARGUMENTS") -> Iterator[str]:
    if heading and spec.arguments:
        yield f".SH {heading}"
    for argument in spec.arguments:
        yield from _row(argument)


def _row(row: Argument | Flag) -> Iterator[str]:
    yield ".TP"
    if isinstance(row, Flag):
        value = row.value or "|".join(row.choices)
        shown = f"[{value}]" if row.is_optional else value
        names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in row.names)
        yield f"{names} \\fI{_escaped(shown)}\\fR" if shown else names
    else:
        yield f"\\fI{_escaped(row.shown)}\\fR"
    default = f" (default: {row.shown_default})" if isinstance(row, Flag) and row.shown_default else ""
    repeated = " (may be repeated)" if isinstance(row, Flag) and row.is_repeated else ""
    yield _escaped(f"{row.help}{default}{repeated}")
    if row.detail:
        yield from (".br", _escaped(row.detail))


def _exit_codes(spec: CommandSpec) -> Iterator[str]:
    for code, meaning in spec.exit_codes.items():
        yield from (".TP", f"\\fB{code}\\fR", _escaped(meaning))


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    # At the beginning of a line these would be commands.
    return f"\\&{text}" if text[:1] in {".", "'"} else text
