"""Quirks are found by a model's name, with any prefix and suffix of a cloud or gateway."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from engine.config.config import Config, HostConfig
from engine.providers.hosts.host_table import BY_NAME, HOSTS
from engine.providers.models.family_names import family_of
from engine.providers.models.quirks_lookup import FAMILIES, quirks_of
from engine.providers.registry import split_name
from engine.providers.wire.quirks import Quirks

THREE = ("low", "medium", "high")


def quirks(name: str, config: Config | None = None) -> Quirks:
    host, model = split_name(name, config or Config())
    return quirks_of(host, model)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Thinking is a number of tokens for older Claudes, and their own affair for newer ones.
        ("anthropic/claude-sonnet-4-5-20250929", {"thinking_budget": True, "adaptive_thinking": False, "temperature": True}),
        ("anthropic/claude-3-7-sonnet-latest", {"thinking_budget": True, "output": "tool"}),
        ("anthropic/claude-3-5-haiku-latest", {"thinking_budget": False, "adaptive_thinking": False, "output": "tool"}),
        ("anthropic/claude-opus-4-8", {"adaptive_thinking": True, "thinking_budget": False, "temperature": False}),
        ("anthropic/claude-opus-5-5", {"adaptive_thinking": True, "efforts": (*THREE, "xhigh", "max"), "output": "native"}),
        ("bedrock/us.anthropic.claude-opus-5-5", {"adaptive_thinking": True, "marks": "bedrock"}),
        ("openrouter/anthropic/claude-opus-5", {"marks": "anthropic", "adaptive_thinking": False}),
        ("vercel/anthropic/claude-opus-5", {"marks": "anthropic"}),
        ("groq/claude-like", {"marks": ""}),
        ("openrouter/google/gemini-3-pro-preview", {"default_effort": "high"}),
        # OpenAI's thinking models take no temperature, and a developer's word instead of a system's.
        ("openai/gpt-5.2", {"temperature": False, "system_role": "developer", "efforts": ("none", *THREE, "xhigh")}),
        ("openai/gpt-5", {"efforts": ("minimal", *THREE)}),
        ("openai/gpt-5-mini-2025-08-07", {"efforts": ("minimal", *THREE)}),
        ("openai/gpt-5-pro", {"efforts": ("high",)}),
        ("openai/gpt-5.6-luna", {"efforts": ("none", *THREE, "xhigh", "max")}),
        ("openai/gpt-6-astra", {"efforts": (*THREE, "xhigh", "max"), "temperature": False}),
        ("openai/o4-mini", {"temperature": False, "efforts": THREE, "effort_field": "reasoning_effort"}),
        ("openai/gpt-4.1", {"temperature": True, "effort_field": "", "system_role": "system"}),
        ("openai/gpt-5-chat-latest", {"temperature": True, "effort_field": ""}),
        ("openai-chat/gpt-5.2", {"max_tokens_field": "max_completion_tokens", "effort_field": "reasoning_effort"}),
        ("github/openai/gpt-5-mini", {"max_tokens_field": "max_completion_tokens", "system_role": "developer"}),
        ("github/meta/llama-4", {"max_tokens_field": "max_tokens", "temperature": True}),
        # A gateway translates: it keeps its own words for thinking.
        ("openrouter/openai/gpt-5.2", {"effort_field": "reasoning.effort", "system_role": "system", "temperature": False}),
        ("groq/openai/gpt-oss-120b", {"effort_field": "reasoning_effort", "efforts": THREE}),
        ("openrouter/openai/gpt-oss-120b", {"effort_field": "reasoning.effort"}),
        ("groq/llama-3.3-70b-versatile", {"effort_field": ""}),
        # Mistral's templates want nine letters, wherever they are rendered.
        ("mistral/mistral-large-latest", {"call_ids": "nine", "assistant_after_results": True, "reasoning_field": "content"}),
        ("mistral/mistral-small-latest", {"effort_field": "reasoning_effort", "efforts": ("none", "high")}),
        ("mistral/codestral-latest", {"effort_field": "", "call_ids": "nine"}),
        ("together/mistralai/Mixtral-8x7B-Instruct-v0.1", {"call_ids": "nine", "assistant_after_results": True}),
        ("ollama/devstral:24b", {"call_ids": "nine"}),
        ("groq/qwen/qwen3-32b", {"call_ids": "own", "extra_body": '{"reasoning_format":"parsed"}'}),
        # Earlier thinking is wanted back by those that think between calls.
        ("deepseek/deepseek-v4-pro", {"reasoning_always": True, "reasoning_field": "reasoning_content"}),
        ("together/deepseek-ai/DeepSeek-R1", {"reasoning_always": True, "reasoning_field": "reasoning"}),
        ("huggingface/deepseek-ai/DeepSeek-V3.2", {"reasoning_always": True, "reasoning_field": "reasoning_content"}),
        ("openrouter/deepseek/deepseek-v4-pro", {"reasoning_always": False, "reasoning_field": "reasoning_details"}),
        ("moonshot/kimi-k2.5", {"default_temperature": 1.0, "schema": "moonshot", "effort_field": "thinking.type"}),
        ("moonshot/kimi-k2-turbo-preview", {"default_temperature": 0.6, "effort_field": ""}),
        ("fireworks/accounts/fireworks/models/kimi-k2p5", {"default_temperature": 1.0, "reasoning_always": True}),
        ("zai/glm-4.7", {"default_temperature": 1.0, "effort_field": "thinking.type"}),
        ("minimax/MiniMax-M2.5", {"default_temperature": 1.0, "default_top_p": 0.95, "default_top_k": 40}),
        ("xai/grok-4.7", {"effort_field": "reasoning_effort", "efforts": (*THREE, "xhigh")}),
        ("xai/grok-4.5", {"effort_field": "reasoning_effort", "efforts": THREE}),
        ("xai/grok-4.3", {"effort_field": "reasoning_effort", "efforts": ("none", *THREE)}),
        ("xai/grok-4.20-0309-reasoning", {"effort_field": ""}),
        ("xai/grok-4-0709", {"effort_field": ""}),
        ("xai/grok-4-1-fast", {"effort_field": ""}),
        ("xai/grok-4", {"effort_field": ""}),
        ("xai-chat/grok-3-mini", {"efforts": ("low", "high"), "reasoning_apart": True}),
        ("azure-chat/grok-4-1-fast", {"cached_apart": True, "reasoning_apart": False}),
        ("azure-chat/gpt-5-mini", {"cached_apart": False}),
    ],
)  # fmt: skip
def test_family_quirks(name: str, expected: Mapping[str, object]) -> None:
    actual = quirks(name)
    assert {field: getattr(actual, field) for field in expected} == expected


@pytest.mark.parametrize("name", ["foo3-mini", "piano1", "notgpt-5", "my-model", "xclaude-opus-5", "uncommand"])
def test_a_similar_name_is_of_no_family(name: str) -> None:
    for host in HOSTS:
        if host.wire in {"openai_chat", "openai_responses", "anthropic"}:
            assert quirks_of(host, name) == host.quirks, host.name


@pytest.mark.parametrize(
    ("name", "reads_images"),
    [
        ("groq/openai/gpt-oss-120b", False),
        ("together/deepseek-ai/DeepSeek-V3.1", False),
        ("zai/glm-4.7", False),
        ("zai/glm-5.3-flash", False),
        ("zai/glm-4.5v", True),
        ("zai/glm-5v-turbo", True),
        ("moonshot/kimi-k2-turbo-preview", False),
        ("moonshot/kimi-k2.5", True),
        ("fireworks/accounts/fireworks/models/kimi-k2p5", True),
        ("alibaba/qwen3-coder-plus", False),
        ("alibaba/qwen3-vl-plus", True),
        ("alibaba/qwen3.5-plus", True),
        ("ollama/qwen3:8b", False),
        ("ollama/llama3.2-vision", True),
        ("groq/llama-3.3-70b-versatile", False),
        ("groq/meta-llama/llama-4-scout", True),
        ("xai-chat/grok-code-fast-1", False),
        ("xai-chat/grok-4.7", True),
        ("openrouter/anthropic/claude-opus-5", True),
        ("mistral/codestral-latest", False),
        ("mistral/mistral-large-latest", True),
    ],
)
def test_which_models_read_images(name: str, reads_images: bool) -> None:
    assert ("image" in quirks(name).user_media) is reads_images


def test_capitals_make_no_difference() -> None:
    assert quirks("together/DeepSeek-AI/DEEPSEEK-R1") == quirks("together/deepseek-ai/deepseek-r1")


def test_a_host_like_another_has_its_families() -> None:
    config = Config(hosts={"old": HostConfig(like="azure-chat", base_url="https://x.example/openai")})
    assert quirks("old/gpt-5-mini", config) == quirks("azure-chat/gpt-5-mini")
    assert quirks("old/grok-4-1-fast", config).cached_apart


def test_family_defaults_keep_configured_quirks() -> None:
    config = Config(hosts={"groq": HostConfig(quirks={"effort_field": "reasoning.effort"})})
    assert quirks("groq/openai/gpt-oss-120b", config).effort_field == "reasoning.effort"


def test_quirks_name_existing_fields() -> None:
    fields = set(attrs.fields_dict(Quirks))
    for family in FAMILIES:
        changed = {*family.changes, *family.defaults}
        assert changed
        assert changed <= fields
        assert family.hosts | family.excluded_hosts <= set(BY_NAME), family.pattern


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("claude-sonnet-4-5", "claude"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude"),
        ("anthropic/claude-sonnet-4", "claude"),
        ("anthropic--claude-4-sonnet", "claude"),
        ("o3", "gpt"),
        ("gpt-5", "gpt"),
        ("openai/gpt-oss-120b", "gpt"),
        ("codex-mini-latest", "gpt"),
        ("models/gemini-2.5-pro", "gemini"),
        # Names that hold those words, or those letters, and are none of them.
        ("my-claude-distill", ""),
        ("turbo1", ""),
        ("o1a", ""),
        ("mistral-large-latest", ""),
        ("nemotron-o3", ""),
    ],
)
def test_t27_family_of_a_name(name: str, family: str) -> None:
    assert family_of(name) == family


@pytest.mark.parametrize(
    ("host", "model", "is_forced"),
    [
        ("anthropic", "claude-opus-5", True),
        ("anthropic", "claude-opus-5-5", False),
        ("bedrock", "global.anthropic.claude-opus-5", True),
        ("bedrock", "global.anthropic.claude-sonnet-5-5", False),
        ("vertex-anthropic", "claude-fable-5-1", False),
        ("openrouter", "anthropic/claude-opus-5.5", False),
        ("openrouter", "anthropic/claude-opus-4.8", True),
        ("vercel", "anthropic/claude-sonnet-5.5", False),
    ],
)
def test_calls_are_demanded_only_where_accepted(host: str, model: str, is_forced: bool) -> None:
    assert quirks_of(BY_NAME[host], model).forced_tools == is_forced
