"""The flags that say which model works, and how."""

from __future__ import annotations

import argparse
import os
from typing import Final, get_args

import attrs

from engine.config.config import Config
from engine.core.llm_types import CacheLifetime, Effort, ModelOptions

DEFAULT_MODEL: Final = "anthropic/claude-sonnet-4-5"


@attrs.frozen(kw_only=True)
class ModelChoice:
    """Which model works, and how.

    Attributes:
        config: the user's.
        models: the model, and those to go on with when it fails for good.
        is_asked: a flag names the model, or the agent.
        agent: the way of working, if one was named.
        options: what the flags say.
    """

    config: Config
    models: tuple[str, ...]
    is_asked: bool
    agent: str | None
    options: ModelOptions


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags to *parser*."""
    group = parser.add_argument_group("which model, and how")
    group.add_argument(
        "--model",
        help=f"host/model, or local:FILE for a GGUF file; default: the agent's, $ENGINE_MODEL, "
        f"the configuration's, or {DEFAULT_MODEL}. `engine models` lists them",
    )
    group.add_argument(
        "--fallback",
        action="append",
        metavar="MODEL",
        help="go on with this one when the model fails for good; again for more",
    )
    group.add_argument("--agent", metavar="NAME", help="a way of working; `engine agents` lists them")
    group.add_argument("--effort", choices=get_args(Effort), help="how much the model thinks")
    group.add_argument("--temperature", type=float, metavar="T", help="how much chance there is in its words, 0 to 2")
    group.add_argument("--max-output", type=int, metavar="N", help="tokens that one answer may have")
    group.add_argument(
        "--cache", choices=get_args(CacheLifetime), help="how long the host keeps the prompt's beginning"
    )
    group.add_argument("--config", metavar="FILE", help="default: $ENGINE_CONFIG, or the usual place")


def model_choice(given: argparse.Namespace, config: Config) -> ModelChoice:
    """Return what the flags, the environment and the configuration say. Raises `ConfigError`."""
    config.check_primary(given.agent)
    model = (
        given.model
        or config.agent(given.agent).model
        or os.environ.get("ENGINE_MODEL")
        or config.defaults.model
        or DEFAULT_MODEL
    )
    models = (model, *given.fallback) if given.fallback else config.chain(model, given.agent)
    options = ModelOptions(
        effort=given.effort, temperature=given.temperature, output_cap=given.max_output, cache=given.cache
    )
    is_asked = bool(given.model or given.agent)
    return ModelChoice(config=config, models=models, is_asked=is_asked, agent=given.agent, options=options)
