"""What shells offer for each command: the data of the completion scripts, from the table of commands."""

from collections.abc import Iterator

import attrs

from engine.cli.command_table.command_list import COMMANDS
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag
from engine.cli.command_table.find_command import load_spec
from engine.cli.default_tools import default_tools
from engine.config.builtin_agents import BUILT_IN
from engine.config.config import Config
from engine.providers.hosts.host_config import hosts_of

# Names that the engine keeps in a file for completion, and those that are always there.
FILES = {
    "session": ("sessions", ("last",)),
    "model": ("models", ()),
    "agent": ("agents", tuple(BUILT_IN)),
    "grant": ("grants", ()),
}


@attrs.frozen(kw_only=True)
class Action:
    """How the candidates for a word are made.

    Attributes:
        kind: "", "file", "directory" or "words".
        file: the file with further words, in the folder of names.
        words: the words.
    """

    kind: str = ""
    file: str = ""
    words: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Node:
    """A command, as far as completion needs it.

    Attributes:
        path: its words after `engine`; empty for the program itself.
        subcommands: name and help of each.
        flags: name and help of each that is offered.
        values: what is offered for the value of a flag, by each of its names.
        arguments: what is offered for each argument.
        rest: what is offered for further arguments.
    """

    path: str
    subcommands: tuple[tuple[str, str], ...]
    flags: tuple[tuple[str, str], ...]
    values: dict[str, Action]
    arguments: tuple[Action, ...] = ()
    rest: Action | None = None


def nodes() -> list[Node]:
    """Return all commands, the program itself first."""
    specs = [load_spec(name) for name in COMMANDS]
    top = Node(
        path="",
        subcommands=(*((name, row[2]) for name, row in COMMANDS.items()), ("help", "explain a command")),
        flags=(("--help", "list the commands"), ("--version", "print the version")),
        values={},
    )
    return [top, *(_node(each) for spec in specs for each in spec.with_subcommands())]


def _node(spec: CommandSpec) -> Node:
    default = next((each for each in spec.subcommands if each.name == f"{spec.name} {spec.default}"), spec)
    flags = {flag.name: flag for flag in default.flags}
    # Flags may precede a subcommand's name, so a group knows those of all its subcommands.
    below = {name: flag for each in spec.with_subcommands() for flag in each.flags for name in flag.names}
    once = tuple(each for each in default.arguments if each.count in {"one", "optional"})
    rest = next((each for each in default.arguments if each not in once), None)
    return Node(
        path=spec.name,
        subcommands=tuple((each.name.rpartition(" ")[2], each.help) for each in spec.subcommands),
        flags=(*((name, flag.help) for name, flag in flags.items()), ("--help", "show all about this command")),
        values={name: action_of(flag) for name, flag in below.items() if flag.takes_value},
        arguments=tuple(action_of(each) for each in once),
        rest=action_of(rest) if rest else None,
    )


def action_of(row: Argument | Flag) -> Action:
    """Return what is offered for an argument, or for the value of a flag."""
    if row.choices:
        return Action(kind="words", words=row.choices)
    if row.completes in FILES:
        file, words = FILES[row.completes]
        return Action(kind="words", file=file, words=words)
    match row.completes:
        case "host":
            return Action(kind="words", words=tuple(hosts_of(Config())))
        case "tool":
            return Action(kind="words", words=tuple(sorted(tool.name for tool in default_tools())))
        case _:
            return Action(kind=row.completes)


def values_by_action(every: list[Node]) -> Iterator[tuple[Action, list[tuple[str, str]]]]:
    """Yield each action, with the path and the flag of each value that it is for."""
    grouped: dict[Action, list[tuple[str, str]]] = {}
    for node in every:
        for name, action in node.values.items():
            grouped.setdefault(action, []).append((node.path, name))
    yield from grouped.items()
