"""The default model."""

from __future__ import annotations

import pytest

from engine.cli.flags.default_model import default_model
from engine.config.config import Config, HostConfig
from engine.providers.models.catalog import info_of


@pytest.mark.parametrize(
    ("env", "host"),
    [
        ({}, "anthropic"),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "anthropic"),
        ({"OPENAI_API_KEY": "k", "MISTRAL_API_KEY": "k"}, "openai"),
        ({"GEMINI_API_KEY": "k"}, "google"),
        ({"XAI_API_KEY": "k"}, "xai"),
        ({"MISTRAL_API_KEY": "k"}, "mistral"),
        ({"DEEPSEEK_API_KEY": "k"}, "deepseek"),
        ({"OPENROUTER_API_KEY": "k"}, "openrouter"),
        ({"GROQ_API_KEY": "k"}, "groq"),
    ],
)
def test_default_model_follows_the_keys(env: dict[str, str], host: str) -> None:
    name = default_model(env)
    assert name.partition("/")[0] == host
    assert info_of(name).is_known
    assert info_of(name).price_input > 0, "it is a current model, in the price table"


def test_default_model_respects_configured_hosts() -> None:
    config = Config(hosts={"openai": HostConfig(key="WORK_KEY")})
    assert default_model({"WORK_KEY": "k"}, config).startswith("openai/")
    assert default_model({"OPENAI_API_KEY": "k"}, config).startswith("openai-chat/"), "another host with that key"
