"""The scanner: which commands a shell script may run and which files it may use, without running it.

Two parsers read the script: our own, and tree-sitter's, which sometimes takes one command for an argument of another
and reports no error. Where they disagree, where either refuses the script, and where bash decides only at run time,
the scan is opaque and gives the reason.

As a program (`python -m engine.permission.shell_scan`) it reads a script from standard input and prints
`{"commands": …, "writes": …, "opaque": …}`; with `--serve` it answers each line with a line.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Final, cast

import attrs

from engine.permission.effects.program_effects import ProgramEffects, ProgramInvocation, ShellText, UnknownInput
from engine.permission.effects.scan_result import Scan
from engine.permission.programs.analyze_program import DEFAULT_REGISTRY, ProgramRegistry, analyze_program
from engine.permission.shell.builtins import BUILTINS
from engine.permission.shell.findings import Findings
from engine.permission.shell.interpreter import Interpreter
from engine.permission.shell.parser.nodes import Group, Pipeline, Simple, UnsupportedSyntax, Word
from engine.permission.shell.parser.parser import parse_script
from engine.permission.shell.program_calls import ProgramRun, ProgramScanner
from engine.permission.shell.shell_state import Field, ShellState
from engine.permission.shell.treesitter_check import find_disagreement

# Longer scripts take a second and more; models write them to files.
MAX_CHARS: Final = 10_000
# `bash -c "bash -c …"`.
_MAX_TEXTS: Final = 8
# A person must be able to see what is allowed: these hide text, or change its order.
# Control characters except tab and newline, bidirectional controls, invisible characters, lone surrogates.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
# Characters that look like a space but are none to bash.
_ODD_BLANK: Final = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u2800\u3164\u115f\u1160\uffa0]")
# Builtins that are harmless in a trap.
_TRAP_BUILTINS: Final = frozenset(["echo", "printf", "kill", "exit", "true", ":", "[", "test", "wait", "pwd"])
# Programs that run a script as another user, with another home folder.
_OTHER_USERS: Final = frozenset(
    [
        "sudo",
        "su",
        "doas",
        "runuser",
        "pkexec",
        "machinectl",
        "systemd-run",
        "setpriv",
        "chroot",
        "unshare",
        "nsenter",
        "ssh",
        "docker",
        "podman",
    ]
)
# Scripts for other shells (zsh, fish) are not bash, and can't be judged by its grammar.
_BASH: Final = frozenset({"bash", "rbash"})
_POSIX: Final = frozenset({"sh", "dash", "ash"})


def scan(
    script: str,
    *,
    cwd: str,
    home: str,
    registry: ProgramRegistry = DEFAULT_REGISTRY,
    is_folder: Callable[[str], bool] | None = None,
) -> Scan:
    """Scan a script for bash. Never raises.

    Args:
        script: the text, as for `bash -c`.
        cwd: the folder it starts in, absolute.
        home: the user's home folder, absolute.
        registry: what programs do with their arguments.
        is_folder: returns whether an absolute path is a folder that can be entered; without it, every `cd` may fail.
    """
    findings = Findings(home, is_folder)
    scanner = _Scanner(findings, home, registry)
    try:
        scanner.read(
            script,
            ShellState({}, (cwd,), ()),
            ProgramScanner(findings, home, scanner.analyze_program, scanner.scan_text),
            is_posix=False,
        )
    except RecursionError:
        # The parser and the interpreter are recursive.
        findings.mark_opaque("it is nested too deeply")
    return findings.result()


def reads_only(scanned: Scan) -> bool:
    """Return whether a script certainly changes nothing."""
    return (
        not scanned.opaque
        and all(command.reads_only for command in scanned.commands)
        and not any(use.access == "write" for use in scanned.paths)
    )


@attrs.define(eq=False)
class _Scanner:
    """Scans a script, and the scripts inside it."""

    findings: Findings
    home: str
    registry: ProgramRegistry
    depth: int = 0

    def analyze_program(self, invocation: ProgramInvocation) -> ProgramEffects:
        return analyze_program(invocation, self.registry)

    def read(self, script: str, state: ShellState, programs: ProgramScanner, *, is_posix: bool) -> None:
        """Scan a script; a problem with it makes the scan opaque."""
        problem = _find_unreadable(script)
        if problem:
            self.findings.mark_opaque(problem)
            return
        try:
            commands, parser = parse_script(script, is_posix=is_posix)
        except UnsupportedSyntax as error:
            self.findings.mark_opaque(str(error))
            return
        is_other = programs.remote or any(name.rpartition("/")[2] in _OTHER_USERS for name in programs.through)
        # `~` and `$HOME` mean another folder there.
        home = None if is_other else self.home
        Interpreter(self.findings, home, programs, self.scan_trap).interpret(commands, state)
        problem = find_disagreement(script, parser)
        if problem:
            self.findings.mark_opaque(problem)

    def scan_text(self, text: ShellText, run: ProgramRun) -> None:
        """Scan a script that a program passes to a shell."""
        shell = text.shell.rpartition("/")[2]
        if shell not in _BASH | _POSIX:
            self.findings.mark_opaque(f"a script for the shell {shell[:40]}")
        elif self.depth >= _MAX_TEXTS or len(run.through) > _MAX_TEXTS:
            self.findings.mark_opaque("scripts in scripts are nested too deeply")
        elif self.findings.take_step():
            folders = None if text.cwd is None else (text.cwd,)
            # The first argument after the text is `$0`.
            positional = tuple(
                Field(None, is_many=True) if word is None else Field(word, word) for word in text.arguments[1:]
            )
            stdin = None if run.stdin is None else UnknownInput()
            state = ShellState({}, folders, positional, stdin=stdin)
            programs = ProgramScanner(
                self.findings, self.home, self.analyze_program, self.scan_text, run.through, run.remote
            )
            self.depth += 1
            self.read(text.text, state, programs, is_posix=shell in _POSIX)
            self.depth -= 1

    def scan_trap(self, interpreter: Interpreter, text: str, state: ShellState, is_last: bool) -> None:  # noqa: FBT001  # it is passed as a callback
        """Scan the text of a trap, which runs when the script ends or receives a signal."""
        problem = _find_unreadable(text)
        try:
            commands, parser = parse_script(text)
            problem = problem or find_disagreement(text, parser)
        except UnsupportedSyntax as error:
            problem, commands = str(error), []
        if problem:
            self.findings.mark_opaque(problem)
        elif commands:
            interpreter.interpret_any_time(Group(commands, is_subshell=True), state)
            names = set(state.functions) | {function.name for function in interpreter.defined}
            if not is_last and not all(
                _only_runs(pipeline, names) for item in commands for _, pipeline in item.pipelines
            ):
                self.findings.mark_opaque("a trap that may change what the script does")


def _only_runs(pipeline: Pipeline, functions: set[str]) -> bool:
    """Return whether commands run programs and change nothing in the shell itself."""
    for command in pipeline.commands:
        if not isinstance(command, Simple) or command.assignments or not command.words:
            return False
        first = command.words[0]
        name = first.plain if isinstance(first, Word) else None
        if name is None or name in functions or (name in BUILTINS and name not in _TRAP_BUILTINS):
            return False
    return True


def _find_unreadable(script: str) -> str:
    if len(script) > MAX_CHARS:
        return f"it is longer than {MAX_CHARS} characters"
    if _HIDDEN.search(script):
        return "a control character or an invisible one"
    if not script.isascii() and _ODD_BLANK.search(script):
        return "a character that only looks like a space"
    return ""


# ---- as a program ----------------------------------------------------------------------------------------------------


def _answer(script: str, cwd: str, home: str) -> str:
    scanned = scan(script, cwd=cwd, home=home)
    writes = [use.path for use in scanned.paths if use.access == "write" and use.by == "redirection"]
    answer = {
        "commands": [list(command.argv) for command in scanned.commands],
        "writes": [path.removeprefix(f"{cwd.rstrip('/')}/") for path in writes],
        "opaque": bool(scanned.opaque),
        "reasons": list(scanned.opaque),
    }
    return json.dumps(answer)


def _answer_request(line: str, cwd: str, home: str) -> str:
    """Answer a request of `--serve`."""
    try:
        request = cast("object", json.loads(line))
    except (ValueError, RecursionError):
        request = None
    members = cast("dict[str, object]", request) if isinstance(request, dict) else {"script": request}
    script, folder, user = members.get("script"), members.get("cwd", cwd), members.get("home", home)
    if isinstance(script, str) and isinstance(folder, str) and isinstance(user, str):
        return _answer(script, folder, user)
    return json.dumps({"commands": [], "writes": [], "opaque": True, "reasons": ["this is no request"]})


def _print_line(answer: str) -> None:
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    """Scan standard input and print the result."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m engine.permission.shell_scan", description="Scan a shell script.")
    parser.add_argument("--serve", action="store_true", help="answer each line, a JSON string or object, with a line")
    parser.add_argument("--cwd", default="/home/dev/project", help="the folder that the script starts in")
    parser.add_argument("--home", default="/home/dev", help="the user's home folder")
    options = parser.parse_args(arguments)
    if options.serve:
        for line in sys.stdin:
            _print_line(_answer_request(line, options.cwd, options.home))
    else:
        script = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        _print_line(_answer(script, options.cwd, options.home))
