"""Brace expansion: `a{b,c}` and `{1..3}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from engine.permission.shell.parser.nodes import LiteralText, Part

# Words that a word may expand to; more are unknown.
_MAX_WORDS: Final = 64
_RANGE: Final = re.compile(r"(-?\d{1,4})\.\.(-?\d{1,4})|([A-Za-z])\.\.([A-Za-z])", re.ASCII)
_ZERO_PADDED: Final = re.compile(r"-?0\d", re.ASCII)


def expand_braces(parts: Sequence[Part]) -> list[list[Part]] | None:
    """Return the words that a word expands to; None: too many, or not supported."""
    pieces = _split_at_commas(parts)
    opened = sum(_is_sign(piece, "{") for piece in pieces)
    # Bash has subtle rules for unbalanced braces.
    if opened != sum(_is_sign(piece, "}") for piece in pieces) or opened > 4:
        return None
    words = _expand(pieces)
    return words if words is not None and len(words) <= _MAX_WORDS else None


def _split_at_commas(parts: Sequence[Part]) -> list[Part]:
    """Split a word so that each comma and brace is a part of its own."""
    pieces: list[Part] = []
    for part in parts:
        if isinstance(part, LiteralText) and not part.quoted and "," in part.text:
            pieces += [LiteralText(piece, quoted=False) for piece in re.split(r"(,)", part.text) if piece]
        else:
            pieces.append(part)
    return pieces


def _is_sign(piece: Part, sign: str) -> bool:
    return isinstance(piece, LiteralText) and not piece.quoted and piece.text == sign


def _expand(pieces: list[Part]) -> list[list[Part]] | None:
    start = next((index for index, piece in enumerate(pieces) if _is_sign(piece, "{")), None)
    if start is None:
        return [pieces]
    depth = 0
    commas = [start]
    for index in range(start, len(pieces)):
        depth += _is_sign(pieces[index], "{") - _is_sign(pieces[index], "}")
        if depth == 1 and _is_sign(pieces[index], ","):
            commas.append(index)
        if depth == 0:
            return _expand_group(pieces, commas, index)
        if depth < 0:
            break
    return None


def _expand_group(pieces: list[Part], commas: list[int], end: int) -> list[list[Part]] | None:
    """Expand the braces from `commas[0]` to *end*, and then the rest."""
    start = commas[0]
    rest = _expand(pieces[end + 1 :])
    if rest is None:
        return None
    middles: list[list[Part]] = []
    if len(commas) > 1:
        for first, last in zip(commas, [*commas[1:], end], strict=True):
            inner = _expand(pieces[first + 1 : last])
            if inner is None:
                return None
            middles += inner
    else:
        match = _expand_range(pieces[start + 1 : end])
        if match is None:
            return None
        middles = match or [pieces[start : end + 1]]
    if len(middles) * len(rest) > _MAX_WORDS:
        return None
    return [[*pieces[:start], *middle, *after] for middle in middles for after in rest]


def _expand_range(inner: list[Part]) -> list[list[Part]] | None:
    """Expand `1..3` and `a..c`; an empty list: it is no range; None: not supported."""
    texts = [piece for piece in inner if isinstance(piece, LiteralText)]
    if any(_is_sign(piece, "{") for piece in inner):
        return None
    if len(texts) < len(inner):
        # The result of an expansion is not searched for braces, but the dots may stand next to it.
        return None if any(".." in piece.text for piece in texts) else []
    text = "".join(piece.text for piece in texts)
    if ".." not in text:
        return []
    return None if any(piece.quoted for piece in texts) else _range_words(text)


def _range_words(text: str) -> list[list[Part]] | None:
    """Return the words of a range; None: too many, or not supported."""
    match = _RANGE.fullmatch(text)
    values = _range_values(match) if match is not None else []
    if not 0 < len(values) <= _MAX_WORDS:
        return None
    return [[LiteralText(value, quoted=False)] for value in values]


def _range_values(match: re.Match[str]) -> list[str]:
    """Return the values of a range; an empty list: not supported."""
    first, last, first_letter, last_letter = match.groups()
    if first_letter is not None:
        # A range from a lower-case to an upper-case letter contains other signs.
        if first_letter.islower() != last_letter.islower():
            return []
        return [chr(code) for code in range(ord(first_letter), ord(last_letter) + 1)]
    # Zeros in front are kept, and all numbers get the same width.
    if _ZERO_PADDED.match(first) or _ZERO_PADDED.match(last):
        return []
    step = 1 if int(last) >= int(first) else -1
    return [str(number) for number in range(int(first), int(last) + step, step)]
