"""The flags that select the model and its options."""

from __future__ import annotations

import argparse
import os

import attrs

from engine.cli.flags.default_model import DefaultModel, default_model, find_default_model
from engine.cli.flags.expand_model import expand_model
from engine.config.config import Config
from engine.core.llm_types import ModelOptions
from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelChoice(Value):
    """The models to use, and their options.

    Attributes:
        config: the user's configuration.
        models: the model and its fallbacks.
        is_explicit: a flag names the model or the agent.
        agent: the agent that a flag names, if one does.
        options: the model options that flags set.
        found: how the model was found if nothing names one; None: something does.
    """

    config: Config
    models: tuple[str, ...]
    is_explicit: bool
    agent: str | None
    options: ModelOptions
    found: DefaultModel | None = None


def model_choice(args: argparse.Namespace, config: Config) -> ModelChoice:
    """Return the choice of flags, environment and configuration, in this order. Raises `ConfigError`."""
    # First, so that a misspelt agent is reported instead of silently using the default model.
    config.check_primary(args.agent)
    env = os.environ
    named = args.model or config.agent(args.agent).model or config.defaults.model
    found = None if named else find_default_model(env, config)
    model = expand_model(named, env, config) if named else default_model(env, config) if found is None else found.name
    fallbacks = [expand_model(name, env, config) for name in args.fallback or ()]
    models = (model, *fallbacks) if fallbacks else config.chain(model, args.agent)
    options = ModelOptions(
        effort=args.effort, temperature=args.temperature, output_cap=args.max_output, cache=args.cache
    )
    is_explicit = bool(args.model or args.agent)
    return ModelChoice(
        config=config, models=models, is_explicit=is_explicit, agent=args.agent, options=options, found=found
    )
