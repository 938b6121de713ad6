"""From a model's name to a model: `anthropic/claude-sonnet-4-5`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import attrs

from engine.errors import ConfigError, UnknownModel
from engine.ports import Model
from engine.providers.catalog import info_of

if TYPE_CHECKING:
    from engine.providers.wire import WireFormat


class ProviderModel(Model, Protocol):
    """A model that holds connections, to be closed by whoever resolved it."""

    async def aclose(self) -> None:
        """Close all connections, those in use too. If cancelled, the same."""
        ...


@attrs.frozen(kw_only=True)
class _Provider:
    """A row of the table.

    Attributes:
        prefix: of the names of its models.
        base_url: where it is, unless the environment says otherwise.
        base_variable: the environment variable which does.
        key_variable: the one which holds the key.
        names: what its own models' names begin with; a host elsewhere may have others.
        example: a name that works.
        wire: gives its wire format, imported on use.
    """

    prefix: str
    base_url: str
    base_variable: str
    key_variable: str
    names: str
    example: str
    wire: Callable[[], WireFormat]


def _anthropic_messages() -> WireFormat:
    from engine.providers.anthropic import MESSAGES

    return MESSAGES


_PROVIDERS = (
    _Provider(
        prefix="anthropic",
        base_url="https://api.anthropic.com",
        base_variable="ANTHROPIC_BASE_URL",
        key_variable="ANTHROPIC_API_KEY",
        names="claude-",
        example="anthropic/claude-sonnet-4-5",
        wire=_anthropic_messages,
    ),
)


def resolve(name: str, env: Mapping[str, str]) -> ProviderModel:
    """Return the model called *name*, with the keys and addresses that *env* holds.

    Raises `UnknownModel` for a name that no provider answers to, `ConfigError`
    for an environment in which it can't work. Opens no connection.
    """
    provider = _provider_of(name)
    base_url = _base_url(provider, env)
    own_name = name.removeprefix(f"{provider.prefix}/")
    if base_url is None and not own_name.startswith(provider.names):
        raise UnknownModel(
            f"{provider.prefix} has no model {own_name!r}: its names begin with {provider.names!r}, as in"
            f" {provider.example!r}. For another host of the same wire format set {provider.base_variable}."
        )
    key = _key(provider, env)
    # httpx takes longer to import than the rest of the engine: only who uses a model pays for it.
    from engine.providers.http import Endpoint, HttpModel

    return HttpModel(info_of(name), provider.wire(), Endpoint(base_url=base_url or provider.base_url, key=key))


def _provider_of(name: str) -> _Provider:
    prefix, slash, own_name = name.partition("/")
    for provider in _PROVIDERS:
        if prefix == provider.prefix and own_name:
            return provider
    guess = next((p for p in _PROVIDERS if not slash and name.startswith(p.names)), None)
    known = ", ".join(f"{p.prefix}/<model>" for p in _PROVIDERS)
    hint = f"did you mean {guess.prefix}/{name}?" if guess else f"for example {_PROVIDERS[0].example!r}."
    raise UnknownModel(f"no provider answers to the model name {name!r}: write {known}; {hint}")


def _base_url(provider: _Provider, env: Mapping[str, str]) -> str | None:
    """Return the address that the environment names; its text is never shown, for it may hold a password."""
    url = env.get(provider.base_variable, "").strip()
    if not url:
        return None
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or not _is_printable(url):
        raise ConfigError(f"{provider.base_variable} is no address: it must look like {provider.base_url}")
    return url.rstrip("/").removesuffix("/v1")


def _key(provider: _Provider, env: Mapping[str, str]) -> str:
    key = env.get(provider.key_variable, "").strip()
    if not key:
        raise ConfigError(f"no key for {provider.prefix}: set the environment variable {provider.key_variable}")
    # It becomes a header. An HTTP library that stumbles over it would show it in the error.
    if not _is_printable(key):
        raise ConfigError(f"{provider.key_variable} holds a character that no key has: set it anew, on one line")
    return key


def _is_printable(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value
