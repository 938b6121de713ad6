"""Assembles the arguments of a call from partial values, each with its JSON path."""

from __future__ import annotations

import re
from typing import cast

import attrs

from engine.providers.wire.untrusted_json import Json, is_object, text

_STEP = re.compile(r"""\.([^.\[\]]+)|\[([0-9]+)\]|\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]""")
_ESCAPED = re.compile(r"\\(.)")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
# Deeper arguments, or larger gaps, are an attack or a mistake.
_DEEPEST = 100
_LONGEST_GAP = 1_000

_Step = str | int


@attrs.define(eq=False)
class PartialArguments:
    """Assembles arguments.

    Attributes:
        value: the arguments so far.
        is_broken: whether a piece had an invalid path, so the arguments are incomplete.
    """

    value: Json = attrs.field(factory=dict[str, object])
    is_broken: bool = attrs.field(default=False, init=False)

    def add(self, piece: Json) -> None:
        """Set a value at its path; strings are appended."""
        name = next((name for name in _VALUES if name in piece), None)
        if name is None:  # the end of an earlier value
            return
        steps = _parse_path(text(piece, "jsonPath"))
        value: object = None if name == "nullValue" else piece[name]
        if not steps or not _fits(name, value) or not _set_value(self.value, steps, value):
            self.is_broken = True


def _fits(name: str, value: object) -> bool:
    match name:
        case "stringValue":
            return isinstance(value, str)
        case "numberValue":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "boolValue":
            return isinstance(value, bool)
        case _:
            return True


def _parse_path(path: str) -> list[_Step]:
    """Parse a JSON path to a single value; empty if it is invalid."""
    steps: list[_Step] = []
    place = 1 if path.startswith("$") else len(path) + 1
    while place < len(path):
        match = _STEP.match(path, place)
        if match is None or len(steps) == _DEEPEST:
            return []
        name, index, single, double = cast("tuple[str | None, ...]", match.groups())
        if index is not None:
            # A longer number would take quadratic time to convert, and is invalid anyway.
            steps.append(int(index) if len(index) < 10 else -1)
        else:
            steps.append(_ESCAPED.sub(r"\1", single or double or "") if name is None else name)
        place = match.end()
    return steps


def _set_value(root: Json, steps: list[_Step], value: object) -> bool:
    """Set *value* at the path *steps*, creating parents; return False if that is impossible."""
    place: object = root
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        if not _ensure_slot(place, step):
            return False
        parent = cast("dict[_Step, object]", place)  # or a list: both are indexed
        old = parent[step]
        if after is None:
            # Strings come in pieces.
            parent[step] = old + value if isinstance(old, str) and isinstance(value, str) else value
        elif old is None:
            parent[step] = [] if isinstance(after, int) else dict[str, object]()
        place = parent[step]
    return True


def _ensure_slot(parent: object, step: _Step) -> bool:
    """Ensure that *parent* has a value at *step*; return False if that is impossible."""
    if isinstance(step, str):
        if not is_object(parent):
            return False
        parent.setdefault(step, None)
        return True
    if not isinstance(parent, list):
        return False
    items = cast("list[object]", parent)
    missing = step + 1 - len(items)
    if step < 0 or missing > _LONGEST_GAP:
        return False
    items.extend([None] * max(0, missing))
    return True
