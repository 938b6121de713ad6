"""Write the completion scripts for bash, zsh and fish: the same steps in three languages, with the same data.

The scripts are static: no Python runs when a key is pressed. Names of sessions, models, agents and grants come from files
that commands of the engine keep (`engine.cli.flags.completion_names`).
"""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from scripts.completion_data import Action, Node, nodes, values_by_action

TEMPLATES = Path(__file__).resolve().parent / "completion"


def bash_script() -> str:
    """Return the script for bash."""
    every = nodes()
    commands: list[str] = []
    for node in every:
        names = [f"    {_quoted(node.path)})"]
        if node.subcommands:
            words = (name for name, _ in node.subcommands if node.path or name != "help")
            names.append(f"        subcommands=({' '.join(words)})")
        names.append(f"        flags=({' '.join(name for name, _ in node.flags)})")
        commands += [*names, "        ;;"]
    return _filled(
        "engine.bash",
        COMMANDS=commands,
        VALUES=[f"    {_patterns(pairs)}) action={_text(action)} ;;" for action, pairs in values_by_action(every)],
        ARGUMENTS=[f"    {pattern}) action={_text(action)} ;;" for pattern, action in _arguments(every, _quoted)],
    )


def zsh_script() -> str:
    """Return the script for zsh."""
    every = nodes()
    commands: list[str] = []
    for node in every:
        rows = [(name, text) for name, text in node.subcommands if node.path or name != "help"]
        names = [f"    ({_quoted(node.path)})"]
        if rows:
            names.append(f"        subcommands=({_described(rows)})")
        names.append(f"        flags=({_described(node.flags)})")
        commands += [*names, "        ;;"]
    return _filled(
        "engine.zsh",
        COMMANDS=commands,
        VALUES=[f"    ({_patterns(pairs)}) action={_text(action)} ;;" for action, pairs in values_by_action(every)],
        ARGUMENTS=[f"    ({pattern}) action={_text(action)} ;;" for pattern, action in _arguments(every, _quoted)],
    )


def fish_script() -> str:
    """Return the script for fish."""
    every = nodes()
    values: list[str] = []
    for action, pairs in values_by_action(every):
        values += [
            f"        case {' '.join(_fish(' '.join(pair)) for pair in pairs)}",
            f"            echo {_text(action)}",
        ]
    arguments: list[str] = []
    for pattern, action in _arguments(every, _fish):
        arguments += [f"        case {pattern}", f"            echo {_text(action)}"]
    return _filled(
        "engine.fish",
        SUBCOMMANDS=_fish_rows((node.path, node.subcommands) for node in every if node.subcommands),
        FLAGS=_fish_rows((node.path, node.flags) for node in every),
        VALUES=values,
        ARGUMENTS=arguments,
    )


def _filled(template: str, **parts: list[str]) -> str:
    text = (TEMPLATES / template).read_text("utf-8")
    for name, lines in parts.items():
        text = text.replace(f"@{name}@", "\n".join(lines))
    return text


def _text(action: Action) -> str:
    """Return an action as one word of a shell: `file`, or `words FILE WORD …`."""
    return shlex.quote(
        " ".join(("words", action.file or "-", *action.words)) if action.kind == "words" else action.kind
    )


def _quoted(text: str) -> str:
    return f'"{text}"'


def _patterns(pairs: Iterable[tuple[str, str]]) -> str:
    return " | ".join(_quoted(" ".join(pair)) for pair in pairs)


def _arguments(every: Iterable[Node], quote: Callable[[str], str]) -> Iterable[tuple[str, Action]]:
    """Yield a pattern of a path and a position with the action for it."""
    for node in every:
        for position, action in enumerate(node.arguments):
            yield quote(f"{node.path} {position}"), action
        if node.rest is not None:
            yield f"{quote(node.path)}' '*" if quote is _quoted else f"'{node.path} *'", node.rest


def _described(rows: Iterable[tuple[str, str]]) -> str:
    """Return rows for zsh's `_describe`: a colon separates a name from its description."""
    return " ".join(shlex.quote(f"{name}:{text}") for name, text in rows)


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _fish_rows(rows: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> list[str]:
    lines: list[str] = []
    for path, pairs in rows:
        words = " ".join(f"{_fish(name)} {_fish(text)}" for name, text in pairs if path or name != "help")
        lines += [f"        case {_fish(path)}", f"            printf '%s\\t%s\\n' {words}"]
    return lines
