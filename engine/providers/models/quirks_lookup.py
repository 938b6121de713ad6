"""The quirks of a model at a host: the host's own, then those of the model's families."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from engine.providers.hosts.host import Host
from engine.providers.models.bedrock_families import ON_BEDROCK
from engine.providers.models.family import Family
from engine.providers.models.maker_families import OF_MAKERS
from engine.providers.models.shared_families import EVERYWHERE
from engine.providers.wire.quirks import Quirks

# Later families override earlier ones.
FAMILIES: tuple[Family, ...] = (*OF_MAKERS, *EVERYWHERE, *ON_BEDROCK)


def quirks_of(host: Host, model: str) -> Quirks:
    """Return the quirks of *model* at *host*: the host's own, changed by each family that matches."""
    changes: dict[str, Any] = {}
    for family in FAMILIES:
        if family.matches(host, model):
            fresh = {
                name: value for name, value in family.defaults.items() if getattr(host.quirks, name) == _DEFAULTS[name]
            }
            changes |= fresh | dict(family.changes)
    return attrs.evolve(host.quirks, **changes)


_DEFAULTS: Mapping[str, Any] = attrs.asdict(Quirks(), recurse=False)
