"""Base URLs: the host's own, and all forms that users write."""

from __future__ import annotations

import pytest

from engine.core.errors import ConfigError
from engine.providers.hosts.base_url import base_url_of, missing_variables
from engine.providers.hosts.host_table import BY_NAME

CANARY = "hunter2-canary"


@pytest.mark.parametrize(
    ("host", "env", "address"),
    [
        ("openai", {}, "https://api.openai.com/v1"),
        ("openai", {"OPENAI_BASE_URL": "https://proxy.example"}, "https://proxy.example/v1"),
        ("openai", {"OPENAI_BASE_URL": "https://proxy.example/"}, "https://proxy.example/v1"),
        ("openai", {"OPENAI_BASE_URL": " https://proxy.example/v1/ "}, "https://proxy.example/v1"),
        ("openai", {"OPENAI_BASE_URL": "https://proxy.example/openai"}, "https://proxy.example/openai"),
        ("openai", {"OPENAI_BASE_URL": "https://proxy.example/v1/chat/completions"}, "https://proxy.example/v1"),
        ("openai", {"OPENAI_BASE_URL": "https://proxy.example/v1/responses"}, "https://proxy.example/v1"),
        ("openai", {"OPENAI_BASE_URL": ""}, "https://api.openai.com/v1"),
        ("openai-chat", {"OPENAI_BASE_URL": "http://127.0.0.1:9"}, "http://127.0.0.1:9/v1"),
        ("groq", {"GROQ_BASE_URL": "https://proxy.example"}, "https://proxy.example/openai/v1"),
        ("anthropic", {}, "https://api.anthropic.com"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "https://proxy.example/v1"}, "https://proxy.example"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "https://proxy.example/v1/messages"}, "https://proxy.example"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "https://proxy.example/anthropic/"}, "https://proxy.example/anthropic"),
        ("minimax", {"MINIMAX_BASE_URL": "https://api.minimax.io/anthropic/v1"}, "https://api.minimax.io/anthropic"),
        ("cohere", {"CO_API_URL": "https://api.cohere.com/v2/chat"}, "https://api.cohere.com"),
        ("azure", {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"}, "https://r.openai.azure.com/openai/v1"),
        (
            "azure",
            {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/openai/v1/"},
            "https://r.openai.azure.com/openai/v1",
        ),
        ("azure", {"AZURE_RESOURCE_NAME": "r"}, "https://r.openai.azure.com/openai/v1"),
        ("bedrock", {"AWS_REGION": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ("bedrock", {"AWS_DEFAULT_REGION": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        (
            "bedrock",
            {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"},
            "https://bedrock-runtime.eu-west-1.amazonaws.com",
        ),
        ("snowflake", {"SNOWFLAKE_ACCOUNT": "org-me"}, "https://org-me.snowflakecomputing.com/api/v2/cortex/v1"),
        (
            "snowflake",
            {"SNOWFLAKE_ACCOUNT": "https://org-me.snowflakecomputing.com"},
            "https://org-me.snowflakecomputing.com/api/v2/cortex/v1",
        ),
        ("ollama", {}, "http://127.0.0.1:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "127.0.0.1"}, "http://127.0.0.1:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "box:8000"}, "http://box:8000/v1"),
        ("ollama", {"OLLAMA_HOST": "http://box"}, "http://box/v1"),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "http://0.0.0.0:9000"}, "http://127.0.0.1:9000/v1"),
        ("ollama", {"OLLAMA_HOST": "[::]:9000"}, "http://[::1]:9000/v1"),
        ("ollama", {"OLLAMA_BASE_URL": "https://box/v1", "OLLAMA_HOST": "other"}, "https://box/v1"),
        ("vllm", {"VLLM_BASE_URL": "https://gpu.example/v1"}, "https://gpu.example/v1"),
    ],
)
def test_common_spellings_are_understood(host: str, env: dict[str, str], address: str) -> None:
    assert base_url_of(BY_NAME[host], env) == address


def test_configuration_overrides_the_environment() -> None:
    env = {"OPENAI_BASE_URL": "https://proxy.example/v1"}
    assert base_url_of(BY_NAME["openai"], env, "https://mine.example") == "https://mine.example/v1"


@pytest.mark.parametrize(
    "url",
    [
        "models.example",
        "ftp://models.example",
        "https://",
        "https://a:b:c",
        "https://[",
        "https://x:0",
        "http://é.example",
        "https://x/v1?key=1",
        "https://x/v1#top",
        "https://x/ v1",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"ANTHROPIC_BASE_URL .*it must look like https://api.anthropic.com"):
        base_url_of(BY_NAME["anthropic"], {"ANTHROPIC_BASE_URL": url})


def test_base_url_with_a_password_is_hidden() -> None:
    with pytest.raises(ConfigError) as caught:
        base_url_of(BY_NAME["anthropic"], {"ANTHROPIC_BASE_URL": f"ftp://user:{CANARY}@models.example"})
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "variable", "value"),
    [
        ("snowflake", "SNOWFLAKE_ACCOUNT", "evil.example/x"),
        ("snowflake", "SNOWFLAKE_ACCOUNT", "a@evil.example"),
        ("bedrock", "AWS_REGION", "x.evil.example#"),
        ("azure", "AZURE_RESOURCE_NAME", "-"),
    ],
)
def test_a_template_value_cannot_change_the_host(host: str, variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{variable} holds characters that an address cannot contain"):
        base_url_of(BY_NAME[host], {variable: value})


def test_a_missing_address_names_its_variable() -> None:
    with pytest.raises(ConfigError, match="set the environment variable GPUSTACK_BASE_URL or GPUSTACK_API_BASE"):
        base_url_of(BY_NAME["gpustack"], {})
    assert missing_variables(BY_NAME["bedrock"], {}) == (
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    )
    assert missing_variables(BY_NAME["bedrock"], {"AWS_REGION": "x"}) == ()


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_host_has_address_or_hint(name: str) -> None:
    host = BY_NAME[name]
    env: dict[str, str] = {}
    while missing := missing_variables(host, env):
        env[missing[-1]] = "http://box.example" if host.base_url == "" else "part"
    assert base_url_of(host, env).startswith(("https://", "http://"))
    assert not base_url_of(host, env).endswith("/")
