"""Simulating loops: until the state no longer changes, or once for each word where the words are certain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

import attrs

from engine.permission.shell.parameter_expansion import split_expressions
from engine.permission.shell.parser.nodes import (
    AndOr,
    ArithmeticCommand,
    ArithmeticFor,
    For,
    Pipeline,
    Script,
    While,
)
from engine.permission.shell.shell_state import (
    Field,
    Listed,
    PatternMatch,
    ShellState,
    Value,
    ValueKind,
    is_number,
    join_states,
)
from engine.permission.shell.simple_command import SimpleCommands
from engine.permission.shell.simulated_shell import Outcome
from engine.permission.shell.special_variables import is_dangerous

_MAX_ROUNDS: Final = 6
# A loop over at most so many words is unrolled, unless the scan has taken too many steps already.
_MAX_UNROLLED: Final = 24
_STEPS_FOR_UNROLLING: Final = 2_000


@attrs.define(eq=False)
class Loops(SimpleCommands):
    """Simulates loops."""

    @abstractmethod
    def run_commands(self, items: Script, state: ShellState) -> Outcome:
        """Simulate a list of commands."""

    def run_while(self, command: While, state: ShellState) -> Outcome:
        """Simulate `while` and `until`."""
        return self._run_loop(command, command.body, state, None)

    def run_for(self, command: For, state: ShellState) -> Outcome:
        """Simulate `for` and `select`."""
        if is_dangerous(command.name, None) or command.name in state.readonly:
            self.findings.mark_opaque(f"it sets {command.name}")
        values = self._loop_values(command, state)
        here: ShellState | None = state
        if not self._can_unroll(command, values):
            kind = ValueKind.NUMBER if values and all(map(is_number, values)) else ValueKind.UNKNOWN
            return self._run_loop(None, command.body, state, (command.name, kind))
        ends: list[ShellState | None] = []
        for value in values:
            if here is None:
                break
            if isinstance(value, str):
                here = self._run_round(command, value, here, ends)
            else:
                here, bad = self._run_loop(None, command.body, here, (command.name, value))
                here = join_states(here, bad)
        return join_outcomes([here, *ends])

    def _can_unroll(self, command: For, values: Sequence[Value]) -> bool:
        """Return whether to go through a loop once for each of its values."""
        is_short = 0 < len(values) <= _MAX_UNROLLED and self.findings.steps < _STEPS_FOR_UNROLLING
        return is_short and not command.is_select and ValueKind.UNKNOWN not in values

    def _run_round(
        self, command: For, value: Value, state: ShellState, ends: list[ShellState | None]
    ) -> ShellState | None:
        """Simulate one round of a loop; add the states at its `break` and `continue` to *ends*."""
        jumps: list[ShellState] = []
        self.frames[-1].jumps.append(jumps)
        state = state.copy()
        state.assign(command.name, value)
        outcome = self.run_commands(command.body, state)
        self.frames[-1].jumps.pop()
        ends += jumps
        return join_outcomes([*outcome, *jumps])[0]

    def _loop_values(self, command: For, state: ShellState) -> list[Value]:
        """Return the values of a loop's variable; ValueKind.UNKNOWN for an unknown one."""
        if command.words is None:
            fields = state.positional if state.positional is not None else (Field(None, is_many=True),)
        else:
            expanded = self.expander.expand_loop_words(command.words, state)
            if isinstance(expanded, ValueKind):
                return [expanded]
            fields = tuple(expanded)
        self.programs.add_searched_folders(fields, state.folders)
        values: list[Value] = []
        for field in fields:
            if field.pattern is not None and field.text is not None:
                values.append(PatternMatch(field.pattern, field.text))
            elif field.is_listed:
                values.append(Listed(field.listing, is_one=True))
            else:
                values.append(field.text if field.text is not None else ValueKind.UNKNOWN)
        return values

    def run_arithmetic_for(self, command: ArithmeticFor, state: ShellState) -> Outcome:
        """Simulate `for ((a; b; c))`: a once, b before each turn, c after it."""
        first, *others = split_expressions(command.expression, ";")
        self.expander.check_arithmetic(first, state)
        again = [ArithmeticCommand(tuple(expression)) for expression in others]
        body = [AndOr([("", Pipeline([step], negated=False))], background=False) for step in again]
        return self._run_loop(None, [*body[:1], *command.body, *body[1:]], state, None)

    def _run_loop(
        self, command: While | None, body: Script, state: ShellState, value: tuple[str, Value] | None
    ) -> Outcome:
        """Simulate a loop until the state no longer changes."""
        entry = state
        for _ in range(_MAX_ROUNDS):
            again, end = self._run_once(command, body, entry.copy(), value)
            merged = join_states(entry, again) or entry
            if merged == entry:
                return (end, end)
            entry = merged
        entry = entry.copy()
        entry.forget_all()
        _, end = self._run_once(command, body, entry, value)
        return (end, end)

    def _run_once(
        self, command: While | None, body: Script, state: ShellState, value: tuple[str, Value] | None
    ) -> tuple[ShellState | None, ShellState | None]:
        """Simulate a loop once; return the state before the next round, and the one after the loop."""
        jumps: list[ShellState] = []
        self.frames[-1].jumps.append(jumps)
        good: ShellState | None = state
        bad: ShellState | None = state.copy()
        if command is not None:
            good, bad = self.run_commands(command.condition, state)
            good, bad = (bad, good) if command.until else (good, bad)
        inner = (good or bad or state).copy()
        if value is not None:
            inner.assign(*value)
        outcome = self.run_commands(body, inner)
        self.frames[-1].jumps.pop()
        again = join_outcomes([*outcome, *jumps])[0]
        # A `for` may end after any round.
        end = join_states(bad, again) if command is None else join_outcomes([bad, *jumps])[0]
        return again, end


def join_outcomes(ends: Sequence[ShellState | None]) -> Outcome:
    """Return the outcome of a command that may end in any of these states, whether it succeeds or fails."""
    result: ShellState | None = None
    for end in ends:
        result = join_states(result, end)
    return (result, result)
