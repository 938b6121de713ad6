"""Families of models that many hosts serve, each in its own way."""

from __future__ import annotations

from engine.providers.models.family import CHAT, OPENAI, THREE, TRANSLATING, Family, named
from engine.providers.wire.quirks import MediaKind

# Later ones go before earlier ones.
EVERYWHERE: tuple[Family, ...] = (
    # -- Mistral: nine letters for a call's id wherever its template is rendered --
    Family(
        pattern=named(r"(?:open-)?(?:mistral|ministral|mixtral|magistral|devstral|codestral|pixtral|voxtral)"),
        wires=CHAT,
        changes={"call_ids": "nine", "assistant_after_results": True},
    ),
    Family(
        pattern=named(r"mistral-(?:small-(?:latest|2[6-9]|4)|medium-(?:latest|2[6-9]|3[.-]5))"),
        wires=CHAT,
        hosts=frozenset({"mistral"}),
        changes={"effort_field": "reasoning_effort", "efforts": ("none", "high")},
    ),
    Family(
        pattern=named(r"mistral-large-(?:latest|2[6-9]|4)"),
        wires=CHAT,
        hosts=frozenset({"mistral"}),
        changes={"effort_field": "reasoning_effort", "efforts": ("none", *THREE)},
    ),
    # -- others ------------------------------------------------------------------
    Family(
        pattern=named(r"deepseek-(?:reasoner|r1|v3[.-][1-9]|v[4-9])"),
        wires=CHAT,
        not_at=TRANSLATING,
        changes={"reasoning_always": True},
        defaults={"reasoning_field": "reasoning_content"},
    ),
    Family(
        pattern=named(r"kimi|moonshot"),
        wires=CHAT,
        changes={"schema": "moonshot", "default_temperature": 0.6},
        defaults={"reasoning_field": "reasoning_content"},
    ),
    Family(
        pattern=named(r"kimi-(?:thinking|k2[.p-](?:thinking|\d)|k[3-9])"),
        wires=CHAT,
        changes={"default_temperature": 1.0},
    ),
    Family(
        pattern=named(r"kimi-(?:thinking|k2[.p-](?:thinking|\d)|k[3-9])"),
        wires=CHAT,
        not_at=TRANSLATING,
        changes={"reasoning_always": True},
    ),
    Family(
        pattern=named(r"kimi-k2[.p-][56]"),
        wires=CHAT,
        hosts=frozenset({"moonshot"}),
        changes={"effort_field": "thinking.type"},
    ),
    Family(
        pattern=named(r"glm-(?:4[.p-][5-9]|[5-9])"),
        changes={"default_temperature": 1.0},
        defaults={"reasoning_field": "reasoning_content"},
    ),
    Family(
        pattern=named(r"minimax-m[2-9]"),
        changes={"default_temperature": 1.0, "default_top_p": 0.95, "default_top_k": 40},
    ),
    Family(
        pattern=named(r"qwen"),
        wires=CHAT,
        hosts=frozenset({"groq"}),
        changes={"extra_body": '{"reasoning_format":"parsed"}'},
    ),
    Family(
        pattern=named(r"grok-(?:3-mini|4[.-][3-9]|[5-9])"),
        wires=OPENAI,
        defaults={"effort_field": "reasoning_effort", "efforts": THREE},
    ),
    Family(pattern=named(r"grok-3-mini"), wires=OPENAI, changes={"efforts": ("low", "high")}),
    Family(pattern=named(r"grok-4[.-]3(?!\d)"), wires=OPENAI, changes={"efforts": ("none", *THREE)}),
    Family(pattern=named(r"grok-(?:4[.-][6-9]|[5-9])(?!\d)"), wires=OPENAI, changes={"efforts": (*THREE, "xhigh")}),
    Family(
        pattern=named(r"grok"),
        wires=CHAT,
        hosts=frozenset({"azure", "azure-chat"}),
        changes={"cached_apart": True, "system_role": "system"},
    ),
    # -- those that read text only, whatever their host could pass on ---------------
    Family(
        pattern=named(
            r"gpt-oss|deepseek|kimi-k2(?![.p-][5-9])|minimax-m[12]|qwen-?2(?:\.5)?-(?!vl|omni)|qwen3[-:](?!vl|omni)"
            r"|glm-[45](?:[.p-]\d)?(?![.\dv])|llama-?3[.-]?[013](?!\d)|mixtral|codestral|grok-(?:3|code)|sonar-deep"
        ),
        wires=CHAT,
        changes={"user_media": frozenset[MediaKind]()},
    ),
    # -- gateways ------------------------------------------------------------------
    Family(
        pattern=named(r"gemini-3"),
        wires=CHAT,
        hosts=frozenset({"openrouter"}),
        changes={"default_effort": "high"},
    ),
    Family(
        pattern=named(r"claude"),
        wires=CHAT,
        hosts=TRANSLATING,
        changes={"marks": "anthropic", "long_cache": True},
    ),
)
