"""Keys that are fetched when the first request needs them: from the system's keyring, or from a command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Final
from uuid import uuid4

import attrs
import trio

from engine.core.errors import AuthFailed, ConfigError
from engine.core.threads import to_thread
from engine.process.run_tree import run_tree
from engine.process.secret_values import remember_secret
from engine.providers.auth.auth import UnsignedRequest
from engine.providers.auth.auth_file import name_of_key
from engine.providers.auth.key_text import require_key

# A program that asks the user, such as a password manager, must do so within it.
SECONDS: Final = 10.0
# What a keyring calls this program.
SERVICE: Final = "engine"
INSTALL: Final = "pip install 'nursery-engine[keyring]'"
_MAX_BYTES: Final = 65_536
_MAX_REASON: Final = 200

# By command, for the life of the process: a password manager would ask again for each model of a host.
_COMMAND_KEYS: Final[dict[tuple[str, ...], str]] = {}


@attrs.define(eq=False)
class FetchedKeyAuth:
    """A key in a header, fetched for the first request, then kept in memory until the host refuses it.

    Attributes:
        host: the host's name.
        header: the header.
        scheme: what comes before the key; empty: nothing.
        fetch: returns the key; it gets the one that was refused last. Raises `AuthFailed`, `ConfigError`.
    """

    host: str
    header: str
    scheme: str
    fetch: Callable[[str], Awaitable[str]]
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _key: str = attrs.field(default="", init=False, repr=False)
    _refused: str = attrs.field(default="", init=False, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, once it has been fetched, and the one before it, which the host may still quote."""
        return tuple(key for key in (self._key, self._refused) if key)

    async def headers(self, request: UnsignedRequest) -> Mapping[str, str]:
        """Return the key's header. A checkpoint until the key is there; if cancelled before, the next request fetches it."""
        if not self._key:
            # Of requests at the same time, one fetches the key, and the others wait for it.
            async with self._lock:
                if not self._key:
                    key = require_key(await self.fetch(self._refused), f"the key of {self.host}")
                    remember_secret(name_of_key(self.host), key)
                    self._key = key
        return {self.header: self._with_scheme(self._key)}

    def renew(self, headers: Mapping[str, str]) -> bool:
        """Forget the key, unless another request has fetched a new one meanwhile; return True. Not a checkpoint."""
        if self._key and headers.get(self.header) == self._with_scheme(self._key):
            self._key, self._refused = "", self._key
        return True

    def _with_scheme(self, key: str) -> str:
        return f"{self.scheme} {key}" if self.scheme else key


async def key_of_command(host: str, command: tuple[str, ...], refused: str = "") -> str:
    """Return what *command* prints, or has printed before, unless that was *refused* since. Always a checkpoint.

    If cancelled, the command and what it has started are ended, and nothing is kept. Raises `AuthFailed` if it fails,
    prints nothing or takes longer than 10 seconds.
    """
    if (key := _COMMAND_KEYS.get(command, "")) not in {"", refused}:
        await trio.lowlevel.checkpoint()
        return key
    output, errors = bytearray(), bytearray()
    shown = shlex.join(command)
    try:
        finished = await run_tree(
            command,
            cwd=os.path.expanduser("~"),  # noqa: ASYNC240, PTH111  # reads a variable; a project's folder is no place for it
            marker=f"key-{uuid4().hex}",
            on_output=lambda chunk: _keep(output, chunk),
            on_errors=lambda chunk: _keep(errors, chunk),
            timeout=SECONDS,
        )
    except OSError as error:
        raise AuthFailed(f"the key_command of {host} can't be run: {shown}: {error.strerror or error}") from error
    if finished.timed_out:
        raise AuthFailed(f"the key_command of {host} took longer than {SECONDS:g} s: {shown}")
    if finished.exit_code != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        reason = f": {lines[-1][:_MAX_REASON]}" if lines else ""
        raise AuthFailed(f"the key_command of {host} failed with exit code {finished.exit_code}{reason}\nNext: {shown}")
    key = output.decode(errors="replace").strip()
    if not key:
        raise AuthFailed(f"the key_command of {host} printed nothing\nNext: {shown}")
    _COMMAND_KEYS[command] = key
    return key


def _keep(buffer: bytearray, chunk: bytes) -> None:
    buffer += chunk[: _MAX_BYTES - len(buffer)]


async def key_of_keyring(host: str, refused: str = "") -> str:
    """Return the key in the system's keyring, also if it is *refused*. A checkpoint; if cancelled, its thread goes on.

    Raises `AuthFailed` if the keyring has none, `ConfigError` if it can't be used.
    """
    del refused  # nothing is kept here
    key = await to_thread(read_keyring, host)
    if not key:
        raise AuthFailed(f"the keyring has no key of {host} any more\nNext: engine auth add {host}")
    return key


def read_keyring(host: str) -> str:
    """Return the key of *host* in the keyring; empty if there is none. It blocks. Raises `ConfigError`."""
    return _ask_keyring("read", lambda keyring: keyring.get_password(SERVICE, host)) or ""


def write_keyring(host: str, key: str) -> None:
    """Store the key of *host* in the keyring. It blocks. Raises `ConfigError`."""
    _ask_keyring("write", lambda keyring: keyring.set_password(SERVICE, host, key))


def delete_from_keyring(host: str) -> None:
    """Delete the key of *host* from the keyring, if it is there. It blocks. Raises `ConfigError`."""
    if read_keyring(host):
        _ask_keyring("change", lambda keyring: keyring.delete_password(SERVICE, host))


def _ask_keyring(verb: str, ask: Callable[[Any], Any]) -> Any:
    try:
        # Imported here: an extra, which takes long to import and looks for services.
        keyring = import_module("keyring")
        refused: Any = import_module("keyring.errors").KeyringError
    except ImportError as error:
        raise ConfigError(
            f"the keyring can't be used: the package keyring is not installed\nNext: {INSTALL}"
        ) from error
    try:
        return ask(keyring)
    # RuntimeError: no service is there. The others come from the libraries of such services.
    except (refused, RuntimeError, OSError) as error:
        raise ConfigError(f"can't {verb} the keyring: {' '.join(str(error).split())[:_MAX_REASON]}") from error
