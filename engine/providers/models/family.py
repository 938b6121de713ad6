"""Families of models: a pattern for names, and the quirks of the models that match.

Clouds and gateways put text before a model's name (`us.anthropic.`, `openai/`, `accounts/fireworks/models/`) and
after it, so a pattern is searched for anywhere in the name, but only where a name may begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from engine.config.host_values import WireName
from engine.core.value_base import Value
from engine.providers.hosts.host import Host
from engine.providers.models.name_patterns import matches_name

CHAT: frozenset[WireName] = frozenset({"openai_chat"})
RESPONSES: frozenset[WireName] = frozenset({"openai_responses"})
OPENAI: frozenset[WireName] = CHAT | RESPONSES
LOW_TO_HIGH = ("low", "medium", "high")
# Gateways that translate one form of reasoning for all models.
TRANSLATING = frozenset({"openrouter", "vercel"})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Family(Value):
    """A family of models.

    Attributes:
        pattern: a regular expression, searched for in the model's name in lower case.
        wires: the wire formats to which it applies; empty: all.
        hosts: the hosts to which it applies; empty: all.
        not_at: hosts to which it does not apply, because they translate.
        changes: fields of `Quirks`, by name.
        defaults: the same, unless the host sets them.
    """

    pattern: str
    wires: frozenset[WireName] = frozenset()
    hosts: frozenset[str] = frozenset()
    excluded_hosts: frozenset[str] = frozenset()
    changes: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    defaults: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    def matches(self, host: Host, model: str) -> bool:
        """Whether *model* at *host* belongs to this family."""
        return (
            (not self.wires or host.wire in self.wires)
            and (not self.hosts or host.kind in self.hosts)
            and host.kind not in self.excluded_hosts
            and matches_name(self.pattern, model.lower())
        )
