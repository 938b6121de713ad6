"""The keys of the configuration: which there are, their defaults, and which are lists that add up.

A key is a path, such as `("models", "openai/gpt-5.6", "prices", "input")`, written `models."openai/gpt-5.6".prices.input`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Final, cast, get_args, get_origin, get_type_hints

import attrs

from engine.config.chat_config import ChatConfig
from engine.config.config import CompactionConfig, Defaults
from engine.config.store_config import StoreConfig
from engine.config.telemetry_config import TelemetryConfig
from engine.core.errors import ConfigError
from engine.core.lazy import regex
from engine.core.value_base import Value
from engine.settings_file.tables import (
    AgentTable,
    EnvironmentTable,
    HostTable,
    InstructionsTable,
    LanguageServerTable,
    McpTable,
    ModelTable,
    PermissionsTable,
    PluginsTable,
    ProgramTable,
    SandboxTable,
    SkillsTable,
)

Key = tuple[str, ...]

VERSION_KEY: Final = "version"

_CONTROL: Final = regex(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Section(Value):
    """A section of the file.

    Attributes:
        table: the class of its table; None: its content is checked elsewhere.
        is_named: it holds tables with names, as in `[hosts.NAME]`.
    """

    table: type[attrs.AttrsInstance] | None
    is_named: bool = False


SECTIONS: Final[Mapping[str, Section]] = {
    "hosts": Section(table=HostTable, is_named=True),
    "models": Section(table=ModelTable, is_named=True),
    "agents": Section(table=AgentTable, is_named=True),
    "defaults": Section(table=Defaults),
    "compaction": Section(table=CompactionConfig),
    "hooks": Section(table=None),
    "formatters": Section(table=ProgramTable, is_named=True),
    "checkers": Section(table=ProgramTable, is_named=True),
    "language_servers": Section(table=LanguageServerTable, is_named=True),
    "permissions": Section(table=PermissionsTable),
    "sandbox": Section(table=SandboxTable),
    "programs": Section(table=None),
    "instructions": Section(table=InstructionsTable),
    "skills": Section(table=SkillsTable),
    "plugins": Section(table=PluginsTable),
    "mcp": Section(table=McpTable),
    "environment": Section(table=EnvironmentTable),
    "chat": Section(table=ChatConfig),
    "telemetry": Section(table=TelemetryConfig),
    "store": Section(table=StoreConfig),
    "keys": Section(table=None),
}


def parse_key(text: str) -> Key:
    """Parse a dotted key, whose parts may be quoted as in TOML. Raises `ConfigError` if it is none."""
    try:
        document: object = tomllib.loads(f"{text} = 0") if "\n" not in text and "=" not in text else None
    except ValueError:
        document = None
    parts: list[str] = []
    while isinstance(document, dict) and len(table := cast("dict[str, object]", document)) == 1:
        ((part, document),) = table.items()
        parts.append(part)
    if not parts:
        raise ConfigError(f'{text!r} is no key; write defaults.model, or models."host/model".context')
    return tuple(parts)


def format_key(key: Key) -> str:
    """Return *key* as it is written in a file."""
    return ".".join(map(quote_part, key))


def quote_part(part: str) -> str:
    """Return a part of a key, quoted if it must be."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", part):
        return part
    # A name of another person's file could begin a line of its own on the terminal; and TOML takes no such characters.
    escaped = part.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04X}", escaped) + '"'


def is_additive(key: Key) -> bool:
    """Return whether the lists of several files add up, instead of the strongest one's counting alone."""
    return (
        key == ("permissions", "rules")
        or key[:1] == ("hooks",)
        or (key[:1] == ("agents",) and key[2:] in {("rules",), ("bounds",)})
    )


def is_whole(key: Key) -> bool:
    """Return whether the strongest file's table counts alone: parts of two servers would be a third one."""
    return len(key) == 3 and key[:2] == ("mcp", "servers")


def leaves(table: Mapping[str, object], above: Key = ()) -> Iterator[tuple[Key, object]]:
    """Yield the values that are no tables, with their keys; an empty table is such a value."""
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from leaves(cast("dict[str, object]", value), (*above, name))
        else:
            yield (*above, name), value


def value_at(table: Mapping[str, object], key: Key) -> object | None:
    """Return the value of *key*; None if it is not set (TOML has no null)."""
    value: object = dict(table)
    for part in key:
        if not isinstance(value, dict):
            return None
        value = cast("Mapping[str, object]", value).get(part)
    return value


def unknown_part(key: Key) -> tuple[int, Collection[str]] | None:
    """Return the position of the first part that does not exist, and the names there; None if the key may be set."""
    if key == (VERSION_KEY,):
        return None
    section = SECTIONS.get(key[0])
    if section is None:
        return 0, (*SECTIONS, VERSION_KEY)
    position = 2 if section.is_named else 1
    shape: object = section.table
    while position < len(key):
        if get_origin(shape) is dict:  # tables with names, as in [mcp.servers.NAME]
            shape = get_args(shape)[1]
        elif isinstance(shape, type) and attrs.has(shape):
            types = field_types(shape)
            if key[position] not in types:
                return position, types.keys()
            shape = types[key[position]]
        else:
            return None
        position += 1
    return None


def nearest_key(key: Key, names: Collection[str], *, is_section: bool = False) -> Key:
    """Return the key that is nearest to *key*, whose last part is none of *names*; empty: none is like it.

    It may be in another section, where a key has that very name.
    """
    # Imported here: needed only for errors.
    from difflib import get_close_matches

    elsewhere = [] if is_section else [each for each in _keys() if each[-1] == key[-1]]
    near = [(*key[:-1], name) for name in get_close_matches(key[-1], names, n=1)]
    # The name of a section is no key: `model` is near to `models`, but `defaults.model` is the key.
    candidates = [*elsewhere, *near] if len(key) == 1 else [*near, *elsewhere]
    return next(iter(candidates), ())


def _keys() -> Iterator[Key]:
    """Yield the keys of the sections, those that hold no names first."""
    for name, section in sorted(SECTIONS.items(), key=lambda item: item[1].is_named):
        if section.table is not None:
            above = (name, "NAME") if section.is_named else (name,)
            yield from ((*above, field) for field in field_types(section.table))


def field_types(table: type[attrs.AttrsInstance]) -> Mapping[str, object]:
    """Return the types of a table's fields, by their names in the file."""
    hints = get_type_hints(table)
    return {field.name: hints[field.name] for field in attrs.fields(table)}


def default_of(key: Key) -> object:
    """Return the default of a key that may be set; None: there is none."""
    section = SECTIONS.get(key[0])
    if section is None or section.table is None:
        return None
    names = key[2:] if section.is_named else key[1:]
    table: object = section.table
    for position, name in enumerate(names):
        if not (isinstance(table, type) and attrs.has(table)) or name not in field_types(table):
            return None
        if position < len(names) - 1:
            table = field_types(table)[name]
            continue
        default = attrs.fields_dict(table)[name].default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # attrs declares it as a function
            return None
        return None if default is attrs.NOTHING else default
    return None
