"""Messages cut to a size that can be parsed at once: one bad definition must not cost the other tools of a list.

Parsing is not interruptible, and nothing else runs in the meantime. So lines that are long are looked at in a thread
first, token by token, where containers that are too deep or too long are replaced.
"""

from __future__ import annotations

import re
from typing import Final

# What replaces a container; no schema that is accepted has it.
CUT_KEY: Final = "engine/cut"

_LONG_BYTES: Final = 262_144
# Deeper than any schema that is accepted, and less than what the parser takes.
_MOST_DEPTH: Final = 100
# Of one schema, which may have 256 KiB.
_MOST_SCHEMA_BYTES: Final = 1_048_576
# result, tools, the tool, its schema.
_SCHEMA_DEPTH: Final = 5
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
    position = 0
    while (token := _BRACKET.match(line, position)) is not None:
        position = token.end()
        if token[1] in b"[{":
            begins.append(token.start(1))
            deepest = len(begins) if len(begins) == _SCHEMA_DEPTH else max(deepest, len(begins))
        elif begins:
            begin = begins.pop()
            if len(begins) + 1 == _SCHEMA_DEPTH and (deepest > _MOST_DEPTH or position - begin > _MOST_SCHEMA_BYTES):
                cuts.append((begin, position))
    return _without(line, cuts)


def _without(line: bytes, cuts: list[tuple[int, int]]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for begin, end in cuts:
        parts += [line[position:begin], b'{"%b":%d}' % (CUT_KEY.encode(), end - begin)]
        position = end
    return b"".join([*parts, line[position:]])
