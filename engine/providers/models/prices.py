"""What models cost, as the package genai-prices had it on the day that `prices.json` was written from it.

`scripts/prices.py` writes the file, and docs/design/0012-prices.md says why the package
itself is not asked. A model is found as its host knows it: the first entry that matches
its name, then those of the hosts whose models this one serves too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import attrs

from engine.core.llm_types import LongPrices

# Ways to compare a model's name, each behind its sign.
_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "=": lambda name, word: name == word,
    "^": lambda name, word: name.startswith(word),
    "$": lambda name, word: name.endswith(word),
    "~": lambda name, word: word in name,
    "/": lambda name, word: _may_match(name, word) and re.search(word, name) is not None,
}
# A pattern that has to begin with these letters.
_BEGINNING = re.compile(r"\^([a-z0-9-]+)(?![a-z0-9\-?*{])[^|]*$")


def _may_match(name: str, pattern: str) -> bool:
    """Tell whether *name* begins as *pattern* does: that spares most patterns their compilation."""
    beginning = _BEGINNING.match(pattern)
    return beginning is None or name.startswith(beginning[1])


@attrs.frozen(kw_only=True)
class PriceEntry:
    """A model in the table.

    Attributes:
        name: the model's own, without its host.
        context: tokens of the window; None: not told.
        base: prices per million tokens: input, output, cache read, cache write.
        long: those for long prompts.
    """

    name: str
    context: int | None
    base: LongPrices
    long: tuple[LongPrices, ...]


def find_price(host: str, model: str) -> PriceEntry | None:
    """Return what is known of *model* at *host*; None if that is nothing."""
    name = model.lower()
    return next((_entry(raw) for raw in _candidates(host) if _matches(raw[1], raw[0], name)), None)


def list_prices(host: str) -> list[PriceEntry]:
    """Return the models of *host* that are known by a name of their own."""
    return [_entry(raw) for raw in _table()["hosts"].get(host, {}).get("models", ())]


def price_source() -> str:
    """Return where the prices are from, and of which day: `genai-prices 0.2.3, 2026-11-18`."""
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
    """Return prices; where none is told for a cache, its tokens cost what others do."""
    plain, output, read, write = prices
    base = plain or 0.0
    return LongPrices(
        above=above,
        price_input=base,
        price_output=output or 0.0,
        price_cache_read=base if read is None else read,
        price_cache_write=base if write is None else write,
    )
