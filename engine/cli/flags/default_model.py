"""The model to use where nothing names one: that of the first provider with a key, else of a server on this machine.

The order is fixed: `DEFAULT_MODELS`, then the other providers in the order of their table, then those that only the
user's configuration has, then the servers on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import attrs
import trio

from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.core.value_base import Value
from engine.providers.auth.auth import split_password
from engine.providers.auth.key_variables import Credential, auth_of, credential_of, public_headers, with_region
from engine.providers.hosts.base_url import base_url_of
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import hosts_of
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.usable import can_work
from engine.providers.registry import unusable_reason

# All of them are in the price table of 2026-11-18.
DEFAULT_MODELS: Final = (
    "anthropic/claude-sonnet-5-5",
    "openai/gpt-6.1-terra",
    "google/gemini-3.8-flash",
    "xai/grok-4.7",
    "mistral/mistral-medium-latest",
    "deepseek/deepseek-v4-pro",
    "openrouter/anthropic/claude-sonnet-5.5",
    "vercel/anthropic/claude-sonnet-5.5",
    "groq/openai/gpt-oss-120b",
    "bedrock/global.anthropic.claude-sonnet-5-5",
)
LOCAL_TIMEOUT: Final = 0.3


@attrs.frozen(eq=False, repr=False)
class DefaultModel(Value):
    """A model that can be used here, though nothing names it.

    Attributes:
        name: the model.
        found: what was found: a variable, a stored key, or a server.
    """

    name: str
    found: str

    @property
    def line(self) -> str:
        """What the user reads about it."""
        return f"Using {self.name} (found {self.found})"

    @property
    def advice(self) -> str:
        """How the user makes it the default."""
        return f"To keep it: engine config set defaults.model {self.name}"


def default_model(env: Mapping[str, str], config: Config | None = None) -> str:
    """Return the default model of the first provider that can be used with *env*; the first one if none can.

    It reads files, and contacts nothing.
    """
    found = next(keyed_defaults(env, config or Config()), None)
    return DEFAULT_MODELS[0] if found is None else found.name


def find_default_model(env: Mapping[str, str], config: Config) -> DefaultModel | None:
    """Return the model to use where nothing names one; None: there is no key, and no server runs on this machine.

    It blocks: for at most 0.3 seconds, and only without a key. Not for use in a Trio run.
    """
    return next(keyed_defaults(env, config), None) or trio.run(local_default, env, config)


def keyed_defaults(env: Mapping[str, str], config: Config) -> Iterator[DefaultModel]:
    """Yield the default model of each provider for which there is a key, in the fixed order."""
    seen: set[str] = set()
    for host, model in _candidates(hosts_of(config), config):
        if unusable_reason(host, env, config):
            continue
        credential = credential_of(host, with_region(host, env), config.auth_file)
        words = _words_of(credential, host)
        # A key may be that of two hosts, which have different wire formats.
        if credential.source != "none" and words not in seen:
            seen.add(words)
            yield DefaultModel(model, words)


def _candidates(hosts: Mapping[str, Host], config: Config) -> Iterator[tuple[Host, str]]:
    named = [(hosts[model.partition("/")[0]], model) for model in DEFAULT_MODELS]
    yield from named
    seen = {host.name for host, _ in named}
    for host in hosts.values():
        if host.name in seen:
            continue
        # The example of a host that only the configuration has is no model: one must be configured.
        own = next((model for model in config.models if model.partition("/")[0] == host.name), None)
        example = f"{host.name}/{host.example}" if host.name in BY_NAME and host.example else None
        if (model := own or example) is not None:
            yield host, model


def _words_of(credential: Credential, host: Host) -> str:
    match credential.source:
        case "variable":
            return credential.name
        case "cloud":
            return f"credentials of {host.title}"
        case "key command":
            return f"the key_command of {host.name}"
        case _:
            return f"a key of `engine auth add {host.name}`"


async def local_default(
    env: Mapping[str, str], config: Config, *, timeout: float = LOCAL_TIMEOUT
) -> DefaultModel | None:
    """Return a model of a server on this machine; None: none answers within *timeout* seconds.

    A checkpoint. Asks at loopback addresses only. If cancelled, nothing is left.
    """
    found: dict[str, DefaultModel] = {}
    hosts = [host for host in hosts_of(config).values() if host.is_local]
    with trio.move_on_after(timeout):
        async with trio.open_nursery() as nursery:
            for host in hosts:
                nursery.start_soon(partial(_ask, host, env, config, found, timeout=timeout))
    await trio.lowlevel.checkpoint()
    # The order of the table, not that of the answers.
    return next((found[host.name] for host in hosts if host.name in found), None)


async def _ask(
    host: Host, env: Mapping[str, str], config: Config, found: dict[str, DefaultModel], *, timeout: float
) -> None:
    # Imported here: these load the HTTP library.
    from engine.providers.http.endpoint import Endpoint
    from engine.providers.local.probe import list_models

    configured = config.hosts.get(host.name)
    try:
        auth = auth_of(host, env, config.auth_file)
        address = base_url_of(host, env, None if configured is None else configured.base_url)
    except ConfigError:  # it is not set up
        await trio.lowlevel.checkpoint()
        return
    address, auth = split_password(address, auth)
    endpoint = Endpoint(base_url=address, auth=auth, headers=public_headers(host))
    if not endpoint.is_loopback:
        await trio.lowlevel.checkpoint()
        return
    names = await list_models(endpoint, timeout) or ()
    model = next((name for name in names if can_work(host, name)), None)
    if model is not None:
        found[host.name] = DefaultModel(f"{host.name}/{model}", f"{host.title} at {endpoint.host}")
