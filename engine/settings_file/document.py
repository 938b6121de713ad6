"""One source of configuration: a file, a flag or a variable, parsed but not yet interpreted."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, cast

import attrs

from engine.config.config import suggest_names
from engine.core.errors import ConfigError
from engine.permission.rules.toml_positions import TomlPath, value_lines
from engine.settings_file.config_keys import SECTIONS, VERSION_KEY, Key, format_key, leaves, nearest_key, unknown_part

# From the weakest to the strongest.
Kind = Literal["plugin", "system", "user", "project", "profile file", "environment", "command line", "required"]

# The version of the format, in the key `version`; a file without one is of the first.
VERSION: Final = 1
# Names under which users may try to put an API key into a file.
KEY_WORDS: Final = frozenset({"api_key", "apikey", "api-key", "key_value", "token", "secret", "password"})


@attrs.define(slots=False, eq=False, repr=False)
class ConfigDocument:
    """One source.

    Attributes:
        kind: what kind of source it is.
        source: how it is called: a path, `-c`, or a variable with `$`.
        values: the document.
        text: its TOML; empty for what is no file.
    """

    kind: Kind
    source: str
    values: Mapping[str, object]
    text: str = ""

    def location(self, path: TomlPath) -> str:
        """Return where a value is: the source, with the line in a file."""
        while path:
            # A table that has no line of its own is where its first value is.
            lines = [line for each, line in self._lines.items() if each[: len(path)] == path]
            if lines:
                return f"{self.source}:{self._lines.get(path, min(lines))}"
            path = path[:-1]
        return self.source

    @cached_property
    def _lines(self) -> Mapping[TomlPath, int]:
        return value_lines(self.text) if self.text else {}


def parse_document(text: bytes, source: str, kind: Kind = "user") -> ConfigDocument:
    """Parse a TOML file, and check its version and its keys. Raises `ConfigError` with all keys that do not exist."""
    try:
        decoded = text.decode("utf-8")
        values = tomllib.loads(decoded)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source} is not UTF-8") from error
    except ValueError as error:  # also raised for numbers with too many digits
        raise ConfigError(f"{source} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{source} is nested too deeply") from error
    document = ConfigDocument(kind, source, values, decoded)
    _check_version(document)
    if problems := list(_unknown_keys(document)):
        raise ConfigError("\n".join(problems))
    return document


def read_document(path: Path, kind: Kind) -> ConfigDocument | None:
    """Read a file; None if there is none. It blocks. Raises `ConfigError`."""
    try:
        return parse_document(path.read_bytes(), str(path), kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"can't read the configuration file {path}: {error.strerror}") from error


def _check_version(document: ConfigDocument) -> None:
    """Raise `ConfigError` for a file of a newer format, or of none."""
    version = document.values.get(VERSION_KEY, VERSION)
    where = document.location((VERSION_KEY,))
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ConfigError(f"{where}: version must be {VERSION}, not {version!r}")
    if version > VERSION:
        raise ConfigError(
            f"{where}: the file has version {version}, and this engine reads version {VERSION}\n"
            "Next: install a newer engine, or use --config with another file"
        )


def _unknown_keys(document: ConfigDocument) -> Iterator[str]:
    """Yield a line for each key that does not exist."""
    reported: set[Key] = set()
    for key, value in leaves(document.values):
        unknown = unknown_part(key)
        if unknown is None or key[: unknown[0] + 1] in reported:
            continue
        if key[0] in SECTIONS and SECTIONS[key[0]].is_named and len(key) <= unknown[0] and not isinstance(value, dict):
            continue  # a value instead of a table, which is reported as such
        path = key[: unknown[0] + 1]
        reported.add(path)
        yield _describe(document, path, unknown[1])


def _describe(document: ConfigDocument, path: Key, names: Collection[str]) -> str:
    where = document.location(path)
    is_section = len(path) == 1 and isinstance(document.values[path[0]], dict)
    nearest = nearest_key(path, names, is_section=is_section)
    # In the same table, the name says it.
    shown = format_key(nearest[-1:] if nearest[:-1] == path[:-1] else nearest)
    hint = f"did you mean {shown}?" if nearest else suggest_names(path[-1], names)
    if is_section:
        return f"{where}: unknown section [{format_key(path)}]: {hint}"
    advice = (
        "\nkeys belong in the environment: `key` names the variable"
        if path[-1] in KEY_WORDS and path[0] == "hosts"
        else ""
    )
    return f"{where}: unknown key {format_key(path)}: {hint}{advice}"


def table_in(values: Mapping[str, object], name: str) -> dict[str, object]:
    """Return a table of a document; empty if it has none, or something else."""
    table = values.get(name)
    return cast("dict[str, object]", table) if isinstance(table, dict) else {}
