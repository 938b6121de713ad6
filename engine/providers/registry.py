"""From a model's name to a model: `anthropic/claude-sonnet-4-5`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import urlsplit

import attrs

from engine.errors import ConfigError, UnknownModel
from engine.ports import Model
from engine.providers.auth import Auth, KeyAuth, NoAuth
from engine.providers.catalog import info_of
from engine.providers.families import quirks_of
from engine.providers.host_table import BY_NAME
from engine.providers.hosts import Host
from engine.providers.quirks import Quirks

if TYPE_CHECKING:
    from engine.providers.wire import WireFormat


class ProviderModel(Model, Protocol):
    """A model that holds connections, to be closed by whoever resolved it."""

    async def aclose(self) -> None:
        """Close all connections, those in use too. If cancelled, the same."""
        ...


def wire_format(host: Host, quirks: Quirks) -> WireFormat:
    """Return what *host* speaks; its module is imported here, and no other."""
    module = import_module(f"engine.providers.{host.wire}")
    wire = cast("Callable[[Quirks], WireFormat]", module.wire)(quirks)
    if quirks.output == "native":
        return wire
    from engine.providers.structured import with_answer_tool

    return with_answer_tool(wire)


def resolve(name: str, env: Mapping[str, str]) -> ProviderModel:
    """Return the model called *name*, with the keys and addresses that *env* holds.

    Raises `UnknownModel` for a name that no host answers to, `ConfigError`
    for an environment in which it can't work. Opens no connection.
    """
    host, own_name = _host_of(name)
    base_url = _base_url(host, env)
    auth = _auth(host, env)
    # httpx takes longer to import than the rest of the engine: only who uses a model pays for it.
    from engine.providers.http import Endpoint, HttpModel

    quirks = attrs.evolve(quirks_of(host, own_name), title=host.title)
    endpoint = Endpoint(base_url=base_url, auth=auth, path=host.path, headers=host.headers)
    return HttpModel(info_of(name), wire_format(host, quirks), endpoint)


def _host_of(name: str) -> tuple[Host, str]:
    prefix, slash, own_name = name.partition("/")
    if prefix in BY_NAME and own_name:
        return BY_NAME[prefix], own_name
    guess = next(
        (h for h in BY_NAME.values() if not slash and name.partition("-")[0] == h.example.partition("-")[0]), None
    )
    known = ", ".join(f"{host}/<model>" for host in BY_NAME)
    hint = f"did you mean {guess.name}/{name}?" if guess and name else "for example 'anthropic/claude-sonnet-4-5'."
    raise UnknownModel(f"no host answers to the model name {name!r}: write {known}; {hint}")


def _base_url(host: Host, env: Mapping[str, str]) -> str:
    """Return the address; the text of one that the environment names is never shown, for it may hold a password."""
    for variable in host.base_variables:
        if url := env.get(variable, "").strip():
            return _checked_url(url, variable, host.base_url)
    return host.base_url


def _checked_url(url: str, variable: str, example: str) -> str:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or not _is_printable(url):
        raise ConfigError(f"{variable} is no address: it must look like {example}")
    return url.rstrip("/").removesuffix("/v1")


def _auth(host: Host, env: Mapping[str, str]) -> Auth:
    if host.auth == "none":
        return NoAuth()
    for variable in host.key_variables:
        key = env.get(variable, "").strip()
        # It becomes a header. An HTTP library that stumbles over it would show it in the error.
        if key and not _is_printable(key):
            raise ConfigError(f"{variable} holds a character that no key has: set it anew, on one line")
        if key:
            return KeyAuth("authorization", key, "Bearer") if host.auth == "bearer" else KeyAuth(host.auth, key)
    raise ConfigError(f"no key for {host.name}: set the environment variable {host.key_variables[0]}")


def _is_printable(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value
