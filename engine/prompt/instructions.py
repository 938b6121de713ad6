"""Instruction files: find those that apply, read them, and make sections of them. Everything here blocks.

The outermost file comes first and the nearest last; where they conflict the nearest wins, and each section says so.
Duplicates are shown once. All files share a budget of bytes; the nearest files are served first, and truncation is
marked. If a file can't be read now, the model keeps its current section: an editor may be just writing it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal

import attrs

from engine.config.instruction_config import Instructions
from engine.core.prompt_section import PromptSection
from engine.core.value_base import Value
from engine.files.escaping import inert, shown_path
from engine.files.real_path import Real, is_within, real_path
from engine.prompt.instruction_file import InstructionText, UnusableFileError, cut_text, read_text
from engine.prompt.instruction_globs import expand, is_pattern
from engine.prompt.workspace import Workspace

PREFIX: Final = "instructions:"
# Imported files per reading.
MAX_IMPORTS: Final = 100
# Less of a file would be a fragment without context: then it is left out.
_LEAST: Final = 200
_USERS: Final = "The user's own, for all projects. A project's instructions override them."
_PINNED: Final = "From the user's configuration. What the user says in this conversation overrides them."

ProblemKind = Literal["unusable", "cut", "both"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Problem(Value):
    """A problem with the instructions that is reported to the user."""

    kind: ProblemKind
    text: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Candidate(Value):
    """A file that may exist.

    Attributes:
        path: its path.
        within: the folder that a link must not leave; empty: no restriction.
        scope: the sentence that tells the model what the instructions apply to.
        by: the file that imports this one; empty: none.
    """

    path: str
    within: str = ""
    scope: str = _USERS
    by: str = ""

    @property
    def name(self) -> str:
        """The name of its section."""
        return PREFIX + self.path


@attrs.define(kw_only=True, eq=False, repr=False)
class InstructionReader:
    """Reads instruction files once.

    Attributes:
        config: which files to read.
        current: the sections that the model has now, by name.
        sections: the sections that were read, in order.
        problems: what to report to the user.
    """

    config: Instructions
    current: Mapping[str, PromptSection]
    sections: list[PromptSection] = attrs.field(factory=list[PromptSection], init=False)
    problems: list[Problem] = attrs.field(factory=list[Problem], init=False)
    _seen: set[str] = attrs.field(factory=set[str], init=False)
    _paths: set[str] = attrs.field(factory=set[str], init=False)
    _import_count: int = attrs.field(default=0, init=False)

    def read_baseline(self, candidates: Iterable[Candidate], pinned: Sequence[tuple[str, str]] = ()) -> None:
        """Read what applies from the start: texts from the web, then files, the outermost first."""
        texts = [(self._pinned(url), _text_of(url, text, self.config.max_bytes)) for url, text in pinned]
        self._add(texts + list(self._texts(candidates)), nearest_first=True)

    def read_nested(self, candidates: Iterable[Candidate]) -> None:
        """Read the files of folders that tools have touched; the earliest get their bytes first."""
        self._add(list(self._texts(candidates)), nearest_first=False)

    def keep_current(self, name: str, why: str) -> None:
        """Keep the current section of a source that can't be read now, and report *why*."""
        self.problems.append(Problem(kind="unusable", text=why))
        if name in self.current:
            self.sections.append(self.current[name])

    def _texts(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, InstructionText]]:
        folders: dict[str, str] = {}
        for candidate in candidates:
            yield from self._with_imports(candidate, folders, 0)

    def _with_imports(
        self, candidate: Candidate, folders: dict[str, str], hops: int
    ) -> Iterator[tuple[Candidate, InstructionText]]:
        """Yield a file's imports and then the file itself, so that its own text comes last."""
        from engine.prompt.imports import find_imports, has_only_imports

        text = self._text(candidate)
        if text is None or not text.text or self._is_duplicate(text):
            return
        folder, _, name = candidate.path.rpartition("/")
        # Also where `HOME` points elsewhere than the passwd entry: as the user's other tools resolve `~`.
        imports = find_imports(text.text, folder, os.path.expanduser("~"))  # noqa: PTH111 - a str
        for path in imports:
            if self._may_import(candidate, path, hops):
                yield from self._with_imports(attrs.evolve(candidate, path=path, by=candidate.path), folders, hops + 1)
        # A file such as CLAUDE.md with the single line "@AGENTS.md" has nothing of its own to show.
        if has_only_imports(text.text):
            return
        # Many projects have CLAUDE.md and AGENTS.md. Equal texts are no problem, nor is one that imports the other.
        is_usual = bool(candidate.within) and name in self.config.names
        if is_usual and (other := folders.setdefault(folder, name)) != name and f"{folder}/{other}" not in imports:
            message = (
                f"{shown_path(folder)} has both {other} and {name}, with different text; both are read, in this order"
            )
            self.problems.append(Problem(kind="both", text=message))
        yield candidate, text

    def _text(self, candidate: Candidate) -> InstructionText | None:
        """Read a file; None if it does not exist, was read already, or can't be used."""
        if candidate.path in self._paths:
            return None
        # Before reading, so that files which import each other end here.
        self._paths.add(candidate.path)
        try:
            text = read_text(candidate.path, limit=self.config.max_bytes, within=candidate.within)
        except UnusableFileError as error:
            self.keep_current(candidate.name, f"{shown_path(candidate.path)} can't be used: {error}")
            return None
        if text is None and candidate.by:
            message = f"{shown_path(candidate.path)}, imported by {shown_path(candidate.by)}, does not exist"
            self.problems.append(Problem(kind="unusable", text=message))
        return text

    def _may_import(self, candidate: Candidate, path: str, hops: int) -> bool:
        from engine.prompt.imports import MAX_HOPS

        if path in self._paths:
            return False
        why = ""
        # By path here, and by real path when it is read: links in the project may lead out of it.
        if candidate.within and not is_within(path, candidate.within):
            why = f"it is outside of {shown_path(candidate.within)}"
        elif hops == MAX_HOPS:
            why = f"imports are nested more than {MAX_HOPS} deep"
        elif self._import_count == MAX_IMPORTS:
            why = f"more than {MAX_IMPORTS} files are imported"
        if why:
            message = f"{shown_path(path)}, imported by {shown_path(candidate.path)}, is not read: {why}"
            self.problems.append(Problem(kind="unusable", text=message))
            return False
        self._import_count += 1
        return True

    def _is_duplicate(self, text: InstructionText) -> bool:
        """Return whether the same file, or one with the same text, was read already."""
        # By content as well: copies of one file in CLAUDE.md and AGENTS.md are common.
        marks = {text.real, sha256(text.text.encode()).hexdigest()}
        is_duplicate = bool(marks & self._seen)
        self._seen |= marks
        return is_duplicate

    def _add(self, texts: Sequence[tuple[Candidate, InstructionText]], *, nearest_first: bool) -> None:
        # The budget is served nearest first, while the sections stay in reading order.
        room = self.config.max_bytes
        shown: dict[str, str] = {}
        for candidate, text in reversed(texts) if nearest_first else texts:
            shown[candidate.path] = cut_text(text.text, room) if room >= _LEAST or room >= len(text.text) else ""
            room -= len(shown[candidate.path].encode())
        for candidate, text in texts:
            self.sections.append(self._section(candidate, text, shown[candidate.path]))

    def _section(self, candidate: Candidate, text: InstructionText, shown: str) -> PromptSection:
        path = shown_path(candidate.path)
        body = shown
        if text.is_cut or shown != text.text:
            extent = f"{len(shown.encode()):,} of {text.size:,} bytes are shown"
            body += f"\n[Cut: {extent}. Read the rest in {path} if it may matter.]"
            limit = f"the limit for all instructions is {self.config.max_bytes:,} bytes"
            self.problems.append(Problem(kind="cut", text=f"{path} is truncated for the model: {extent} ({limit})"))
        # Escaped: a file from a repository must not end the frame and speak as someone else.
        block = f'<instructions from="{path}">\n{candidate.scope}\n\n{inert(body.strip())}\n</instructions>'
        return PromptSection(name=candidate.name, text=block, source=path)

    def _pinned(self, url: str) -> Candidate:
        return Candidate(path=url, scope=_PINNED)


def _text_of(url: str, text: str, limit: int) -> InstructionText:
    shown = cut_text(text, limit)
    return InstructionText(path=url, real=url, text=shown, size=len(text.encode()), is_cut=shown != text)


# -- which ones ------------------------------------------------------------------------------------


def user_candidates(paths: Iterable[str]) -> Iterator[Candidate]:
    """Yield the first of the user's own files that exists."""
    for path in paths:
        whole = os.path.expanduser(path)  # noqa: PTH111 - a str
        if os.path.lexists(whole):
            yield Candidate(path=whole)
            return


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NamedFiles(Value):
    """The files that the configuration names.

    Attributes:
        candidates: the files.
        problems: problems with their names.
    """

    candidates: tuple[Candidate, ...]
    problems: tuple[Problem, ...]


def named_candidates(config: Instructions, workspace: Workspace) -> NamedFiles:
    """Return the files that the configuration names: relative ones first, then absolute ones."""
    candidates: list[Candidate] = []
    problems: list[Problem] = []
    # A relative pattern need not match in every project; an absolute one that matches nothing is a mistake.
    for pattern in sorted(config.files, key=lambda each: each.startswith(("/", "~"))):
        whole = os.path.expanduser(pattern)  # noqa: PTH111 - a str
        is_own = not whole.startswith("/")
        if is_own and not workspace.project:
            continue
        paths, why = _expand_name(whole, workspace.project)
        if is_own:
            scope = _scope(workspace.project)
            candidates += [
                Candidate(path=os.path.normpath(path), within=workspace.project, scope=scope) for path in paths
            ]
        else:
            candidates += [Candidate(path=path, scope=_PINNED) for path in paths]
            if not any(map(os.path.lexists, paths)):
                why = "no such file"
        if why:
            problems.append(Problem(kind="unusable", text=f"{shown_path(pattern)} (from the configuration): {why}"))
    return NamedFiles(candidates=tuple(candidates), problems=tuple(problems))


def _expand_name(whole: str, root: str) -> tuple[Sequence[str], str]:
    if is_pattern(whole):
        result = expand(whole, root)
        return result.paths, result.problem
    return [whole if whole.startswith("/") else f"{root}/{whole}"], ""


def project_candidates(config: Instructions, workspace: Workspace) -> Iterator[Candidate]:
    """Yield the candidates in the folders from the project's down to the working directory."""
    yield from _in_folders(config, workspace, workspace.folders())


def touched_candidates(config: Instructions, workspace: Workspace, paths: Iterable[str]) -> Iterator[Candidate]:
    """Yield the candidates in the folders from the project's down to files and folders that tools touched."""
    for path in paths:
        real = real_path(path)
        if isinstance(real, Real):
            folder = real.path if os.path.isdir(real.path) else os.path.dirname(real.path)  # noqa: PTH112, PTH120 - a str
            yield from _in_folders(config, workspace, workspace.folders_to(folder))


def _in_folders(config: Instructions, workspace: Workspace, folders: Iterable[str]) -> Iterator[Candidate]:
    for folder in folders:
        for name in config.names:
            path = f"{folder.rstrip('/')}/{name}"
            yield Candidate(path=path, within=workspace.project, scope=_scope(folder))


def _scope(folder: str) -> str:
    return (
        f"For work in {shown_path(folder)}. Where instructions conflict, those of the folder nearest to the file win, "
        "and what the user says overrides all of them."
    )
