"""What the commands' flags share: types with clear error messages, and a hint for unknown names."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

# Names the newest session of a folder.
LAST: Final = "last"
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600}


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a `type=` function for whole numbers from *least* to *most* (None: no upper limit)."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise ArgumentTypeError(f"must be a whole number {bounds}, not {text!r}")
        return value

    return read


def seconds(text: str) -> float:
    """Parse a time in seconds, above 0. For `type=`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # Also refuses NaN, which compares false with everything.
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def time_span(text: str) -> float:
    """Parse a time such as `90`, `90s`, `10m` or `2h`; return seconds. For `type=`."""
    unit = _UNITS.get(text[-1:], 0)
    try:
        value = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"must be a time above 0, such as 90, 10m or 2h, not {text!r}")
    return value


def amount(text: str) -> float:
    """Parse an amount of money above 0. For `type=`."""
    return seconds(text.removeprefix("$"))


def directory(text: str) -> Path:
    """Return an existing directory, links resolved. For `type=`."""
    path = Path(text)
    with suppress(RuntimeError):  # `~name` of an unknown user
        path = path.expanduser()
    if not path.is_dir():
        raise ArgumentTypeError(f"{text} is not a directory")
    return path.resolve()


def similar_name(name: str, names: Iterable[str]) -> str:
    """Return the name that was probably meant; empty if there is none."""
    # Imported here: difflib is needed only for a wrong name.
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(names), n=1)), "")


def similar_name_hint(name: str, names: Iterable[str]) -> str:
    """Return a question whether a similar name was meant; empty if there is none."""
    similar = similar_name(name, names)
    return f": did you mean {similar}?" if similar else ""
