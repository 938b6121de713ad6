"""The limits of a task: from flags, else from the configuration."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import attrs

from engine.config.config import Config, ModelConfig, Prices
from engine.core.errors import ConfigError
from engine.core.settings import Limits


def task_limits(args: argparse.Namespace, config: Config) -> Limits:
    """Return the limits that flags set, else those of the configuration."""
    defaults = config.defaults
    return Limits(
        steps=args.max_steps or defaults.max_steps,
        tokens=args.max_tokens or defaults.max_tokens,
        cost=args.max_cost or defaults.max_cost,
        seconds=args.max_seconds or defaults.max_seconds,
    )


def headless_limits(limits: Limits, config: Config) -> Limits:
    """Return the limits of a task that no user watches: one of money where there is none, to end a loop."""
    cost = config.defaults.headless_cost
    return attrs.evolve(limits, cost=cost) if limits.cost is None and cost else limits


def check_prices(models: Iterable[str], config: Config) -> None:
    """Raise `ConfigError` for a model without a price: no limit of money could hold."""
    for model in models:
        if not has_price(model, config):
            raise ConfigError(
                f"a limit of cost needs the price of {model}, in dollars per million tokens\n"
                f"Next: engine run -c 'models.\"{model}\".prices={{input=1.0,output=4.0}}'"
            )


def has_price(model: str, config: Config) -> bool:
    """Tell whether the cost of a model's requests is known; a model on this machine costs nothing."""
    # Imported here: few runs have a limit of money.
    from engine.providers.hosts.host_config import host_named
    from engine.providers.models.catalog import info_of

    # A price of 0 that the user has written is one.
    if model.startswith("local:") or config.models.get(model, ModelConfig()).prices != Prices():
        return True
    host = host_named(model.partition("/")[0], config)
    info = info_of(model, host, config)
    return (host is not None and host.is_local) or bool(info.price_input or info.price_output)
