"""Messages cut to a size that can be parsed at once: one bad definition must not cost the other tools of a list.

Parsing is not interruptible, and nothing else runs in the meantime. So lines that are long are looked at in a thread
first, token by token, where containers that are too deep or too long are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

# What replaces a container; no schema that is accepted has it.
CUT_KEY: Final = "engine/cut"

_LONG_BYTES: Final = 262_144
# Deeper than any schema that is accepted, and less than what the parser takes.
_MOST_DEPTH: Final = 100
# Of one schema, which may have 256 KiB.
_MOST_SCHEMA_BYTES: Final = 1_048_576
# The message, its result, the tools; then the tool and its schema.
_LIST_DEPTH: Final = 3
_SCHEMA_DEPTH: Final = 5
_NAMED_TOOLS: Final = re.compile(rb'"tools"\s*:\s*\Z')
# The next bracket, after texts and whatever else comes before it: one match for each bracket.
_BRACKET: Final = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]++|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)


def is_suspect(line: bytes) -> bool:
    """Return whether a line has to be looked at in a thread before it is parsed."""
    return len(line) > _LONG_BYTES and b'"inputSchema"' in line


def prune_json(line: bytes) -> bytes:
    """Return *line* without containers that are nested too deeply, and without schemas that are far too long.

    Such a container is replaced by an object with the key `CUT_KEY`, at the depth where a tool's schema stands if it is
    inside of one. Text that is no JSON is returned as it is, more or less. It takes about a second for 10 MB.
    """
    begins: list[int] = []
    cuts: list[tuple[int, int]] = []
    deepest = 0
    for position, is_opening in _brackets(line):
        if is_opening:
            begins.append(position)
            deepest = len(begins) if len(begins) == _SCHEMA_DEPTH else max(deepest, len(begins))
        elif begins:
            begin = begins.pop()
            is_long = position + 1 - begin > _MOST_SCHEMA_BYTES
            if len(begins) + 1 == _SCHEMA_DEPTH and (deepest > _MOST_DEPTH or is_long):
                cuts.append((begin, position + 1))
    return _without(line, cuts)


def take_tools(line: bytes, most: int) -> tuple[bytes, list[object] | None, int]:
    """Return *line*, pruned and without the tools of its list, these tools, *most* at most, and how many there were.

    Each tool is parsed by itself, so that other threads run in between. None: it has no list that can be taken out.
    """
    line = prune_json(line)
    place = _find_list(line)
    if place is None:
        return line, None, 0
    begin, end = place
    items = line[begin:end]
    spans = [span for span, depth in _containers(items) if depth == 1]
    try:
        tools: list[object] = [json.loads(items[slice(*span)]) for span in spans[:most]]
    except (ValueError, RecursionError):
        return line, None, 0
    return line[:begin] + line[end:], tools, len(spans)


def _find_list(line: bytes) -> tuple[int, int] | None:
    """Return where the items of the result's `tools` are; None if it has none."""
    for (begin, end), depth in _containers(line):
        if depth == _LIST_DEPTH and _NAMED_TOOLS.search(line[max(0, begin - 64) : begin]):
            return begin + 1, end - 1
    return None


def _containers(line: bytes) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield where each container is and its depth, when it ends."""
    begins: list[int] = []
    for position, is_opening in _brackets(line):
        if is_opening:
            begins.append(position)
        elif begins:
            yield (begins.pop(), position + 1), len(begins) + 1


def _brackets(line: bytes) -> Iterator[tuple[int, bool]]:
    """Yield where the brackets outside of texts are, and whether they open."""
    position = 0
    while (token := _BRACKET.match(line, position)) is not None:
        position = token.end()
        yield position - 1, token[1] in b"[{"


def _without(line: bytes, cuts: list[tuple[int, int]]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for begin, end in cuts:
        parts += [line[position:begin], b'{"%b":%d}' % (CUT_KEY.encode(), end - begin)]
        position = end
    return b"".join([*parts, line[position:]])
