"""Instruction files: which ones hold here, what they say, and how they are put before the model. All of it blocks.

The outermost comes first, so that the nearest has the last word, and each says so. What
is there twice is shown once. Together they have so many bytes; the nearest ones get
theirs first, and what is left out is said. A file that can't be used now keeps the value
that the model knows: it may be half written.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal

import attrs

from engine.permission.real_path import Real, real_path
from engine.prompt.instruction_file import Text, UnusableFileError, cut_text, read_text
from engine.prompt.place import Place
from engine.prompt.quoting import inert, shown_path
from engine.prompt.section import PromptSection
from engine.prompt.wanted import Instructions

PREFIX: Final = "instructions:"
MAX_FILES: Final = 100
# Below that many bytes of a file nothing is worth showing.
_LEAST: Final = 200
_USERS: Final = "The user's own, for all projects. What a project's instructions say goes before them."
_PINNED: Final = "Named by the user. What the user says in this conversation goes before them."

ProblemKind = Literal["unusable", "cut", "both"]


@attrs.frozen(kw_only=True)
class Problem:
    """Something about the instructions that the user should know."""

    kind: ProblemKind
    text: str


@attrs.frozen(kw_only=True)
class Candidate:
    """A file that may be there.

    Attributes:
        path: where.
        within: the folder that it must not lead out of; empty: it may.
        scope: what its instructions are for, as the model is told.
    """

    path: str
    within: str = ""
    scope: str = _USERS

    @property
    def name(self) -> str:
        """The name of its section."""
        return PREFIX + self.path


@attrs.define(eq=False, kw_only=True)
class InstructionReader:
    """Reads instruction files, once.

    Attributes:
        wanted: which.
        told: what the model knows already, by the name of the section.
        sections: what was read, in order.
        problems: what the user should know of it.
    """

    wanted: Instructions
    told: Mapping[str, PromptSection]
    sections: list[PromptSection] = attrs.field(factory=list[PromptSection], init=False)
    problems: list[Problem] = attrs.field(factory=list[Problem], init=False)
    _seen: set[str] = attrs.field(factory=set[str], init=False)
    _paths: set[str] = attrs.field(factory=set[str], init=False)

    def read_baseline(self, candidates: Iterable[Candidate], pinned: Sequence[tuple[str, str]] = ()) -> None:
        """Read what holds from the start: files, the outermost first, after texts from the web."""
        found = [(self._pinned(url), _text_of(url, text, self.wanted.max_bytes)) for url, text in pinned]
        self._add(found + list(self._found(candidates)), nearest_first=True)

    def read_nested(self, candidates: Iterable[Candidate]) -> None:
        """Read what was found on the way; the ones that were found first get their bytes first."""
        self._add(list(self._found(candidates)), nearest_first=False)

    def keep(self, name: str, why: str) -> None:
        """Let what is known of a source stand, which can't be read now; tell *why*."""
        self.problems.append(Problem(kind="unusable", text=why))
        if name in self.told:
            self.sections.append(self.told[name])

    def _found(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, Text]]:
        folders: dict[str, str] = {}
        for candidate in candidates:
            if candidate.path in self._paths:
                continue
            self._paths.add(candidate.path)
            try:
                text = read_text(candidate.path, limit=self.wanted.max_bytes, within=candidate.within)
            except UnusableFileError as error:
                self.keep(candidate.name, f"{shown_path(candidate.path)} can't be used: {error}")
                continue
            if text is None or not text.text or self._is_known(text):
                continue
            folder, _, name = candidate.path.rpartition("/")
            if candidate.within and (other := folders.setdefault(folder, name)) != name:
                told = f"{shown_path(folder)} holds {other} and {name}, which differ: both are read, in this order"
                self.problems.append(Problem(kind="both", text=told))
            yield candidate, text

    def _is_known(self, text: Text) -> bool:
        """Tell whether the same was read already: by another name, or another file with the same words."""
        marks = {text.real, sha256(text.text.encode()).hexdigest()}
        is_known = bool(marks & self._seen)
        self._seen |= marks
        return is_known

    def _add(self, found: Sequence[tuple[Candidate, Text]], *, nearest_first: bool) -> None:
        room = self.wanted.max_bytes
        shown: dict[str, str] = {}
        for candidate, text in reversed(found) if nearest_first else found:
            shown[candidate.path] = cut_text(text.text, room) if room >= _LEAST or room >= len(text.text) else ""
            room -= len(shown[candidate.path].encode())
        for candidate, text in found:
            self.sections.append(self._section(candidate, text, shown[candidate.path]))

    def _section(self, candidate: Candidate, text: Text, shown: str) -> PromptSection:
        path = shown_path(candidate.path)
        body = shown
        if text.is_cut or shown != text.text:
            told = f"{len(shown.encode()):,} of {text.size:,} bytes are shown"
            body += f"\n[Cut: {told}. Read the rest in {path} where it may matter.]"
            limit = f"instructions have {self.wanted.max_bytes:,} bytes together"
            self.problems.append(Problem(kind="cut", text=f"{path} is cut for the model: {told} ({limit})"))
        block = f'<instructions from="{path}">\n{candidate.scope}\n\n{inert(body.strip())}\n</instructions>'
        return PromptSection(name=candidate.name, text=block, source=path)

    def _pinned(self, url: str) -> Candidate:
        return Candidate(path=url, scope=_PINNED)


def _text_of(url: str, text: str, limit: int) -> Text:
    shown = cut_text(text, limit)
    return Text(path=url, real=url, text=shown, size=len(text.encode()), is_cut=shown != text)


# -- which ones ------------------------------------------------------------------------------------


def users_candidates(paths: Iterable[str]) -> Iterator[Candidate]:
    """Yield the first of the user's own files that is there."""
    for path in paths:
        whole = os.path.expanduser(path)  # noqa: PTH111 - a str
        if os.path.lexists(whole):
            yield Candidate(path=whole)
            return


def named_candidates(wanted: Instructions, place: Place, *, own: bool) -> Iterator[Candidate]:
    """Yield the files that the user has named: those of the project (*own*), or all others."""
    for pattern in wanted.files:
        whole = os.path.expanduser(pattern)  # noqa: PTH111 - a str
        is_own = not whole.startswith("/")
        if is_own != own or (is_own and not place.project):
            continue
        root = place.project if is_own else None
        names = sorted(glob.iglob(whole, root_dir=root, recursive=True))[:MAX_FILES]  # noqa: PTH207 - of a str, below a root
        for name in names:
            if is_own:
                path = os.path.normpath(f"{place.project}/{name}")
                yield Candidate(path=path, within=place.project, scope=_scope(place.project))
            elif os.path.isfile(name) or not _is_pattern(pattern):  # noqa: PTH113 - a str
                yield Candidate(path=name, scope=_PINNED)


def project_candidates(wanted: Instructions, place: Place) -> Iterator[Candidate]:
    """Yield what may lie in the folders from the project's down to the working directory."""
    yield from _in_folders(wanted, place, place.folders())


def touched_candidates(wanted: Instructions, place: Place, paths: Iterable[str]) -> Iterator[Candidate]:
    """Yield what may lie in the folders from the project's down to files and folders that were touched."""
    for path in paths:
        real = real_path(path)
        if isinstance(real, Real):
            folder = real.path if os.path.isdir(real.path) else os.path.dirname(real.path)  # noqa: PTH112, PTH120 - a str
            yield from _in_folders(wanted, place, place.chain(folder))


def _in_folders(wanted: Instructions, place: Place, folders: Iterable[str]) -> Iterator[Candidate]:
    for folder in folders:
        for name in wanted.names:
            path = f"{folder.rstrip('/')}/{name}"
            yield Candidate(path=path, within=place.project, scope=_scope(folder))


def _scope(folder: str) -> str:
    return (
        f"For work in {shown_path(folder)}. Where instructions differ, those of the folder nearest to the file count, "
        "and what the user says goes before all of them."
    )


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")
