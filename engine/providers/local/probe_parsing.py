"""What to ask a server of the user's own about a model's window, and what its answer means.

Such a server was started with a window of its own, which may be far smaller than the
model's. Where it can be asked, it is (`HttpModel.learn`); each in its own words.

- Ollama: the window of a loaded model stands in the list of running ones; a `num_ctx` in
  its recipe counts when it is not loaded. Else nobody can know: it depends on the
  graphics card. The model's own window, which it tells as well, means nothing: a longer
  prompt than it was loaded for is cut without a word.
- llama.cpp: its properties, for each of its slots.
- LM Studio: the window of a loaded model; of another one, as for Ollama, none.
- vLLM and what is like it: with each model in the list of models.
- LiteLLM: with each model in a list of its own, prices too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, assert_never
from urllib.parse import quote

import attrs

from engine.core.llm_types import ModelInfo
from engine.providers.hosts.host import Asking
from engine.providers.wire.untrusted_json import Json, as_list, as_object, text, to_bytes

_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_MILLION = 1_000_000
# An answer that is the whole window leaves no room for a question.
_SHARE_OF_OUTPUT = 2
_USUAL_OUTPUT = 8_192


@attrs.frozen
class Question:
    """A request; its path is below the server's root, or below its version (`/v1`)."""

    method: Literal["GET", "POST"]
    path: str
    body: bytes = b""
    is_versioned: bool = False


MODELS = Question("GET", "/models", is_versioned=True)


@attrs.frozen(kw_only=True)
class Told:
    """What a server said; None: nothing of that.

    Attributes:
        context: tokens of the window.
        output: tokens of the longest answer.
        parallel: requests that it works on at once.
        prices: per million tokens, by the names that `ModelInfo` has for them.
    """

    context: int | None = None
    output: int | None = None
    parallel: int | None = None
    prices: dict[str, float] = attrs.field(factory=dict[str, float])


def questions(asking: Asking, model: str) -> tuple[Question, ...]:
    """Return what to ask about *model*."""
    match asking:
        case "ollama":
            return (Question("GET", "/api/ps"), Question("POST", "/api/show", to_bytes({"model": model})))
        case "llamacpp":
            return (Question("GET", f"/props?model={quote(model, safe='')}"),)
        case "lmstudio":
            return (Question("GET", "/api/v0/models"),)
        case "models":
            return (MODELS,)
        case "litellm":
            return (Question("GET", "/model/info"),)
        case "":
            return ()
        case _:
            assert_never(asking)


def told(asking: Asking, model: str, answers: Sequence[object]) -> Told:
    """Return what *answers*, JSON in the order of the questions, say of *model*; what has a wrong shape says nothing."""
    found = [as_object(answer) for answer in answers]
    first = found[0] if found else {}
    match asking:
        case "ollama":
            return _ollama(model, first, found[1] if len(found) > 1 else {})
        case "llamacpp":
            settings = as_object(first.get("default_generation_settings"))
            return Told(
                context=_count(settings, "n_ctx") or _count(first, "n_ctx"), parallel=_count(first, "total_slots")
            )
        case "lmstudio":
            row = _row(first, "id", model)
            return Told(context=_count(row, "loaded_context_length") if text(row, "state") == "loaded" else None)
        case "models":
            row = _row(first, "id", model)
            context = _count(row, "max_model_len") or _count(as_object(row.get("meta")), "n_ctx")
            return Told(context=context)
        case "litellm":
            return _litellm(as_object(_row(first, "model_name", model).get("model_info")))
        case "":
            return Told()
        case _:
            assert_never(asking)


def learned(info: ModelInfo, said: Told) -> ModelInfo:
    """Return *info* with what a server said of itself."""
    changes: dict[str, Any] = {}
    if said.context is not None:
        output = min(said.output or _USUAL_OUTPUT, said.context // _SHARE_OF_OUTPUT)
        changes = {"context": said.context, "output": max(1, output), "is_known": True}
    if said.parallel is not None and info.parallel is not None:
        changes["parallel"] = said.parallel
    if not info.price_input and not info.price_output:
        changes |= said.prices
    return attrs.evolve(info, **changes)


def _ollama(model: str, running: Json, shown: Json) -> Told:
    for row in map(as_object, as_list(running.get("models"))):
        if _tagged(model) in {_tagged(text(row, "name")), _tagged(text(row, "model"))}:
            return Told(context=_count(row, "context_length"))
    recipe = _NUM_CTX.search(text(shown, "parameters"))
    return Told(context=int(recipe[1]) or None) if recipe else Told()


def _tagged(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _litellm(row: Json) -> Told:
    prices = {
        "price_input": "input_cost_per_token",
        "price_output": "output_cost_per_token",
        "price_cache_read": "cache_read_input_token_cost",
        "price_cache_write": "cache_creation_input_token_cost",
    }
    found = {name: cost * _MILLION for name, field in prices.items() if (cost := _price(row, field)) is not None}
    if "price_input" in found:
        found = {"price_cache_read": found["price_input"], "price_cache_write": found["price_input"]} | found
    return Told(context=_count(row, "max_input_tokens"), output=_count(row, "max_output_tokens"), prices=found)


def _row(listed: Json, field: str, model: str) -> Json:
    """Return the row of *model*: the one that is loaded, if it stands there twice."""
    rows = [row for row in map(as_object, as_list(listed.get("data"))) if text(row, field) == model]
    return next((row for row in rows if text(row, "state") == "loaded"), rows[0] if rows else {})


def _count(row: Json, field: str) -> int | None:
    value: object = row.get(field)
    return value if type(value) is int and value >= 1 else None


def _price(row: Json, field: str) -> float | None:
    value: object = row.get(field)
    return float(value) if type(value) in {int, float} and isinstance(value, (int, float)) and value >= 0 else None
