"""What becomes known of a program while its words are read, and the reading by a row of the tables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import Begun, Given, Meaning, ShellText, Started, Stdin, Touched, Unknown
from engine.permission.effects.scan_result import Access, Word
from engine.permission.programs.environment import is_dangerous_setting
from engine.permission.programs.option_spec import Arguments, Reader, Role, Used
from engine.permission.programs.program_spec import Manner, Program

_ASSIGNMENT: Final = re.compile(r"(?P<name>[^=]*)=(?P<value>.*)", re.DOTALL)
# What is on another machine, as `rsync` and `scp` write it.
_ELSEWHERE: Final = re.compile(r"[^/]*:|\w+://")
# The name of a file that was found, and is therefore no option; the folder it was found in is touched by what found it.
# (No name holds this sign, so that it is told from others.)
NAME: Final = Begun("./\0")
# Programs that write no text of their own.
_REMOVING: Final = frozenset({"rm", "rmdir", "unlink", "trash", "chmod", "chown", "mkdir", "touch", "truncate"})
# A command whose words are parted by blanks, without anything that a program, or a shell, might read otherwise.
_PLAIN_WORDS: Final = re.compile(r"[\w ./:=,@%+~-]*", re.ASCII)


def known(word: Word) -> str | None:
    """Return a word if all of it is known."""
    return None if word is None or isinstance(word, Begun) else word


def split_assignment(text: str) -> tuple[str, str] | None:
    """Return the parts of NAME=VALUE."""
    found = _ASSIGNMENT.fullmatch(text)
    return (found["name"], found["value"]) if found is not None else None


@attrs.define(eq=False)
class Study:
    """What is found out about a program that is about to be started.

    Attributes:
        given: how it is started.
        name: the name that it is known by, with its sub-commands.
        words: its words behind the name, or those of its sub-command.
    """

    given: Given
    name: str
    words: Sequence[Word]
    remote: bool = False
    cwd: str | None = attrs.field(init=False)
    folder: Word = attrs.field(default="", init=False)
    starts: list[Started | ShellText] = attrs.field(factory=list[Started | ShellText], init=False)
    touches: list[Touched] = attrs.field(factory=list[Touched], init=False)
    runs: list[Word] = attrs.field(factory=list[Word], init=False)
    reason: str = attrs.field(default="", init=False)
    changes: bool = attrs.field(default=False, init=False)
    reads_only: bool = attrs.field(default=False, init=False)
    prints_names: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.cwd = self.given.cwd

    # ---- what is found out ----

    def meaning(self) -> Meaning:
        """Return what was found out."""
        reads_only = self.reads_only and not (self.changes or self.reason or self.starts or self.runs)
        writes = any(touched.access == "write" for touched in self.touches)
        return Meaning(
            starts=tuple(self.starts),
            touches=tuple(self.touches),
            opaque=self.reason,
            reads_only=reads_only and not writes,
            runs=tuple(self.runs),
            prints_names=self.prints_names,
        )

    def give_up(self, why: str) -> None:
        """Remember why nobody can tell what it does; the first reason stays."""
        below = self.name.partition(" ")[2]
        self.reason = self.reason or (f"{below}: {why}" if below else why)

    def touch(self, path: Word, access: Access) -> None:
        """Remember a file."""
        if self.remote or path == NAME:
            return
        whole = self.inside(path)
        self.touches.append(Touched(path=whole, access=access))
        if access == "write" and whole is not None and "/.git/" in f"/{whole}/" and self.name not in _REMOVING:
            self.give_up("writes into git's own folder, where its hooks and settings are")

    def inside(self, path: Word) -> Word:
        """Return a path of its, as seen from where it was started."""
        path = known(path)
        if path is None or path.startswith("/") or self.folder == "":
            return path
        return None if self.folder is None else f"{self.folder.rstrip('/') or '/'}/{path}"

    def enter(self, folder: Word) -> None:
        """Work in another folder from now on."""
        self.touch(folder, "read")
        folder = known(folder)
        self.folder = self.inside(folder)
        if folder is None or (self.cwd is None and not folder.startswith("/")):
            self.cwd = None
        elif folder.startswith("/"):
            self.cwd = folder
        elif folder:
            self.cwd = f"{(self.cwd or '').rstrip('/')}/{folder}"

    def set_variable(self, setting: Word) -> None:
        """Set a variable for what is started."""
        text = known(setting)
        parts = split_assignment(text) if text is not None else None
        if parts is None:
            if text:
                return  # Only named: passed on, or removed.
            self.give_up("sets a variable that is not known")
        elif is_dangerous_setting(*parts):
            self.give_up(f"sets {parts[0]}, which may make programs run other code")

    def start(self, words: Sequence[Word], *, stdin: Stdin = None, takes_stdin: bool = True) -> None:
        """Start a command."""
        if not words:
            return
        if known(words[0]) is None:
            self.give_up("starts a command that is not known")
            return
        fed = self.given.stdin if takes_stdin else stdin
        self.starts.append(Started(argv=tuple(words), cwd=self._start_cwd(), remote=self.remote, stdin=fed))

    def _start_cwd(self) -> str | None:
        return None if self.remote else self.cwd

    def run_text(self, text: Word, shell: str = "sh", arguments: Sequence[Word] = ()) -> None:
        """Have a shell read a text."""
        text = known(text)
        if text is None:
            self.give_up("a shell reads a text that is not known")
            return
        whole = tuple(known(argument) for argument in arguments)
        self.starts.append(
            ShellText(text=text, shell=shell, arguments=whole, cwd=self._start_cwd(), remote=self.remote)
        )

    def run_input(self, shell: str = "sh", arguments: Sequence[Word] = ()) -> None:
        """Have a shell read what comes in."""
        stdin = self.given.stdin
        if isinstance(stdin, Unknown):
            self.give_up("reads commands from standard input")
        elif stdin is not None:
            self.run_text(stdin, shell, arguments)

    def run_joined(self, words: Sequence[Word], shell: str = "sh") -> None:
        """Have a shell read words joined by blanks."""
        texts = [known(word) for word in words]
        whole = [text for text in texts if text is not None]
        if not texts:
            return
        self.run_text(" ".join(whole) if len(whole) == len(texts) else None, shell)

    def run_words(self, value: Word) -> None:
        """Start a command whose words are parted by blanks."""
        text = known(value)
        if text is None or not _PLAIN_WORDS.fullmatch(text):
            self.give_up("starts a command that is not plainly written")
        elif text.strip():
            self.start(text.split())

    def split_words(self, value: Word) -> list[Word] | None:
        """Return the words that a text is split into; None where that is not certain."""
        text = known(value)
        if text is None or any(sign in text for sign in "\\$#`"):
            self.give_up("splits a text into words that are not known")
            return None
        try:
            return list(shlex.split(text))
        except ValueError:
            self.give_up("splits a text with an open quote")
            return None

    # ---- reading by a row ----

    def follow(self, program: Program, manners: Mapping[Manner, Callable[[Study, Program], None]]) -> None:
        """Read the words by a row of the tables."""
        while True:
            if program.opaque:
                self.give_up(program.opaque)
            if program.manner:
                manners[program.manner](self, program)
                return
            if not program.commands:
                break
            arguments = self.read(program, permutes=False)
            self.judge(program, arguments)
            below = self.descend(program, arguments)
            if below is None:
                return
            program = below
        arguments = self.read(program)
        self.judge(program, arguments)
        self.finish(program, self.with_gaps(program, arguments))

    def with_gaps(self, program: Program, arguments: Arguments) -> Sequence[Word]:
        """Return the operands, with an empty one in the place of one that is given as an option."""
        names = {used.name for used in arguments.used}
        before = [""] if names & set(program.without_first.split()) else []
        behind = [""] if names & set(program.without_last.split()) else []
        return [*before, *arguments.operands, *behind]

    def descend(self, program: Program, arguments: Arguments) -> Program | None:
        """Return the row of the sub-command that the operands begin with, and go on with its words."""
        if not arguments.operands:
            self.reads_only = self.reads_only or program.reading == "free"
            return None
        name = known(arguments.operands[0])
        self.words = arguments.operands[1:]
        if name is None:
            if any(_is_dangerous(below) for below in program.commands.values()):
                self.give_up("its sub-command is not known")
            return None
        below = program.commands.get(name)
        if below is not None:
            self.name = f"{self.name} {name}"
        return below

    def read(self, program: Program, *, permutes: bool | None = None) -> Arguments:
        """Part the words into options and operands."""
        return self.read_words(program, self.words, permutes=permutes)

    def read_words(self, program: Program, words: Sequence[Word], *, permutes: bool | None = None) -> Arguments:
        """Part words into options and operands."""
        moves = program.permutes if permutes is None else permutes
        return Reader(program.table, permutes=moves, single=program.dashes == "single").read(words)

    def judge(self, program: Program, arguments: Arguments) -> None:
        """Remember what the options do."""
        if arguments.unknown and program.strict:
            self.give_up(f"its option {arguments.unknown} is not known")
        if arguments.is_uncertain and (program.is_guarded or program.strict):
            self.give_up("one of its words is not known, and may be an option that executes something")
        for used in arguments.used:
            self.apply(used, program)
        if program.reading == "asked":
            self.reads_only = any(used.option.role == "reading" for used in arguments.used)
        else:
            self.reads_only = program.reading == "free" or (program.reading == "known" and not arguments.unknown)
        if arguments.is_uncertain and any(
            option.role in {"writes", "edits", "changes"} for option in program.table.values()
        ):
            self.changes = True
        self.prints_names = program.prints_names or self._prints_names(program, arguments)

    def _prints_names(self, program: Program, arguments: Arguments) -> bool:
        names = {used.name for used in arguments.used}
        if names & set(program.names_with.split()):
            return True
        stdin = self.given.stdin
        if not (isinstance(stdin, Unknown) and stdin.names and program.filters):
            return False
        roles = program.roles_of(len(self.with_gaps(program, arguments)))
        return "reads" not in roles and not arguments.unknown and names <= set(program.filters.split())

    def apply(self, used: Used, program: Program) -> None:
        """Remember what an option does."""
        if used.option.takes == "attached" and used.value == "" and used.option.role not in {"changes", "code"}:
            return
        self.play(used.option.role, used.value, program, f"its option {used.name}")

    def play(self, role: Role, value: Word, program: Program, what: str) -> None:
        """Remember what a value, or an operand, does."""
        if role in {"reads", "writes", "edits"}:
            self._touch_as(role, value, program)
            return
        match role:
            case "folder":
                self.enter(value)
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
                self.give_up(f"{what} may execute anything")
            case "changes":
                self.changes = True
            case _:
                pass

    def _touch_as(self, role: Role, value: Word, program: Program) -> None:
        text = known(value)
        if text in {"", "-"} or (program.hosts and text is not None and _ELSEWHERE.match(text)):
            self.changes = self.changes or role != "reads"
            return
        if text is not None and (text[:1] == "|" or (role != "reads" and text[:1] == "!")):
            # Some programs start what stands behind these.
            self.give_up(f"{text} may be a command to it")
        if role != "writes":
            self.touch(value, "read")
        if role != "reads":
            self.touch(value, "write")

    def run_file(self, path: Word) -> None:
        """Run the text of a file."""
        text = known(path)
        if text is None or text.startswith(("/dev/", "/proc/", "data:")) or "://" in text:
            self.give_up("runs a program text that is not known")
            return
        self.runs.append(self.inside(text))
        self.touch(text, "read")

    def finish(self, program: Program, operands: Sequence[Word]) -> None:
        """Remember what the operands do, and start what stands behind them."""
        self.runs += [self.inside(name) for name in program.runs.split()]
        roles = program.operands.split()
        if program.tail:
            count = len(roles)
            for role, operand in zip(program.roles_of(count), operands, strict=False):
                self.play(role, operand, program, "its operand")
            self.start_tail(program, operands[count:])
            return
        for role, operand in zip(program.roles_of(len(operands)), operands, strict=True):
            self.play(role, operand, program, "its operand")

    def start_tail(self, program: Program, words: Sequence[Word]) -> None:
        """Start what stands behind the operands."""
        self.remote = self.remote or program.remote
        if program.displaced:
            self.cwd = None
        if not words and not self.remote and (self.given.stdin is not None or self.name in _START_SHELLS):
            self.give_up("starts a shell, if it starts anything")
        if program.tail == "shell":
            self.run_joined(words, program.shell)
        elif program.tail == "either" and words and known(words[0]) in {"-c", "--command"}:
            self.run_text(words[1] if len(words) > 1 else "", program.shell)
        elif program.tail == "text":
            texts = words[1:] if words and known(words[0]) == "-c" else words
            if texts:
                self.run_text(texts[0], program.shell)
        elif program.started:
            self.start([program.started, *words])
        else:
            self.start(words)

    def start_shell(self) -> None:
        """Start a shell that reads its commands from standard input."""
        self.start(["sh"])


# Given no command, they start the shell of the user, or one as at a login, which reads its files first.
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
    return bool(program.is_guarded or program.tail or program.manner or program.opaque)
