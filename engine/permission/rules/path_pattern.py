r"""Patterns for paths, as in `.gitignore`: `*` and `?` stay inside a name, `**` is any folders, `[a-z]`, `{a,b}`, `\`.

- without a slash: that name at any depth, inside and outside of the project; `**/x` the same;
- with one: a path of the project, whether it begins with `./` or not;
- `/x` is a path of the machine, `~/x` or `$HOME/x` one in the home folder;
- whoever names a folder names all that is in it; a slash at the end changes nothing;
- `*` and `**` alone are every path.

A path is told as seen from the project if it lies inside (`.` is the project itself), and
absolute otherwise; `..` and links are resolved before. A path with U+FFFC in it is not
known: a pattern may match it, but only one that matches every path surely does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

import attrs

from engine.core.errors import ConfigError
from engine.core.permission_types import UNKNOWN
from engine.files.globs import GlobError, alternatives, escaped, glob_regex
from engine.permission.rules.wildcard import Wildcard
from engine.permission.rules.wildcard import exact as exact_text

MAX_PATTERN_CHARS: Final = 4_096

# Whoever names a folder names what is below.
_BELOW: Final = r"(?:/.*)?\Z"
_EVERY: Final = frozenset({"*", "**", "**/*", "**/**", ""})
_HOMES: Final = ("~", "$HOME")
_FOLDERS: Final = "**"
# A class (or a bracket that begins none), an escaped character, a character.
_PIECE: Final = re.compile(r"\[[!^]?+.[^\]]*\]|\\?.", re.DOTALL)
_CLASS_WITH_SLASH: Final = re.compile(r"(?:\\.|[^\[\\]|\[[!^]?+[^/][^\]/]*\])*+\[[^\]]*/", re.DOTALL)
# What a path that was resolved does not have.
_UNRESOLVED: Final = re.compile(rf"{UNKNOWN}|//|(?:^|/)\.\.(?:/|\Z)|/\.(?:/|\Z)|^\./|./\Z|\A\Z", re.DOTALL)

# Where a pattern holds: for every path, for a name at any depth, for a path of the machine.
Reach = Literal["every", "name", "path"]


def exact(path: str) -> str:
    """Return a pattern that matches *path*, as told to rules, and what is below it."""
    if path.startswith("/"):
        return escaped(path)
    return "./" if path == "." else f"./{escaped(path)}"


def absolute(project: str, path: str) -> str:
    """Return *path*, told as seen from *project* or absolute, as an absolute one."""
    if path.startswith("/"):
        return path
    return project if path == "." else f"{project.rstrip('/')}/{path}"


def is_resolved(path: str) -> bool:
    """Tell whether *path* is known, and names no folder by `.` or `..`."""
    return _UNRESOLVED.search(path) is None


@attrs.frozen
class Shape:
    """One of the patterns that a pattern with braces stands for.

    Attributes:
        reach: where it holds.
        names: the names of the path, as globs; all of them if it is a path of the machine.
    """

    reach: Reach
    names: tuple[str, ...] = ()

    @property
    def plain(self) -> str | None:
        """The one path, or name, that it means with all below; None: it means several."""
        texts = [_name(name)[0] for name in self.names if name != _FOLDERS]
        if self.reach == "every" or len(texts) < len(self.names) or not all(text.is_plain for text in texts):
            return None
        joined = "/".join(text.head[:-1] for text in texts)
        return joined if self.reach == "name" else f"/{joined}"

    @property
    def needles(self) -> tuple[str, str]:
        """Two plain texts that every path holds which it matches: what it begins with, and another."""
        runs = [""]
        for name in self.names:
            if name == _FOLDERS:
                runs.append("")
                continue
            own, _ = _name(name)
            runs[-1] += own.head
            if not own.is_plain:
                runs += own.needle, own.tail
        first, *others = (run.removesuffix("/") for run in runs)
        return first, max(others, key=len, default="")

    def covers(self, other: Shape, project: tuple[str, ...]) -> bool:
        """Tell whether it surely matches all that *other* matches; in doubt, False."""
        if self.reach == "every" or self == other:
            return True
        if self.reach == "path":
            return other.reach == "path" and _covers(self.names, other.names)
        anywhere = (_FOLDERS, *self.names)
        if other.reach == "name":
            return _covers(anywhere, (_FOLDERS, *other.names))
        if other.reach == "every":
            return False
        # Inside of the project the names of its own folder do not count.
        if other.names[: len(project)] == project:
            return _covers(anywhere, other.names[len(project) :])
        return _are_disjoint(project, other.names) and _covers(anywhere, other.names)


@attrs.define(eq=False)
class PathPattern:
    """A pattern, ready for use in a project. Raises `ConfigError` for what matches nothing.

    Attributes:
        pattern: as it was written.
        project: the project's folder, absolute and real.
        home: the same of the user's home.
        shapes: what its braces stand for.
        is_every: it matches every path.
    """

    pattern: str
    project: str
    home: str
    shapes: tuple[Shape, ...] = attrs.field(init=False)
    is_every: bool = attrs.field(init=False)
    _sources: tuple[str, str] = attrs.field(init=False, repr=False)
    _regexes: tuple[re.Pattern[str], re.Pattern[str]] | None = attrs.field(init=False, repr=False, default=None)

    def __attrs_post_init__(self) -> None:
        for name, folder in (("project", self.project), ("home", self.home)):
            if not folder.startswith("/"):
                raise ConfigError(f"the {name} must be an absolute path, not {folder!r}")
        _check(self.pattern)
        try:
            self.shapes = tuple(self._shape(one) for one in alternatives(self.pattern))
            self._sources = (
                _expression([shape.names for shape in self.shapes if shape.reach == "name"], "(?:.*/)?"),
                _expression([shape.names for shape in self.shapes if shape.reach == "path"], "/"),
            )
        except GlobError as error:
            raise ConfigError(f"the path pattern {self.pattern!r} makes no sense: {error}") from error
        self.is_every = any(shape.reach == "every" for shape in self.shapes)

    def matches(self, path: str) -> bool:
        """Tell whether it matches *path*, whatever the unknown in it is."""
        return self.is_every or (is_resolved(path) and self._matches(path))

    def may_match(self, path: str) -> bool:
        """Tell whether it matches *path* for some value of the unknown in it; in doubt, True."""
        return self.is_every or not is_resolved(path) or self._matches(path)

    def covers(self, other: PathPattern) -> bool:
        """Tell whether it surely matches all that *other* matches, in the same project; in doubt, False."""
        project = _names(escaped(self.project))
        return all(any(own.covers(shape, project) for own in self.shapes) for shape in other.shapes)

    def overlaps(self, other: PathPattern) -> bool:
        """Tell whether there may be a path that both match; in doubt, True."""
        return not all(
            own.reach == "path" == shape.reach and _are_disjoint(own.names, shape.names)
            for own in self.shapes
            for shape in other.shapes
        )

    def _matches(self, path: str) -> bool:
        by_name, by_path = self._regexes or self._compiled()
        is_named = path != "." and by_name.match(path) is not None
        return is_named or by_path.match(absolute(self.project, path)) is not None

    def _compiled(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        # Most patterns are never asked, so they are not made before.
        by_name, by_path = self._sources
        self._regexes = re.compile(by_name, re.DOTALL), re.compile(by_path, re.DOTALL)
        return self._regexes

    def _shape(self, pattern: str) -> Shape:
        """Return what a pattern without braces means."""
        text = pattern.rstrip("/")
        if text in _EVERY:
            return Shape("every")
        first, slash, rest = text.partition("/")
        if not first:
            return self._make_shape("path", _names(text))
        if first in _HOMES:
            return self._make_shape("path", _names(escaped(self.home)) + _names(rest))
        if slash and first[0] == "~":
            raise ConfigError(
                f"the path pattern {self.pattern!r}: write the home folder of another user as a whole path"
            )
        if first == _FOLDERS:
            while text.startswith("**/"):
                text = text[3:]
            return Shape("every") if text in _EVERY else self._make_shape("name", _names(text))
        if slash or text == ".":
            return self._make_shape("path", _names(escaped(self.project)) + _names(rest if first == "." else text))
        return self._make_shape("name", (text,))

    def _make_shape(self, reach: Reach, names: tuple[str, ...]) -> Shape:
        odd = next((name for name in names if name in {".", ".."}), None)
        if odd is not None:
            raise ConfigError(f"the path pattern {self.pattern!r} matches nothing: paths are told without {odd!r}")
        return Shape(reach, names) if names else Shape("every")  # all is below the machine's root


def _check(pattern: str) -> None:
    subject = f"the path pattern {pattern!r}"
    if not pattern.strip():
        raise ConfigError(f"{subject} is empty: '*' means every path")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ConfigError(f"a path pattern may have {MAX_PATTERN_CHARS:,} characters, not {len(pattern):,}")
    if pattern.startswith("!"):
        raise ConfigError(
            f"{subject}: rules have actions instead of a '!'; a name that begins with one is written '\\!'"
        )
    if "\0" in pattern or UNKNOWN in pattern:
        raise ConfigError(f"{subject} matches nothing: it holds a character that no path has")
    if "//" in pattern:
        raise ConfigError(f"{subject} matches nothing: it has two slashes in a row")
    if _CLASS_WITH_SLASH.match(pattern):
        raise ConfigError(f"{subject}: no class holds a slash; a bracket that begins none is written '\\['")


def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


def _expression(paths: Sequence[tuple[str, ...]], before: str) -> str:
    if not paths:
        return "(?!)"
    # glob_regex ends with \Z; here what is below counts as well.
    sources = [before + glob_regex("/".join(names)).removesuffix(r"\Z") for names in paths]
    return f"(?:{'|'.join(sources)}){_BELOW}"


@lru_cache(maxsize=1_024)
def _name(glob: str) -> tuple[Wildcard, bool]:
    """Return what matches all that *glob*, a name, matches, with a slash behind it; and whether it is no more than that."""
    parts: list[str] = []
    is_same = True
    for piece in _PIECE.findall(glob):
        if len(piece) == 3 and piece[0] == "[":
            parts.append(exact_text(piece[1]))
        elif len(piece) > 2:
            parts.append("?")
            is_same = False
        else:
            parts.append(piece if piece in {"*", "?"} else exact_text(piece[-1]))
    # The slash, because of what a " *" at the end of a wildcard means.
    return Wildcard("".join(parts) + "/"), is_same


def _covers(names: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Tell whether the paths of *others* are all among those of *names*, or below them; in doubt, False.

    Row *i* tells for each *j* whether `names[i:]` covers `others[j:]`.
    """
    row = [True] * (len(others) + 1)
    for at in range(len(names) - 1, -1, -1):
        after, row = row, [False] * (len(others) + 1)
        for there in range(len(others), -1, -1):
            has_more = there < len(others)
            if names[at] == _FOLDERS and at == len(names) - 1:
                row[there] = has_more
            elif names[at] == _FOLDERS:
                row[there] = after[there] or (has_more and row[there + 1])
            elif has_more and others[there] != _FOLDERS:
                row[there] = after[there + 1] and _covers_name(names[at], others[there])
    return row[0]


def _covers_name(glob: str, other: str) -> bool:
    if glob == other:
        return True
    own, is_same = _name(glob)
    return is_same and own.covers(_name(other)[0])


def _are_disjoint(names: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Tell whether no path can lie at or below both; in doubt, False."""
    for own, other in zip(names, others, strict=False):
        if _FOLDERS in {own, other}:
            return False
        if not _name(own)[0].overlaps(_name(other)[0]):
            return True
    return False
