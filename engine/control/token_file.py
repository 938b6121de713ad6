"""The files in which tokens are kept, readable by their owner alone.

`token` holds the token that a server of this user accepts, as text, since the user's own programs read it. `tokens.json`
holds further ones by name, with a role, as digests: they are shown once, when they are made.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from engine.control.credentials import Login, digest_of, new_secret
from engine.control.protocol.handshake import ROLES, Role
from engine.control.service.private_files import is_private_folder, private_folder, read_private, write_private
from engine.core.errors import ConfigError
from engine.permission.grants.state_file import Entries, StateFile

_FILE_NAME: Final = "token"
_TOKENS_NAME: Final = "tokens.json"
_OWNER: Final = "owner"  # what the token in that file is called
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def load_tokens(folder: Path, *, random: Callable[[int], bytes] = secrets.token_bytes) -> dict[str, Login]:
    """Return the tokens of *folder* by digest; the first call makes one.

    Raises:
        ConfigError: a file is not ours alone, or is damaged.
    """
    return {
        digest_of(load_token(folder, random=random)): Login(_OWNER, "full"),
        **dict(map(_login, _named(folder).read())),
    }


def token_files_state(folder: Path) -> object:
    """Return a value that changes when the files of `load_tokens` do. It blocks, briefly."""
    states: list[object] = []
    for name in (_FILE_NAME, _TOKENS_NAME):
        try:
            status = (folder / name).lstat()
        except OSError:
            states.append(None)
        else:
            states.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return states


def load_token(folder: Path, *, random: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """Return the token of *folder*; the first call makes it. Raises `ConfigError`."""
    path = private_folder(folder) / _FILE_NAME
    text = read_private(path)
    if text is None:
        write_private(path, new_secret(random) + "\n", replace=False)
        # Not what was just made: another process may have been first.
        text = read_private(path) or ""
    token = text.strip()
    if _SECRET.fullmatch(token) is None:
        raise ConfigError(f"{path} holds no token: remove it, and a new one is made")
    return token


def add_token(folder: Path, name: str, role: Role, *, random: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """Make a token called *name*; return it. It can't be read again later. Raises `ConfigError`, `StoreError`."""
    if _NAME.fullmatch(name) is None or name == _OWNER:
        raise ConfigError(f"a token can't be called {name!r}: use up to 64 of a-z, 0-9, `.`, `_` and `-`")
    secret = new_secret(random)

    def add(rows: Entries) -> Entries:
        if any(login.name == name for _, login in map(_login, rows)):
            raise ConfigError(f"there is a token called {name} already: revoke it first")
        return [*rows, {"name": name, "role": role, "digest": digest_of(secret)}]

    _named(folder).update(add)
    return secret


def list_tokens(folder: Path) -> list[Login]:
    """Return the names and roles of all tokens, that of the user's own programs first. Raises `ConfigError`."""
    if not is_private_folder(folder):
        return []
    own = [Login(_OWNER, "full")] if read_private(private_folder(folder) / _FILE_NAME) is not None else []
    return [*own, *(login for _, login in map(_login, _named(folder).read()))]


def revoke_token(folder: Path, name: str) -> bool:
    """Remove the token called *name*; return whether there was one. Raises `ConfigError`, `StoreError`.

    A server makes another token for the user's own programs; all browsers have to log in again.
    """
    if name == _OWNER:
        path = private_folder(folder) / _FILE_NAME
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        return True
    removed: list[object] = []

    def remove(rows: Entries) -> Entries:
        removed.extend(row for row in rows if _login(row)[1].name == name)
        return [row for row in rows if row not in removed]

    _named(folder).update(remove)
    return bool(removed)


def _named(folder: Path) -> StateFile:
    return StateFile(private_folder(folder) / _TOKENS_NAME, "tokens")


def _login(row: object) -> tuple[str, Login]:
    fields = cast("dict[str, object]", row) if isinstance(row, dict) else {}
    name, role, digest = fields.get("name"), fields.get("role"), fields.get("digest")
    if isinstance(name, str) and isinstance(digest, str) and _DIGEST.fullmatch(digest):
        for known in ROLES:
            if role == known:
                return digest, Login(name, known)
    raise ConfigError(f"tokens.json has an invalid entry: {json.dumps(name)}. Remove it from the file")
