"""Write `engine/providers/models/prices.json` from the package genai-prices, which people keep up to date.

    python scripts/prices.py >engine/providers/models/prices.json

`make prices` does it in an environment of its own: the package stands on pydantic and httpx2, which the engine does
not. Kept is what the engine asks for: the names by which a host knows a model, its window, the prices of plain requests
on the day of writing, those of long prompts beside them. docs/design/0012-prices.md has the reasons.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

HOSTS = (
    "anthropic", "avian", "aws", "azure", "cerebras", "cohere", "deepseek", "fireworks", "google", "groq", "minimax",
    "mistral", "moonshotai", "openai", "openrouter", "perplexity", "together", "x-ai", "zai",
)  # fmt: skip
FIELDS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
SIGNS = {"equals": "=", "starts_with": "^", "ends_with": "$", "contains": "~", "regex": "/"}


# The values are those of a package which no checker here sees.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingImports=false, reportUnknownParameterType=false


def table(providers: list[Any], version: str, now: datetime) -> dict[str, Any]:
    """Return the whole table."""
    hosts: dict[str, Any] = {}
    for provider in providers:
        if provider.id in HOSTS:
            models = [entry for model in provider.models if (entry := _entry(model, now)) is not None]
            hosts[provider.id] = {"also": list(provider.fallback_model_providers or ()), "models": models}
    return {"source": f"genai-prices {version}", "date": now.date().isoformat(), "hosts": hosts}


def _entry(model: Any, now: datetime) -> list[Any] | None:
    """Return name, match, window, prices, dearer prices of one model; None for one that does not write."""
    prices = _prices(model.prices, now)
    if prices is None or getattr(prices, "output_mtok", None) is None:
        return None
    values = [getattr(prices, field, None) for field in FIELDS]
    match = _match(model.match)
    # Some ids are genai-prices' own: a name is wanted that the host knows.
    name = next((word for word in (model.id, *_words(match)) if model.is_match(word.lower())), model.id)
    is_own_name = match == f"={name.lower()}"
    return [
        name,
        None if is_own_name else match,
        model.context_window,
        [_base(value) for value in values],
        [[start, *(_from(value, start) for value in values)] for start in sorted(set(_starts(values)))],
    ]


def _prices(prices: Any, now: datetime) -> Any:
    """Return the prices of today; of those that change with the hour, the dearest."""
    if not isinstance(prices, list):
        return prices
    valid = [each for each in prices if not _is_later(each.constraint, now)]
    last = next((n for n in range(len(valid) - 1, -1, -1) if not _is_hourly(valid[n].constraint)), 0)
    return max((each.prices for each in valid[last:]), key=lambda price: _base(price.output_mtok) or 0, default=None)


def _is_later(constraint: Any, now: datetime) -> bool:
    return hasattr(constraint, "start_date") and constraint.start_date > now.date()


def _is_hourly(constraint: Any) -> bool:
    return hasattr(constraint, "start_time")


def _base(value: Any) -> float | int | None:
    return None if value is None else _number(value.base if hasattr(value, "tiers") else value)


def _from(value: Any, start: int) -> float | int | None:
    """Return what it costs in a request of more than *start* tokens."""
    if not hasattr(value, "tiers"):
        return _base(value)
    reached = [tier.price for tier in value.tiers if tier.start <= start]
    return _number(reached[-1]) if reached else _base(value)


def _starts(values: list[Any]) -> Iterator[int]:
    for value in values:
        yield from (tier.start for tier in getattr(value, "tiers", ()))


def _number(value: Decimal) -> float | int:
    return int(value) if value == value.to_integral_value() else float(value)


def _match(clause: Any) -> str | list[Any]:
    """Return a clause as a sign and a word, or a sign and clauses."""
    for name, sign in SIGNS.items():
        if hasattr(clause, name):
            word: str = getattr(clause, name)
            return sign + (word if sign == "/" else word.lower())
    if hasattr(clause, "or_"):
        return ["|", *(_match(each) for each in clause.or_)]
    return ["&", *(_match(each) for each in clause.and_)]


def _words(match: str | list[Any]) -> list[str]:
    """Return the words of a match that may be names, the surest first."""
    flat = list(_flat(match))
    return [word for wanted in "=^~" for sign, word in flat if sign == wanted]


def _flat(match: str | list[Any]) -> Iterator[tuple[str, str]]:
    if isinstance(match, str):
        yield match[0], match[1:]
    else:
        for each in match[1:]:
            yield from _flat(each)


def main() -> None:
    """Print the table, one model on a line, so that a new one is one line of difference."""
    providers = importlib.import_module("genai_prices.data").providers  # only its own environment has it

    whole = table(providers, importlib.metadata.version("genai-prices"), datetime.now(UTC))
    hosts = ",\n".join(
        f' {json.dumps(name)}: {{"also": {json.dumps(host["also"])}, "models": [\n'
        + ",\n".join(f"  {json.dumps(model, separators=(',', ':'))}" for model in host["models"])
        + "\n ]}"
        for name, host in whole["hosts"].items()
    )
    head = f'{{"source": {json.dumps(whole["source"])}, "date": {json.dumps(whole["date"])}, "hosts": {{\n'
    sys.stdout.write(f"{head}{hosts}\n}}}}\n")


if __name__ == "__main__":
    main()
