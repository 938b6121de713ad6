"""Generated files with similar blocks, and requests that remember one of the blocks with mistakes."""

from __future__ import annotations

import random
from typing import Final, Literal

import attrs

from engine.tools.edit.match import Matched, find
from engine.tools.edit.source_text import SourceText

Outcome = Literal["right", "wrong", "refused"]

_WORDS: Final = [
    "alpha",
    "bravo",
    "cache",
    "delta",
    "entry",
    "filter",
    "group",
    "handle",
    "index",
    "joint",
    "kernel",
    "limit",
    "merge",
    "node",
    "offset",
    "parse",
    "query",
    "range",
    "store",
    "token",
    "update",
    "value",
    "worker",
    "yield",
    "zone",
]
# First line, last line, and what a line between them looks like, by language.
_Style = tuple[str, str, tuple[str, ...]]
_STYLES: Final[tuple[_Style, ...]] = (
    ("server {{", "}}", ("    {0} {n};", "    {0}_{1} on;", "    {0} /var/{1}/{n};", "    {0} {1};")),
    (
        "def {f}(self):",
        "    return result",
        ("    {0} = self.{1}({n})", "    {0}.append({1})", "    self.{0} = {n}", "    log({0!r}, {1})"),
    ),
    ("@cached", "    return done(self)", ("    {0} = {1} + {n}", "    self.{0}({1})", "    check({0}, {n})")),
    ("- name: {f}", "  enabled: true", ("  {0}: {n}", "  {0}_{1}: {1}", "  {0}: /srv/{1}")),
    ("{{", "}},", ('  "{0}": {n},', '  "{0}_{1}": "{1}",', '  "{0}": ["{1}", {n}],')),
    ("function {f}() {{", "}}", ("  const {0} = {1}.get({n});", "  {0}.{1}();", "  if ({0} > {n}) return {1};")),
)


@attrs.frozen
class Case:
    """A file, the lines of the block that is meant (from 0, with the last one), and the request."""

    text: str
    first: int
    last: int
    old: str
    new: str


def outcome(case: Case) -> Outcome:
    """Make the edit; it is wrong if a line outside the block that is meant has changed."""
    source = SourceText(case.text)
    answer = find(source, case.old, case.new)
    if not isinstance(answer, Matched):
        return "refused"
    before, after = source.lines, source.spliced(answer.splices).split("\n")[:-1]
    rest = before[case.last + 1 :]
    is_right = after[: case.first] == before[: case.first] and after[len(after) - len(rest) :] == rest
    return "right" if is_right else "wrong"


def twins(seed: int, *, more: int = 4) -> Case:
    """Two similar blocks: the request holds a line that only the larger one has, of up to *more* such lines."""
    rng = random.Random(seed)
    style = rng.choice(_STYLES)
    small = _block(rng, style, rng.randint(2, 9))
    large = small[:]
    own: list[str] = []
    for _ in range(rng.randint(1, more)):
        own.append(_line(rng, style))
        large.insert(rng.randint(1, len(large) - 1), own[-1])
    for index in rng.sample(range(1, len(large) - 1), rng.randint(0, 2)):
        if large[index] not in own:
            large[index] = _renamed(rng, large[index])
    kept = rng.sample(own, rng.randint(1, len(own)))
    # A line of the larger block is forgotten: so it is not held to be the place.
    forgotten = [line for line in own if line not in kept]
    remembered = [line for line in large if line not in forgotten]
    old = _mistaken(rng, style, remembered, keep=set(kept) if rng.random() < 0.8 else set())
    if not any(line.strip() in {one.strip() for one in kept} for line in old):
        old.insert(rng.randint(1, len(old) - 1), kept[0])
    blocks = [small, large]
    rng.shuffle(blocks)
    return _case(rng, style, blocks, large, old)


def single(seed: int) -> Case:
    """One block that is meant, among blocks of the same language with other lines."""
    rng = random.Random(seed)
    style = rng.choice(_STYLES)
    block = _block(rng, style, rng.randint(2, 9))
    others = [_block(rng, style, rng.randint(2, 9)) for _ in range(rng.randint(0, 6))]
    for other in others:
        # Languages have lines that recur.
        if rng.random() < 0.3:
            other.insert(1, rng.choice(block[1:-1]))
    blocks = [block, *others]
    rng.shuffle(blocks)
    return _case(rng, style, blocks, block, _mistaken(rng, style, block, keep=set()))


def _case(rng: random.Random, style: _Style, blocks: list[list[str]], meant: list[str], old: list[str]) -> Case:
    lines: list[str] = []
    first = 0
    for block in blocks:
        lines += ["", *(_line(rng, style).strip() + " #" for _ in range(rng.randint(0, 4))), ""]
        if block is meant:
            first = len(lines)
        lines += block
    new = old[:]
    index = rng.randint(1, max(1, len(new) - 2))
    match rng.choice(["replace", "insert", "delete"]):
        case "replace":
            new[index] = _line(rng, style)
        case "insert":
            new.insert(index, _line(rng, style))
        case _:
            del new[index]
    return Case("\n".join(lines) + "\n", first, first + len(meant) - 1, "\n".join(old), "\n".join(new))


def _block(rng: random.Random, style: _Style, size: int) -> list[str]:
    head, foot, _ = style
    name = "_".join(rng.sample(_WORDS, 2)) if rng.random() < 0.5 else "load"
    return [head.format(f=name), *(_line(rng, style) for _ in range(size)), foot.format()]


def _line(rng: random.Random, style: _Style) -> str:
    return rng.choice(style[2]).format(*rng.sample(_WORDS, 2), n=rng.randint(1, 9_999))


def _renamed(rng: random.Random, line: str) -> str:
    word = next((word for word in _WORDS if word in line), "")
    return line.replace(word, f"{word}_all", 1) if word and rng.random() < 0.6 else line[:-2] + "7" + line[-1:]


def _mistaken(rng: random.Random, style: _Style, block: list[str], *, keep: set[str]) -> list[str]:
    """Return the block as a model remembers it: with one to three mistakes between its first and its last line."""
    old = block[:]
    for _ in range(rng.randint(1, 3)):
        places = [index for index in range(1, len(old) - 1) if old[index].strip() and old[index] not in keep]
        if not places:
            break
        index = rng.choice(places)
        line = old[index]
        match rng.choice(["letter", "number", "blanks", "drop", "imagine", "word"]):
            case "letter":
                at = rng.randint(len(line) - len(line.lstrip()), len(line) - 1)
                old[index] = line[:at] + rng.choice("abcxyz_") + line[at + 1 :]
            case "number":
                old[index] = "".join(str(rng.randint(0, 9)) if one.isdigit() else one for one in line)
            case "blanks":
                old[index] = line.replace(" = ", "=").replace(": ", " : ").replace(", ", ",")
            case "drop" if len(old) > 4:
                del old[index]
            case "imagine":
                old.insert(index, _line(rng, style))
            case _:
                old[index] = line.replace(next((w for w in _WORDS if w in line), "?"), rng.choice(_WORDS), 1)
    return old
