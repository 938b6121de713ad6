"""Context windows and output limits of model families, for models that the price table does not list.

From the makers' pages, as of 2026-11-18. Unknown models get cautious limits, versions newer than that the last known
ones of their family, and both are called unknown; the configuration overrides all of them.
"""

from __future__ import annotations

import attrs

from engine.core.value_base import Value
from engine.providers.models.name_patterns import anchored, matches_name


@attrs.frozen(eq=False, repr=False)
class ModelLimits(Value):
    """Context window and longest output in tokens, and whether they are known or a cautious guess."""

    context: int
    output: int
    is_known: bool = True


UNKNOWN = ModelLimits(65_536, 8_192, is_known=False)

# Matched where a name may begin; the first match counts.
_ROWS: tuple[tuple[str, ModelLimits], ...] = (
    # -- Claude
    (r"claude-(?:opus|sonnet|haiku|fable|mythos)-5(?!\d)", ModelLimits(1_000_000, 128_000)),
    (r"claude-[a-z]+-(?:[6-9]|[1-9]\d)(?![a-z\d])", ModelLimits(1_000_000, 128_000, is_known=False)),
    (r"claude-opus-4[.-][6-9]", ModelLimits(1_000_000, 128_000)),
    (r"claude-sonnet-4[.-][6-9]", ModelLimits(1_000_000, 64_000)),
    (r"claude-(?:opus|sonnet|haiku)-4[.-]5|claude-(?:4[.-]5|sonnet-4)|claude-3[.-]7", ModelLimits(200_000, 64_000)),
    (r"claude-(?:opus-4|4-opus)", ModelLimits(200_000, 32_000)),
    (r"claude-3[.-]5", ModelLimits(200_000, 8_192)),
    (r"claude-3", ModelLimits(200_000, 4_096)),
    (r"claude", ModelLimits(200_000, 8_192, is_known=False)),
    # -- OpenAI
    (r"gpt-oss", ModelLimits(131_072, 32_768)),
    (r"gpt-[5-9](?:\.\d)?-chat", ModelLimits(128_000, 16_384)),
    (r"gpt-5\.3(?!-codex)", ModelLimits(128_000, 16_384)),
    (r"gpt-5\.4-(?:mini|nano)", ModelLimits(400_000, 128_000)),
    (r"gpt-5\.[4-6](?!\d)|gpt-6(?:\.1)?(?![.\d])", ModelLimits(1_050_000, 128_000)),
    (r"gpt-(?:5\.[7-9]|[6-9]|[1-9]\d)", ModelLimits(1_050_000, 128_000, is_known=False)),
    (r"gpt-5", ModelLimits(400_000, 128_000)),
    (r"gpt-4\.1", ModelLimits(1_047_576, 32_768)),
    (r"gpt-4o|chatgpt-4o", ModelLimits(128_000, 16_384)),
    (r"gpt-4-turbo", ModelLimits(128_000, 4_096)),
    (r"gpt-4", ModelLimits(8_192, 4_096)),
    (r"gpt-3\.5", ModelLimits(16_385, 4_096)),
    (r"o1-(?:mini|preview)", ModelLimits(128_000, 32_768)),
    (r"o[134](?!\d)|codex-mini", ModelLimits(200_000, 100_000)),
    # -- Google
    (r"gemini-(?:2\.5|3(?:\.[0-8])?(?![.\d]))|gemini-(?:pro|flash)(?:-lite)?-latest", ModelLimits(1_048_576, 65_536)),
    (r"gemini-(?:[3-9]|[1-9]\d)", ModelLimits(1_048_576, 65_536, is_known=False)),
    (r"gemini-2\.0|gemini-1\.5-flash", ModelLimits(1_048_576, 8_192)),
    (r"gemini-1\.5-pro", ModelLimits(2_000_000, 8_192)),
    (r"gemma-?[34]", ModelLimits(131_072, 8_192)),
    # -- xAI
    (r"grok-4[.-]\d-fast|grok-4-fast", ModelLimits(2_000_000, 30_000)),
    (r"grok-4[.-](?:3|20)", ModelLimits(1_000_000, 30_000)),
    (r"grok-4[.-][5-7](?!\d)", ModelLimits(500_000, 128_000)),
    (r"grok-4[.-][89]|grok-[5-9]", ModelLimits(500_000, 128_000, is_known=False)),
    (r"grok-4|grok-code|grok-build", ModelLimits(256_000, 64_000)),
    (r"grok-3", ModelLimits(131_072, 8_192)),
    # -- Mistral
    (r"mistral-large-4", ModelLimits(1_048_576, 65_536)),
    (
        r"mistral-(?:large-(?:latest|25|3)|medium-(?:latest|26|3[.-]5)|small-(?:latest|26|4))",
        ModelLimits(262_144, 65_536),
    ),
    (r"devstral|codestral|ministral-(?:8|14)b", ModelLimits(256_000, 65_536)),
    (r"mistral|ministral|magistral|pixtral", ModelLimits(128_000, 16_384)),
    # -- others
    (r"deepseek-(?:v4|flash|pro)", ModelLimits(1_000_000, 384_000)),
    (r"deepseek-v[5-9]", ModelLimits(1_000_000, 384_000, is_known=False)),
    (r"deepseek", ModelLimits(128_000, 8_192)),
    (r"kimi-k3", ModelLimits(1_048_576, 131_072)),
    (r"kimi-k[4-9]", ModelLimits(1_048_576, 131_072, is_known=False)),
    (r"kimi", ModelLimits(262_144, 65_536)),
    (r"glm-5[.p-][23]", ModelLimits(1_000_000, 131_072)),
    (r"glm-(?:5[.p-][4-9]|[6-9])", ModelLimits(1_000_000, 131_072, is_known=False)),
    (r"glm-(?:4[.p-][67]|5)", ModelLimits(204_800, 131_072)),
    (r"glm-4[.p-]5", ModelLimits(131_072, 98_304)),
    (r"minimax-m3", ModelLimits(1_000_000, 32_768)),
    (r"minimax-m[4-9]", ModelLimits(1_000_000, 32_768, is_known=False)),
    (r"minimax-m2", ModelLimits(204_800, 65_536)),
    (r"qwen-?3(?:\.\d)?-(?:coder-(?:plus|flash)|max|plus)|qwen-(?:plus|flash)", ModelLimits(262_144, 65_536)),
    (r"qwen-?3", ModelLimits(131_072, 16_384)),
    (r"command-a", ModelLimits(256_000, 8_000)),
    (r"command-r", ModelLimits(128_000, 4_000)),
    (r"sonar-pro", ModelLimits(200_000, 8_000)),
    (r"sonar", ModelLimits(128_000, 8_000)),
    (r"nova-(?:2|premier)", ModelLimits(1_000_000, 32_768)),
    (r"nova-(?:pro|lite)", ModelLimits(300_000, 8_192)),
    (r"nova-micro", ModelLimits(128_000, 8_192)),
    (r"(?:meta-)?llama-?4", ModelLimits(131_072, 8_192)),
    (r"(?:meta-)?llama-?3[.-]?[1-3]", ModelLimits(128_000, 4_096)),
)


def limits_of(model: str) -> ModelLimits:
    """Return the limits of the family of *model*, a name without its host; cautious ones if it has none."""
    name = model.lower()
    return next((limits for pattern, limits in _ROWS if matches_name(anchored(pattern), name)), UNKNOWN)
