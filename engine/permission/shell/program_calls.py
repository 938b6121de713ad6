"""Programs that a script starts: which commands they start in turn, and which files they use."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import (
    FILE_NAME,
    ListedName,
    ProgramEffects,
    ProgramInvocation,
    ShellText,
    StartedCommand,
    Stdin,
    UnknownInput,
    WordPrefix,
)
from engine.permission.effects.scan_result import Access, Argument, ListedFiles, PathUse, ScannedCommand, UnnamedRead
from engine.permission.shell.findings import Findings
from engine.permission.shell.shell_state import PIPE, Field, Folders, ValueKind, escape_pattern

# `sudo env nice …`: deeper chains have no use.
_MAX_DEPTH: Final = 12
# A part of a path for which bash has to list a folder.
_PATTERN: Final = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
_GLOB_CHARACTERS: Final = frozenset("*?[")
# Links with a different target in each process: ours can't resolve them.
_ELSEWHERE: Final = re.compile(r"/proc/+(?:self|thread-self|\d+)/.*?(?:cwd|root|fd|exe|map_files)|/dev/+fd/+(?!\d+\Z)")
# So `$((…))` and `head -n $(nproc)` are certain to get a number, and never an option.
# Commands that print an integer and nothing else.
_COUNTERS: Final = frozenset(
    {("nproc",), ("date", "+%s"), ("id", "-u"), ("id", "-g"), ("date", "+%Y"), ("date", "+%s%N")}
)


@attrs.frozen
class ProgramRun:
    """A program that is run.

    Attributes:
        fields: its name and arguments; the name is certain.
        folder: the folder it runs in; None: unknown.
        stdin: what it reads from standard input.
        through: the programs that start it, the outermost first.
        remote: it runs on another machine.
    """

    fields: tuple[Field, ...]
    folder: str | None
    stdin: Stdin
    through: tuple[str, ...] = ()
    remote: bool = False


@attrs.define(eq=False)
class ProgramScanner:
    """Scans the programs that a script runs.

    Attributes:
        analyze_program: returns what a program does with its arguments.
        scan_text: scans a script that a program passes to a shell.
        through: the programs that run the whole script, if one has passed it to a shell.
        remote: the whole script runs on another machine.
    """

    findings: Findings
    home: str
    analyze_program: Callable[[ProgramInvocation], ProgramEffects]
    scan_text: Callable[[ShellText, ProgramRun], None]
    through: tuple[str, ...] = ()
    remote: bool = False
    _seen: dict[ProgramRun, Stdin | ValueKind] = attrs.field(
        factory=dict["ProgramRun", "Stdin | ValueKind"], init=False
    )

    def scan(self, run: ProgramRun) -> Stdin | ValueKind:
        """Scan a program; return what it prints, as far as that is certain."""
        # The same command in the same place was scanned before, for example in a loop.
        if run in self._seen:
            return self._seen[run]
        if not self.findings.take_step():
            return UnknownInput()
        self._seen[run] = printed = self._scan_first(run)
        return printed

    def _scan_first(self, run: ProgramRun) -> Stdin | ValueKind:
        return self._scan(attrs.evolve(run, through=self.through + run.through, remote=self.remote or run.remote))

    def _scan(self, run: ProgramRun) -> Stdin | ValueKind:
        """Add a program's effects to the findings; return what it prints."""
        effects = self._effects(run)
        self._add_effects(run, effects)
        if len(run.through) >= _MAX_DEPTH:
            self.findings.mark_opaque("programs that start each other are nested too deeply")
            return UnknownInput()
        for started in effects.starts:
            self._start(started, run)
        # The only program whose output is followed: `cat <<EOF | sh`.
        if [field.exact_text for field in run.fields] == ["cat"] and isinstance(run.stdin, str):
            return run.stdin
        if _prints_number(run.fields):
            return ValueKind.NUMBER
        return UnknownInput(effects.prints_names, effects.listing if effects.prints_names else None)

    def _add_effects(self, run: ProgramRun, effects: ProgramEffects) -> None:
        """Add the command, the files that it uses and executes, and the reason for opacity."""
        name = run.fields[0].text or ""
        self.findings.add_command(
            ScannedCommand(
                argv=tuple(shown_argument(field) for field in run.fields),
                cwd=run.folder,
                through=run.through,
                remote=run.remote,
                reads_only=effects.reads_only and not effects.opaque,
            )
        )
        # `find` itself passes on whole names, each with its folder.
        if any(field.is_listed for field in run.fields) and run.through[-1:] != ("find",):
            self.findings.trusts_names = True
        if effects.opaque:
            self.findings.mark_opaque(f"{posixpath.basename(name)}: {effects.opaque}")
        self._add_executed_files([name, *effects.runs] if "/" in name else effects.runs)
        for access in effects.touches if not run.remote else ():
            self._add_access(access.path, access.access, run, shown=effects.shows_contents)

    def _add_executed_files(self, files: Sequence[Argument]) -> None:
        for file in files:
            if file is None or isinstance(file, WordPrefix):
                self.findings.mark_opaque("it runs a file with an unknown name")
            else:
                self.findings.add_executed_file(file)

    def _start(self, started: StartedCommand | ShellText, run: ProgramRun) -> None:
        name = run.fields[0].text or ""
        through = (*run.through, name)
        remote = run.remote or started.remote
        folder = started.cwd
        if isinstance(started, ShellText):
            self.scan_text(started, ProgramRun(run.fields, folder, run.stdin, through, remote))
        elif not started.argv or started.argv[0] is None or isinstance(started.argv[0], WordPrefix):
            self.findings.mark_opaque(f"{posixpath.basename(name)} starts a command with an unknown name")
        elif self.findings.take_step():
            # A pattern that is passed on, as by `sudo rm *`, is still a pattern.
            patterns = {field.text: field for field in run.fields if field.pattern is not None}
            fields = tuple(_field_of(word, patterns) for word in started.argv)
            self._scan(ProgramRun(fields, folder, started.stdin, through, remote))

    # ---- what the words may mean -------------------------------------------------------------------------------------

    def _effects(self, run: ProgramRun) -> ProgramEffects:
        """Return the effects of a program, the worst ones where some of its words are uncertain."""
        effects = self._query_effects(run, [_argument_of(field) for field in run.fields])
        if all(field.pattern is None and not field.is_many for field in run.fields):
            return effects
        # A pattern may match several files, or none, and file names may look like options. Each of these readings must
        # have the same effects.
        others = (
            [_prefix_of(field) for field in run.fields],
            [word for field in run.fields for word in [_prefix_of(field)] * (2 if field.is_many else 1)],
            [_prefix_of(field) for field in run.fields if not field.is_many],
        )
        for words in others:
            effects = _worst_of(effects, self._query_effects(run, words))
        return effects

    def _query_effects(self, run: ProgramRun, words: Sequence[Argument]) -> ProgramEffects:
        return self.analyze_program(
            ProgramInvocation(argv=tuple(words), cwd=run.folder, home=self.home, stdin=run.stdin)
        )

    # ---- files -------------------------------------------------------------------------------------------------------

    def _add_access(self, path: Argument, access: Access, run: ProgramRun, *, shown: bool) -> None:
        name = posixpath.basename(run.fields[0].text or "")
        if access == "read" and (path is None or isinstance(path, WordPrefix)):
            listing = path.listing if isinstance(path, ListedName) else None
            self._add_unnamed(name, listing, (run.folder,), shown=shown)
            return
        if path is None or isinstance(path, WordPrefix):
            self.findings.mark_opaque(f"{name}: a file with an unknown name")
            return
        folders = None if run.folder is None else (run.folder,)
        pattern = _pattern_for(path, run.fields)
        self.add_file(pattern or path, access, name, folders, is_pattern=pattern is not None)

    def add_read(self, field: Field, program: str | None, folders: Folders) -> None:
        """Add a redirection from a file with an unknown name; *program* reads it."""
        if field.pattern is not None and field.text is not None:
            self.add_file(field.pattern, "read", "redirection", folders, is_pattern=True)
            return
        known = ProgramInvocation(argv=(program,), cwd=None, home=self.home) if program else None
        shown = known is None or self.analyze_program(known).shows_contents
        self._add_unnamed("redirection", field.listing, folders or (None,), shown=shown)

    def _add_unnamed(self, by: str, listing: ListedFiles | None, folders: Sequence[str | None], *, shown: bool) -> None:
        """Add a read of files that no word names. From elsewhere, the names on a list are those of other files."""
        is_here = listing is not None and all(folder == listing.folder for folder in folders)
        self.findings.add_unnamed(UnnamedRead(by=by, listing=listing if is_here else None, shown=shown))

    def add_searched_folders(self, fields: Iterable[Field], folders: Folders) -> None:
        """Add the folders that bash lists to expand patterns."""
        for field in fields:
            names = [] if field.pattern is None else field.pattern.split("/")
            for place, name in enumerate(names):
                if place and _PATTERN.search(name):
                    self.add_file("/".join(names[:place]) or "/", "read", "pattern", folders, is_pattern=True)

    def add_file(self, path: str, access: Access, by: str, folders: Folders, *, is_pattern: bool = False) -> None:
        """Add a file."""
        if self.remote:
            return
        whole = path if path.startswith("/") or folders is None else f"{folders[0]}/{path}"
        # Both forms: `normpath` removes "..", which may have hidden the part that matters.
        if _ELSEWHERE.search(posixpath.normpath(whole)) or _ELSEWHERE.search(whole):
            self.findings.mark_opaque(f"a file that is a different one for each process: {path[:200]}")
        if path.startswith("/"):
            self._add(path, access, by, is_pattern=is_pattern)
        elif folders is None:
            self.findings.mark_opaque(f"a file in an unknown folder: {path[:200]}")
        else:
            # Every folder that the script may be in at this point.
            for folder in folders:
                begin = escape_pattern(folder) if is_pattern else folder
                self._add(f"{begin.rstrip('/')}/{path}", access, by, is_pattern=is_pattern)

    def _add(self, path: str, access: Access, by: str, *, is_pattern: bool) -> None:
        if access == "write" and "/.git/" in path + "/" and by == "redirection":
            self.findings.mark_opaque("it writes into git's own folder")
        self.findings.add_path(PathUse(path=path, access=access, by=by, is_pattern=is_pattern))


def _pattern_for(path: str, fields: Sequence[Field]) -> str | None:
    """Return the pattern that a path stands for, if one of the program's words, or a part of one, was a pattern."""
    for field in fields:
        if field.pattern and field.text == path:
            return field.pattern
    if _GLOB_CHARACTERS & set(path) and any(field.pattern for field in fields):
        return path
    return None


def shown_argument(field: Field) -> Argument:
    """Return a word as it appears in the result of the scan."""
    # The number in the name of a process substitution is unknown.
    return None if field.text is not None and PIPE in field.text else field.text


def _argument_of(field: Field) -> Argument:
    """Return a word as an argument; a pattern stands for itself."""
    if field.is_listed:
        return ListedName(field.listing)
    if field.text is not None:
        return field.text
    return WordPrefix(field.prefix) if field.prefix and not field.is_many else None


def _prefix_of(field: Field) -> Argument:
    """Return a word as an argument; of a pattern only the prefix."""
    if field.is_listed:
        return ListedName(field.listing)
    if field.exact_text is not None:
        return field.exact_text
    return WordPrefix(field.prefix) if field.prefix else None


def _field_of(word: Argument, patterns: Mapping[str | None, Field]) -> Field:
    """Return the field of an argument that one program passes on to another."""
    if word is None:
        return Field(None, is_many=True)
    if isinstance(word, ListedName):
        return Field(None, FILE_NAME, listing=word.listing)
    if isinstance(word, WordPrefix):
        return Field(None, str(word))
    return patterns.get(word) or Field(word, word)


def _worst_of(effects: ProgramEffects, other: ProgramEffects) -> ProgramEffects:
    """Combine two possible effects of a program: opaque if one is, read-only if both are."""
    opaque = effects.opaque or other.opaque
    # A word may shift the arguments: then another program would be started.
    if _started_names(other) != _started_names(effects):
        opaque = "what it starts depends on unknown words"
    return attrs.evolve(effects, opaque=opaque, reads_only=effects.reads_only and other.reads_only)


def _started_names(effects: ProgramEffects) -> list[Argument]:
    return [start.text if isinstance(start, ShellText) else start.argv[0] for start in effects.starts]


def _prints_number(fields: Sequence[Field]) -> bool:
    words = tuple(field.exact_text for field in fields)
    if words in _COUNTERS:
        return True
    if words and words[0] == "wc":
        return len(words) == 2 and words[1] in ("-l", "-c", "-w", "-m")
    if words and words[0] == "seq":
        return len(words) > 1 and all(word is not None and word.lstrip("-").isdecimal() for word in words[1:])
    return words[:3] == ("git", "rev-list", "--count")
