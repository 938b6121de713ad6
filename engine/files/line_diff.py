"""The differences between two texts, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

# Bits of the table for the smallest difference: 12 MB, and about 30 ms.
_MOST_CELLS: Final = 100_000_000


@attrs.frozen
class Difference:
    """Lines from *start* to *end* of the old text have become those from *new_start* to *new_end* of the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


def differences(old: Sequence[str], new: Sequence[str]) -> list[Difference]:
    """Return where two texts differ, in order, with at least one equal line between two of them.

    As few lines as possible, except for large texts that differ everywhere: finding
    that would take time and memory in proportion to the product of their lengths, so
    there it is all from the first to the last line that differs.
    """
    # Equal beginnings and ends are cut off first: most edits are small, and the table grows with the product.
    head = common(old, new)
    tail = common(old[head:][::-1], new[head:][::-1])
    end, new_end = len(old) - tail, len(new) - tail
    if head == end == new_end:
        return []
    if head in {end, new_end} or (end - head) * (new_end - head) > _MOST_CELLS:
        return [Difference(head, end, head, new_end)]
    result: list[Difference] = []
    at, new_at = head, head
    for first, second, length in [*_matches(old[head:end], new[head:new_end]), (end - head, new_end - head, 0)]:
        if (first + head, second + head) != (at, new_at):
            result.append(Difference(at, first + head, new_at, second + head))
        at, new_at = first + head + length, second + head + length
    return result


def common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines both begin with."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(old), len(new)))


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return the runs of equal lines of a longest common subsequence: where they begin, and their lengths."""
    from rapidfuzz.distance import LCSseq  # imported only when something differs: most calls end before

    return [
        (opcode.src_start, opcode.dest_start, opcode.src_end - opcode.src_start)
        for opcode in LCSseq.opcodes(old, new)
        if opcode.tag == "equal"
    ]
