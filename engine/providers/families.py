"""What is particular to a family of models, wherever it is served."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from engine.providers.hosts import Host, WireName
from engine.providers.quirks import Quirks


@attrs.frozen(kw_only=True)
class Family:
    """A family of models.

    Attributes:
        pattern: is searched for in the model's own name, in lower case.
        wires: the wire formats in which it holds; empty: in all.
        changes: fields of `Quirks`, by name.
    """

    pattern: re.Pattern[str]
    wires: frozenset[WireName] = frozenset()
    changes: Mapping[str, Any]


FAMILIES: tuple[Family, ...] = (
    Family(
        pattern=re.compile(r"claude-(3-7|(opus|sonnet|haiku)-4(-[015])?(-20\d+)?$)"),
        wires=frozenset({"anthropic", "bedrock"}),
        changes={"thinking_budget": True},
    ),
    Family(
        pattern=re.compile(r"claude-(opus|sonnet|haiku)-4-[6-9]"),
        wires=frozenset({"anthropic", "bedrock"}),
        changes={"adaptive_thinking": True, "efforts": ("low", "medium", "high", "max"), "temperature": False},
    ),
)


def quirks_of(host: Host, model: str) -> Quirks:
    """Return what is particular about *model* at *host*: the host's own, then each family's that it belongs to."""
    changes: dict[str, Any] = {}
    for family in FAMILIES:
        if (not family.wires or host.wire in family.wires) and family.pattern.search(model.lower()):
            changes |= family.changes
    return attrs.evolve(host.quirks, **changes)
