"""Families of models that their makers serve, and clouds too."""

from __future__ import annotations

from engine.config.host_values import WireName
from engine.providers.models.family import CHAT, LOW_TO_HIGH, OPENAI, RESPONSES, Family
from engine.providers.models.name_patterns import anchored
from engine.providers.wire.quirks import MediaKind

_CLAUDE: frozenset[WireName] = frozenset({"anthropic", "vertex_anthropic", "bedrock"})
_GEMINI: frozenset[WireName] = frozenset({"gemini"})
# Hosts where OpenAI's own rules for its models apply; elsewhere a gateway translates.
_OPENAI_HOSTS = frozenset(
    {"openai", "openai-chat", "azure", "azure-chat", "github", "bedrock-mantle", "bedrock-mantle-oss"}
)
# Aliases that Google points at its newest models.
_LATEST = r"(?:pro|flash|flash-lite)-latest"
_NONE: frozenset[MediaKind] = frozenset()
# Versions of Claude; a later date may follow.
_SINCE_5_5 = r"(?:5[.-][5-9](?!\d)|[6-9]|\d\d)"
_SINCE_5_1 = r"(?:5[.-][1-9](?!\d)|[6-9]|\d\d)"
# Models that refuse a request which demands a call.
UNFORCED_CLAUDE = anchored(rf"claude-(?:(?:opus|sonnet)-{_SINCE_5_5}|(?:fable|mythos)-{_SINCE_5_1}|mythos-preview)")

# Later families override earlier ones.
OF_MAKERS: tuple[Family, ...] = (
    # -- Claude ------------------------------------------------------------------
    Family(
        pattern=anchored(r"claude-(?:3-7|(?:opus|sonnet|haiku)-4(?:-[015])?(?:$|@|-2\d{3,}|-v\d))"),
        wires=_CLAUDE,
        changes={"thinking_budget": True},
    ),
    Family(
        pattern=anchored(r"claude-(?:opus|sonnet|haiku)-4-[6-9]"),
        wires=_CLAUDE,
        changes={
            "adaptive_thinking": True,
            "efforts": ("low", "medium", "high", "max"),
            "temperature": False,
        },
    ),
    Family(
        pattern=anchored(r"claude-(?:[a-z]+-(?:4-[7-9]|[5-9]|\d\d)|mythos-preview)"),
        wires=_CLAUDE,
        changes={
            "adaptive_thinking": True,
            "efforts": ("low", "medium", "high", "xhigh", "max"),
            "temperature": False,
            "thinking_display": True,
        },
    ),
    # Deferred tools exist since 4, for Haiku since 4.5.
    Family(
        pattern=anchored(r"claude-(?:v2|2|instant|3|haiku-4(?:-[01])?(?:$|@|-2\d{3,}))"),
        wires=_CLAUDE,
        changes={"defers_tools": False},
    ),
    # From 5 on they think by default; Fable and Mythos always.
    Family(
        pattern=anchored(r"claude-[a-z]+-(?:[5-9]|\d\d)"),
        wires=_CLAUDE,
        changes={"unasked_effort": "high", "thinking_off": "disabled"},
    ),
    Family(
        pattern=anchored(r"claude-(?:(?:fable|mythos)-(?:[5-9]|\d\d)|mythos-preview)"),
        wires=_CLAUDE,
        changes={"unasked_effort": "high", "thinking_off": "never"},
    ),
    # From 5.5 on (Fable and Mythos: 5.1) a call can't be demanded; Opus always thinks, and Sonnet a little.
    Family(pattern=UNFORCED_CLAUDE, wires=_CLAUDE, changes={"forced_tools": False, "thinking_off": "never"}),
    Family(pattern=anchored(rf"claude-sonnet-{_SINCE_5_5}"), wires=_CLAUDE, changes={"thinking_off": "between_tools"}),
    Family(
        pattern=anchored(rf"claude-(?:opus|haiku)-{_SINCE_5_5}"), wires=_CLAUDE, changes={"unasked_effort": "medium"}
    ),
    # Thinking is bound to the history before it. (On Bedrock the control for it is not documented.)
    Family(
        pattern=anchored(rf"claude-(?:(?:opus|sonnet|haiku)-{_SINCE_5_5}|fable-{_SINCE_5_1})"),
        wires=frozenset({"anthropic", "vertex_anthropic"}),
        changes={"thinking_binding": True},
    ),
    # Schemas for answers exist since 4.5.
    Family(
        pattern=anchored(r"claude-(?:v2|2|instant|3|(?:opus|sonnet|haiku)-4(?:-[01])?(?:$|@|-2\d{3,}))"),
        wires=frozenset({"anthropic"}),
        changes={"output": "tool"},
    ),
    # -- OpenAI ------------------------------------------------------------------
    Family(
        pattern=anchored(r"(?:o[1-9]|gpt-[5-9]|codex)(?![a-z0-9]*.*-chat)(?!\d)"),
        wires=OPENAI,
        changes={"temperature": False},
        defaults={"effort_field": "reasoning_effort", "efforts": LOW_TO_HIGH},
    ),
    Family(
        pattern=anchored(r"(?:o[1-9]|gpt-[5-9]|codex)(?!\d)"),
        wires=OPENAI,
        hosts=_OPENAI_HOSTS,
        changes={"system_role": "developer", "max_tokens_field": "max_completion_tokens"},
    ),
    Family(
        pattern=anchored(r"(?:o[1-9]|gpt-[5-9]|codex)(?![a-z0-9]*.*-chat)(?!\d)"),
        wires=RESPONSES,
        changes={"encrypted_reasoning": True},
    ),
    Family(
        pattern=anchored(r"(?:gpt-[5-9]|codex)(?![a-z0-9]*.*-chat)(?!\d)"),
        wires=RESPONSES,
        changes={"default_effort": "medium", "reasoning_summary": True},
    ),
    Family(
        pattern=anchored(r"gpt-5[.]\d(?!.*-(?:codex|chat))"),
        wires=RESPONSES,
        excluded_hosts=frozenset({"azure"}),
        changes={"verbosity": "low"},
    ),
    Family(
        pattern=anchored(r"gpt-(?:4[.]1|5(?![.-][6-9]))(?!.*-(?:mini|nano|pro|chat))"),
        wires=RESPONSES,
        hosts=frozenset({"openai"}),
        changes={"long_cache": True},
    ),
    # "Only gpt-5.4 and later models support tool_search": of the smallest and the slowest ones nothing says so.
    Family(
        pattern=anchored(r"gpt-(?:5[.-][4-9]|[6-9])(?!\d)(?!.*-(?:nano|pro|chat|codex))"),
        wires=RESPONSES,
        hosts=frozenset({"openai"}),
        changes={"defers_tools": True},
    ),
    # Since 5.6 only a marked prefix is cached; the host itself marks the end of the input.
    Family(
        pattern=anchored(r"gpt-(?:5[.-][6-9]|[6-9])(?!\d)"),
        wires=RESPONSES,
        hosts=frozenset({"openai"}),
        changes={"marks_system": True},
    ),
    Family(
        pattern=anchored(r"gpt-5(?:$|-(?:mini|nano|\d))"),
        wires=OPENAI,
        changes={"efforts": ("minimal", *LOW_TO_HIGH)},
    ),
    Family(pattern=anchored(r"gpt-5-pro"), wires=OPENAI, changes={"efforts": ("high",)}),
    Family(pattern=anchored(r"gpt-5[.-]1(?!\d)"), wires=OPENAI, changes={"efforts": ("none", *LOW_TO_HIGH)}),
    Family(
        pattern=anchored(r"gpt-5[.-]1-codex(?!-max)"),
        wires=OPENAI,
        changes={"efforts": LOW_TO_HIGH},
    ),
    Family(pattern=anchored(r"gpt-5[.-]1-codex-max"), wires=OPENAI, changes={"efforts": (*LOW_TO_HIGH, "xhigh")}),
    Family(
        pattern=anchored(r"gpt-5[.-][2-5](?!\d)"),
        wires=OPENAI,
        changes={"efforts": ("none", *LOW_TO_HIGH, "xhigh")},
    ),
    Family(
        pattern=anchored(r"gpt-5[.-][23](?!\d)-codex"),
        wires=OPENAI,
        changes={"efforts": (*LOW_TO_HIGH, "xhigh")},
    ),
    Family(pattern=anchored(r"gpt-5[.-][2-5]-pro"), wires=OPENAI, changes={"efforts": ("medium", "high", "xhigh")}),
    Family(
        pattern=anchored(r"gpt-5[.-][6-9](?!\d)"),
        wires=OPENAI,
        changes={"efforts": ("none", *LOW_TO_HIGH, "xhigh", "max")},
    ),
    Family(pattern=anchored(r"gpt-[6-9](?!\d)"), wires=OPENAI, changes={"efforts": (*LOW_TO_HIGH, "xhigh", "max")}),
    # With tools, Chat Completions accepts only the effort "none"; since 5.6 also where none is requested.
    Family(
        pattern=anchored(r"gpt-(?:5[.-][4-9](?!\d)|[6-9](?!\d))(?!.*-chat)"),
        wires=CHAT,
        hosts=_OPENAI_HOSTS,
        changes={"no_effort_with_tools": True},
    ),
    Family(
        pattern=anchored(r"(?:o[1-9]|gpt-5(?![.-]\d)|gpt-(?:5[.-][6-9]|[6-9])|codex)(?![a-z0-9]*.*-chat)(?!\d)"),
        changes={"unasked_effort": "medium"},
    ),
    Family(
        pattern=anchored(r"gpt-oss"),
        wires=OPENAI,
        changes={"efforts": LOW_TO_HIGH, "unasked_effort": "medium"},
        defaults={"effort_field": "reasoning_effort"},
    ),
    # -- Gemini ------------------------------------------------------------------
    # They accept JSON Schema; older ones only OpenAPI's.
    Family(
        pattern=anchored(rf"gemini-(?:2\.5|[3-9]|\d\d|{_LATEST})"), wires=_GEMINI, changes={"schema": "gemini-json"}
    ),
    # Before Gemini 3, tools and a schema for the answer exclude each other.
    Family(pattern=anchored(r"gemini-[12](?!\d)"), wires=_GEMINI, changes={"output": "tool"}),
    Family(
        pattern=anchored(r"gemini-2\.5-pro"),
        wires=_GEMINI,
        changes={"thinking_budget": True, "efforts": ("minimal", *LOW_TO_HIGH, "xhigh")},
    ),
    Family(
        pattern=anchored(r"gemini-2\.5-flash"),
        wires=_GEMINI,
        changes={"thinking_budget": True, "efforts": ("none", "minimal", *LOW_TO_HIGH)},
    ),
    Family(pattern=anchored(rf"gemini-(?:2\.5|[3-9]|\d\d|{_LATEST})"), changes={"unasked_effort": "high"}),
    # It reasons only if a budget is set.
    Family(
        pattern=anchored(r"gemini-2\.5-flash-lite"),
        wires=_GEMINI,
        changes={"default_effort": "none", "unasked_effort": None},
    ),
    Family(
        pattern=anchored(r"gemini-(?:2\.5|3(?:\.[01])?)-"),
        wires=_GEMINI,
        changes={"default_temperature": 1.0, "default_top_p": 0.95, "default_top_k": 64},
    ),
    Family(
        pattern=anchored(rf"gemini-(?:[3-9]|\d\d|{_LATEST})"),
        wires=_GEMINI,
        changes={"result_media": frozenset({"image", "pdf"}), "signed_calls": True, "efforts": LOW_TO_HIGH},
    ),
    # From here on sampling parameters are ignored.
    Family(
        pattern=anchored(rf"gemini-(?:3\.[5-9]|[4-9]|\d\d|{_LATEST})"), wires=_GEMINI, changes={"temperature": False}
    ),
    Family(pattern=anchored(r"gemini-3-pro"), wires=_GEMINI, changes={"efforts": ("low", "high")}),
    Family(
        pattern=anchored(r"gemini-(?:3(?:\.[0-6])?-flash|[3-9](?:\.\d)?-flash-lite)"),
        wires=_GEMINI,
        changes={"efforts": ("minimal", *LOW_TO_HIGH)},
    ),
    Family(
        pattern=anchored(r"gemini-3(?:\.[01])?-(?:pro|flash)(?!-lite)"),
        wires=_GEMINI,
        changes={"default_effort": "high"},
    ),
    # Image and audio models accept no reasoning budget.
    Family(
        pattern=anchored(r"gemini-.*(?:image|tts|audio|live)"),
        wires=_GEMINI,
        changes={"thinking_budget": False, "efforts": (), "default_effort": None},
    ),
    # -- Cohere ------------------------------------------------------------------
    Family(
        pattern=anchored(r"command-a-(?:reasoning|plus)"),
        wires=frozenset({"cohere"}),
        changes={"thinking_budget": True},
    ),
    Family(
        pattern=anchored(r"command(?:$|-light|-nightly|-r|-a-(?:03|reasoning|translate))"),
        wires=frozenset({"cohere"}),
        changes={"user_media": _NONE},
    ),
)
