"""Names of models that users write: exact, without the provider, a part of one, or misspelt."""

from __future__ import annotations

from collections.abc import Iterable

# A name that is less alike is no suggestion.
_LEAST_ALIKE = 50


def nearest_names(name: str, names: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Return those of *names* that are most like *name*, the nearest first."""
    # Imported here: needed only for a name that is wrong.
    from rapidfuzz import fuzz, process

    found = process.extract(name.lower(), {one: one.lower() for one in names}, scorer=fuzz.ratio, limit=most)
    return tuple(one for _, score, one in found if score >= _LEAST_ALIKE)
