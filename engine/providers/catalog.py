"""Limits and prices of models, as published; prices are dollars per million tokens."""

from __future__ import annotations

import attrs

from engine.model import ModelInfo

_CLAUDE = (
    ModelInfo(
        name="anthropic/claude-opus-4-5",
        context=200_000,
        output=64_000,
        price_input=5.0,
        price_output=25.0,
        price_cache_read=0.5,
        price_cache_write=6.25,
    ),
    ModelInfo(
        name="anthropic/claude-sonnet-4-5",
        context=200_000,
        output=64_000,
        price_input=3.0,
        price_output=15.0,
        price_cache_read=0.3,
        price_cache_write=3.75,
    ),
    ModelInfo(
        name="anthropic/claude-haiku-4-5",
        context=200_000,
        output=64_000,
        price_input=1.0,
        price_output=5.0,
        price_cache_read=0.1,
        price_cache_write=1.25,
    ),
)
_KNOWN = {info.name: info for info in _CLAUDE}

# What every Claude since 3.5 can do. The price of a model that we don't know is not known either.
_CONSERVATIVE = ModelInfo(name="", context=200_000, output=8_192)


def info_of(name: str) -> ModelInfo:
    """Return what is known of the model called *name*, conservative limits if that is nothing.

    A dated name (`…-4-5-20250929`) is the model that it is a date of.
    """
    base, _, date = name.rpartition("-")
    known = _KNOWN.get(name) or (_KNOWN.get(base) if date.isdigit() or date == "latest" else None)
    return attrs.evolve(known or _CONSERVATIVE, name=name)
