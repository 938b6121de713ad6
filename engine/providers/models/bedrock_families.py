"""Families of models as Bedrock serves them. The quirks of the host itself are for untested models."""

from __future__ import annotations

from engine.config.host_values import WireName
from engine.providers.models.family import LOW_TO_HIGH, Family
from engine.providers.models.maker_families import UNFORCED_CLAUDE
from engine.providers.models.name_patterns import anchored
from engine.providers.wire.quirks import MediaKind

_BEDROCK: frozenset[WireName] = frozenset({"bedrock"})
_NONE: frozenset[MediaKind] = frozenset()
_IMAGES: frozenset[MediaKind] = frozenset({"image"})
_PDF: frozenset[MediaKind] = frozenset({"pdf"})

# Later families override earlier ones.
ON_BEDROCK: tuple[Family, ...] = (
    Family(
        pattern=anchored(r"claude"),
        wires=_BEDROCK,
        changes={"result_media": _IMAGES, "forced_tools": True, "assistant_after_results": False},
    ),
    Family(pattern=UNFORCED_CLAUDE, wires=_BEDROCK, changes={"forced_tools": False}),
    Family(
        pattern=anchored(r"claude-(?:3-5-haiku|3-7|[a-z]+-\d)"),
        wires=_BEDROCK,
        changes={"marks": "bedrock"},
    ),
    Family(pattern=anchored(r"claude-3-5-haiku"), wires=_BEDROCK, changes={"user_media": _PDF, "result_media": _NONE}),
    Family(
        pattern=anchored(r"claude-[a-z]+-(?:4-[5-9]|[5-9]|[1-9]\d)(?!\d)"),
        wires=_BEDROCK,
        changes={"output": "native", "long_cache": True},
    ),
    Family(
        pattern=anchored(r"nova-"),
        wires=_BEDROCK,
        changes={
            "user_media": _IMAGES | _PDF | {"video"},
            "result_media": _IMAGES,
            "forced_tools": True,
            "marks": "bedrock",
            "mark_tools": False,
        },
    ),
    Family(pattern=anchored(r"nova-micro"), wires=_BEDROCK, changes={"user_media": _NONE, "result_media": _NONE}),
    Family(
        pattern=anchored(r"nova-2-lite|nova-2-pro"),
        wires=_BEDROCK,
        changes={"effort_field": "reasoningConfig", "efforts": LOW_TO_HIGH},
    ),
    Family(
        pattern=anchored(r"gpt-oss"),
        wires=_BEDROCK,
        changes={"effort_field": "reasoning_effort", "efforts": LOW_TO_HIGH, "user_media": _NONE},
    ),
    Family(pattern=anchored(r"llama"), wires=_BEDROCK, changes={"streams": False, "calls_alone": True}),
    Family(
        pattern=anchored(r"r1|palmyra|pixtral|mistral-(?:large|small)-24"), wires=_BEDROCK, changes={"streams": False}
    ),
    Family(
        pattern=anchored(r"llama3-[013]|r1|palmyra|mistral-(?:7b|large|small)|mixtral|command-r|jamba"),
        wires=_BEDROCK,
        changes={"user_media": _PDF},
    ),
)
