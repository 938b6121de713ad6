"""Families of models that many hosts serve."""

from __future__ import annotations

from engine.providers.models.family import CHAT, LOW_TO_HIGH, OPENAI, TRANSLATING, Family
from engine.providers.models.maker_families import UNFORCED_CLAUDE
from engine.providers.models.name_patterns import anchored
from engine.providers.wire.quirks import MediaKind

# Later families override earlier ones.
EVERYWHERE: tuple[Family, ...] = (
    # -- Mistral: its chat template requires call ids of nine characters --
    Family(
        pattern=anchored(r"(?:open-)?(?:mistral|ministral|mixtral|magistral|devstral|codestral|pixtral|voxtral)"),
        wires=CHAT,
        changes={"call_ids": "nine", "assistant_after_results": True},
    ),
    Family(
        pattern=anchored(r"mistral-(?:small-(?:latest|2[6-9]|4)|medium-(?:latest|2[6-9]|3[.-]5))"),
        wires=CHAT,
        hosts=frozenset({"mistral"}),
        changes={"effort_field": "reasoning_effort", "efforts": ("none", "high")},
    ),
    Family(
        pattern=anchored(r"mistral-large-(?:latest|2[6-9]|4)"),
        wires=CHAT,
        hosts=frozenset({"mistral"}),
        changes={"effort_field": "reasoning_effort", "efforts": ("none", *LOW_TO_HIGH)},
    ),
    # -- others ------------------------------------------------------------------
    Family(
        pattern=anchored(r"deepseek-(?:reasoner|r1|v3[.-][1-9]|v[4-9])"),
        wires=CHAT,
        excluded_hosts=TRANSLATING,
        changes={"reasoning_always": True},
        defaults={"reasoning_field": "reasoning_content"},
    ),
    Family(
        pattern=anchored(r"kimi|moonshot"),
        wires=CHAT,
        changes={"schema": "moonshot", "default_temperature": 0.6},
        defaults={"reasoning_field": "reasoning_content"},
    ),
    Family(
        pattern=anchored(r"kimi-(?:thinking|k2[.p-](?:thinking|\d)|k[3-9])"),
        wires=CHAT,
        changes={"default_temperature": 1.0},
    ),
    Family(
        pattern=anchored(r"kimi-(?:thinking|k2[.p-](?:thinking|\d)|k[3-9])"),
        wires=CHAT,
        excluded_hosts=TRANSLATING,
        changes={"reasoning_always": True},
    ),
    Family(
        pattern=anchored(r"kimi-k2[.p-][56]"),
        wires=CHAT,
        hosts=frozenset({"moonshot"}),
        changes={"effort_field": "thinking.type"},
    ),
    Family(
        pattern=anchored(r"glm-(?:4[.p-][5-9]|[5-9])"),
        changes={"default_temperature": 1.0},
        defaults={"reasoning_field": "reasoning_content"},
    ),
    Family(
        pattern=anchored(r"minimax-m[2-9]"),
        changes={"default_temperature": 1.0, "default_top_p": 0.95, "default_top_k": 40},
    ),
    Family(
        pattern=anchored(r"qwen"),
        wires=CHAT,
        hosts=frozenset({"groq"}),
        changes={"extra_body": '{"reasoning_format":"parsed"}'},
    ),
    Family(
        pattern=anchored(r"grok-(?:3-mini|4[.-][3-9]|[5-9])"),
        wires=OPENAI,
        defaults={"effort_field": "reasoning_effort", "efforts": LOW_TO_HIGH},
    ),
    Family(pattern=anchored(r"grok-3-mini"), wires=OPENAI, changes={"efforts": ("low", "high")}),
    Family(pattern=anchored(r"grok-4[.-]3(?!\d)"), wires=OPENAI, changes={"efforts": ("none", *LOW_TO_HIGH)}),
    Family(
        pattern=anchored(r"grok-(?:4[.-][6-9]|[5-9])(?!\d)"), wires=OPENAI, changes={"efforts": (*LOW_TO_HIGH, "xhigh")}
    ),
    Family(
        pattern=anchored(r"grok"),
        wires=CHAT,
        hosts=frozenset({"azure", "azure-chat"}),
        changes={"cached_apart": True, "system_role": "system"},
    ),
    # -- models that think by default --------------------------------------
    Family(
        pattern=anchored(
            r"deepseek-(?:reasoner|r1|v[4-9])|kimi-(?:thinking|k2[.p-](?:thinking|[5-9])|k[3-9])|glm-(?:4[.p-][5-9]|[5-9])"
            r"|minimax-m[2-9]|magistral|grok-(?:3-mini|4(?!.*non-reasoning)|[5-9]|code)|sonar-(?:reasoning|deep)"
            r"|qwen-?3(?:\.\d)?(?!.*(?:coder|instruct|-max|-plus|-flash))|qwq|command-a-(?:reasoning|plus)"
        ),
        changes={"unasked_effort": "medium"},
    ),
    # -- text-only models, even if their host accepts media -------------------------
    Family(
        pattern=anchored(
            r"gpt-oss|deepseek|kimi-k2(?![.p-][5-9])|minimax-m[12]|qwen-?2(?:\.5)?-(?!vl|omni)|qwen3[-:](?!vl|omni)"
            r"|glm-[45](?:[.p-]\d)?(?![.\dv])|llama-?3[.-]?[013](?!\d)|mixtral|codestral|grok-(?:3|code)|sonar-deep"
        ),
        wires=CHAT,
        changes={"user_media": frozenset[MediaKind]()},
    ),
    # -- gateways ------------------------------------------------------------------
    Family(
        pattern=anchored(r"gemini-3"),
        wires=CHAT,
        hosts=frozenset({"openrouter"}),
        changes={"default_effort": "high"},
    ),
    Family(
        pattern=anchored(r"claude"),
        wires=CHAT,
        hosts=TRANSLATING,
        changes={"marks": "anthropic", "long_cache": True},
    ),
    # A gateway can't force what the maker refuses.
    Family(pattern=UNFORCED_CLAUDE, wires=CHAT, changes={"forced_tools": False}),
)
