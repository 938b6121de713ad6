"""Limits and prices of models: one small question, whoever answers it.

What the user configured goes first, then what is published of the model at its host,
then what is true of its family. The window of a server on the user's own machine is
what it was started with, which none of these knows: `learn` asks it.
"""

from __future__ import annotations

import attrs

from engine.config.config import Config, ModelConfig, Prices
from engine.core.llm_types import LongPrices, ModelInfo
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import host_named
from engine.providers.models import prices
from engine.providers.models.family_names import family_of
from engine.providers.models.limits import Limits, limits_of

# Enough for a few steps, and what the smallest default of a server holds.
LOCAL_LIMITS = Limits(8_192, 2_048, is_known=False)


def info_of(name: str, host: Host | None = None, config: Config | None = None) -> ModelInfo:
    """Return limits and prices of the model called *name*, cautious limits where nobody tells any.

    Args:
        name: as a user writes it, `host/model`.
        host: the model's host, if it is known already.
        config: what the user configured.
    """
    config = config or Config()
    configured = config.models.get(name, ModelConfig())
    prefix, _, own_name = name.partition("/")
    host = host or host_named(prefix, config)
    table, model = _price_key(host, own_name, configured, config)
    entry = prices.find_price(table, model)
    limits = limits_of(model) if host is None or not host.is_local else LOCAL_LIMITS
    context = configured.context or (entry.context if entry and entry.context else limits.context)
    output = configured.output or min(limits.output, context // 2)
    base = _override_prices(LongPrices(above=0) if entry is None else entry.base, configured.prices)
    return ModelInfo(
        name=name,
        context=context,
        output=min(output, context),
        family=family_of(model),
        is_known=limits.is_known or configured.context is not None or bool(entry and entry.context),
        host=prefix,
        parallel=None if host is None else host.parallel,
        options=configured.options,
        price_input=base.price_input,
        price_output=base.price_output,
        price_cache_read=base.price_cache_read,
        price_cache_write=base.price_cache_write,
        long_prices=() if entry is None or configured.prices != Prices() else entry.long,
    )


def _price_key(host: Host | None, own_name: str, configured: ModelConfig, config: Config) -> tuple[str, str]:
    """Return by which host and name the table knows a model."""
    if configured.same_as is not None:
        prefix, _, own_name = configured.same_as.partition("/")
        host = host_named(prefix, config)
    return (host.prices or host.kind if host is not None else ""), own_name


def _override_prices(base: LongPrices, overrides: Prices) -> LongPrices:
    changes = {f"price_{name}": value for name, value in attrs.asdict(overrides).items() if value is not None}
    if overrides.input is not None:
        # A cache's price is in proportion to that of plain input, which is another one now.
        changes = {"price_cache_read": overrides.input, "price_cache_write": overrides.input} | changes
    return attrs.evolve(base, **changes)


def list_models(host: Host, config: Config | None = None) -> list[ModelInfo]:
    """Return the models of *host* that are known here, the configured ones among them."""
    config = config or Config()
    names = {f"{host.name}/{entry.name}": None for entry in prices.list_prices(host.prices or host.kind)}
    names |= {name: None for name in config.models if name.partition("/")[0] == host.name}
    return [info_of(name, host, config) for name in names]
