"""The flags that select the model and its options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Final

import attrs

from engine.config.config import Config
from engine.core.llm_types import ModelOptions
from engine.providers.hosts.host_config import hosts_of
from engine.providers.registry import unusable_reason

# The default is the first whose host can be used here. All of them are in the price table of 2026-11-18.
_DEFAULT_MODELS: Final = (
    "anthropic/claude-sonnet-5-5",
    "openai/gpt-6.1-terra",
    "google/gemini-3.8-flash",
    "xai/grok-4.7",
    "mistral/mistral-medium-latest",
    "deepseek/deepseek-v4-pro",
    "openrouter/anthropic/claude-sonnet-5.5",
    "vercel/anthropic/claude-sonnet-5.5",
    "groq/openai/gpt-oss-120b",
    "bedrock/global.anthropic.claude-sonnet-5-5",
)


def default_model(env: Mapping[str, str], config: Config | None = None) -> str:
    """Return the default model of the first host that can be used with *env*; the first one if none can."""
    hosts = hosts_of(config or Config())
    usable = (name for name in _DEFAULT_MODELS if not unusable_reason(hosts[name.partition("/")[0]], env, config))
    return next(usable, _DEFAULT_MODELS[0])


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


def model_choice(args: argparse.Namespace, config: Config) -> ModelChoice:
    """Return the choice of flags, environment and configuration, in this order. Raises `ConfigError`."""
    # First, so that a misspelt agent is reported instead of silently using the default model.
    config.check_primary(args.agent)
    model = args.model or config.agent(args.agent).model or config.defaults.model or default_model(os.environ, config)
    models = (model, *args.fallback) if args.fallback else config.chain(model, args.agent)
    options = ModelOptions(
        effort=args.effort, temperature=args.temperature, output_cap=args.max_output, cache=args.cache
    )
    is_explicit = bool(args.model or args.agent)
    return ModelChoice(config=config, models=models, is_explicit=is_explicit, agent=args.agent, options=options)
