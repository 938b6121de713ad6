"""Requests that ask a local server for a model's limits, and how to read the responses.

A server was started with its own context window, which may be far smaller than the model's. `HttpModel.learn` queries
it, in the way that each kind of server offers.

- Ollama: the window of a loaded model is in the list of running ones; otherwise a `num_ctx` in its Modelfile counts.
  Otherwise the window is unknown: it depends on the graphics card. The model's own window, which is reported as well, means
  nothing: a prompt longer than the loaded window is truncated silently.
- llama.cpp: its properties, for each of its slots.
- LM Studio: the window of a loaded model; of another one, as for Ollama, none.
- vLLM and compatible servers: with each model in the list of models.
- LiteLLM: with each model in its own list, including prices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, assert_never
from urllib.parse import quote

import attrs

from engine.core.llm_types import ModelInfo
from engine.providers.hosts.host import LimitsApi
from engine.providers.wire.untrusted_json import Json, as_list, as_object, text, to_bytes

_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_MILLION = 1_000_000
# Output of the whole window would leave no room for input.
_SHARE_OF_OUTPUT = 2
_USUAL_OUTPUT = 8_192


@attrs.frozen
class ProbeRequest:
    """A request; its path is below the server's root, or below the version (`/v1`)."""

    method: Literal["GET", "POST"]
    path: str
    body: bytes = b""
    is_versioned: bool = False


MODELS = ProbeRequest("GET", "/models", is_versioned=True)


@attrs.frozen(kw_only=True)
class ServerLimits:
    """Limits as a server reports them; None: not reported.

    Attributes:
        context: the context window in tokens.
        output: the longest output in tokens.
        parallel: concurrent requests.
        prices: per million tokens, by the fields of `ModelInfo`.
    """

    context: int | None = None
    output: int | None = None
    parallel: int | None = None
    prices: dict[str, float] = attrs.field(factory=dict[str, float])


def probe_requests(asking: LimitsApi, model: str) -> tuple[ProbeRequest, ...]:
    """Return the requests that ask for the limits of *model*."""
    match asking:
        case "ollama":
            return (ProbeRequest("GET", "/api/ps"), ProbeRequest("POST", "/api/show", to_bytes({"model": model})))
        case "llamacpp":
            return (ProbeRequest("GET", f"/props?model={quote(model, safe='')}"),)
        case "lmstudio":
            return (ProbeRequest("GET", "/api/v0/models"),)
        case "models":
            return (MODELS,)
        case "litellm":
            return (ProbeRequest("GET", "/model/info"),)
        case "":
            return ()
        case _:
            assert_never(asking)


def parse_limits(asking: LimitsApi, model: str, answers: Sequence[object]) -> ServerLimits:
    """Return the limits of *model* in *answers*, JSON in the order of the requests; malformed parts count as absent."""
    documents = [as_object(answer) for answer in answers]
    first = documents[0] if documents else {}
    match asking:
        case "ollama":
            return _ollama(model, first, documents[1] if len(documents) > 1 else {})
        case "llamacpp":
            return _llamacpp(first)
        case "lmstudio":
            return _lmstudio(_find_row(first, "id", model))
        case "models":
            return _served_model(_find_row(first, "id", model))
        case "litellm":
            return _litellm(as_object(_find_row(first, "model_name", model).get("model_info")))
        case "":
            return ServerLimits()
        case _:
            assert_never(asking)


def apply_limits(info: ModelInfo, limits: ServerLimits) -> ModelInfo:
    """Return *info* with the reported limits."""
    changes: dict[str, Any] = {}
    if limits.context is not None:
        output = min(limits.output or _USUAL_OUTPUT, limits.context // _SHARE_OF_OUTPUT)
        changes = {"context": limits.context, "output": max(1, output), "is_known": True}
    if limits.parallel is not None and info.parallel is not None:
        changes["parallel"] = limits.parallel
    if not info.price_input and not info.price_output:
        changes |= limits.prices
    return attrs.evolve(info, **changes)


def _ollama(model: str, running: Json, shown: Json) -> ServerLimits:
    for row in map(as_object, as_list(running.get("models"))):
        if _with_tag(model) in {_with_tag(text(row, "name")), _with_tag(text(row, "model"))}:
            return ServerLimits(context=_count(row, "context_length"))
    recipe = _NUM_CTX.search(text(shown, "parameters"))
    return ServerLimits(context=int(recipe[1]) or None) if recipe else ServerLimits()


def _llamacpp(properties: Json) -> ServerLimits:
    # `n_ctx` of the settings is that of one slot; older servers have only their own, which all slots share.
    settings = as_object(properties.get("default_generation_settings"))
    context = _count(settings, "n_ctx") or _count(properties, "n_ctx")
    return ServerLimits(context=context, parallel=_count(properties, "total_slots"))


def _lmstudio(row: Json) -> ServerLimits:
    # The length of a model that isn't loaded is its maximum, not what it will be loaded with.
    return ServerLimits(context=_count(row, "loaded_context_length") if text(row, "state") == "loaded" else None)


def _served_model(row: Json) -> ServerLimits:
    # vLLM and SGLang report `max_model_len`, llama-server puts its window into `meta`.
    return ServerLimits(context=_count(row, "max_model_len") or _count(as_object(row.get("meta")), "n_ctx"))


def _with_tag(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _litellm(row: Json) -> ServerLimits:
    fields = {
        "price_input": "input_cost_per_token",
        "price_output": "output_cost_per_token",
        "price_cache_read": "cache_read_input_token_cost",
        "price_cache_write": "cache_creation_input_token_cost",
    }
    prices_per_million = {
        name: cost * _MILLION for name, field in fields.items() if (cost := _price(row, field)) is not None
    }
    if "price_input" in prices_per_million:
        prices_per_million = {
            "price_cache_read": prices_per_million["price_input"],
            "price_cache_write": prices_per_million["price_input"],
        } | prices_per_million
    return ServerLimits(
        context=_count(row, "max_input_tokens"), output=_count(row, "max_output_tokens"), prices=prices_per_million
    )


def _find_row(listed: Json, field: str, model: str) -> Json:
    """Return the row of *model*, the loaded one if there are two."""
    rows = [row for row in map(as_object, as_list(listed.get("data"))) if text(row, field) == model]
    return next((row for row in rows if text(row, "state") == "loaded"), rows[0] if rows else {})


def _count(row: Json, field: str) -> int | None:
    value: object = row.get(field)
    return value if type(value) is int and value >= 1 else None


def _price(row: Json, field: str) -> float | None:
    value: object = row.get(field)
    return float(value) if type(value) in {int, float} and isinstance(value, (int, float)) and value >= 0 else None
