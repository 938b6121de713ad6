"""What a family of models is: a pattern of names, and what is particular to them.

A family is told by the model's own name. Clouds and gateways put something before it
(`us.anthropic.`, `openai/`, `accounts/fireworks/models/`) and something after it, so a
pattern is looked for anywhere in the name, but only where a name may begin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import attrs

from engine.config.host_values import WireName
from engine.providers.hosts.host import Host

CHAT: frozenset[WireName] = frozenset({"openai_chat"})
RESPONSES: frozenset[WireName] = frozenset({"openai_responses"})
OPENAI: frozenset[WireName] = CHAT | RESPONSES
LOW_TO_HIGH = ("low", "medium", "high")
# They have one way to say thinking for all models.
TRANSLATING = frozenset({"openrouter", "vercel"})


@attrs.frozen(kw_only=True)
class Family:
    """A family of models.

    Attributes:
        pattern: a regular expression that is searched for in the model's own name, in lower case.
        wires: the wire formats in which it holds; empty: in all.
        hosts: the hosts at which it holds; empty: at all.
        not_at: hosts at which it does not hold: they translate.
        changes: fields of `Quirks`, by name.
        defaults: the same, for those that the host says nothing of.
    """

    pattern: str
    wires: frozenset[WireName] = frozenset()
    hosts: frozenset[str] = frozenset()
    excluded_hosts: frozenset[str] = frozenset()
    changes: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    defaults: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    def matches(self, host: Host, model: str) -> bool:
        """Whether *model* at *host* is of this family."""
        return (
            (not self.wires or host.wire in self.wires)
            and (not self.hosts or host.kind in self.hosts)
            and host.kind not in self.excluded_hosts
            and _compiled(self.pattern).search(model.lower()) is not None
        )


def anchored(pattern: str) -> str:
    """Return a pattern that stands where a model's name may begin."""
    return rf"(?<![a-z0-9])(?:{pattern})"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern, compiled when it is first needed: one host needs few of them."""
    return re.compile(pattern)
