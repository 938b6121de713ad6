"""Limits and prices of models, from all sources.

The user's configuration wins over what is published for the model at its host, and that over its family's defaults. The
context window of a local server is what it was started with, which none of these knows: `HttpModel.learn` queries it.
"""

from __future__ import annotations

import attrs

from engine.config.config import Config, ModelConfig, Prices
from engine.core.llm_types import LongPrices, ModelInfo
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_config import host_named
from engine.providers.models import prices
from engine.providers.models.family_names import family_of
from engine.providers.models.limits import ModelLimits, limits_of
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.models.usable import can_work

# Enough for a few steps; also the smallest default of a local server.
LOCAL_LIMITS = ModelLimits(8_192, 2_048, is_known=False)


def info_of(name: str, host: Host | None = None, config: Config | None = None) -> ModelInfo:
    """Return limits and prices of the model called *name*; cautious limits if they are unknown.

    Args:
        name: the full name, `host/model`.
        host: its host, if already resolved.
        config: the user's configuration.
    """
    config = config or Config()
    configured = config.models.get(name, ModelConfig())
    prefix, _, own_name = name.partition("/")
    host = host or host_named(prefix, config)
    table, model = _price_key(host, own_name, configured, config)
    entry = prices.find_price(table, model) or prices.UNLISTED
    usual = limits_of(model) if host is None or not host.is_local else LOCAL_LIMITS
    limits = _override_limits(usual, entry.context, configured)
    base = _override_prices(entry.base, configured.prices)
    return ModelInfo(
        name=name,
        context=limits.context,
        output=limits.output,
        family=family_of(model),
        is_known=limits.is_known,
        host=prefix,
        parallel=None if host is None else host.parallel,
        silence=None if host is None else host.silence,
        defers_tools=host is not None and quirks_of(host, model).defers_tools,
        options=configured.options,
        price_input=base.price_input,
        price_output=base.price_output,
        price_cache_read=base.price_cache_read,
        price_cache_write=base.price_cache_write,
        long_prices=entry.long if configured.prices == Prices() else (),
    )


def _price_key(host: Host | None, own_name: str, configured: ModelConfig, config: Config) -> tuple[str, str]:
    """Return the host and the name under which the price table lists a model."""
    if configured.same_as is not None:
        prefix, _, own_name = configured.same_as.partition("/")
        host = host_named(prefix, config)
    return (host.prices or host.kind if host is not None else ""), own_name


def _override_limits(usual: ModelLimits, listed: int | None, configured: ModelConfig) -> ModelLimits:
    """Return a family's limits with the window that is listed for the model, and what the user has configured."""
    context = configured.context or listed or usual.context
    # Half of the window at most, where it is only a default: the prompt needs room as well.
    output = configured.output or min(usual.output, context // 2)
    is_known = usual.is_known or configured.context is not None or bool(listed)
    return ModelLimits(context, min(output, context), is_known=is_known)


def _override_prices(base: LongPrices, overrides: Prices) -> LongPrices:
    changes = {f"price_{name}": value for name, value in attrs.asdict(overrides).items() if value is not None}
    if overrides.input is not None:
        # Cache prices are relative to the input price, which has changed.
        changes = {"price_cache_read": overrides.input, "price_cache_write": overrides.input} | changes
    return attrs.evolve(base, **changes)


def list_models(host: Host, config: Config | None = None) -> list[ModelInfo]:
    """Return the known models of *host* that can do an agent's work, configured ones included."""
    config = config or Config()
    entries = prices.list_prices(host.prices or host.kind)
    names = {f"{host.name}/{entry.name}": None for entry in entries if can_work(host, entry.name)}
    names |= {name: None for name in config.models if name.partition("/")[0] == host.name}
    return [info_of(name, host, config) for name in names]


def list_other_models(host: Host) -> tuple[str, ...]:
    """Return the names of what *host* bills for that can't do an agent's work: images, speech, embeddings."""
    entries = prices.list_prices(host.prices or host.kind)
    return tuple(sorted({f"{host.name}/{entry.name}" for entry in entries if not can_work(host, entry.name)}))
