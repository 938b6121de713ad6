"""Resolves a model name, such as `anthropic/claude-sonnet-4-5`, to a model."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import attrs

from engine.config.config import Config, ModelConfig, nearest_name, suggest_names
from engine.core.errors import ConfigError, UnknownModel
from engine.core.protocols import Model
from engine.providers.auth.auth import account_of, split_password
from engine.providers.auth.key_variables import Credential, auth_of, credential_of, public_headers, with_region
from engine.providers.hosts.base_url import base_url_of, path_of
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import host_named, hosts_of
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.catalog import info_of
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.quirks import Quirks

if TYPE_CHECKING:
    from engine.core.llm_types import ModelInfo
    from engine.providers.http.endpoint import Endpoint
    from engine.providers.wire.wire_format import WireFormat

# Guesses the host from a model's name, for users who left it out.
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
    """A model that holds connections; the caller of `resolve` must close it."""

    async def aclose(self) -> None:
        """Close all connections, also those in use. Completes even if cancelled."""
        ...


def wire_format(host: Host, quirks: Quirks) -> WireFormat:
    """Return the wire format of *host*. Imports only that format's module."""
    module = import_module(f"engine.providers.{host.wire}.wire")
    wire = cast("Callable[[Quirks], WireFormat]", module.wire)(quirks)
    if quirks.output == "native":
        return wire
    from engine.providers.wire.answer_tool import with_answer_tool

    return with_answer_tool(wire)


def resolve(name: str, env: Mapping[str, str], config: Config | None = None) -> ProviderModel:
    """Return the model *name*, with keys and addresses from *env*.

    Raises `UnknownModel` for a name without a known host, `ConfigError` for a missing or invalid setting. Opens no
    connection.
    """
    config = config or Config()
    if name.startswith("local:"):
        return _local_file_model(name, config)
    host, own_name = split_name(name, config)
    env = with_region(host, env)
    host_config = config.hosts.get(host.name)
    base_url, auth = split_password(
        base_url_of(host, env, None if host_config is None else host_config.base_url),
        auth_of(host, env, config.auth_file),
    )
    # Importing httpx takes longer than importing the rest of the engine: only users of a model should pay for it.
    from engine.providers.http.endpoint import Endpoint
    from engine.providers.http.http_model import HttpModel

    quirks = attrs.evolve(_quirks_of(name, host, own_name, config), title=host.title)
    endpoint = Endpoint(base_url=base_url, auth=auth, path=path_of(host, env), headers=public_headers(host))
    if endpoint.is_loopback and (host_config is None or "empty_content" not in host_config.quirks):
        # It is probably a wrapper around llama.cpp, whose chat templates fail on null.
        quirks = attrs.evolve(quirks, empty_content=True)
    if host.wire == "openai_responses" and base_url != host.base_url:
        # A proxy may refuse a tool that is no function, or drop it, and then nothing would show that.
        quirks = attrs.evolve(quirks, defers_tools=False)
    info = attrs.evolve(
        info_of(name, host, config),
        unasked_effort=quirks.default_effort or quirks.unasked_effort,
        account=account_of(base_url, auth),
        defers_tools=quirks.defers_tools,
        sends_deferred=host.wire != "openai_responses",
    )
    return HttpModel(info, wire_format(host, quirks), endpoint, learner=_limits_prober(host, endpoint, own_name))


def _quirks_of(name: str, host: Host, own_name: str, config: Config) -> Quirks:
    same_as = config.models.get(name, ModelConfig()).same_as
    return quirks_of(host, own_name if same_as is None else same_as.partition("/")[2])


def reads_media(name: str, media_type: str, config: Config) -> bool:
    """Return whether the model *name* reads media of that type in a prompt. Raises `UnknownModel`."""
    from engine.providers.wire.normalize_transcript import media_kind

    if name.startswith("local:"):
        quirks = quirks_of(BY_NAME["llamacpp"], name)
    else:
        quirks = _quirks_of(name, *split_name(name, config), config)
    kind = media_kind(media_type)
    return kind in quirks.user_media and (kind != "image" or media_type in quirks.image_types)


def _limits_prober(host: Host, endpoint: Endpoint, model: str) -> Callable[[ModelInfo], Awaitable[ModelInfo]] | None:
    """Return a function that queries *host* for the limits of *model*; None if it has no such API."""
    if not host.limits_api:
        return None
    from engine.providers.local.probe import probe_limits

    return partial(probe_limits, endpoint, host.limits_api, model)


def _local_file_model(name: str, config: Config) -> ProviderModel:
    """Return the model of a GGUF file, served by llama.cpp."""
    from engine.providers.local.local_model import local_model

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
    """Split *name* into its host and the model's name, which may contain slashes. Raises `UnknownModel`."""
    prefix, _, own_name = name.partition("/")
    host = host_named(prefix, config)
    if host is not None and own_name:
        if not {".", ".."}.isdisjoint(own_name.split("/")):  # in a request's path it would name another model
            raise UnknownModel(f"invalid model name {name!r}: a part of it is '.' or '..'", field="model")
        return host, own_name
    nearest = "" if host is not None else _nearest_model(prefix, own_name, name, config)
    advice = _name_advice(prefix, own_name, nearest, config)
    raise UnknownModel(f"no host for the model name {name!r}: {advice}", field="model", nearest=nearest)


def _nearest_model(prefix: str, own_name: str, name: str, config: Config) -> str:
    """Return the name that may have been meant; empty: none is known."""
    if own_name:
        host = nearest_name(prefix, hosts_of(config))
        return f"{host}/{own_name}" if host else ""
    maker = next((host for pattern, host in _MAKERS if re.match(pattern, name.lower())), None)
    return f"{maker}/{name}" if name and maker is not None else ""


def _name_advice(prefix: str, own_name: str, nearest: str, config: Config) -> str:
    if (host := host_named(prefix, config)) is not None:
        return f"{prefix} is a host; add a model's name, for example {host.name}/{host.example}"
    if not own_name:
        if nearest:
            return f"did you mean {nearest}?"
    elif (hint := suggest_names(prefix, hosts_of(config))).startswith("did you mean"):
        return hint
    return "write host/model, for example anthropic/claude-sonnet-4-5; `engine models` lists the hosts"


def unusable_reason(host: Host, env: Mapping[str, str], config: Config | None = None) -> str:
    """Return why *host* cannot be used with *env*, and what to do; empty if nothing is missing."""
    config = config or Config()
    host_config = config.hosts.get(host.name)
    env = with_region(host, env)
    try:
        auth_of(host, env, config.auth_file)
        base_url_of(host, env, None if host_config is None else host_config.base_url)
        path_of(host, env)
    except ConfigError as error:
        return str(error)
    return ""


def usable_hosts(env: Mapping[str, str], config: Config | None = None) -> Mapping[str, Credential]:
    """Return the hosts that can be used with *env*, in the order of the table, and where their credentials come from.

    It reads files. Nothing is contacted: a key may be wrong, and a server on this machine may not be running.
    """
    config = config or Config()
    usable = {name: host for name, host in hosts_of(config).items() if not unusable_reason(host, env, config)}
    return {name: credential_of(host, with_region(host, env), config.auth_file) for name, host in usable.items()}
