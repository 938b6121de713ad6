"""The keys that `engine auth add` stores: a file that only its owner can read, or an entry that points to the keyring."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from engine.core.errors import ConfigError, StoreError
from engine.core.value_base import Value
from engine.permission.grants.state_file import StateFile
from engine.process.secret_values import remember_secret

NAME: Final = "auth.json"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StoredKey(Value):
    """A key in the file.

    Attributes:
        host: the host's name.
        key: the key; empty if it is in the keyring.
        added: when it was stored, in seconds since 1970.
    """

    host: str
    key: str = attrs.field(repr=False)
    added: float

    @property
    def is_in_keyring(self) -> bool:
        """Whether the system's keyring holds the key."""
        return not self.key


@attrs.frozen(eq=False, repr=False)
class AuthFile(Value):
    """The file. Its methods block.

    They raise `ConfigError` for an invalid file, or one that others can read or change, `StoreError` for one that can't be
    used.
    """

    path: Path

    @classmethod
    def default(cls) -> AuthFile:
        """Return the file in this user's data folder."""
        # Imported here: a caller that names the file does not need it.
        from platformdirs import user_data_path

        return cls(user_data_path("engine", appauthor=False) / NAME)

    def keys(self) -> Mapping[str, StoredKey]:
        """Return the keys by host; none if there is no file. Commands don't show them from now on."""
        keys = {key.host: key for key in map(self._parse, self._file.read())}
        for key in keys.values():
            if key.key:
                remember_secret(name_of_key(key.host), key.key)
        return keys

    def add(self, host: str, key: str) -> None:
        """Store the key of *host*, instead of the one that is there. An empty one: the keyring holds it."""
        entry = {"host": host, "added": round(time.time()), **({"key": key} if key else {"keyring": True})}

        def replace(entries: Sequence[object]) -> Sequence[object]:
            return [*(one for one in entries if self._parse(one).host != host), entry]

        self._file.update(replace)

    def remove(self, host: str) -> None:
        """Forget the key of *host*. Raises `ConfigError` if there is none."""

        def without(entries: Sequence[object]) -> Sequence[object]:
            kept = [one for one in entries if self._parse(one).host != host]
            if len(kept) == len(entries):
                raise ConfigError(f"no key of {host} is stored\nNext: engine auth list")
            return kept

        self._file.update(without)

    @property
    def _file(self) -> StateFile:
        return StateFile(self.path, "keys", is_secret=True)

    def _parse(self, entry: object) -> StoredKey:
        values = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
        host, key, added = values.get("host"), values.get("key", ""), values.get("added")
        is_complete = bool(key) != (values.get("keyring") is True)
        if (
            not isinstance(host, str)
            or not isinstance(key, str)
            or not isinstance(added, (int, float))
            or not is_complete
        ):
            # Without the entry: it may be a key.
            raise ConfigError(
                f"{self.path} is invalid, so it is ignored: an entry has no host or no key. Repair it, or move it away."
            )
        return StoredKey(host=host, key=key, added=added)


def stored_key(auth_file: str, host: str) -> StoredKey | None:
    """Return the stored key of *host*; None: there is none. It blocks. Raises `ConfigError`."""
    if not auth_file:
        return None
    try:
        return AuthFile(Path(auth_file)).keys().get(host)
    except StoreError as error:
        raise ConfigError(str(error)) from error


def name_of_key(host: str) -> str:
    """Return what is shown in place of the key of *host*."""
    return f"the key of {host}"
