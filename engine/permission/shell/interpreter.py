"""The interpreter: it simulates a script, and so reaches every command that the script may run.

Each command has two resulting states: one for success, one for failure. So `cd x && …` continues in x, and
`cd x; …` in x or in the old folder. Loops are repeated until the state no longer changes. Functions are simulated
where they are called; one that is never called is simulated in an unknown state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, assert_never

import attrs

from engine.permission.effects.program_effects import Stdin, UnknownInput
from engine.permission.shell.conditions import check_condition
from engine.permission.shell.loops import Loops, join_outcomes
from engine.permission.shell.parser.nodes import (
    AndOr,
    ArithmeticCommand,
    ArithmeticFor,
    Case,
    Command,
    Conditional,
    For,
    Function,
    Group,
    If,
    Pipeline,
    Redirected,
    Script,
    Simple,
    While,
)
from engine.permission.shell.shell_state import Field, Folders, Listed, ShellState, Value, ValueKind, join_states
from engine.permission.shell.simulated_shell import Frame, Outcome
from engine.permission.shell.word_expansion import Expander

# Nested calls of functions; recursion is opaque in any case.
_MAX_CALLS: Final = 12


@attrs.define(eq=False)
class Interpreter(Loops):
    """Simulates a script.

    Attributes:
        scan_trap: scans the text of a trap; its last argument tells whether it runs only at the end of the script.
        start: the folders that the script starts in.
        defined: the functions that it defines.
    """

    scan_trap: Callable[[Interpreter, str, ShellState, bool], None]
    start: Folders = None
    defined: list[Function] = attrs.field(factory=list[Function], init=False)
    _called_functions: list[Function] = attrs.field(factory=list[Function], init=False)

    def __attrs_post_init__(self) -> None:
        # Substitutions run commands, so the expander calls back.
        self.expander: Expander = Expander(self.findings, self.home, self._substitute, self._process)

    def interpret(self, script: Script, state: ShellState) -> None:
        """Simulate a script from its beginning to its end."""
        self.start = state.folders
        self.run_commands(script, state)
        # Traps run last, in the state that the whole script may leave.
        for action in self.deferred:
            action()
        # A function that is never called here may be called by what the scan doesn't see, `eval` for example.
        for function in self.defined:
            if not any(function is called for called in self._called_functions):
                self.interpret_any_time(function.body, state, function)

    def interpret_any_time(self, command: Command, state: ShellState, function: Function | None = None) -> Outcome:
        """Simulate a command, or the body of a function, that may run at any time: nothing but the functions is certain there."""
        state = state.copy()
        state.forget_all()
        # Without any `cd` in the script, the folder is certain at any time.
        if not self.changes_folder:
            state.folders = self.start
        self.frames.append(Frame(function))
        outcome = self.run_command(command, state)
        self.frames.pop()
        return outcome

    def run_commands(self, items: Script, state: ShellState) -> Outcome:
        """Simulate a list of commands."""
        outcome: Outcome = (state, state)
        is_reached = True
        last = state
        for item in items:
            here = join_states(*outcome)
            if here is None:
                # Unreachable commands are listed as well.
                is_reached, here = False, last.copy()
            last = here
            outcome = self._run_and_or(item, here)
        return outcome if is_reached else (None, None)

    def _run_and_or(self, item: AndOr, state: ShellState) -> Outcome:
        # A background job runs in a subshell: it changes nothing here.
        if item.background:
            self._run_chain(item, state.copy())
            return (state, state)
        return self._run_chain(item, state)

    def _run_chain(self, item: AndOr, state: ShellState) -> Outcome:
        if len(item.pipelines) == 1:
            return self._run_pipeline(item.pipelines[0][1], state)
        good, bad = self._run_pipeline(item.pipelines[0][1], state)
        for operator, pipeline in item.pipelines[1:]:
            before = good if operator == "&&" else bad
            # Each part is simulated, even after a certain failure: what is listed must be complete.
            outcome = self._run_pipeline(pipeline, (before or state).copy())
            if before is None:
                continue
            if operator == "&&":
                good, bad = outcome[0], join_states(bad, outcome[1])
            else:
                good, bad = join_states(good, outcome[0]), outcome[1]
        self.output = UnknownInput()
        return (good, bad)

    def _run_pipeline(self, pipeline: Pipeline, state: ShellState) -> Outcome:
        if len(pipeline.commands) == 1:
            good, bad = self.run_command(pipeline.commands[0], state)
            return (bad, good) if pipeline.negated else (good, bad)
        stdin: Stdin = state.stdin
        # The parts of a pipeline are subshells, too.
        for command in pipeline.commands:
            inner = state.copy()
            # Of a compound command, several commands may read the input; each gets an unknown part of it.
            inner.stdin = stdin if isinstance(command, Simple) or not isinstance(stdin, str) else UnknownInput()
            self.run_command(command, inner)
            stdin = self.output if not isinstance(self.output, ValueKind) else UnknownInput()
        return (state, state)

    def run_command(self, command: Command, state: ShellState) -> Outcome:
        """Simulate a command."""
        if not self.findings.take_step():
            return (state, state)
        if isinstance(command, Simple):
            return self.run_simple(command, state)
        outcome = self._run_compound(command, state)
        self.output = UnknownInput()
        return outcome

    def _run_compound(self, command: Command, state: ShellState) -> Outcome:
        match command:
            case Group():
                if not command.is_subshell:
                    return self.run_commands(command.body, state)
                self.run_commands(command.body, state.copy())
            case If():
                return self._run_if(command, state)
            case While():
                return self.run_while(command, state)
            case For():
                return self.run_for(command, state)
            case ArithmeticFor():
                return self.run_arithmetic_for(command, state)
            case Case():
                return self._run_case(command, state)
            case Redirected():
                return self._run_redirected(command, state)
            case Simple():
                return self.run_simple(command, state)
            case ArithmeticCommand() | Conditional() | Function():
                self._run_other(command, state)
            case _:
                assert_never(command)
        return (state, state)

    def _run_other(self, command: ArithmeticCommand | Conditional | Function, state: ShellState) -> None:
        """Simulate a command that starts no program."""
        if isinstance(command, ArithmeticCommand):
            self.expander.check_arithmetic(command.expression, state)
        elif isinstance(command, Conditional):
            check_condition(self.expander, command, state)
        else:
            self._define_function(command, state)

    def _run_redirected(self, command: Redirected, state: ShellState) -> Outcome:
        if isinstance(command.command, Function):
            self._define_function(Function(command.command.name, command), state)
            return (state, state)
        before = state.stdin
        stdin = self.redirect(command.redirects, state)
        state.stdin = UnknownInput() if isinstance(stdin, str) else stdin
        # A redirection that fails keeps the command from being run.
        here = state.copy()
        good, bad = self._run_compound(command.command, state)
        bad = join_states(bad, here)
        for end in (good, bad):
            if end is not None:
                end.stdin = before
        return good, bad

    def _define_function(self, function: Function, state: ShellState) -> None:
        if function.name == "command_not_found_handle":
            self.findings.mark_opaque("it defines what happens when a command is not found")
        state.functions[function.name] = (function,)
        self.defined.append(function)

    def _run_if(self, command: If, state: ShellState) -> Outcome:
        ends: list[ShellState | None] = []
        here: ShellState | None = state
        for condition, body in command.branches:
            # The condition has effects of its own; its failure leads to the next branch.
            good, bad = self.run_commands(condition, (here or state).copy())
            outcome = self.run_commands(body, (good or bad or state).copy())
            if good is not None and here is not None:
                ends += outcome
            here = bad if here is not None else None
        if command.otherwise:
            outcome = self.run_commands(command.otherwise, (here or state).copy())
            ends += outcome if here is not None else ()
        else:
            ends.append(here)
        return join_outcomes(ends)

    def _run_case(self, command: Case, state: ShellState) -> Outcome:
        self.expander.expand_to_value(command.word, state)
        ends: list[ShellState | None] = []
        for patterns, body in command.branches:
            for pattern in patterns:
                # Bash expands the patterns one after the other, until one matches.
                before = state.copy()
                self.expander.expand_to_value(pattern, state)
                state.merge(before)
            ends += self.run_commands(body, state.copy())
        return join_outcomes([state, *ends])

    def call_function(self, function: Function, fields: Sequence[Field], state: ShellState) -> Outcome:
        """Simulate a function that is called."""
        self._called_functions.append(function)
        if len(self.frames) > _MAX_CALLS or any(frame.function is function for frame in self.frames):
            self.findings.mark_opaque(f"the function {function.name} calls itself, or too many others")
            return (state, state)
        positional, state.positional = state.positional, tuple(fields)
        frame = Frame(function)
        self.frames.append(frame)
        outcome = self.run_command(function.body, state)
        self.frames.pop()
        end = join_outcomes([*outcome, *frame.returns])[0]
        if end is None:
            # It always ends the script, by `exit` or `exec`.
            return (None, None)
        end.positional = positional
        for name, value in frame.saved.items():
            # On some paths through the function it may not have become local.
            if value is None or end.variables.get(name) != value:
                end.variables.pop(name, None)
        return (end, end)

    def run_trap(self, text: str, state: ShellState, *, is_last: bool) -> None:
        """Run the text of a trap; *is_last*: only when the script is at its end."""
        self.scan_trap(self, text, state, is_last)

    def _substitute(self, script: Script, state: ShellState) -> Value:
        inner = state.copy()
        self.run_commands(script, inner)
        # The output of several commands is joined, so that of the last one alone says nothing.
        is_one = len(script) == 1 and len(script[0].pipelines) == 1 and not script[0].background
        printed = self.output
        self.output: Stdin | ValueKind = UnknownInput()
        if is_one and isinstance(printed, str):
            return printed.rstrip("\n")
        if is_one and isinstance(printed, UnknownInput) and printed.lists_files:
            return Listed(printed.listing)
        return printed if is_one and isinstance(printed, ValueKind) else ValueKind.UNKNOWN

    def _process(self, script: Script, state: ShellState) -> Stdin:
        inner = state.copy()
        inner.stdin = UnknownInput()
        self.run_commands(script, inner)
        is_one = len(script) == 1 and len(script[0].pipelines) == 1 and not script[0].background
        return self.output if is_one and isinstance(self.output, UnknownInput) else UnknownInput()
