"""Programs that a script starts: what they start themselves, and which files they touch."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import (
    ProgramEffects,
    ProgramInvocation,
    ShellText,
    StartedCommand,
    Stdin,
    UnknownInput,
    WordPrefix,
)
from engine.permission.effects.scan_result import Access, Argument, PathUse, ScannedCommand
from engine.permission.shell.findings import Findings
from engine.permission.shell.state import PIPE, Field, Folders, ValueKind, escape_pattern

_MAX_DEPTH: Final = 12
# A part of a path that has to be looked for in its folder.
_PATTERN: Final = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
_MAGIC: Final = frozenset("*?[")
# Links that lead elsewhere in each process: they cannot be followed from ours.
_ELSEWHERE: Final = re.compile(r"/proc/+(?:self|thread-self|\d+)/.*?(?:cwd|root|fd|exe|map_files)|/dev/+fd/+(?!\d+\Z)")
_IS_OPEN: Final = re.compile(r"/dev/(?:fd/[\d*]+|std(?:in|out|err)|null|zero|full)")
_IS_PRIVATE: Final = re.compile(
    r"/proc/(?:self|thread-self|\d+|.*[*?\[].*|\.\.?)(?:/|\Z)|/dev/(?:fd|std(?:in|out|err))(?:/|\Z)|/\.+/.*/?proc|/proc\Z"
)
# Programs that print whole numbers and nothing else, when their first words are these; of `wc` when it reads no file.
_COUNTERS: Final = frozenset(
    {("nproc",), ("date", "+%s"), ("id", "-u"), ("id", "-g"), ("date", "+%Y"), ("date", "+%s%N")}
)


@attrs.frozen
class Run:
    """A program that is run.

    Attributes:
        fields: its words; the first is known.
        folder: where; None: unknown.
        stdin: what it reads.
        through: the programs that start it.
        remote: on another machine.
    """

    fields: tuple[Field, ...]
    folder: str | None
    stdin: Stdin
    through: tuple[str, ...] = ()
    remote: bool = False


@attrs.define(eq=False)
class Programs:
    """Looks at programs, by what is known of them.

    Attributes:
        read_text: scans the text that a program gives to a shell.
        meaning_of: what a program does with its words.
        through: the programs around the whole script, where it is a text of theirs.
        remote: the whole script runs on another machine.
    """

    findings: Findings
    home: str
    meaning_of: Callable[[ProgramInvocation], ProgramEffects]
    read_text: Callable[[ShellText, Run], None]
    through: tuple[str, ...] = ()
    remote: bool = False
    _seen: dict[Run, Stdin | ValueKind] = attrs.field(factory=dict["Run", "Stdin | ValueKind"], init=False)

    def look(self, run: Run) -> Stdin | ValueKind:
        """Look at a program; return what it prints, as far as it is known."""
        if run in self._seen:
            return self._seen[run]
        if not self.findings.take_step():
            return UnknownInput()
        self._seen[run] = printed = self._look_first(run)
        return printed

    def _look_first(self, run: Run) -> Stdin | ValueKind:
        run = attrs.evolve(run, through=self.through + run.through, remote=self.remote or run.remote)
        return self._look(run)

    def _look(self, run: Run) -> Stdin | ValueKind:
        name = run.fields[0].text or ""
        meaning = self._meaning(run)
        self.findings.add_command(
            ScannedCommand(
                argv=tuple(shown(field) for field in run.fields),
                cwd=run.folder,
                through=run.through,
                remote=run.remote,
                reads_only=meaning.reads_only and not meaning.opaque,
            )
        )
        if isinstance(run.stdin, UnknownInput) and run.stdin.lists_files and meaning.starts:
            self.findings.trusts_names = True
        if meaning.opaque:
            self.findings.mark_opaque(f"{posixpath.basename(name)}: {meaning.opaque}")
        self._check_written([name] if "/" in name else [], run)
        self._check_written(meaning.runs, run)
        if not run.remote:
            for touched in meaning.touches:
                self._touched(touched.path, touched.access, run)
        if len(run.through) >= _MAX_DEPTH:
            self.findings.mark_opaque("programs that start each other too deeply")
            return UnknownInput()
        for started in meaning.starts:
            self._start(started, run)
        if [field.exact_text for field in run.fields] == ["cat"] and isinstance(run.stdin, str):
            return run.stdin
        if _counts(run.fields):
            return ValueKind.NUMBER
        return UnknownInput(lists_files=meaning.prints_names)

    def _start(self, started: StartedCommand | ShellText, run: Run) -> None:
        name = run.fields[0].text or ""
        through = (*run.through, name)
        remote = run.remote or started.remote
        folder = started.cwd
        if isinstance(started, ShellText):
            self.read_text(started, Run(run.fields, folder, run.stdin, through, remote))
        elif not started.argv or started.argv[0] is None or isinstance(started.argv[0], WordPrefix):
            self.findings.mark_opaque(f"{posixpath.basename(name)} starts a command whose name is not known")
        elif self.findings.take_step():
            patterns = {field.text: field for field in run.fields if field.pattern is not None}
            fields = tuple(_field_of(word, patterns) for word in started.argv)
            self._look(Run(fields, folder, started.stdin, through, remote))

    # ---- what the words may mean -------------------------------------------------------------------------------------

    def _meaning(self, run: Run) -> ProgramEffects:
        """Return what a program means with its words, whatever those of them become that aren't known."""
        meaning = self._ask(run, [_word(field) for field in run.fields])
        if all(field.pattern is None and not field.is_many for field in run.fields):
            return meaning
        others = (
            [_unsure(field) for field in run.fields],
            [word for field in run.fields for word in [_unsure(field)] * (2 if field.is_many else 1)],
            [_unsure(field) for field in run.fields if not field.is_many],
        )
        names = _names(meaning)
        for words in others:
            other = self._ask(run, words)
            if other.opaque and not meaning.opaque:
                meaning = attrs.evolve(meaning, opaque=other.opaque)
            if _names(other) != names:
                meaning = attrs.evolve(meaning, opaque="what it starts depends on words that are not known")
            if not other.reads_only:
                meaning = attrs.evolve(meaning, reads_only=False)
        return meaning

    def _ask(self, run: Run, words: Sequence[Argument]) -> ProgramEffects:
        return self.meaning_of(ProgramInvocation(argv=tuple(words), cwd=run.folder, home=self.home, stdin=run.stdin))

    # ---- files -------------------------------------------------------------------------------------------------------

    def _touched(self, path: Argument, access: Access, run: Run) -> None:
        name = posixpath.basename(run.fields[0].text or "")
        folders = None if run.folder is None else (run.folder,)
        if path is None or isinstance(path, WordPrefix):
            self.findings.mark_opaque(f"{name}: a file that is not known")
            return
        pattern = next((field.pattern for field in run.fields if field.pattern and field.text == path), None)
        if pattern is None and _MAGIC & set(path) and any(field.pattern for field in run.fields):
            pattern = path
        self.touch(pattern or path, access, name, folders, is_pattern=pattern is not None)

    def search(self, fields: Iterable[Field], folders: Folders) -> None:
        """Add the folders that bash looks into to find what patterns fit, whatever is done with the names."""
        for field in fields:
            names = [] if field.pattern is None else field.pattern.split("/")
            for place, name in enumerate(names):
                if place and _PATTERN.search(name):
                    self.touch("/".join(names[:place]) or "/", "read", "pattern", folders, is_pattern=True)

    def touch(self, path: str, access: Access, by: str, folders: Folders, *, is_pattern: bool = False) -> None:
        """Add a file."""
        if self.remote:
            return
        whole = path if path.startswith("/") or folders is None else f"{folders[0]}/{path}"
        if _ELSEWHERE.search(posixpath.normpath(whole)) or _ELSEWHERE.search(whole):
            self.findings.mark_opaque(f"a file that is another one for each process: {path[:200]}")
        if path.startswith("/"):
            self._add(path, access, by, is_pattern=is_pattern)
        elif folders is None:
            self.findings.mark_opaque(f"a file in a folder that is not known: {path[:200]}")
        else:
            for folder in folders:
                begin = escape_pattern(folder) if is_pattern else folder
                self._add(f"{begin.rstrip('/')}/{path}", access, by, is_pattern=is_pattern)

    def _add(self, path: str, access: Access, by: str, *, is_pattern: bool) -> None:
        if access == "write" and "/.git/" in path + "/" and by == "redirection":
            self.findings.mark_opaque("it writes into git's own folder")
        self.findings.add_path(PathUse(path=path, access=access, by=by, is_pattern=is_pattern))

    def _check_written(self, files: Sequence[Argument], run: Run) -> None:
        """Look whether a file that is run may have been written by this very script."""
        for file in files:
            if file is None or isinstance(file, WordPrefix):
                self.findings.mark_opaque("it runs a file that is not known")
                continue
            self.findings.add_executed_file(file)


def shown(field: Field) -> Argument:
    """Return a word as the list of commands has it."""
    # Which number a process substitution gets is not known.
    return None if field.text is not None and PIPE in field.text else field.text


def _word(field: Field) -> Argument:
    """Return a word as a program may be asked about it; a pattern stands for itself."""
    if field.text is not None:
        return field.text
    return WordPrefix(field.prefix) if field.prefix and not field.is_many else None


def _unsure(field: Field) -> Argument:
    """Return a word with nothing said of what its pattern fits."""
    if field.exact_text is not None:
        return field.exact_text
    return WordPrefix(field.prefix) if field.prefix else None


def _field_of(word: Argument, patterns: Mapping[str | None, Field]) -> Field:
    """Return what is known of a word that was perhaps among those of the program that starts it."""
    if word is None:
        return Field(None, is_many=True)
    if isinstance(word, WordPrefix):
        return Field(None, str(word))
    return patterns.get(word) or Field(word, word)


def _names(meaning: ProgramEffects) -> list[Argument]:
    return [start.text if isinstance(start, ShellText) else start.argv[0] for start in meaning.starts]


def _counts(fields: Sequence[Field]) -> bool:
    words = tuple(field.exact_text for field in fields)
    if words in _COUNTERS:
        return True
    if words and words[0] == "wc":
        return len(words) == 2 and words[1] in ("-l", "-c", "-w", "-m")
    if words and words[0] == "seq":
        return len(words) > 1 and all(word is not None and word.lstrip("-").isdecimal() for word in words[1:])
    return words[:3] == ("git", "rev-list", "--count")
