"""JSON text as the engine writes it: ASCII, without spaces, and equal values as equal bytes."""

from __future__ import annotations

import json
import math
from typing import Final, cast

# ASCII by default, so that lone surrogates survive. Documents are trees, and need no check for cycles.
_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def to_json_text(value: object) -> str:
    """Return *value* as JSON. Numbers that JSON doesn't have become "NaN", "Infinity" and "-Infinity"."""
    try:
        return _encode(value)
    except ValueError:
        # There is a NaN or an infinity in it, which is rare: so they are looked for only now.
        return _encode(_finite(value))


def _finite(value: object) -> object:
    """Return *value* with strings in place of the numbers that JSON doesn't have."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("list[object]", value)]
    return value
