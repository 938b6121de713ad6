"""Simulating simple commands: their words, assignments and redirections, and then a function, a builtin or a program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import Stdin, UnknownInput
from engine.permission.effects.scan_result import Access
from engine.permission.shell.builtins import BUILTINS
from engine.permission.shell.parser.nodes import Assignment, Function, Redirect, Simple, Word
from engine.permission.shell.program_calls import ProgramRun
from engine.permission.shell.shell_state import PIPE, Field, ShellState, Value, ValueKind, join_states
from engine.permission.shell.simulated_shell import CommandCall, Outcome, SimulatedShell
from engine.permission.shell.special_variables import is_dangerous
from engine.permission.shell.word_expansion import OPEN_FILES

_INPUT: Final = frozenset({"<", "<<", "<<-", "<<<"})
_WRITES: Final = frozenset({">", ">>", ">|", "<>", "&>", "&>>", ">&"})
# `2>&1`, `>&-`, `>&2-`: a descriptor is duplicated, moved or closed, and no file is opened.
_DUPLICATED: Final = re.compile(r"\d+-?|-")
_PLAIN: Final = re.compile(r"[\w./+:=@%,\-]+", re.ASCII)
# Writing to these files has no effect outside of the script.
_HARMLESS: Final = re.compile(r"/dev/(?:null|zero|full|stdin|stdout|stderr|fd/\d+)")
# Bash itself connects to the host in such a path: it counts as writing, since it may send data.
_NETWORK: Final = ("/dev/tcp/", "/dev/udp/")
# Variables that only the builtin `read` uses while it runs.
_OF_READ: Final = frozenset({"IFS"})


@attrs.define(eq=False)
class SimpleCommands(SimulatedShell):
    """Simulates simple commands."""

    def run_simple(self, command: Simple, state: ShellState) -> Outcome:
        """Simulate a simple command."""
        if not command.redirects:
            return self._run_simple(command, state)
        # A redirection is done before the command: if it fails, the command doesn't run.
        # A redirection that fails keeps a command from being run.
        before = state.copy()
        good, bad = self._run_simple(command, state)
        return good, join_states(bad, before)

    def _run_simple(self, command: Simple, state: ShellState) -> Outcome:
        self.output = UnknownInput()
        plain = [word for word in command.words if isinstance(word, Word)]
        # Bash's order: words, redirections, then the assignments in front of the command.
        fields = self.expander.expand_words(plain, state)
        self.programs.add_searched_folders(fields, state.folders)
        stdin = self.redirect(command.redirects, state, _first_text(fields))
        if not fields:
            for assignment in command.assignments:
                self.assign(assignment, state)
            return (state, state)
        name = fields[0].exact_text
        settings = {assignment.name: self._assigned_value(assignment, state) for assignment in command.assignments}
        # Here `IFS=: read x` is common and harmless; everywhere else IFS changes how all words are split.
        for variable, value in settings.items():
            if variable in state.readonly:
                self.findings.mark_opaque(f"it sets {variable}, which is readonly")
            if (name != "read" or variable not in _OF_READ) and is_dangerous(variable, _text(value)):
                self.findings.mark_opaque(f"it sets {variable}")
        # Before the call: the name decides between a function, a builtin and a program.
        if name is None:
            self.findings.mark_opaque("a command with an unknown name")
            return (state, state)
        call = CommandCall(name, fields, state, stdin, command)
        return self._dispatch(call, settings)

    def _dispatch(self, call: CommandCall, settings: dict[str, Value]) -> Outcome:
        choices = call.state.functions.get(call.name, (None,))
        outcome = self.run_builtin_or_program(call) if choices == (None,) else self._call_any(call, choices, settings)
        for end in [end for end in outcome if end is not None]:
            for variable in settings:
                # In front of some builtins, and of functions in other shells, an assignment persists.
                if variable in end.variables or end.functions:
                    end.assign(variable, ValueKind.UNKNOWN)
        return outcome

    def _call_any(self, call: CommandCall, choices: Sequence[Function | None], settings: dict[str, Value]) -> Outcome:
        """Call each of the functions that a name may stand for; None: it may be no function."""
        good: ShellState | None = None
        bad: ShellState | None = None
        for choice in choices:
            inner = call.state.copy()
            inner.stdin = UnknownInput() if isinstance(call.stdin, str) else call.stdin
            for variable in settings:
                inner.assign(variable, ValueKind.UNKNOWN)
            if choice is None:
                ends = self.run_builtin_or_program(attrs.evolve(call, state=inner))
            else:
                ends = self.call_function(choice, call.fields[1:], inner)
            for end in ends:
                if end is not None:
                    end.stdin = call.state.stdin
            good, bad = join_states(good, ends[0]), join_states(bad, ends[1])
        self.output = UnknownInput()
        return (good, bad)

    def run_builtin_or_program(self, call: CommandCall) -> Outcome:
        """Simulate a builtin or a program."""
        builtin = BUILTINS.get(call.name)
        if builtin is not None:
            return builtin(self, call)
        return self.run_program(call)

    def run_program(self, call: CommandCall) -> Outcome:
        """Scan a program."""
        # After a `cd` that may have failed, the program may run in several folders.
        for folder in call.state.folders or (None,):
            run = ProgramRun(tuple(call.fields), folder, call.stdin)
            self.output = self.programs.scan(run)
        # With its output in a file, nothing of it is left for a substitution or a pipe.
        if any(redirect.operator not in _INPUT or redirect.fd not in {"", "0"} for redirect in call.command.redirects):
            self.output = UnknownInput()
        return (call.state, call.state)

    # ---- assignments -------------------------------------------------------------------------------------------------

    def assign(self, assignment: Assignment, state: ShellState, *, is_new: bool = False) -> None:
        """Assign to a variable of the shell."""
        value = self._assigned_value(assignment, state)
        name = assignment.name
        if is_dangerous(name, _text(value)):
            self.findings.mark_opaque(f"it sets {name}")
        if name in state.readonly and not is_new:
            self.findings.mark_opaque(f"it sets {name}, which is readonly")
        old = state.variables.get(name, ValueKind.UNKNOWN)
        # Single elements of arrays are not tracked.
        if assignment.subscript is not None or (isinstance(old, tuple) and assignment.elements is None):
            value = ValueKind.UNKNOWN
            state.add_array(name)
        elif assignment.elements is not None:
            state.add_array(name)
        if assignment.appends and not is_new and value is not ValueKind.UNKNOWN:
            value = _appended(old, value)
        elif assignment.appends:
            value = ValueKind.UNKNOWN
        state.assign(name, value)

    def _assigned_value(self, assignment: Assignment, state: ShellState) -> Value:
        self.expander.check_subscript(assignment.subscript, assignment.name, state)
        if assignment.elements is None:
            return self.expander.expand_to_value(assignment.value, state)
        fields: list[Field] = []
        is_plain = True
        for element in assignment.elements:
            if isinstance(element, Word):
                fields += self.expander.expand_words([element], state)
            else:
                is_plain = False
                self.expander.check_subscript(element.subscript, assignment.name, state)
                self.expander.expand_to_value(element.value, state)
        self.programs.add_searched_folders(fields, state.folders)
        return tuple(fields) if is_plain and assignment.name not in state.associative_arrays else ValueKind.UNKNOWN

    # ---- redirections ------------------------------------------------------------------------------------------------

    def redirect(self, redirects: Sequence[Redirect], state: ShellState, program: str | None = None) -> Stdin:
        """Simulate redirections; return the standard input of the command, which is a *program* if that is known."""
        stdin = state.stdin
        for redirect in redirects:
            # `{fd}>file` assigns the number of the new descriptor to a variable.
            if redirect.fd.startswith("{"):
                name = redirect.fd.strip("{}")
                if is_dangerous(name, None):
                    self.findings.mark_opaque(f"it sets {name}")
                state.assign(name, ValueKind.NUMBER)
            is_stdin = redirect.fd in ("", "0") and redirect.operator.startswith("<")
            if redirect.operator in ("<<", "<<<"):
                value = self.expander.expand_to_value(redirect.target, state)
                text = value if isinstance(value, str) else None
                # A here-string ends with a line feed, which bash adds.
                source: Stdin = UnknownInput() if text is None else text + "\n" * (redirect.operator == "<<<")
            else:
                source = self._redirect_file(redirect, state, program)
            if is_stdin or redirect.fd == "0":
                stdin = source
        return stdin

    def _redirect_unknown(self, field: Field, operator: str, state: ShellState, program: str | None) -> None:
        if operator == "<" and _is_file(field):
            self.programs.add_read(field, program, state.folders)
        else:
            self.findings.mark_opaque("a redirection with an unknown file")

    def _redirect_file(self, redirect: Redirect, state: ShellState, program: str | None) -> Stdin:
        self.expander.process_output = UnknownInput()
        fields = self.expander.expand_words([redirect.target], state)
        field = fields[0] if len(fields) == 1 else Field(None)
        name, operator = field.exact_text, redirect.operator
        if field.pattern == f"{OPEN_FILES}*" or (name == PIPE and operator == "<"):
            return self.expander.process_output
        if name is None:
            self._redirect_unknown(field, operator, state, program)
        elif _is_duplicated(operator, name):
            pass
        elif operator == "<&" or (operator == ">&" and not _PLAIN.fullmatch(name)):
            # Bash expands the word after `>&` twice: `>&'$(rm x)'` runs rm.
            self.findings.mark_opaque("an unsupported redirection")
        # As standard input: it is empty.
        elif name == "/dev/null":
            return None
        elif not _HARMLESS.fullmatch(name):
            self.programs.add_file(name, _access(operator, name), "redirection", state.folders)
        return UnknownInput()


def _first_text(fields: Sequence[Field]) -> str | None:
    return fields[0].exact_text if fields else None


def _is_duplicated(operator: str, name: str) -> bool:
    return operator in (">&", "<&") and _DUPLICATED.fullmatch(name) is not None


def _is_file(field: Field) -> bool:
    """Return whether an unknown name is that of a file; others may be in /dev/tcp, which bash itself connects to."""
    return not field.is_many and (field.is_listed or field.pattern is not None or field.prefix[:1] not in {"", "/"})


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def _appended(old: Value, more: Value) -> Value:
    if isinstance(old, tuple) and isinstance(more, tuple):
        return old + more
    # Bounded: `x=$x$x` in a loop would double it each time.
    if isinstance(old, str) and isinstance(more, str) and len(old) < 10_000:
        return old + more
    return ValueKind.UNKNOWN


def _access(operator: str, name: str) -> Access:
    return "write" if operator in _WRITES or name.startswith(_NETWORK) else "read"
