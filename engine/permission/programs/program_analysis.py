"""The analysis of a program's arguments by its row in the tables, collecting the program's effects."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import (
    FileAccess,
    ProgramEffects,
    ProgramInvocation,
    ShellText,
    StartedCommand,
    Stdin,
    UnknownInput,
    WordPrefix,
)
from engine.permission.effects.scan_result import Access, Argument
from engine.permission.programs.environment_variables import is_dangerous_setting
from engine.permission.programs.tables.option_spec import ArgumentParser, Arguments, Role, UsedOption
from engine.permission.programs.tables.program_spec import CustomReader, Program

_ASSIGNMENT: Final = re.compile(r"(?P<name>[^=]*)=(?P<value>.*)", re.DOTALL)
# A path on another machine, as `rsync` and `scp` write it.
_ELSEWHERE: Final = re.compile(r"[^/]*:|\w+://")
# The name of a file that another program, as `find`, has listed: it is no option, and its folder is recorded already.
# (No file name contains this character.)
FILE_NAME: Final = WordPrefix("./\0")
# Programs that write no content.
_REMOVING: Final = frozenset({"rm", "rmdir", "unlink", "trash", "chmod", "chown", "mkdir", "touch", "truncate"})
# A command without shell syntax: only words separated by blanks.
_PLAIN_WORDS: Final = re.compile(r"[\w ./:=,@%+~-]*", re.ASCII)


def exact_text(word: Argument) -> str | None:
    """Return a word if all of it is certain."""
    return None if word is None or isinstance(word, WordPrefix) else word


def split_assignment(text: str) -> tuple[str, str] | None:
    """Return the parts of NAME=VALUE."""
    match = _ASSIGNMENT.fullmatch(text)
    return (match["name"], match["value"]) if match is not None else None


@attrs.define(eq=False)
class ProgramAnalysis:
    """The effects of a program while they are collected.

    Attributes:
        invocation: how it is started.
        name: its name in the tables, with its sub-commands.
        words: its arguments, or those of its sub-command.
    """

    invocation: ProgramInvocation
    name: str
    words: Sequence[Argument]
    remote: bool = False
    cwd: str | None = attrs.field(init=False)
    folder: Argument = attrs.field(default="", init=False)
    starts: list[StartedCommand | ShellText] = attrs.field(factory=list[StartedCommand | ShellText], init=False)
    touches: list[FileAccess] = attrs.field(factory=list[FileAccess], init=False)
    runs: list[Argument] = attrs.field(factory=list[Argument], init=False)
    reason: str = attrs.field(default="", init=False)
    changes: bool = attrs.field(default=False, init=False)
    reads_only: bool = attrs.field(default=False, init=False)
    prints_names: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.cwd = self.invocation.cwd

    # ---- what is found out ----

    def effects(self) -> ProgramEffects:
        """Return the effects."""
        reads_only = self.reads_only and not (self.changes or self.reason or self.starts or self.runs)
        writes = any(touched.access == "write" for touched in self.touches)
        return ProgramEffects(
            starts=tuple(self.starts),
            touches=tuple(self.touches),
            opaque=self.reason,
            reads_only=reads_only and not writes,
            runs=tuple(self.runs),
            prints_names=self.prints_names,
        )

    def mark_opaque(self, why: str) -> None:
        """Record why its effects are uncertain; the first reason counts."""
        below = self.name.partition(" ")[2]
        self.reason = self.reason or (f"{below}: {why}" if below else why)

    def touch(self, path: Argument, access: Access) -> None:
        """Add a file that is read or written."""
        if self.remote or path == FILE_NAME:
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

    def change_folder(self, folder: Argument) -> None:
        """Continue in another folder."""
        self.touch(folder, "read")
        folder = exact_text(folder)
        self.folder = self.resolve(folder)
        if folder is None or (self.cwd is None and not folder.startswith("/")):
            self.cwd = None
        elif folder.startswith("/"):
            self.cwd = folder
        elif folder:
            self.cwd = f"{(self.cwd or '').rstrip('/')}/{folder}"

    def set_variable(self, setting: Argument) -> None:
        """Set an environment variable for the commands it starts."""
        text = exact_text(setting)
        parts = split_assignment(text) if text is not None else None
        if parts is None:
            if text:
                return  # A name without a value: the variable is passed on, or removed.
            self.mark_opaque("sets an unknown variable")
        elif is_dangerous_setting(*parts):
            self.mark_opaque(f"sets {parts[0]}, which may make programs run other code")

    def start(self, words: Sequence[Argument], *, stdin: Stdin = None, takes_stdin: bool = True) -> None:
        """Start a command."""
        if not words:
            return
        if exact_text(words[0]) is None:
            self.mark_opaque("starts an unknown command")
            return
        fed = self.invocation.stdin if takes_stdin else stdin
        self.starts.append(StartedCommand(argv=tuple(words), cwd=self._start_cwd(), remote=self.remote, stdin=fed))

    def _start_cwd(self) -> str | None:
        return None if self.remote else self.cwd

    def run_text(self, text: Argument, shell: str = "sh", arguments: Sequence[Argument] = ()) -> None:
        """Pass a script to a shell."""
        text = exact_text(text)
        if text is None:
            self.mark_opaque("a shell reads an unknown script")
            return
        whole = tuple(exact_text(argument) for argument in arguments)
        self.starts.append(
            ShellText(text=text, shell=shell, arguments=whole, cwd=self._start_cwd(), remote=self.remote)
        )

    def run_input(self, shell: str = "sh", arguments: Sequence[Argument] = ()) -> None:
        """Pass standard input to a shell as a script."""
        stdin = self.invocation.stdin
        if isinstance(stdin, UnknownInput):
            self.mark_opaque("reads commands from standard input")
        elif stdin is not None:
            self.run_text(stdin, shell, arguments)

    def run_joined(self, words: Sequence[Argument], shell: str = "sh") -> None:
        """Pass words to a shell as a script, joined by blanks."""
        texts = [exact_text(word) for word in words]
        whole = [text for text in texts if text is not None]
        if not texts:
            return
        self.run_text(" ".join(whole) if len(whole) == len(texts) else None, shell)

    def run_words(self, value: Argument) -> None:
        """Start a command whose words are separated by blanks."""
        text = exact_text(value)
        if text is None or not _PLAIN_WORDS.fullmatch(text):
            self.mark_opaque("starts a command with shell syntax in it")
        elif text.strip():
            self.start(text.split())

    def split_words(self, value: Argument) -> list[Argument] | None:
        """Split a text into words as a shell does; None: the result is uncertain."""
        text = exact_text(value)
        if text is None or any(sign in text for sign in "\\$#`"):
            self.mark_opaque("splits an unknown text into words")
            return None
        try:
            return list(shlex.split(text))
        except ValueError:
            self.mark_opaque("splits a text with an unclosed quote")
            return None

    # ---- reading by a row ----

    def analyze(
        self, program: Program, readers: Mapping[CustomReader, Callable[[ProgramAnalysis, Program], None]]
    ) -> None:
        """Analyze the arguments by a row of the tables."""
        while True:
            if program.opaque:
                self.mark_opaque(program.opaque)
            if program.reader:
                readers[program.reader](self, program)
                return
            if not program.commands:
                break
            arguments = self.parse_and_apply(program, permutes=False)
            below = self.select_subcommand(program, arguments)
            if below is None:
                return
            program = below
        arguments = self.parse_and_apply(program)
        self.apply_operands(program, self.pad_operands(program, arguments))

    def pad_operands(self, program: Program, arguments: Arguments) -> Sequence[Argument]:
        """Return the operands, with an empty one in the place of an operand that an option replaces."""
        names = {used.name for used in arguments.used}
        before = [""] if names & set(program.without_first.split()) else []
        behind = [""] if names & set(program.without_last.split()) else []
        return [*before, *arguments.operands, *behind]

    def select_subcommand(self, program: Program, arguments: Arguments) -> Program | None:
        """Return the row of the sub-command that the operands begin with, and continue with its arguments."""
        if not arguments.operands:
            self.reads_only = self.reads_only or program.reading == "free"
            return None
        name = exact_text(arguments.operands[0])
        self.words = arguments.operands[1:]
        if name is None:
            if any(_is_dangerous(below) for below in program.commands.values()):
                self.mark_opaque("its sub-command is unknown")
            return None
        below = program.commands.get(name)
        if below is not None:
            self.name = f"{self.name} {name}"
        return below

    def parse_arguments(self, program: Program, *, permutes: bool | None = None) -> Arguments:
        """Split the arguments into options and operands."""
        return self.parse_words(program, self.words, permutes=permutes)

    def parse_and_apply(self, program: Program, *, permutes: bool | None = None) -> Arguments:
        """Split the arguments into options and operands, and add the effects of the options."""
        arguments = self.parse_arguments(program, permutes=permutes)
        self.apply_options(program, arguments)
        return arguments

    def parse_words(self, program: Program, words: Sequence[Argument], *, permutes: bool | None = None) -> Arguments:
        """Split words into options and operands."""
        moves = program.permutes if permutes is None else permutes
        return ArgumentParser(program.table, permutes=moves, single=program.dashes == "single").parse(words)

    def apply_options(self, program: Program, arguments: Arguments) -> None:
        """Add the effects of the options."""
        if arguments.unknown and program.strict:
            self.mark_opaque(f"its option {arguments.unknown} is unknown")
        if arguments.is_uncertain and (program.is_guarded or program.strict):
            self.mark_opaque("one of its words is unknown, and may be an option that executes commands")
        for used in arguments.used:
            self.apply_option(used, program)
        self.reads_only = _reads_only(program, arguments)
        if arguments.is_uncertain and any(option.role in _CHANGING for option in program.table.values()):
            self.changes = True
        self.prints_names = program.prints_names or self._prints_names(program, arguments)

    def _prints_names(self, program: Program, arguments: Arguments) -> bool:
        names = {used.name for used in arguments.used}
        if names & set(program.names_with.split()):
            return True
        stdin = self.invocation.stdin
        if not (isinstance(stdin, UnknownInput) and stdin.lists_files and program.filters):
            return False
        roles = program.roles_of(len(self.pad_operands(program, arguments)))
        return "reads" not in roles and not arguments.unknown and names <= set(program.filters.split())

    def apply_option(self, used: UsedOption, program: Program) -> None:
        """Add the effect of an option."""
        if used.option.takes == "attached" and used.value == "" and used.option.role not in {"changes", "code"}:
            return
        self.apply_role(used.option.role, used.value, program, f"its option {used.name}")

    def apply_role(self, role: Role, value: Argument, program: Program, what: str) -> None:
        """Add the effect of an option's value or of an operand."""
        if role in {"reads", "writes", "edits"}:
            self._touch_as(role, value, program)
            return
        match role:
            case "folder":
                self.change_folder(value)
            case "shell":
                self.run_text(value, program.shell)
            case "command":
                self.run_words(value)
            case "program":
                self.start([value])
            case "runs":
                self.run_file(value)
            case "sets":
                self.set_variable(value)
            case "code" | "split":
                self.mark_opaque(f"{what} may execute any command")
            case "changes":
                self.changes = True
            case _:
                pass

    def _touch_as(self, role: Role, value: Argument, program: Program) -> None:
        text = exact_text(value)
        if text in {"", "-"} or (program.hosts and text is not None and _ELSEWHERE.match(text)):
            self.changes = self.changes or role != "reads"
            return
        if text is not None and (text[:1] == "|" or (role != "reads" and text[:1] == "!")):
            # Some programs run the text behind these signs as a command.
            self.mark_opaque(f"it may take {text} for a command")
        if role != "writes":
            self.touch(value, "read")
        if role != "reads":
            self.touch(value, "write")

    def run_file(self, path: Argument) -> None:
        """Execute a file."""
        text = exact_text(path)
        if text is None or text.startswith(("/dev/", "/proc/", "data:")) or "://" in text:
            self.mark_opaque("runs an unknown program file")
            return
        self.runs.append(self.resolve(text))
        self.touch(text, "read")

    def apply_operands(self, program: Program, operands: Sequence[Argument]) -> None:
        """Add the effects of the operands, and start the command behind them."""
        self.runs += [self.resolve(name) for name in program.runs.split()]
        roles = program.operands.split()
        if program.tail:
            count = len(roles)
            for role, operand in zip(program.roles_of(count), operands, strict=False):
                self.apply_role(role, operand, program, "its operand")
            self.start_tail(program, operands[count:])
            return
        for role, operand in zip(program.roles_of(len(operands)), operands, strict=True):
            self.apply_role(role, operand, program, "its operand")

    def start_tail(self, program: Program, words: Sequence[Argument]) -> None:
        """Start the command behind the operands."""
        self.remote = self.remote or program.remote
        if program.displaced:
            self.cwd = None
        if not words:
            self._check_default_shell()
        first = exact_text(words[0]) if words else None
        if program.tail == "shell":
            self.run_joined(words, program.shell)
        elif program.tail == "text":
            texts = words[1:] if first == "-c" else words
            for text in texts[:1]:
                self.run_text(text, program.shell)
        elif program.tail == "either" and first in {"-c", "--command"}:
            self.run_text([*words, ""][1], program.shell)
        else:
            self.start([program.started, *words] if program.started else words)

    def _check_default_shell(self) -> None:
        """Mark a program as opaque that starts a shell if no command is behind the operands."""
        if not self.remote and (self.invocation.stdin is not None or self.name in _START_SHELLS):
            self.mark_opaque("starts a shell, if it starts anything")

    def start_shell(self) -> None:
        """Start a shell that reads its commands from standard input."""
        self.start(["sh"])


# Without a command they start the user's shell, or a login shell, which executes its start-up files.
_START_SHELLS: Final = frozenset(
    [
        "setarch",
        "linux",
        "linux32",
        "linux64",
        "i386",
        "i486",
        "i586",
        "i686",
        "x86_64",
        "uname26",
        "aarch64",
        "unshare",
        "nsenter",
        "chroot",
        "fakeroot",
        "firejail",
        "systemd-run",
        "newgrp",
        "sg",
    ]
)


def _is_dangerous(program: Program) -> bool:
    return bool(program.is_guarded or program.tail or program.reader or program.opaque)


_CHANGING: Final[frozenset[Role]] = frozenset({"writes", "edits", "changes"})


def _reads_only(program: Program, arguments: Arguments) -> bool:
    """Return whether a program only reads with these options, as its row says."""
    if program.reading == "asked":
        return any(used.option.role == "reading" for used in arguments.used)
    return program.reading == "free" or (program.reading == "known" and not arguments.unknown)
