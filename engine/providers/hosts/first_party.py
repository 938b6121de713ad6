"""Hosts that serve their own models."""

from __future__ import annotations

import attrs

from engine.providers.hosts.host import Host
from engine.providers.wire.quirks import MediaKind, Quirks

DOCUMENTS: frozenset[MediaKind] = frozenset({"image", "pdf"})

OPENAI = Host(
    name="openai",
    title="OpenAI",
    wire="openai_responses",
    base_url="https://api.openai.com/v1",
    base_variables=("OPENAI_BASE_URL",),
    key_variables=("OPENAI_API_KEY",),
    example="gpt-5.6",
    quirks=Quirks(
        user_media=DOCUMENTS,
        result_media=DOCUMENTS,
        schema="openai",
        cache_key_field="prompt_cache_key",
        strict_tools=True,
    ),
)
OPENAI_CHAT = attrs.evolve(
    OPENAI,
    name="openai-chat",
    title="OpenAI (Chat Completions)",
    wire="openai_chat",
    prices="openai",
    quirks=attrs.evolve(OPENAI.quirks, result_media=frozenset(), max_tokens_field="max_completion_tokens"),
)
_XAI = Host(
    name="xai",
    title="xAI",
    wire="openai_responses",
    base_url="https://api.x.ai/v1",
    base_variables=("XAI_BASE_URL",),
    key_variables=("XAI_API_KEY",),
    example="grok-4.7",
    prices="x-ai",
    quirks=Quirks(
        user_media=DOCUMENTS,
        result_media=frozenset({"image"}),
        image_types=frozenset({"image/jpeg", "image/png"}),
        cache_key_field="prompt_cache_key",
        encrypted_reasoning=True,
    ),
)
GEMINI = Quirks(
    user_media=frozenset({"image", "pdf", "audio", "video"}),
    image_types=frozenset({"image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"}),
    schema="gemini",
)

FIRST_PARTY: tuple[Host, ...] = (
    Host(
        name="anthropic",
        title="Anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com",
        base_variables=("ANTHROPIC_BASE_URL",),
        key_variables=("ANTHROPIC_API_KEY",),
        token_variables=("ANTHROPIC_AUTH_TOKEN",),
        auth="x-api-key",
        example="claude-sonnet-4-5",
        quirks=Quirks(
            user_media=DOCUMENTS,
            result_media=DOCUMENTS,
            marks="anthropic",
            defers_tools=True,
            long_cache=True,
            space_between_reasoning=True,
        ),
    ),
    OPENAI,
    OPENAI_CHAT,
    Host(
        name="google",
        title="Google Gemini",
        wire="gemini",
        base_url="https://generativelanguage.googleapis.com",
        base_variables=("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
        auth="x-goog-api-key",
        example="gemini-3.8-flash",
        quirks=GEMINI,
    ),
    Host(
        name="cohere",
        title="Cohere",
        wire="cohere",
        base_url="https://api.cohere.com",
        base_variables=("CO_API_URL",),
        key_variables=("CO_API_KEY", "COHERE_API_KEY"),
        example="command-a-03-2025",
        quirks=Quirks(output="tool"),
    ),
    Host(
        name="mistral",
        title="Mistral",
        wire="openai_chat",
        base_url="https://api.mistral.ai/v1",
        base_variables=("MISTRAL_BASE_URL",),
        key_variables=("MISTRAL_API_KEY",),
        example="mistral-medium-latest",
        quirks=Quirks(
            call_ids="nine",
            reasoning_field="content",
            stream_usage=False,
            cache_key_field="prompt_cache_key",
        ),
    ),
    Host(
        name="deepseek",
        title="DeepSeek",
        wire="openai_chat",
        base_url="https://api.deepseek.com/v1",
        base_variables=("DEEPSEEK_BASE_URL",),
        key_variables=("DEEPSEEK_API_KEY",),
        example="deepseek-v4-pro",
        quirks=Quirks(
            user_media=frozenset(),
            output="tool",
            forced_tools=False,
            effort_field="reasoning_effort",
            efforts=("low", "high", "max"),
            reasoning_field="reasoning_content",
            reasoning_always=True,
        ),
    ),
    _XAI,
    attrs.evolve(
        _XAI,
        name="xai-chat",
        title="xAI (Chat Completions)",
        wire="openai_chat",
        quirks=attrs.evolve(
            _XAI.quirks,
            user_media=frozenset({"image"}),
            result_media=frozenset(),
            reasoning_field="reasoning_content",
            reasoning_apart=True,
            cache_key_field="",
        ),
    ),
    Host(
        name="perplexity",
        title="Perplexity",
        wire="openai_chat",
        base_url="https://api.perplexity.ai",
        base_variables=("PERPLEXITY_BASE_URL",),
        key_variables=("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
        example="sonar-pro",
        quirks=Quirks(alternates=True),
        note="its models search the web, but call no tools",
    ),
    Host(
        name="moonshot",
        title="Moonshot",
        wire="openai_chat",
        base_url="https://api.moonshot.ai/v1",
        base_variables=("MOONSHOT_BASE_URL",),
        key_variables=("MOONSHOT_API_KEY",),
        example="kimi-k2.5",
        prices="moonshotai",
        quirks=Quirks(
            output="tool",
            forced_tools=False,
            schema="moonshot",
            reasoning_field="reasoning_content",
            cache_key_field="prompt_cache_key",
        ),
    ),
    Host(
        name="zai",
        title="Z.ai",
        wire="openai_chat",
        base_url="https://api.z.ai/api/paas/v4",
        base_variables=("ZAI_BASE_URL",),
        key_variables=("ZAI_API_KEY", "ZHIPU_API_KEY"),
        example="glm-4.7",
        prices="zai",
        quirks=Quirks(
            output="tool", forced_tools=False, effort_field="thinking.type", reasoning_field="reasoning_content"
        ),
        note="for the coding plan: ZAI_BASE_URL=https://api.z.ai/api/coding/paas/v4",
    ),
    Host(
        name="minimax",
        title="MiniMax",
        wire="anthropic",
        base_url="https://api.minimax.io/anthropic",
        base_variables=("MINIMAX_BASE_URL",),
        key_variables=("MINIMAX_API_KEY",),
        auth="x-api-key",
        example="MiniMax-M2.5",
        quirks=Quirks(user_media=frozenset(), output="tool", marks="anthropic"),
    ),
    Host(
        name="alibaba",
        title="Alibaba Cloud (Qwen)",
        wire="openai_chat",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        base_variables=("DASHSCOPE_BASE_URL",),
        key_variables=("DASHSCOPE_API_KEY", "ALIBABA_API_KEY"),
        example="qwen3-coder-plus",
        quirks=Quirks(
            output="tool", forced_tools=False, effort_field="enable_thinking", reasoning_field="reasoning_content"
        ),
    ),
)
