"""Patterns for models' names: looking for a pattern's beginning first changes no answer."""

import re

from engine.providers.models.limits import _ROWS
from engine.providers.models.name_patterns import anchored, matches_name
from engine.providers.models.prices import _table
from engine.providers.models.quirks_lookup import FAMILIES


def test_beginnings_change_no_match() -> None:
    hosts = _table()["hosts"].values()
    names = {str(entry[0]).lower() for host in hosts for entry in host.get("models", ())}
    names |= {f"{maker}{name}" for maker in ("us.", "x", "openai/") for name in ("o3", "r1", "gpt-5", "llama3-1", "k")}
    patterns = {family.pattern for family in FAMILIES} | {anchored(pattern) for pattern, _ in _ROWS}
    differing = [
        (pattern, name)
        for pattern in patterns
        for name in names
        if matches_name(pattern, name) != (re.search(pattern, name) is not None)
    ]
    assert len(names) > 500
    assert not differing


def test_optional_letters_are_no_beginning() -> None:
    assert matches_name(anchored("models?-x"), "model-x")
    assert matches_name(anchored("(?:open-)?a|b(?:c|d)"), "bd")
    assert not matches_name(anchored("(?:open-)?a|b(?:c|d)"), "xbd")
