r"""Glob patterns as regular expressions whose time is bounded even for hostile patterns.

The dialect is ripgrep's, so that its answers and ours are the same: `*` and `?` stay
inside a name, `**` as a whole component stands for any folders, `[a-z]` and `[!a-z]`
are classes (a backslash in them is itself), `{a,b}` are alternatives, `\` escapes.

Python's matcher backtracks, while holding the GIL, so a pattern
of many stars would stop the whole process. Therefore a star takes the first match of
what follows it, in an atomic group (`(?>…)`) that never backtracks: the text after the
next star can begin anywhere behind it, so a later match could do no better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

MAX_ALTERNATIVES: Final = 1_000
# Of all alternatives together: a few braces can multiply a long pattern by a thousand.
MAX_CHARS: Final = 50_000
MAGIC: Final = frozenset("*?[]{}\\")

_STAR: Final = "*"
_NAME: Final = "[^/]*"


class GlobError(ValueError):
    """An invalid pattern; the message gives the reason."""


def glob_regex(pattern: str) -> str:
    """Return a regular expression (for `re.DOTALL`) that matches the whole of the paths that *pattern* means.

    Raises `GlobError`.
    """
    parts = [_path_regex(one) for one in alternatives(pattern)]
    return parts[0] + r"\Z" if len(parts) == 1 else rf"(?:{'|'.join(parts)})\Z"


def alternatives(pattern: str) -> list[str]:
    """Return the patterns without braces that *pattern* stands for. Raises `GlobError`."""
    # A frame for each open brace; in it a branch for each comma; in that the texts so far.
    frames: list[list[list[str]]] = [[[""]]]
    for piece in _pieces(pattern):
        if piece == "{":
            frames.append([[""]])
        elif piece == "," and len(frames) > 1:
            frames[-1].append([""])
        elif piece == "}":
            options = [text for branch in frames.pop() for text in branch]
            if not frames:
                raise GlobError("there is a } without a { before it")
            _extend(frames[-1][-1], options)
        else:
            _extend(frames[-1][-1], [piece])
    if len(frames) > 1:
        raise GlobError("there is a { without a } after it")
    return frames[0][0]


def is_magic(pattern: str) -> bool:
    """Tell whether *pattern* is more than a plain path."""
    return not MAGIC.isdisjoint(pattern)


def escaped(text: str) -> str:
    """Return a pattern that matches *text* alone."""
    # Not [c] for all: [!] and [^] are no classes. Not \\c for all: a space at the end of a line of .gitignore is cut.
    return "".join(f"[{char}]" if char.isspace() else f"\\{char}" if char in "*?[]{}\\,!^#" else char for char in text)


def _extend(texts: list[str], options: Sequence[str]) -> None:
    if len(texts) * len(options) > MAX_ALTERNATIVES:
        raise GlobError(f"its braces stand for more than {MAX_ALTERNATIVES:,} patterns")
    if len(options) * sum(map(len, texts)) + len(texts) * sum(map(len, options)) > MAX_CHARS:
        raise GlobError(f"its braces stand for patterns of more than {MAX_CHARS:,} characters")
    texts[:] = [text + option for text in texts for option in options]


def _pieces(pattern: str) -> Iterator[str]:
    r"""Yield the pattern in its smallest parts: `\c`, `[…]`, single characters."""
    at = 0
    while at < len(pattern):
        char = pattern[at]
        end = at + 1
        if char == "\\":
            end = at + 2
            if end > len(pattern):
                raise GlobError("it ends with a backslash that escapes nothing")
        elif char == "[":
            end = _class_end(pattern, at) or at + 1
        yield pattern[at:end]
        at = end


def _class_end(pattern: str, start: int) -> int | None:
    """Return the end of the class that begins at *start*; None if it has no end and so is no class."""
    first = start + 2 if pattern[start + 1 : start + 2] in {"!", "^"} else start + 1
    end = pattern.find("]", first + 1)  # a ] at the very beginning is a member
    return None if end < 0 else end + 1


def _path_regex(pattern: str) -> str:
    """Return the expression for a pattern without braces."""
    blocks = _blocks(pattern)
    if len(blocks) == 1:
        return "/".join(blocks[0])
    first, *middle, last = blocks
    return "".join(
        [
            *(f"{name}/" for name in first),
            # Between two ** the first folders that fit are as good as any other.
            *(f"(?>(?:[^/]+/)*?{'/'.join(block)}/)" for block in middle),
            f"(?:.*/)?{'/'.join(last)}" if last else ".+",
        ]
    )


def _blocks(pattern: str) -> list[list[str]]:
    """Return the names of the path, as expressions, parted wherever `**` stands for any folders."""
    blocks: list[list[str]] = [[]]
    for name in _names(pattern):
        if name != [_STAR, _STAR]:
            blocks[-1].append(_name_regex(name))
        elif blocks[-1] or len(blocks) == 1:  # else it follows another ** and adds nothing
            blocks.append([])
    return blocks


def _names(pattern: str) -> Iterator[list[str]]:
    """Yield the parts between the slashes, each as a list of stars and expressions for one character."""
    name: list[str] = []
    for piece in _pieces(pattern):
        if piece == "/":
            yield name
            name = []
        else:
            name.append(_atom(piece))
    yield name


def _atom(piece: str) -> str:
    if piece == "*":
        return _STAR
    if piece == "?":
        return "[^/]"
    if len(piece) > 2 and piece[0] == "[":
        return _class_regex(piece)
    return re.escape(piece[-1])


def _class_regex(text: str) -> str:
    """Return the expression for a class. A slash is in none, not even in a negated one."""
    negated = text[1] in "!^"
    members = text[2 if negated else 1 : -1]
    ranges: list[str] = []
    at = 0
    while at < len(members):
        length = 3 if members[at + 1 : at + 2] == "-" and at + 2 < len(members) else 1
        low, high = members[at], members[at + length - 1]
        if high < low:
            raise GlobError(f"{low}-{high} is no range")
        ranges.append(f"{re.escape(low)}-{re.escape(high)}")
        at += length
    return f"(?!/)[{'^' if negated else ''}{''.join(ranges)}]"


def _name_regex(atoms: Sequence[str]) -> str:
    """Return the expression for a name: all stars but the last take the first fit of what follows them."""
    parts: list[list[str]] = [[]]
    for atom in atoms:
        if atom != _STAR:
            parts[-1].append(atom)
        elif parts[-1] or len(parts) == 1:
            parts.append([])
    first, *rest = ("".join(part) for part in parts)
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>[^/]*?{part})" for part in middle) + _NAME + last
