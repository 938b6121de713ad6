"""The name of a model as a user writes it: whole, a provider's alone, or a part of one that means one model only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from engine.cli.flags.default_model import DEFAULT_MODELS
from engine.config.config import Config
from engine.core.errors import UnknownModel
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import hosts_of

_MOST_LISTED: Final = 3


def expand_model(name: str, env: Mapping[str, str], config: Config) -> str:
    """Return the full name of the model that *name* means. It reads files.

    Raises `UnknownModel` that lists the models if it may mean several, else those with the nearest names.
    """
    hosts = hosts_of(config)
    prefix, _, own_name = name.partition("/")
    # A provider may have models that the table lacks.
    if name.startswith("local:") or (prefix in hosts and own_name) or not name:
        return name
    if prefix in hosts:
        default = next((model for model in DEFAULT_MODELS if model.startswith(f"{prefix}/")), None)
        return default or f"{prefix}/{hosts[prefix].example}"
    return _match(name, env, config)


def _match(name: str, env: Mapping[str, str], config: Config) -> str:
    # Imported here: the price table takes long to load, and most names are whole.
    from engine.providers.models.model_names import match_names, nearest_names
    from engine.providers.registry import unusable_reason

    hosts = [*hosts_of(config).values()]
    everything = _names_of(hosts, config)
    usable = _names_of([host for host in hosts if not unusable_reason(host, env, config)], config)
    matches = match_names(name, usable) or match_names(name, everything)
    if len(matches) == 1:
        return matches[0]
    if matches:
        rest = f" and {len(matches) - _MOST_LISTED} more" if len(matches) > _MOST_LISTED else ""
        raise UnknownModel(
            f"Several models match {name!r}: {', '.join(matches[:_MOST_LISTED])}{rest}\nNext: write more of the name"
        )
    nearest = nearest_names(name, usable) or nearest_names(name, everything)
    words = f". Nearest: {', '.join(nearest)}" if nearest else ""
    raise UnknownModel(
        f"No model is called {name!r}{words}\nNext: {f'use --model {nearest[0]}' if nearest else 'engine models'}"
    )


def _names_of(hosts: Iterable[Host], config: Config) -> list[str]:
    """Return the models of *hosts*. A provider with two wire formats has two names: its models count once."""
    from engine.providers.models.catalog import list_models

    names: dict[tuple[str, str], str] = {}
    for host in hosts:
        for info in list_models(host, config):
            names.setdefault((host.prices or host.kind, info.name.partition("/")[2]), info.name)
    return [*names.values()]
