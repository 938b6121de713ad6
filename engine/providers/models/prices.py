"""Prices of models, from the package genai-prices on the day that `prices.json` was generated.

`scripts/prices.py` writes the file; docs/design/0012-prices.md explains why the package is not used at run time. A
lookup tries the entries of the model's host, then those of hosts whose models that host also serves; the first match
counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import attrs

from engine.core.lazy import regex
from engine.core.llm_types import LongPrices
from engine.core.value_base import Value

# Comparisons of a model's name, by the sign before the operand.
_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "=": lambda name, word: name == word,
    "^": lambda name, word: name.startswith(word),
    "$": lambda name, word: name.endswith(word),
    "~": lambda name, word: word in name,
    "/": lambda name, word: _may_match(name, word) and re.search(word, name) is not None,
}
# Patterns with a literal prefix.
_BEGINNING = regex(r"\^([a-z0-9-]+)(?![a-z0-9\-?*{])[^|]*$")


def _may_match(name: str, pattern: str) -> bool:
    """Return whether *name* has the literal prefix of *pattern*: this saves compiling most patterns."""
    beginning = _BEGINNING.match(pattern)
    return beginning is None or name.startswith(beginning[1])


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PriceEntry(Value):
    """A model in the price table.

    Attributes:
        name: the model's name, without its host.
        context: the context window in tokens; None: unknown.
        base: prices per million tokens: input, output, cache read, cache write.
        long: prices for long prompts.
    """

    name: str
    context: int | None
    base: LongPrices
    long: tuple[LongPrices, ...]


# For a model that the table does not list.
UNLISTED = PriceEntry(name="", context=None, base=LongPrices(above=0), long=())


def find_price(host: str, model: str) -> PriceEntry | None:
    """Return the entry of *model* at *host*; None if there is none."""
    name = model.lower()
    return next((_entry(raw) for raw in _candidates(host) if _matches(raw[1], raw[0], name)), None)


def list_prices(host: str) -> list[PriceEntry]:
    """Return the entries that list models of *host* itself."""
    return [_entry(raw) for raw in _table()["hosts"].get(host, {}).get("models", ())]


def price_source() -> str:
    """Return the source and the date of the prices: `genai-prices 0.2.3, 2026-11-18`."""
    return f"{_table()['source']}, {_table()['date']}"


@cache
def _table() -> Mapping[str, Any]:
    text = Path(__file__).with_name("prices.json").read_bytes()
    return cast("Mapping[str, Any]", json.loads(text))


def _candidates(host: str) -> Iterator[Sequence[Any]]:
    hosts = _table()["hosts"]
    for name in (host, *hosts.get(host, {}).get("also", ())):
        yield from hosts.get(name, {}).get("models", ())


def _matches(clause: Any, own_name: str, name: str) -> bool:
    if clause is None:
        return bool(own_name.lower() == name)
    if isinstance(clause, str):
        return _COMPARISONS[clause[0]](name, clause[1:])
    sign, *clauses = clause
    decide = any if sign == "|" else all
    return decide(_matches(each, own_name, name) for each in clauses)


def _entry(raw: Sequence[Any]) -> PriceEntry:
    name, _, context, base, long = raw
    return PriceEntry(
        name=name,
        context=context,
        base=_prices(0, base),
        long=tuple(_prices(above, prices) for above, *prices in long),
    )


def _prices(above: int, prices: Sequence[float | None]) -> LongPrices:
    """Return prices; without cache prices, cached tokens cost as much as others."""
    plain, output, read, write = prices
    base = plain or 0.0
    return LongPrices(
        above=above,
        price_input=base,
        price_output=output or 0.0,
        price_cache_read=base if read is None else read,
        price_cache_write=base if write is None else write,
    )
