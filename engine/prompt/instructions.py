"""Instruction files: which ones hold here, what they say, and how they are put before the model. All of it blocks.

The outermost comes first, so that the nearest has the last word, and each says so. What
is there twice is shown once. Together they have so many bytes; the nearest ones get
theirs first, and what is left out is said. A file that can't be used now keeps the value
that the model knows: it may be half written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal

import attrs

from engine.config.instruction_config import Instructions
from engine.core.prompt_section import PromptSection
from engine.files.escaping import inert, shown_path
from engine.files.real_path import Real, is_within, real_path
from engine.prompt.imports import MAX_HOPS, imported, is_nothing_else
from engine.prompt.instruction_file import Text, UnusableFileError, cut_text, read_text
from engine.prompt.instruction_globs import expand, is_pattern
from engine.prompt.workspace import Place

PREFIX: Final = "instructions:"
# So many files are looked for because others bring them in.
MAX_BROUGHT: Final = 100
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
        by: the file that brings it in; empty: none.
    """

    path: str
    within: str = ""
    scope: str = _USERS
    by: str = ""

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
    _brought: int = attrs.field(default=0, init=False)

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
            yield from self._with_imports(candidate, folders, 0)

    def _with_imports(
        self, candidate: Candidate, folders: dict[str, str], hops: int
    ) -> Iterator[tuple[Candidate, Text]]:
        """Yield what a file says, after what it brings in: its own words come last."""
        text = self._text(candidate)
        if text is None or not text.text or self._is_known(text):
            return
        folder, _, name = candidate.path.rpartition("/")
        brought = imported(text.text, folder, os.path.expanduser("~"))  # noqa: PTH111 - a str
        for path in brought:
            if self._may_bring(candidate, path, hops):
                yield from self._with_imports(attrs.evolve(candidate, path=path, by=candidate.path), folders, hops + 1)
        if is_nothing_else(text.text):
            return
        is_usual = bool(candidate.within) and name in self.wanted.names
        if is_usual and (other := folders.setdefault(folder, name)) != name and f"{folder}/{other}" not in brought:
            told = f"{shown_path(folder)} holds {other} and {name}, which differ: both are read, in this order"
            self.problems.append(Problem(kind="both", text=told))
        yield candidate, text

    def _text(self, candidate: Candidate) -> Text | None:
        """Return what a file says; None if it is not there, was read already, or can't be used."""
        if candidate.path in self._paths:
            return None
        self._paths.add(candidate.path)
        try:
            text = read_text(candidate.path, limit=self.wanted.max_bytes, within=candidate.within)
        except UnusableFileError as error:
            self.keep(candidate.name, f"{shown_path(candidate.path)} can't be used: {error}")
            return None
        if text is None and candidate.by:
            told = f"{shown_path(candidate.path)} is not there, which {shown_path(candidate.by)} brings in with @"
            self.problems.append(Problem(kind="unusable", text=told))
        return text

    def _may_bring(self, candidate: Candidate, path: str, hops: int) -> bool:
        if path in self._paths:
            return False
        why = ""
        if candidate.within and not is_within(path, candidate.within):
            why = f"it lies outside of {shown_path(candidate.within)}"
        elif hops == MAX_HOPS:
            why = f"that would be the {MAX_HOPS + 1}th file in a row that another one brings in"
        elif self._brought == MAX_BROUGHT:
            why = f"{MAX_BROUGHT} files were brought in already"
        if why:
            told = f"{shown_path(path)}, which {shown_path(candidate.path)} brings in with @, is not read: {why}"
            self.problems.append(Problem(kind="unusable", text=told))
            return False
        self._brought += 1
        return True

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


@attrs.frozen(kw_only=True)
class Named:
    """The files that the user has named.

    Attributes:
        candidates: which.
        problems: what is to be told of their names.
    """

    candidates: tuple[Candidate, ...]
    problems: tuple[Problem, ...]


def named_candidates(wanted: Instructions, place: Place) -> Named:
    """Return the files that the user has named: those of the project first, then all others."""
    candidates: list[Candidate] = []
    problems: list[Problem] = []
    # What goes from the project's folder may be in one project and not in another; what has a place of its own is there.
    for pattern in sorted(wanted.files, key=lambda each: each.startswith(("/", "~"))):
        whole = os.path.expanduser(pattern)  # noqa: PTH111 - a str
        is_own = not whole.startswith("/")
        if is_own and not place.project:
            continue
        paths, why = _meant(whole, place.project)
        if is_own:
            scope = _scope(place.project)
            candidates += [Candidate(path=os.path.normpath(path), within=place.project, scope=scope) for path in paths]
        else:
            candidates += [Candidate(path=path, scope=_PINNED) for path in paths]
            if not any(map(os.path.lexists, paths)):
                why = "no such file is there"
        if why:
            problems.append(
                Problem(kind="unusable", text=f"{shown_path(pattern)}, which is named in the settings: {why}")
            )
    return Named(candidates=tuple(candidates), problems=tuple(problems))


def _meant(whole: str, root: str) -> tuple[Sequence[str], str]:
    if is_pattern(whole):
        found = expand(whole, root)
        return found.paths, found.problem
    return [whole if whole.startswith("/") else f"{root}/{whole}"], ""


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
