"""The flags that select the model and its options."""

from __future__ import annotations

import argparse
import os
from typing import Final, get_args

import attrs

from engine.cli.arg_types import add_config_flag
from engine.config.config import Config
from engine.core.llm_types import CacheLifetime, Effort, ModelOptions

DEFAULT_MODEL: Final = "anthropic/claude-sonnet-4-5"


@attrs.frozen(kw_only=True)
class ModelChoice:
    """The models to use, and their options.

    Attributes:
        config: the user's configuration.
        models: the model and its fallbacks.
        is_explicit: a flag names the model or the agent.
        agent: the agent that a flag names, if one does.
        options: the model options that flags set.
    """

    config: Config
    models: tuple[str, ...]
    is_explicit: bool
    agent: str | None
    options: ModelOptions


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags to *parser*."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        help=f"host/model, or local:FILE for a GGUF file; default: the agent's, $ENGINE_MODEL, "
        f"the configuration's, or {DEFAULT_MODEL}. `engine models` lists them",
    )
    group.add_argument(
        "--fallback",
        action="append",
        metavar="MODEL",
        help="switch to this model when the first one fails permanently; may be repeated",
    )
    group.add_argument("--agent", metavar="NAME", help="the agent to use; `engine agents` lists them")
    group.add_argument("--effort", choices=get_args(Effort), help="reasoning effort")
    group.add_argument("--temperature", type=float, metavar="T", help="sampling temperature, 0 to 2")
    group.add_argument("--max-output", type=int, metavar="N", help="most tokens in one answer")
    group.add_argument("--cache", choices=get_args(CacheLifetime), help="prompt-cache lifetime")
    add_config_flag(group)


def model_choice(args: argparse.Namespace, config: Config) -> ModelChoice:
    """Return the choice of flags, environment and configuration, in this order. Raises `ConfigError`."""
    # First, so that a misspelt agent is reported instead of silently using the default model.
    config.check_primary(args.agent)
    model = (
        args.model
        or config.agent(args.agent).model
        or os.environ.get("ENGINE_MODEL")
        or config.defaults.model
        or DEFAULT_MODEL
    )
    models = (model, *args.fallback) if args.fallback else config.chain(model, args.agent)
    options = ModelOptions(
        effort=args.effort, temperature=args.temperature, output_cap=args.max_output, cache=args.cache
    )
    is_explicit = bool(args.model or args.agent)
    return ModelChoice(config=config, models=models, is_explicit=is_explicit, agent=args.agent, options=options)
