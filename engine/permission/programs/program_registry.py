"""The registry of programs: the built-in tables, and what a user's configuration adds to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, cast, get_args

import attrs

from engine.core.errors import ConfigError
from engine.permission.programs.subcommand_depth import ARITY
from engine.permission.programs.tables.all_programs import PROGRAMS
from engine.permission.programs.tables.names import names_for
from engine.permission.programs.tables.option_spec import EXECUTING, ProgramOption
from engine.permission.programs.tables.program_spec import CustomReader, Dashes, Program, Reading, Tail

_MAX_ARITY: Final = 8
# `gcloud compute instances list` has three levels below the program.
_MAX_DEPTH: Final = 4


@attrs.frozen(eq=False)
class ProgramRegistry:
    """The programs by their names.

    Attributes:
        programs: what they do with their arguments.
        arity: how many words of a command identify what it does (see `subcommand_depth`).
    """

    programs: Mapping[str, Program] = attrs.field(repr=False)
    arity: Mapping[tuple[str, ...], int] = attrs.field(repr=False)

    def find(self, name: str) -> tuple[str, Program] | None:
        """Return a program by its base name, with the name it has in the registry."""
        for candidate in names_for(name):
            if candidate in self.programs:
                return candidate, self.programs[candidate]
        return None

    def arity_of(self, path: Sequence[str]) -> int:
        """Return how many words, without options, identify what a command beginning with *path* does; 0: unknown."""
        # The longest entry decides: `npm run` has another arity than `npm`.
        for length in range(min(len(path), 3), 0, -1):
            count = self.arity.get(tuple(path[:length]))
            if count is not None:
                return count
        return 0


DEFAULT_REGISTRY: Final = ProgramRegistry(PROGRAMS, ARITY)


def extend_registry(tables: Mapping[str, object]) -> ProgramRegistry:
    """Return the default registry, extended by the programs in a user's configuration.

    There is a table for each program. Its keys are those of `Program` and two more: `like`, another program with the
    defaults for all other keys, and `arity`, how many words of it to offer for "always":

        [programs.deploy]
        options = "-q -c|--config=reads --exec=shell"
        tail = "command"
        permutes = false
        [programs.shop]
        like = "git"
        arity = 2
        [programs.shop.commands.status]
        reading = "free"

    Raises:
        ConfigError: a key or a value is invalid, or contradicts another.
    """
    programs = dict(DEFAULT_REGISTRY.programs)
    arity = dict(DEFAULT_REGISTRY.arity)
    for name, table in tables.items():
        if not name or "/" in name or name != name.strip():
            raise ConfigError(f"programs.{name}: name a program without its folder")
        programs[name] = _parse_program(f"programs.{name}", table, (name,), arity)
    registry = ProgramRegistry(programs, arity)
    # All at once, so that the user need not fix them one by one.
    problems = [problem for name in tables for problem in find_program_contradictions(registry, name)]
    if problems:
        raise ConfigError("; ".join(problems))
    return registry


# In the configuration `reader` is called `manner`; it may be that of a program in the tables.
_KEYS: Final[Mapping[str, str]] = {
    "manner" if field.name == "reader" else field.name: field.name
    for field in attrs.fields(Program)
    if field.init and field.name != "commands"
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "dashes": get_args(Dashes),
    "reading": get_args(Reading),
    "tail": get_args(Tail),
    "manner": get_args(CustomReader),
}


def _parse_program(where: str, table: object, path: tuple[str, ...], arity: dict[tuple[str, ...], int]) -> Program:
    """Return a program from its table, and add its arity."""
    entries = _table(where, table)
    if len(path) > _MAX_DEPTH:
        raise ConfigError(f"{where}: this has to be a table")
    commands = _table(f"{where}.commands", entries.pop("commands", {}))
    program = _base(where, entries.pop("like", None))
    if "arity" in entries:
        arity[path] = _count(f"{where}.arity", entries.pop("arity"))
    changes: dict[str, object] = {}
    for key, value in entries.items():
        if key not in _KEYS:
            raise ConfigError(f"{where}.{key}: there is no such key")
        field = _KEYS[key]
        is_text = isinstance(getattr(program, field), str)
        if not isinstance(value, str if is_text else bool):
            raise ConfigError(f"{where}.{key}: this has to be {'a string' if is_text else 'true or false'}")
        if value not in _CHOICES.get(key, (value,)):
            named = ", ".join(repr(choice) for choice in _CHOICES[key])
            raise ConfigError(f"{where}.{key}: this has to be one of {named}, not {value!r}")
        changes[field] = value
    below = {
        name: _parse_program(f"{where}.commands.{name}", command, (*path, name), arity)
        for name, command in commands.items()
    }
    # The types of the values are checked above.
    return cast("_Evolve", attrs.evolve)(program, commands={**program.commands, **below}, **changes)


class _Evolve(Protocol):
    def __call__(self, program: Program, /, **changes: object) -> Program: ...


def _table(where: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: this has to be a table")
    return {str(key): below for key, below in cast("Mapping[object, object]", value).items()}


def _base(where: str, like: object) -> Program:
    if like is None:
        return Program()
    if not isinstance(like, str) or like not in DEFAULT_REGISTRY.programs:
        raise ConfigError(f"{where}.like: there is no program {like!r} in the tables")
    return DEFAULT_REGISTRY.programs[like]


def _count(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_ARITY:
        raise ConfigError(f"{where}: this has to be a number of words from 1 to {_MAX_ARITY}")
    return value


# ---- contradictions ----------------------------------------------------------------------------------------------


def find_contradictions(registry: ProgramRegistry) -> list[str]:
    """Return the contradictions in a registry, one message for each."""
    problems = [problem for name in registry.programs for problem in find_program_contradictions(registry, name)]
    for path, count in registry.arity.items():
        whole = " ".join(path)
        if count < len(path):
            problems.append(f"{whole}: its arity is less than its own words")
        if len(path) > 1 and registry.arity_of(path[:-1]) >= count:
            problems.append(f"{whole}: its arity adds nothing to that of {' '.join(path[:-1])}")
    return problems


def find_program_contradictions(registry: ProgramRegistry, name: str) -> Iterator[str]:
    """Yield the contradictions in the row of one program."""
    yield from _check_program(f"programs.{name}", registry.programs[name], registry)


def _check_program(where: str, program: Program, registry: ProgramRegistry) -> Iterator[str]:
    try:
        program.validate()
    except ValueError as error:
        yield f"{where}: {error}"
        return
    if program.reading in {"free", "known"} and program.opaque:
        yield f"{where}: it only reads, and it is opaque"
    yield from _check_tail(where, program)
    for spelling, option in program.table.items():
        if option.takes == "nothing" and option.role not in _FLAG_ROLES:
            yield f"{where}: {spelling} takes no value, so it can't be {option.role}"
    yield from _find_shadowed(where, program.table)
    for name, below in program.commands.items():
        if name.startswith("-"):
            yield f"{where}.commands.{name}: a command can't begin with a dash"
        yield from _check_program(f"{where}.commands.{name}", below, registry)


def _check_tail(where: str, program: Program) -> Iterator[str]:
    """Yield the contradictions about the tail, the command that a program starts with its last words."""
    if not program.tail:
        return
    if "*" in program.operands:
        yield f"{where}: any number of operands leaves no words for the tail"
    if program.commands:
        yield f"{where}: it has commands of its own and starts others"
    elif program.permutes and any(option.takes != "nothing" for option in program.table.values()):
        yield f"{where}: options of the command that it starts would be taken for its own"


_FLAG_ROLES: Final = frozenset({"plain", "changes", "reading", "code"})


def _find_shadowed(where: str, table: Mapping[str, ProgramOption]) -> Iterator[str]:
    """Yield options of which only one spelling executes something."""
    for spelling, option in table.items():
        if not spelling.startswith("--") and spelling.startswith("-") and len(spelling) > 2:
            other = table.get(f"-{spelling}")
            if other is not None and (other.role in EXECUTING) != (option.role in EXECUTING):
                yield f"{where}: {spelling} and -{spelling} differ: only one of them is marked as executing something"
