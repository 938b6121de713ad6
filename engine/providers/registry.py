"""From a model's name to a model: `anthropic/claude-sonnet-4-5`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import attrs

from engine.config.config import Config, ModelConfig, known
from engine.core.errors import ConfigError, UnknownModel
from engine.core.protocols import Model
from engine.providers.auth.auth import split_password
from engine.providers.auth.environment import auth_of, public_headers, with_region
from engine.providers.hosts.base_url import base_url_of, path_of
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import host_named, hosts_of
from engine.providers.hosts.table import BY_NAME
from engine.providers.models.catalog import info_of
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.quirks import Quirks

if TYPE_CHECKING:
    from engine.core.llm_types import ModelInfo
    from engine.providers.http.endpoint import Endpoint
    from engine.providers.wire.wire_format import WireFormat

# Whose models these are, for somebody who left the host out.
_MAKERS: tuple[tuple[str, str], ...] = (
    (r"claude", "anthropic"),
    (r"gpt|o\d|codex|chatgpt", "openai"),
    (r"gemini|gemma", "google"),
    (r"grok", "xai"),
    (r"(open-)?(mistral|mixtral)|ministral|magistral|devstral|codestral|pixtral", "mistral"),
    (r"deepseek", "deepseek"),
    (r"kimi|moonshot", "moonshot"),
    (r"glm", "zai"),
    (r"minimax", "minimax"),
    (r"qwen", "alibaba"),
    (r"command|c4ai", "cohere"),
    (r"sonar", "perplexity"),
    (r"nova|(us|eu|apac|global)\.[a-z]+\.", "bedrock"),
    (r"llama|phi", "ollama"),
)


class ProviderModel(Model, Protocol):
    """A model that holds connections, to be closed by whoever resolved it."""

    async def aclose(self) -> None:
        """Close all connections, those in use too. If cancelled, the same."""
        ...


def wire_format(host: Host, quirks: Quirks) -> WireFormat:
    """Return what *host* speaks; its module is imported here, and no other."""
    module = import_module(f"engine.providers.{host.wire}.wire")
    wire = cast("Callable[[Quirks], WireFormat]", module.wire)(quirks)
    if quirks.output == "native":
        return wire
    from engine.providers.wire.answer_tool import with_answer_tool

    return with_answer_tool(wire)


def resolve(name: str, env: Mapping[str, str], config: Config | None = None) -> ProviderModel:
    """Return the model called *name*, with the keys and addresses that *env* holds.

    Raises `UnknownModel` for a name that no host answers to, `ConfigError`
    for an environment or a configuration in which it can't work. Opens no connection.
    """
    config = config or Config()
    if name.startswith("local:"):
        return _local_file_model(name, config)
    host, own_name = split_name(name, config)
    env = with_region(host, env)
    host_config = config.hosts.get(host.name)
    base_url, auth = split_password(
        base_url_of(host, env, None if host_config is None else host_config.base_url), auth_of(host, env)
    )
    # httpx takes longer to import than the rest of the engine: only who uses a model pays for it.
    from engine.providers.http.endpoint import Endpoint
    from engine.providers.http.model import HttpModel

    same_as = config.models.get(name, ModelConfig()).same_as
    real_name = own_name if same_as is None else same_as.partition("/")[2]
    quirks = attrs.evolve(quirks_of(host, real_name), title=host.title)
    endpoint = Endpoint(base_url=base_url, auth=auth, path=path_of(host, env), headers=public_headers(host))
    info = info_of(name, host, config)
    return HttpModel(info, wire_format(host, quirks), endpoint, learner=_limits_prober(host, endpoint, own_name))


def _limits_prober(host: Host, endpoint: Endpoint, model: str) -> Callable[[ModelInfo], Awaitable[ModelInfo]] | None:
    """Return what asks *host* for the limits of *model*; None if it does not tell."""
    if not host.limits_api:
        return None
    from engine.providers.local.probe import probe_limits

    return partial(probe_limits, endpoint, host.limits_api, model)


def _local_file_model(name: str, config: Config) -> ProviderModel:
    """Return the model of a GGUF file: llama.cpp serves it."""
    from engine.providers.local.model import local_model

    host = BY_NAME["llamacpp"]
    model_config = config.models.get(name, ModelConfig())
    info = info_of(name, host, config)
    return local_model(
        name,
        lambda: wire_format(host, attrs.evolve(quirks_of(host, name), title="llama.cpp")),
        context=model_config.context or 0,
        info=info if info.is_known else None,
    )


def split_name(name: str, config: Config) -> tuple[Host, str]:
    """Return the host of a model and the model's own name, which may have slashes too; raise `UnknownModel`."""
    prefix, _, own_name = name.partition("/")
    host = host_named(prefix, config)
    if host is not None and own_name:
        if not {".", ".."}.isdisjoint(own_name.split("/")):  # in the path of a request it would name another one
            raise UnknownModel(f"no model has a name like {name!r}: it has a part which is only dots")
        return host, own_name
    raise UnknownModel(f"no host answers to the model name {name!r}: {_name_advice(prefix, own_name, name, config)}")


def _name_advice(prefix: str, own_name: str, name: str, config: Config) -> str:
    if (host := host_named(prefix, config)) is not None:
        return f"{prefix} is a host; write a model's name after it, for example {host.name}/{host.example}"
    if not own_name:
        maker = next((host for pattern, host in _MAKERS if re.match(pattern, name.lower())), None)
        if name and maker is not None:
            return f"did you mean {maker}/{name}?"
    elif (hint := known(prefix, hosts_of(config))).startswith("did you mean"):
        return hint
    return "write host/model, for example anthropic/claude-sonnet-4-5; `engine models` lists the hosts"


def unusable_reason(host: Host, env: Mapping[str, str], config: Config | None = None) -> str:
    """Return why *host* can't be used here, and what to do about it; empty: it can, as far as can be told."""
    host_config = config.hosts.get(host.name) if config else None
    env = with_region(host, env)
    try:
        auth_of(host, env)
        base_url_of(host, env, None if host_config is None else host_config.base_url)
        path_of(host, env)
    except ConfigError as error:
        return str(error)
    return ""
