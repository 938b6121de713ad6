"""Which model is offered which tools to change files (T13)."""

from __future__ import annotations


def writes_patches(model: str) -> bool:
    """Return whether a model, by its own name, is used to the patches of Codex."""
    name = model.lower()
    return "gpt-" in name and "oss" not in name and "gpt-4" not in name


def makes_edits(model: str) -> bool:
    """Return whether it is offered the other tools instead."""
    return not writes_patches(model)
