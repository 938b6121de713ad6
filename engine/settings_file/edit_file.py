"""Change a configuration file: comments and the order of everything else stay; the file is replaced atomically."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tomllib
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from engine.core.errors import ConfigError, StoreError
from engine.settings_file.config_keys import VERSION_KEY, Key, format_key, value_at
from engine.settings_file.document import VERSION

if TYPE_CHECKING:
    from tomlkit.items import Item

    _Table = MutableMapping[str, object]

_PRIVATE: Final = 0o600


def with_value(text: str, key: Key, value: object) -> str:
    """Return the file *text* with *key* set to *value*. Raises `ConfigError` if it can't be set there."""
    document = _parse(text)
    table: _Table = document
    for position, part in enumerate(key[:-1]):
        if part not in table:
            table[part] = tomlkit.table(is_super_table=position < len(key) - 2)
        inner = table[part]
        if not isinstance(inner, MutableMapping):
            raise ConfigError(f"{format_key(key)} can't be set: {part} is no table")
        table = cast("_Table", inner)
    table[key[-1]] = value
    return _checked(tomlkit.dumps(document), key, value)


def without_value(text: str, key: Key) -> str:
    """Return the file *text* without *key*, and without tables that it leaves empty. Raises `ConfigError` if it is not set."""
    document = _parse(text)
    tables: list[_Table] = [document]
    for part in key[:-1]:
        inner = tables[-1].get(part)
        if not isinstance(inner, MutableMapping):
            break
        tables.append(cast("_Table", inner))
    if len(tables) < len(key) or key[-1] not in tables[-1]:
        raise ConfigError(f"{format_key(key)} is not set in this file")
    del tables[-1][key[-1]]
    for depth in range(len(key) - 1, 0, -1):
        # A table with a comment in it is not empty for its reader.
        if tables[depth] or "#" in cast("Item", tables[depth]).as_string():
            break
        del tables[depth - 1][key[depth - 1]]
    return _checked(tomlkit.dumps(document), key, None)


def with_version(text: str) -> str:
    """Return the file *text* in the newest format. Raises `ConfigError` if it can't be read."""
    document = tomllib.loads(text)
    if VERSION_KEY in document:
        return text
    # At the top: further down, it would belong to a table.
    return f"{VERSION_KEY} = {VERSION}\n{text}"


def replace_file(path: Path, text: str) -> None:
    """Write a configuration file atomically, with the access rights that it has, or for its owner alone. It blocks.

    A link stays one: the file that it leads to is replaced. Raises `StoreError`; the old file is unchanged then.
    """
    real = Path(os.path.realpath(path))
    temporary = real.with_name(f".{real.name}.{secrets.token_hex(8)}")
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(real.stat().st_mode) if real.exists() else _PRIVATE
        try:
            with os.fdopen(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE), "wb"
            ) as file:
                os.fchmod(file.fileno(), mode)
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(real)
        except BaseException:  # re-raised: a partial file must not stay behind
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(f"can't write {path}: {error.strerror or error}") from error


def _parse(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise ConfigError(f"the file is not valid TOML: {error}") from error


def _checked(text: str, key: Key, value: object) -> str:
    """Return *text* if the key has that value in it. The file must not be replaced by something else."""
    try:
        result = value_at(tomllib.loads(text), key)
    except ValueError as error:
        raise ConfigError(f"{format_key(key)} can't be changed in this file: edit it by hand") from error
    if result != value:
        raise ConfigError(f"{format_key(key)} can't be changed in this file: edit it by hand")
    return text
