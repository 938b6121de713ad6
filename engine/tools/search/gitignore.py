"""The rules of one `.gitignore`, as ripgrep interprets them: the last matching rule decides.

Paths are relative to the file's folder, and tested from the top down: the content of an ignored folder is never tested,
so it can't be re-included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from engine.files.globs import GlobError, glob_regex, is_magic

MAX_RULE_BYTES: Final = 4_096
# For all expressions of a file: a repository's file must not cost seconds and gigabytes. Later rules are dropped.
MAX_EXPRESSION_BYTES: Final = 400_000
_BOM: Final = "\ufeff"


@attrs.frozen
class _Rule:
    """One line.

    Attributes:
        pattern: matches the path relative to the file's folder, or, if `by_name`, the last name of the path.
        ignores: False: it re-includes.
        folders_only: it ended with a slash.
        by_name: it applies at any depth.
    """

    pattern: str
    ignores: bool
    folders_only: bool
    by_name: bool


@attrs.frozen(eq=False)
class _Matcher:
    """The rules of one kind in one expression, the latest rule first, so that it decides."""

    rules: Sequence[_Rule]
    literals: Mapping[bytes, int]
    magic: re.Pattern[bytes] | None
    indices: Sequence[int]

    def last(self, text: bytes) -> int:
        """Return the index of the last matching rule; -1 if none matches."""
        index = self.literals.get(text, -1)
        if self.magic is not None and (match := self.magic.match(text)) and match.lastindex is not None:
            return max(index, self.indices[match.lastindex - 1])
        return index


@attrs.frozen(eq=False)
class Rules:
    """The rules of one file."""

    _rules: Sequence[_Rule]
    _of_folders: tuple[_Matcher, _Matcher]
    _of_files: tuple[_Matcher, _Matcher]

    @classmethod
    def parse(cls, data: bytes) -> Rules | None:
        """Parse a file; None if it has no rules. Invalid lines are skipped."""
        rules = list(_affordable(_rules(data)))
        if not rules:
            return None
        return cls(
            rules,
            (_matcher(rules, by_name=True, folders=True), _matcher(rules, by_name=False, folders=True)),
            (_matcher(rules, by_name=True, folders=False), _matcher(rules, by_name=False, folders=False)),
        )

    def verdict(self, path: bytes, name: bytes, *, is_folder: bool) -> bool | None:
        """Return whether *path*, relative to the file's folder, is ignored; None: no rule of the file matches it."""
        by_name, by_path = self._of_folders if is_folder else self._of_files
        index = max(by_name.last(name), by_path.last(path))
        return None if index < 0 else self._rules[index].ignores


def _rules(data: bytes) -> Iterator[_Rule]:
    for number, raw in enumerate(data.split(b"\n")):
        try:
            line = raw.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            return  # ripgrep stops reading here, too
        if len(raw) > MAX_RULE_BYTES:
            continue
        rule = _rule(line.lstrip(_BOM) if number == 0 else line)
        if rule is not None:
            yield rule


def _rule(line: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    # Blanks at the end count only if they are escaped.
    if not line.endswith("\\ "):
        line = line.rstrip()
    if not line:
        return None
    ignores = anchored = False
    if line.startswith(("\\!", "\\#")):
        ignores, line = True, line[1:]
    else:
        ignores, line = not line.startswith("!"), line.removeprefix("!")
        anchored, line = line.startswith("/"), line.removeprefix("/")
    folders_only = line.endswith("/")
    if folders_only:
        line = line[:-1].removesuffix("\\")
    # A slash in the middle anchors a pattern, too.
    by_name = not anchored and "/" not in line
    if by_name and not line:
        line = "*"  # a lone ! re-includes everything
    # "x/**" matches the content of the folder, not the folder itself.
    return _Rule(f"{line}/*" if line.endswith("/**") else line, ignores, folders_only, by_name)


def _affordable(rules: Iterator[_Rule]) -> Iterator[_Rule]:
    """Yield the valid rules, up to the limit for expressions."""
    room = MAX_EXPRESSION_BYTES
    for rule in rules:
        if is_magic(rule.pattern):
            try:
                room -= len(_regex(rule.pattern))
            except GlobError:
                continue
            if room < 0:
                return
        yield rule


def _regex(pattern: str) -> bytes:
    # On bytes, as git and ripgrep do: `?` is one byte, and names need not be UTF-8.
    return glob_regex(pattern.encode().decode("latin-1")).encode("latin-1")


def _matcher(rules: Sequence[_Rule], *, by_name: bool, folders: bool) -> _Matcher:
    rules_of_kind = [
        (index, rule)
        for index, rule in enumerate(rules)
        if rule.by_name == by_name and (folders or not rule.folders_only)
    ]
    literals = {rule.pattern.encode(): index for index, rule in rules_of_kind if not is_magic(rule.pattern)}
    magic = [(index, rule) for index, rule in reversed(rules_of_kind) if is_magic(rule.pattern)]
    expression = b"|".join(b"(%s)" % _regex(rule.pattern) for _, rule in magic)
    return _Matcher(
        rules, literals, re.compile(expression, re.DOTALL) if magic else None, [index for index, _ in magic]
    )
