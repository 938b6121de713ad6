"""The effects of a program as its analysis collects them; table rows and custom parsers add to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import (
    FILE_NAME,
    FileAccess,
    ProgramEffects,
    ProgramInvocation,
    ShellText,
    StartedCommand,
    Stdin,
    WordPrefix,
)
from engine.permission.effects.scan_result import Access, Argument, ListedFiles
from engine.permission.programs.environment_variables import is_dangerous_setting

_ASSIGNMENT: Final = re.compile(r"(?P<name>[^=]*)=(?P<value>.*)", re.DOTALL)
# Programs that write no content.
_REMOVING: Final = frozenset({"rm", "rmdir", "unlink", "trash", "chmod", "chown", "mkdir", "touch", "truncate"})


def exact_text(word: Argument) -> str | None:
    """Return a word if all of it is certain."""
    return None if word is None or isinstance(word, WordPrefix) else word


def split_assignment(text: str) -> tuple[str, str] | None:
    """Return the parts of NAME=VALUE."""
    match = _ASSIGNMENT.fullmatch(text)
    return (match["name"], match["value"]) if match is not None else None


@attrs.define(eq=False)
class ProgramOutput:
    """What a program prints (see `ProgramEffects`)."""

    prints_names: bool = False
    listing: ListedFiles | None = None
    shows_contents: bool = True


@attrs.define(eq=False)
class ProgramAnalysis:
    """The effects of a program while they are collected.

    Attributes:
        invocation: how it was started.
        name: its name in the tables, with its sub-commands.
        words: its arguments, or those of its sub-command.
        output: what it prints.
    """

    invocation: ProgramInvocation
    name: str
    words: Sequence[Argument]
    remote: bool = False
    cwd: str | None = attrs.field(init=False)
    folder: Argument = attrs.field(default="", init=False)
    _starts: list[StartedCommand | ShellText] = attrs.field(factory=list[StartedCommand | ShellText], init=False)
    touches: list[FileAccess] = attrs.field(factory=list[FileAccess], init=False)
    runs: list[Argument] = attrs.field(factory=list[Argument], init=False)
    _reason: str = attrs.field(default="", init=False)
    changes: bool = attrs.field(default=False, init=False)
    reads_only: bool = attrs.field(default=False, init=False)
    output: ProgramOutput = attrs.field(factory=ProgramOutput, init=False)
    passes_on: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.cwd = self.invocation.cwd

    def effects(self) -> ProgramEffects:
        """Return the effects."""
        # A wrapper only reads if what it starts does, which is judged by itself.
        starts = bool(self._starts or self.runs) and not self.passes_on
        reads_only = self.reads_only and not (self.changes or self._reason or starts)
        writes = any(touched.access == "write" for touched in self.touches)
        return ProgramEffects(
            starts=tuple(self._starts),
            touches=tuple(self.touches),
            opaque=self._reason,
            reads_only=reads_only and not writes,
            runs=tuple(self.runs),
            prints_names=self.output.prints_names,
            listing=self.output.listing,
            shows_contents=self.output.shows_contents,
        )

    def mark_opaque(self, why: str) -> None:
        """Record why its effects are uncertain; the first reason is kept."""
        below = self.name.partition(" ")[2]
        self._reason = self._reason or (f"{below}: {why}" if below else why)

    def touch(self, path: Argument, access: Access) -> None:
        """Add a file that is read or written."""
        if self.remote:
            return
        if path == FILE_NAME:
            # The folder of what is written is recorded already.
            if access == "read":
                self.touches.append(FileAccess(path=path, access="read"))
            return
        whole = self.resolve(path)
        self.touches.append(FileAccess(path=whole, access=access))
        if access == "write" and whole is not None and "/.git/" in f"/{whole}/" and self.name not in _REMOVING:
            self.mark_opaque("writes into git's own folder, where its hooks and settings are")

    def resolve(self, path: Argument) -> Argument:
        """Return a path relative to the folder in which the program was started."""
        path = exact_text(path)
        if path is None or path.startswith("/") or self.folder == "":
            return path
        return None if self.folder is None else f"{self.folder.rstrip('/') or '/'}/{path}"

    def start(self, words: Sequence[Argument], *, stdin: Stdin = None, takes_stdin: bool = True) -> None:
        """Start a command."""
        if not words:
            return
        if exact_text(words[0]) is None:
            self.mark_opaque("starts an unknown command")
            return
        fed = self.invocation.stdin if takes_stdin else stdin
        self._starts.append(
            StartedCommand(argv=tuple(words), cwd=None if self.remote else self.cwd, remote=self.remote, stdin=fed)
        )

    def run_script(self, text: Argument, shell: str = "sh", arguments: Sequence[Argument] = ()) -> None:
        """Pass a script to a shell."""
        text = exact_text(text)
        if text is None:
            self.mark_opaque("a shell reads an unknown script")
            return
        whole = tuple(exact_text(argument) for argument in arguments)
        self._starts.append(
            ShellText(
                text=text, shell=shell, arguments=whole, cwd=None if self.remote else self.cwd, remote=self.remote
            )
        )

    def run_file(self, path: Argument) -> None:
        """Execute a file."""
        text = exact_text(path)
        if text is None or text.startswith(("/dev/", "/proc/", "data:")) or "://" in text:
            self.mark_opaque("runs an unknown program file")
            return
        self.runs.append(self.resolve(text))
        self.touch(text, "read")


def list_files(
    analysis: ProgramAnalysis, roots: Sequence[Argument], names: tuple[str, ...] = (), *, tracked: bool = False
) -> ListedFiles | None:
    """Return which files a program lists: those below *roots*; None: unknown."""
    folder = analysis.invocation.cwd
    texts = [exact_text(root) for root in roots]
    known = tuple(text if text.startswith("/") else f"{folder}/{text}" for text in texts if text is not None)
    if analysis.cwd is None or folder is None or len(known) < len(texts):
        return None
    return ListedFiles(folder=analysis.cwd, roots=known, names=names, tracked=tracked)


def read_paths(analysis: ProgramAnalysis) -> list[Argument]:
    """Return what a program reads, as far as its arguments were analyzed."""
    return [touched.path for touched in analysis.touches if touched.access == "read"]


def set_variable(analysis: ProgramAnalysis, setting: Argument) -> None:
    """Set an environment variable for the commands it starts."""
    text = exact_text(setting)
    parts = split_assignment(text) if text is not None else None
    if parts is None:
        if text:
            return  # A name without a value: the variable is passed on, or removed.
        analysis.mark_opaque("sets an unknown variable")
    elif is_dangerous_setting(*parts):
        analysis.mark_opaque(f"sets {parts[0]}, which may make programs run other code")


def change_folder(analysis: ProgramAnalysis, folder: Argument) -> None:
    """Continue in another folder."""
    analysis.touch(folder, "read")
    folder = exact_text(folder)
    analysis.folder = analysis.resolve(folder)
    if folder is None or (analysis.cwd is None and not folder.startswith("/")):
        analysis.cwd = None
    elif folder.startswith("/"):
        analysis.cwd = folder
    elif folder:
        analysis.cwd = f"{(analysis.cwd or '').rstrip('/')}/{folder}"
