"""Names of models that users write: exact, without the provider, a part of one, or misspelt."""

from __future__ import annotations

from collections.abc import Callable, Iterable

# A name that is less alike is no suggestion.
_LEAST_ALIKE = 50

# How a name may match, the closest first: the whole name, the name at the provider, its last part, a part of it.
_FITS: tuple[Callable[[str, str], bool], ...] = (
    lambda full, name: full == name,
    lambda full, name: full.partition("/")[2] == name,
    lambda full, name: full.rpartition("/")[2] == name,
    lambda full, name: full.endswith(("-" + name, "/" + name, "." + name)),
    lambda full, name: name in full,
)


def match_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of *names* that *name* means: those that it fits most closely, without case."""
    lowered = name.lower()
    candidates = [(one, one.lower()) for one in names]
    for fits in _FITS:
        if matches := tuple(one for one, lower in candidates if fits(lower, lowered)):
            return matches
    return ()


def nearest_names(name: str, names: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Return those of *names* that are most like *name*, the nearest first."""
    # Imported here: needed only for a name that is wrong.
    from rapidfuzz import fuzz, process

    # A name without a provider is compared with what models are called at theirs.
    compared = {one: (one if "/" in name else one.rpartition("/")[2]).lower() for one in names}
    found = process.extract(name.lower(), compared, scorer=fuzz.ratio, limit=most)
    return tuple(one for _, score, one in found if score >= _LEAST_ALIKE)
