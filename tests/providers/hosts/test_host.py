"""Rows of the table of hosts: each resolves, and its requests go to the documented address."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import attrs
import pytest

from engine.core.ids import MessageId, PartId
from engine.core.llm_types import ModelRequest, ToolSchema
from engine.core.messages import TextPart, Transcript, UserMessage
from engine.providers.hosts.base_url import missing_variables
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_table import BY_NAME, HOSTS
from engine.providers.http.http_model import HttpModel
from engine.providers.registry import resolve

DOCS = Path(__file__).resolve().parents[3] / "docs"


def environment(host: Host) -> dict[str, str]:
    """An environment in which *host* can be used."""
    env = dict.fromkeys(host.key_variables[:1], "key")
    if host.auth == "aws" and not host.key_variables:
        env |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    if host.auth == "aws":
        env["AWS_REGION"] = "us-east-1"
    while missing := missing_variables(host, env):
        env[missing[-1]] = "http://box.example" if not host.base_url else "place"
    return env


def model_of(name: str, env: dict[str, str] | None = None) -> HttpModel:
    model = resolve(name, environment(BY_NAME[name.partition("/")[0]]) if env is None else env)
    assert isinstance(model, HttpModel)
    return model


def asking(name: str) -> ModelRequest:
    hello = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text="Hello"),))
    tool = ToolSchema(
        name="read", description="Read.", schema='{"type":"object","properties":{"path":{"type":"string"}}}'
    )
    return ModelRequest(
        model=name, system="Be brief.", transcript=Transcript((hello,)), tools=(tool,), session_id="ses_1"
    )


def address(model: HttpModel, name: str) -> str:
    """Where the request goes, as `HttpModel` puts it together."""
    endpoint = model._endpoint
    path = endpoint.path.replace("{model}", quote(name.partition("/")[2], safe="")) or model._wire.path(asking(name))
    return endpoint.base_url + path


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_every_row_makes_requests(host: Host) -> None:
    pytest.importorskip("google.auth") if host.auth == "google" else None
    name = f"{host.name}/{host.example}"
    model = model_of(name)
    body = json.loads(bytes(model._encoder.encode(asking(name))))
    assert "Hello" in json.dumps(body)
    assert re.fullmatch(r"https?://[^/]+/[^ ]+", address(model, name))
    assert model.info.host == host.name


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("anthropic/claude-opus-5", "https://api.anthropic.com/v1/messages"),
        ("openai/gpt-5.6", "https://api.openai.com/v1/responses"),
        ("openai-chat/gpt-4o", "https://api.openai.com/v1/chat/completions"),
        ("google/gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        ("bedrock/us.amazon.nova-micro-v1:0", "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.amazon.nova-micro-v1%3A0/converse-stream"),
        ("bedrock-mantle/openai.gpt-5.6-luna", "https://bedrock-mantle.us-east-1.api.aws/openai/v1/responses"),
        ("bedrock-mantle-oss/openai.gpt-oss-20b", "https://bedrock-mantle.us-east-1.api.aws/v1/responses"),
        ("cohere/command-a-03-2025", "https://api.cohere.com/v2/chat"),
        ("mistral/mistral-small-latest", "https://api.mistral.ai/v1/chat/completions"),
        ("groq/llama-3.3-70b-versatile", "https://api.groq.com/openai/v1/chat/completions"),
        ("deepseek/deepseek-chat", "https://api.deepseek.com/v1/chat/completions"),
        ("xai/grok-4.3", "https://api.x.ai/v1/responses"),
        ("xai-chat/grok-4-fast", "https://api.x.ai/v1/chat/completions"),
        ("openrouter/openai/gpt-5.6", "https://openrouter.ai/api/v1/chat/completions"),
        ("together/meta-llama/Llama-3.3-70B-Instruct-Turbo", "https://api.together.ai/v1/chat/completions"),
        ("fireworks/accounts/fireworks/models/kimi-k2p5", "https://api.fireworks.ai/inference/v1/chat/completions"),
        ("cerebras/gpt-oss-120b", "https://api.cerebras.ai/v1/chat/completions"),
        ("perplexity/sonar", "https://api.perplexity.ai/chat/completions"),
        ("moonshot/kimi-k2.5", "https://api.moonshot.ai/v1/chat/completions"),
        ("zai/glm-4.7", "https://api.z.ai/api/paas/v4/chat/completions"),
        ("minimax/MiniMax-M2.5", "https://api.minimax.io/anthropic/v1/messages"),
        ("alibaba/qwen3-max", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions"),
        ("nvidia/openai/gpt-oss-120b", "https://integrate.api.nvidia.com/v1/chat/completions"),
        ("huggingface/deepseek-ai/DeepSeek-R1", "https://router.huggingface.co/v1/chat/completions"),
        ("github/openai/gpt-4.1", "https://models.github.ai/inference/chat/completions"),
        ("vercel/google/gemini-2.5-flash", "https://ai-gateway.vercel.sh/v1/chat/completions"),
        ("deepinfra/x/y", "https://api.deepinfra.com/v1/openai/chat/completions"),
        ("avian/moonshotai/kimi-k2.5", "https://api.avian.io/v1/chat/completions"),
        ("crusoe/zai/GLM-5.2", "https://api.inference.crusoecloud.com/v1/chat/completions"),
        ("heroku/claude-3-7-sonnet", "https://us.inference.heroku.com/v1/chat/completions"),
        ("ollama-cloud/gpt-oss:120b", "https://ollama.com/v1/chat/completions"),
        ("ollama/qwen3", "http://127.0.0.1:11434/v1/chat/completions"),
        ("lmstudio/qwen/qwen3-8b", "http://127.0.0.1:1234/v1/chat/completions"),
        ("llamacpp/any", "http://127.0.0.1:8080/v1/chat/completions"),
        ("vllm/Qwen/Qwen3-8B", "http://127.0.0.1:8000/v1/chat/completions"),
        ("litellm/gpt-5.6", "http://127.0.0.1:4000/v1/chat/completions"),
    ],
)  # fmt: skip
def test_requests_go_where_the_host_documents(name: str, url: str) -> None:
    assert address(model_of(name), name) == url


def test_azure_and_snowflake_need_an_address() -> None:
    azure = {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com"}
    name = "azure/deployment"
    assert address(model_of(name, azure), name) == "https://mine.openai.azure.com/openai/v1/responses"
    name = "azure-chat/deployment"
    assert address(model_of(name, azure), name) == "https://mine.openai.azure.com/openai/v1/chat/completions"
    name = "snowflake/claude-sonnet-4-5"
    snowflake = {"SNOWFLAKE_TOKEN": "k", "SNOWFLAKE_ACCOUNT": "myorg-me"}
    expected = "https://myorg-me.snowflakecomputing.com/api/v2/cortex/v1/chat/completions"
    assert address(model_of(name, snowflake), name) == expected


@pytest.mark.parametrize(
    ("name", "env", "headers"),
    [
        ("openai/x", {"OPENAI_API_KEY": "k"}, {"authorization": "Bearer k"}),
        ("anthropic/x", {"ANTHROPIC_API_KEY": "k"}, {"x-api-key": "k"}),
        ("anthropic/x", {"ANTHROPIC_AUTH_TOKEN": "t"}, {"authorization": "Bearer t"}),
        ("google/x", {"GEMINI_API_KEY": "k", "GOOGLE_API_KEY": "other"}, {"x-goog-api-key": "k"}),
        ("azure/x", {"AZURE_OPENAI_API_KEY": "k", "AZURE_RESOURCE_NAME": "r"}, {"api-key": "k"}),
        ("azure/x", {"AZURE_OPENAI_AD_TOKEN": "t", "AZURE_RESOURCE_NAME": "r"}, {"authorization": "Bearer t"}),
        ("bedrock/x", {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "r"}, {"authorization": "Bearer k"}),
        ("minimax/x", {"MINIMAX_API_KEY": "k"}, {"x-api-key": "k"}),
        ("ollama/x", {}, {}),
        ("vllm/x", {"VLLM_API_KEY": "k"}, {"authorization": "Bearer k"}),
    ],
)
async def test_key_is_sent_in_the_hosts_form(name: str, env: dict[str, str], headers: dict[str, str]) -> None:
    from engine.providers.auth.auth import UnsignedRequest
    from engine.providers.wire.wire_format import Body

    auth = model_of(name, env)._endpoint.auth
    shown = await auth.headers(UnsignedRequest(method="POST", url="https://x", headers={}, body=Body(pieces=())))
    assert shown == headers


def test_names_and_variables_are_well_formed() -> None:
    assert len(BY_NAME) == len(HOSTS)
    for host in HOSTS:
        assert re.fullmatch(r"[a-z][a-z0-9-]*", host.name)
        assert host.title
        assert host.example
        variables = (*host.key_variables, *host.token_variables, *host.base_variables)
        assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", variable) for variable in variables), host.name
        assert host.key_variables or host.auth in {"aws", "google"}, host.name
        assert not host.base_url.endswith("/")
        assert host.is_local == host.base_url.startswith("http://127.0.0.1:")
        assert host.quirks.title == ""
        json.loads(host.quirks.extra_body or "{}")


def test_reference_lists_every_host() -> None:
    text = (DOCS / "reference" / "hosts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert [row[0] for row in rows] == [host.name for host in HOSTS]
    for name, title, wire, keys, addresses in rows:
        host = BY_NAME[name]
        assert (title, wire) == (host.title, f"`{host.wire}`")
        assert re.findall(r"`(\w+)`", keys) == [*host.key_variables, *host.token_variables]
        assert re.findall(r"`(\w+)`", addresses) == list(host.base_variables)


def test_a_row_is_data() -> None:
    assert all(attrs.evolve(host) == host for host in HOSTS)
