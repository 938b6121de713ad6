r"""Patterns for paths, as in `.gitignore`: `*` and `?` stay inside a name, `**` is any folders, `[a-z]`, `{a,b}`, `\`.

- without a slash: that name at any depth, inside and outside of the project; `**/x` is the same;
- with a slash: a path in the project, with or without `./` at the beginning;
- `/x` is an absolute path, `~/x` or `$HOME/x` a path in the home folder;
- a pattern that matches a folder matches everything in it; a slash at the end changes nothing;
- `*` and `**` alone match every path.

A path inside the project is given relative to it (`.` is the project itself), any other as an
absolute path; `..` and links are resolved before. A path that contains U+FFFC is partly unknown:
a pattern may match it, but only one that matches every path certainly does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

import attrs

from engine.core.errors import ConfigError
from engine.core.lazy import regex
from engine.core.permission_types import UNKNOWN
from engine.core.value_base import Value
from engine.files.globs import GlobError, alternatives, escaped, glob_regex
from engine.permission.rules.wildcard import Wildcard
from engine.permission.rules.wildcard import exact as exact_text

MAX_PATTERN_CHARS: Final = 4_096

# A pattern that matches a folder matches what is below it.
_BELOW: Final = r"(?:/.*)?\Z"
_EVERY: Final = frozenset({"*", "**", "**/*", "**/**", ""})
_HOMES: Final = ("~", "$HOME")
_FOLDERS: Final = "**"
# A class (or a bracket that begins none), an escaped character, a character.
_PIECE: Final = regex(r"\[[!^]?+.[^\]]*\]|\\?.", re.DOTALL)
_CLASS_WITH_SLASH: Final = regex(r"(?:\\.|[^\[\\]|\[[!^]?+[^/][^\]/]*\])*+\[[^\]]*/", re.DOTALL)
# What a resolved path does not contain.
_UNRESOLVED: Final = regex(rf"{UNKNOWN}|//|(?:^|/)\.\.(?:/|\Z)|/\.(?:/|\Z)|^\./|./\Z|\A\Z", re.DOTALL)

# What a pattern applies to: every path, a name at any depth, or an absolute path.
Reach = Literal["every", "name", "path"]


def exact(path: str) -> str:
    """Return a pattern that matches *path*, in the form that rules know, and what is below it."""
    if path.startswith("/"):
        return escaped(path)
    return "./" if path == "." else f"./{escaped(path)}"


def absolute(project: str, path: str) -> str:
    """Return *path*, which is relative to *project* or absolute, as an absolute path."""
    if path.startswith("/"):
        return path
    return project if path == "." else f"{project.rstrip('/')}/{path}"


def is_resolved(path: str) -> bool:
    """Return whether *path* has no unknown part and no `.` or `..` in it."""
    return _UNRESOLVED.search(path) is None


@attrs.frozen(eq=False, repr=False)
class Shape(Value):
    """One alternative of a pattern with braces.

    Attributes:
        reach: what it applies to.
        names: the names of the path, as globs; all names of an absolute path.
    """

    reach: Reach
    names: tuple[str, ...] = ()

    @property
    def plain(self) -> str | None:
        """The only path, or name, that it matches besides what is below; None if it matches several."""
        texts = [_name(name)[0] for name in self.names if name != _FOLDERS]
        if self.reach == "every" or len(texts) < len(self.names) or not all(text.is_plain for text in texts):
            return None
        joined = "/".join(text.head[:-1] for text in texts)
        return joined if self.reach == "name" else f"/{joined}"

    @property
    def needles(self) -> tuple[str, str]:
        """Two texts that every matching path contains: its beginning, and another."""
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
        """Return whether it certainly matches everything that *other* matches; in doubt, False."""
        if self.reach == "every" or self == other:
            return True
        if self.reach == "path":
            return other.reach == "path" and _covers(self.names, other.names)
        anywhere = (_FOLDERS, *self.names)
        if other.reach == "name":
            return _covers(anywhere, (_FOLDERS, *other.names))
        if other.reach == "every":
            return False
        # Inside the project, the names of the project's own path do not count.
        if other.names[: len(project)] == project:
            return _covers(anywhere, other.names[len(project) :])
        return _are_disjoint(project, other.names) and _covers(anywhere, other.names)


@attrs.define(eq=False, repr=False)
class PathPattern:
    """A compiled pattern in a project. Raises `ConfigError` for a pattern that matches nothing.

    Attributes:
        pattern: as it was written.
        project: the project's folder, absolute and real.
        home: the user's home folder, absolute and real.
        shapes: the alternatives of its braces.
        is_every: whether it matches every path.
    """

    pattern: str
    project: str
    home: str
    shapes: tuple[Shape, ...] = attrs.field(init=False)
    is_every: bool = attrs.field(init=False)
    _matcher: _Matcher = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        for name, folder in (("project", self.project), ("home", self.home)):
            if not folder.startswith("/"):
                raise ConfigError(f"the {name} must be an absolute path, not {folder!r}")
        _check(self.pattern)
        # A name means the same in every project. Almost all defaults are names, so they are parsed once for all engines.
        is_name = self.pattern != "." and not any(sign in self.pattern for sign in "/~${")
        folders = ("/", "/") if is_name else (self.project, self.home)
        self.shapes, self._matcher = _parse(self.pattern, *folders)
        self.is_every = any(shape.reach == "every" for shape in self.shapes)

    def matches(self, path: str) -> bool:
        """Return whether it matches *path*, no matter what the unknown parts are."""
        return self.is_every or (is_resolved(path) and self._matches(path))

    def may_match(self, path: str) -> bool:
        """Return whether it matches *path* for some value of the unknown parts; in doubt, True."""
        return self.is_every or not is_resolved(path) or self._matches(path)

    def covers(self, other: PathPattern) -> bool:
        """Return whether it certainly matches everything that *other* matches in the same project; in doubt, False."""
        project = _names(escaped(self.project))
        return all(any(own.covers(shape, project) for own in self.shapes) for shape in other.shapes)

    def overlaps(self, other: PathPattern) -> bool:
        """Return whether a path may match both; in doubt, True."""
        return not all(
            own.reach == "path" == shape.reach and _are_disjoint(own.names, shape.names)
            for own in self.shapes
            for shape in other.shapes
        )

    def _matches(self, path: str) -> bool:
        by_name, by_path = self._matcher.regexes
        is_named = path != "." and by_name.match(path) is not None
        return is_named or by_path.match(absolute(self.project, path)) is not None


@lru_cache(maxsize=2_048)
def compile_path(pattern: str, project: str, home: str) -> PathPattern:
    """Return the compiled pattern, the same one each time: every session has the patterns of the defaults.

    Raises `ConfigError` for a pattern that matches nothing.
    """
    return PathPattern(pattern, project, home)


@attrs.define(eq=False, repr=False)
class _Matcher:
    """Regular expressions for the names and for the absolute paths of a pattern."""

    _sources: tuple[str, str]
    _regexes: tuple[re.Pattern[str], re.Pattern[str]] | None = attrs.field(init=False, default=None)

    @property
    def regexes(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """For a path as rules see it, and for an absolute one."""
        if self._regexes is None:
            # Compiled at first use: most patterns are never tried.
            by_name, by_path = self._sources
            self._regexes = re.compile(by_name, re.DOTALL), re.compile(by_path, re.DOTALL)
        return self._regexes


@lru_cache(maxsize=2_048)
def _parse(pattern: str, project: str, home: str) -> tuple[tuple[Shape, ...], _Matcher]:
    return _Parser(pattern, project, home).parse()


@attrs.frozen(eq=False, repr=False)
class _Parser:
    pattern: str
    project: str
    home: str

    def parse(self) -> tuple[tuple[Shape, ...], _Matcher]:
        """Return the pattern's alternatives, and what matches all of them. Raises `ConfigError`."""
        try:
            shapes = tuple(map(self._shape, alternatives(self.pattern)))
            sources = (
                _expression([shape.names for shape in shapes if shape.reach == "name"], "(?:.*/)?"),
                _expression([shape.names for shape in shapes if shape.reach == "path"], "/"),
            )
        except GlobError as error:
            raise ConfigError(f"the path pattern {self.pattern!r} is invalid: {error}") from error
        return shapes, _Matcher(sources)

    def _shape(self, pattern: str) -> Shape:
        """Return the shape of a pattern without braces."""
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
            raise ConfigError(f"the path pattern {self.pattern!r} matches nothing: paths never contain {odd!r}")
        return Shape(reach, names) if names else Shape("every")  # all is below the machine's root


def _check(pattern: str) -> None:
    subject = f"the path pattern {pattern!r}"
    if not pattern.strip():
        raise ConfigError(f"{subject} is empty: '*' means every path")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ConfigError(f"a path pattern may have {MAX_PATTERN_CHARS:,} characters, not {len(pattern):,}")
    if pattern.startswith("!"):
        raise ConfigError(
            f"{subject}: rules have actions instead of a '!'; a literal '!' at the beginning is written '\\!'"
        )
    if "\0" in pattern or UNKNOWN in pattern:
        raise ConfigError(f"{subject} matches nothing: it contains a character that no path contains")
    if "//" in pattern:
        raise ConfigError(f"{subject} matches nothing: it has two slashes in a row")
    if _CLASS_WITH_SLASH.match(pattern):
        raise ConfigError(f"{subject}: a class cannot contain a slash; a literal bracket is written '\\['")


def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


def _expression(paths: Sequence[tuple[str, ...]], before: str) -> str:
    if not paths:
        return "(?!)"
    # glob_regex ends with \Z; here a match also covers what is below.
    sources = [before + glob_regex("/".join(names)).removesuffix(r"\Z") for names in paths]
    return f"(?:{'|'.join(sources)}){_BELOW}"


@lru_cache(maxsize=1_024)
def _name(glob: str) -> tuple[Wildcard, bool]:
    """Return a wildcard that matches every name that *glob* matches, plus a slash; and whether it is equivalent."""
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
    # With a slash, because " *" has a special meaning at the end of a wildcard.
    return Wildcard("".join(parts) + "/"), is_same


def _covers(names: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return whether the paths of *others* are all among those of *names* or below them; in doubt, False.

    Row *i* holds for each *j* whether `names[i:]` covers `others[j:]`.
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
    """Return whether no path can be at or below both; in doubt, False."""
    for own, other in zip(names, others, strict=False):
        if _FOLDERS in {own, other}:
            return False
        if not _name(own)[0].overlaps(_name(other)[0]):
            return True
    return False
