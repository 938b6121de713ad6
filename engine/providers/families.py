"""What is particular to a family of models, wherever it is served.

A family is told by the model's own name. Clouds and gateways put something before it
(`us.anthropic.`, `openai/`, `accounts/fireworks/models/`) and something after it, so a
pattern is looked for anywhere in the name, but only where a name may begin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from engine.providers.hosts import Host, WireName
from engine.providers.quirks import MediaKind, Quirks

_CHAT: frozenset[WireName] = frozenset({"openai_chat"})
_RESPONSES: frozenset[WireName] = frozenset({"openai_responses"})
_OPENAI: frozenset[WireName] = _CHAT | _RESPONSES
_CLAUDE: frozenset[WireName] = frozenset({"anthropic", "vertex_anthropic", "bedrock"})
_GEMINI: frozenset[WireName] = frozenset({"gemini"})
# Where OpenAI's own rules for its models hold: elsewhere a gateway translates.
_OPENAI_HOSTS = frozenset(
    {"openai", "openai-chat", "azure", "azure-chat", "github", "bedrock-mantle", "bedrock-mantle-oss"}
)
# They have one way to say thinking for all models.
_TRANSLATING = frozenset({"openrouter", "vercel"})
_THREE = ("low", "medium", "high")
# Names that Google moves on to its newest models.
_LATEST = r"(?:pro|flash|flash-lite)-latest"
_BEDROCK: frozenset[WireName] = frozenset({"bedrock"})
_NONE: frozenset[MediaKind] = frozenset()
_IMAGES: frozenset[MediaKind] = frozenset({"image"})
_PDF: frozenset[MediaKind] = frozenset({"pdf"})


@attrs.frozen(kw_only=True)
class Family:
    """A family of models.

    Attributes:
        pattern: is searched for in the model's own name, in lower case.
        wires: the wire formats in which it holds; empty: in all.
        hosts: the hosts at which it holds; empty: at all.
        not_at: hosts at which it does not hold: they translate.
        changes: fields of `Quirks`, by name.
        defaults: the same, for those that the host says nothing of.
    """

    pattern: re.Pattern[str]
    wires: frozenset[WireName] = frozenset()
    hosts: frozenset[str] = frozenset()
    not_at: frozenset[str] = frozenset()
    changes: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    defaults: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    def holds(self, host: Host, model: str) -> bool:
        """Whether *model* at *host* is of this family."""
        return (
            (not self.wires or host.wire in self.wires)
            and (not self.hosts or host.name in self.hosts)
            and host.name not in self.not_at
            and self.pattern.search(model.lower()) is not None
        )


def _named(pattern: str) -> re.Pattern[str]:
    """Return a pattern that stands where a model's name may begin."""
    return re.compile(rf"(?<![a-z0-9])(?:{pattern})")


# Later ones go before earlier ones.
FAMILIES: tuple[Family, ...] = (
    # -- Claude ------------------------------------------------------------------
    Family(
        pattern=_named(r"claude-(?:3-7|(?:opus|sonnet|haiku)-4(?:-[015])?(?:$|@|-2\d{3,}|-v\d))"),
        wires=_CLAUDE,
        changes={"thinking_budget": True},
    ),
    Family(
        pattern=_named(r"claude-(?:opus|sonnet|haiku)-4-[6-9]"),
        wires=_CLAUDE,
        changes={
            "adaptive_thinking": True,
            "efforts": ("low", "medium", "high", "max"),
            "temperature": False,
        },
    ),
    Family(
        pattern=_named(r"claude-(?:[a-z]+-(?:4-[7-9]|[5-9]|\d\d))"),
        wires=_CLAUDE,
        changes={
            "adaptive_thinking": True,
            "efforts": ("low", "medium", "high", "xhigh", "max"),
            "temperature": False,
        },
    ),
    # Schemas for answers came with 4.5.
    Family(
        pattern=_named(r"claude-(?:v2|2|instant|3|(?:opus|sonnet|haiku)-4(?:-[01])?(?:$|@|-2\d{3,}))"),
        wires=frozenset({"anthropic"}),
        changes={"output": "tool"},
    ),
    # -- OpenAI ------------------------------------------------------------------
    Family(
        pattern=_named(r"(?:o[1-9]|gpt-[5-9]|codex)(?![a-z0-9]*.*-chat)(?!\d)"),
        wires=_OPENAI,
        changes={"temperature": False},
        defaults={"effort_field": "reasoning_effort", "efforts": _THREE},
    ),
    Family(
        pattern=_named(r"(?:o[1-9]|gpt-[5-9]|codex)(?!\d)"),
        wires=_OPENAI,
        hosts=_OPENAI_HOSTS,
        changes={"system_role": "developer", "max_tokens_field": "max_completion_tokens"},
    ),
    Family(
        pattern=_named(r"(?:o[1-9]|gpt-[5-9]|codex)(?![a-z0-9]*.*-chat)(?!\d)"),
        wires=_RESPONSES,
        changes={"encrypted_reasoning": True},
    ),
    Family(
        pattern=_named(r"(?:gpt-[5-9]|codex)(?![a-z0-9]*.*-chat)(?!\d)"),
        wires=_RESPONSES,
        changes={"default_effort": "medium", "reasoning_summary": True},
    ),
    Family(
        pattern=_named(r"gpt-5[.]\d(?!.*-(?:codex|chat))"),
        wires=_RESPONSES,
        not_at=frozenset({"azure"}),
        changes={"verbosity": "low"},
    ),
    Family(
        pattern=_named(r"gpt-(?:4[.]1|5(?![.-][6-9]))(?!.*-(?:mini|nano|pro|chat))"),
        wires=_RESPONSES,
        hosts=frozenset({"openai"}),
        changes={"long_cache": True},
    ),
    # Since 5.6 only a marked beginning is found again; the end of the input is marked by the host itself.
    Family(
        pattern=_named(r"gpt-(?:5[.-][6-9]|[6-9])(?!\d)"),
        wires=_RESPONSES,
        hosts=frozenset({"openai"}),
        changes={"marks_system": True},
    ),
    Family(
        pattern=_named(r"gpt-5(?:$|-(?:mini|nano|\d))"),
        wires=_OPENAI,
        changes={"efforts": ("minimal", *_THREE)},
    ),
    Family(pattern=_named(r"gpt-5-pro"), wires=_OPENAI, changes={"efforts": ("high",)}),
    Family(pattern=_named(r"gpt-5[.-]1(?!\d)"), wires=_OPENAI, changes={"efforts": ("none", *_THREE)}),
    Family(
        pattern=_named(r"gpt-5[.-]1-codex(?!-max)"),
        wires=_OPENAI,
        changes={"efforts": _THREE},
    ),
    Family(pattern=_named(r"gpt-5[.-]1-codex-max"), wires=_OPENAI, changes={"efforts": (*_THREE, "xhigh")}),
    Family(
        pattern=_named(r"gpt-5[.-][2-5](?!\d)"),
        wires=_OPENAI,
        changes={"efforts": ("none", *_THREE, "xhigh")},
    ),
    Family(
        pattern=_named(r"gpt-5[.-][23](?!\d)-codex"),
        wires=_OPENAI,
        changes={"efforts": (*_THREE, "xhigh")},
    ),
    Family(pattern=_named(r"gpt-5[.-][2-5]-pro"), wires=_OPENAI, changes={"efforts": ("medium", "high", "xhigh")}),
    Family(
        pattern=_named(r"gpt-5[.-][6-9](?!\d)"),
        wires=_OPENAI,
        changes={"efforts": ("none", *_THREE, "xhigh", "max")},
    ),
    Family(pattern=_named(r"gpt-[6-9](?!\d)"), wires=_OPENAI, changes={"efforts": (*_THREE, "xhigh", "max")}),
    Family(
        pattern=_named(r"gpt-oss"),
        wires=_OPENAI,
        changes={"efforts": _THREE},
        defaults={"effort_field": "reasoning_effort"},
    ),
    # -- Gemini ------------------------------------------------------------------
    # They read JSON Schema itself; older ones only OpenAPI's.
    Family(pattern=_named(rf"gemini-(?:2\.5|[3-9]|\d\d|{_LATEST})"), wires=_GEMINI, changes={"schema": "gemini-json"}),
    # A schema for the answer may not stand beside tools before Gemini 3.
    Family(pattern=_named(r"gemini-[12](?!\d)"), wires=_GEMINI, changes={"output": "tool"}),
    Family(
        pattern=_named(r"gemini-2\.5-pro"),
        wires=_GEMINI,
        changes={"thinking_budget": True, "efforts": ("minimal", *_THREE, "xhigh")},
    ),
    Family(
        pattern=_named(r"gemini-2\.5-flash"),
        wires=_GEMINI,
        changes={"thinking_budget": True, "efforts": ("none", "minimal", *_THREE)},
    ),
    # It does not think unless it is told how much.
    Family(pattern=_named(r"gemini-2\.5-flash-lite"), wires=_GEMINI, changes={"default_effort": "none"}),
    Family(
        pattern=_named(r"gemini-(?:2\.5|3(?:\.[01])?)-"),
        wires=_GEMINI,
        changes={"default_temperature": 1.0, "default_top_p": 0.95, "default_top_k": 64},
    ),
    Family(
        pattern=_named(rf"gemini-(?:[3-9]|\d\d|{_LATEST})"),
        wires=_GEMINI,
        changes={"result_media": frozenset({"image", "pdf"}), "signed_calls": True, "efforts": _THREE},
    ),
    # From here on such numbers are ignored.
    Family(pattern=_named(rf"gemini-(?:3\.[5-9]|[4-9]|\d\d|{_LATEST})"), wires=_GEMINI, changes={"temperature": False}),
    Family(pattern=_named(r"gemini-3-pro"), wires=_GEMINI, changes={"efforts": ("low", "high")}),
    Family(
        pattern=_named(r"gemini-(?:3(?:\.[0-6])?-flash|[3-9](?:\.\d)?-flash-lite)"),
        wires=_GEMINI,
        changes={"efforts": ("minimal", *_THREE)},
    ),
    Family(
        pattern=_named(r"gemini-3(?:\.[01])?-(?:pro|flash)(?!-lite)"),
        wires=_GEMINI,
        changes={"default_effort": "high"},
    ),
    # Those that draw or speak don't let themselves be told how much to think.
    Family(
        pattern=_named(r"gemini-.*(?:image|tts|audio|live)"),
        wires=_GEMINI,
        changes={"thinking_budget": False, "efforts": (), "default_effort": None},
    ),
    # -- Mistral: nine letters for a call's id wherever its template is rendered --
    Family(
        pattern=_named(r"(?:open-)?(?:mistral|ministral|mixtral|magistral|devstral|codestral|pixtral|voxtral)"),
        wires=_CHAT,
        changes={"call_ids": "nine", "assistant_after_results": True},
    ),
    Family(
        pattern=_named(r"mistral-(?:small-(?:latest|2[6-9]|4)|medium-(?:latest|2[6-9]|3[.-]5))"),
        wires=_CHAT,
        hosts=frozenset({"mistral"}),
        changes={"effort_field": "reasoning_effort", "efforts": ("none", "high")},
    ),
    Family(
        pattern=_named(r"mistral-large-(?:latest|2[6-9]|4)"),
        wires=_CHAT,
        hosts=frozenset({"mistral"}),
        changes={"effort_field": "reasoning_effort", "efforts": ("none", *_THREE)},
    ),
    # -- others ------------------------------------------------------------------
    Family(
        pattern=_named(r"deepseek-(?:reasoner|r1|v3[.-][1-9]|v[4-9])"),
        wires=_CHAT,
        not_at=_TRANSLATING,
        changes={"reasoning_always": True},
        defaults={"reasoning_field": "reasoning_content"},
    ),
    Family(
        pattern=_named(r"kimi|moonshot"),
        wires=_CHAT,
        changes={"schema": "moonshot", "default_temperature": 0.6},
        defaults={"reasoning_field": "reasoning_content"},
    ),
    Family(
        pattern=_named(r"kimi-(?:thinking|k2[.p-](?:thinking|\d)|k[3-9])"),
        wires=_CHAT,
        changes={"default_temperature": 1.0},
    ),
    Family(
        pattern=_named(r"kimi-(?:thinking|k2[.p-](?:thinking|\d)|k[3-9])"),
        wires=_CHAT,
        not_at=_TRANSLATING,
        changes={"reasoning_always": True},
    ),
    Family(
        pattern=_named(r"kimi-k2[.p-][56]"),
        wires=_CHAT,
        hosts=frozenset({"moonshot"}),
        changes={"effort_field": "thinking.type"},
    ),
    Family(
        pattern=_named(r"glm-(?:4[.p-][5-9]|[5-9])"),
        changes={"default_temperature": 1.0},
        defaults={"reasoning_field": "reasoning_content"},
    ),
    Family(
        pattern=_named(r"minimax-m[2-9]"),
        changes={"default_temperature": 1.0, "default_top_p": 0.95, "default_top_k": 40},
    ),
    Family(
        pattern=_named(r"qwen"),
        wires=_CHAT,
        hosts=frozenset({"groq"}),
        changes={"extra_body": '{"reasoning_format":"parsed"}'},
    ),
    Family(
        pattern=_named(r"grok-(?:3-mini|4[.-][3-9]|[5-9])"),
        wires=_OPENAI,
        defaults={"effort_field": "reasoning_effort", "efforts": _THREE},
    ),
    Family(pattern=_named(r"grok-3-mini"), wires=_OPENAI, changes={"efforts": ("low", "high")}),
    Family(
        pattern=_named(r"grok"),
        wires=_CHAT,
        hosts=frozenset({"azure", "azure-chat"}),
        changes={"cached_apart": True, "system_role": "system"},
    ),
    # -- on Bedrock: its own row holds for all that nobody has tried ---------------
    Family(
        pattern=_named(r"claude"),
        wires=_BEDROCK,
        changes={"result_media": _IMAGES, "forced_tools": True, "assistant_after_results": False},
    ),
    Family(
        pattern=_named(r"claude-(?:3-5-haiku|3-7|[a-z]+-\d)"),
        wires=_BEDROCK,
        changes={"marks": "bedrock"},
    ),
    Family(pattern=_named(r"claude-3-5-haiku"), wires=_BEDROCK, changes={"user_media": _PDF, "result_media": _NONE}),
    Family(
        pattern=_named(r"claude-[a-z]+-(?:4-[5-9]|[5-9]|[1-9]\d)(?!\d)"),
        wires=_BEDROCK,
        changes={"output": "native", "long_cache": True},
    ),
    Family(
        pattern=_named(r"nova-"),
        wires=_BEDROCK,
        changes={
            "user_media": _IMAGES | _PDF | {"video"},
            "result_media": _IMAGES,
            "forced_tools": True,
            "marks": "bedrock",
            "mark_tools": False,
        },
    ),
    Family(pattern=_named(r"nova-micro"), wires=_BEDROCK, changes={"user_media": _NONE, "result_media": _NONE}),
    Family(
        pattern=_named(r"nova-2-lite|nova-2-pro"),
        wires=_BEDROCK,
        changes={"effort_field": "reasoningConfig", "efforts": _THREE},
    ),
    Family(
        pattern=_named(r"gpt-oss"),
        wires=_BEDROCK,
        changes={"effort_field": "reasoning_effort", "efforts": _THREE, "user_media": _NONE},
    ),
    Family(pattern=_named(r"llama"), wires=_BEDROCK, changes={"streams": False, "calls_alone": True}),
    Family(
        pattern=_named(r"r1|palmyra|pixtral|mistral-(?:large|small)-24"), wires=_BEDROCK, changes={"streams": False}
    ),
    Family(
        pattern=_named(r"llama3-[013]|r1|palmyra|mistral-(?:7b|large|small)|mixtral|command-r|jamba"),
        wires=_BEDROCK,
        changes={"user_media": _PDF},
    ),
    # -- Cohere ------------------------------------------------------------------
    Family(
        pattern=_named(r"command-a-(?:reasoning|plus)"),
        wires=frozenset({"cohere"}),
        changes={"thinking_budget": True},
    ),
    Family(
        pattern=_named(r"command(?:$|-light|-nightly|-r|-a-(?:03|reasoning|translate))"),
        wires=frozenset({"cohere"}),
        changes={"user_media": _NONE},
    ),
    # -- gateways ------------------------------------------------------------------
    Family(
        pattern=_named(r"claude"),
        wires=_CHAT,
        hosts=_TRANSLATING,
        changes={"marks": "anthropic", "long_cache": True},
    ),
)


def quirks_of(host: Host, model: str) -> Quirks:
    """Return what is particular about *model* at *host*: the host's own, then each family's that it belongs to."""
    changes: dict[str, Any] = {}
    for family in FAMILIES:
        if family.holds(host, model):
            fresh = {
                name: value for name, value in family.defaults.items() if getattr(host.quirks, name) == _DEFAULTS[name]
            }
            changes |= fresh | dict(family.changes)
    return attrs.evolve(host.quirks, **changes)


_DEFAULTS: Mapping[str, Any] = attrs.asdict(Quirks(), recurse=False)
