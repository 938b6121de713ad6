"""Following a script: every command that it may run, with what is known where it runs.

Each command gives two states: what holds after it succeeded, and after it failed. So `cd x && …`
is in x, and after `cd x; …` it is x or where we were. Loops are gone through until nothing new is
learned, functions where they are called and, if they never are, with nothing known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, assert_never

import attrs

from engine.permission.program import Stdin
from engine.permission.program import Unknown as UnknownInput
from engine.permission.shell_conditions import look_at_condition
from engine.permission.shell_expand import Expander, expressions
from engine.permission.shell_findings import Findings
from engine.permission.shell_simple import SimpleCommands
from engine.permission.shell_state import Field, Fitting, Folders, Kind, State, Value, is_number, joined
from engine.permission.shell_syntax import (
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
from engine.permission.shell_variables import is_dangerous

_MAX_CALLS: Final = 12
_MAX_ROUNDS: Final = 6
# A loop over so many words is followed word by word, while not too many steps are taken.
_MAX_UNROLLED: Final = 24
_STEPS_FOR_UNROLLING: Final = 2_000

# What holds after success, and after failure; None: that does not happen.
Outcome = tuple[State | None, State | None]


@attrs.define(eq=False)
class Frame:
    """A function that is being followed, or the script itself (without a name)."""

    function: Function | None
    returns: list[State] = attrs.field(factory=list[State])
    jumps: list[list[State]] = attrs.field(factory=list[list[State]])
    saved: dict[str, Value | None] = attrs.field(factory=dict[str, Value | None])


@attrs.define(eq=False)
class Walk:
    """Follows the commands of one script.

    Attributes:
        findings: where everything goes that is found.
        home: the home folder of who runs the script; None: unknown.
        commands: looks at simple commands.
        start: the folders that it starts in.
        moves: whether it leaves them.
        deferred: what is to be looked at when the script is at its end.
        printed: what the last command printed, as far as it is known.
    """

    findings: Findings
    home: str | None
    commands: SimpleCommands
    start: Folders = None
    moves: bool = attrs.field(default=False, init=False)
    deferred: list[Callable[[], None]] = attrs.field(factory=list[Callable[[], None]], init=False)
    expander: Expander = attrs.field(init=False)
    printed: Stdin | Kind = attrs.field(factory=UnknownInput, init=False)
    frames: list[Frame] = attrs.field(factory=lambda: [Frame(None)], init=False)
    defined: list[Function] = attrs.field(factory=list[Function], init=False)
    _called: list[Function] = attrs.field(factory=list[Function], init=False)

    def __attrs_post_init__(self) -> None:
        self.expander = Expander(self.findings, self.home, self._substitute, self._process)

    def whole(self, script: Script, state: State) -> None:
        """Follow a script from its beginning to its end."""
        self.start = state.folders
        self.script(script, state)
        for look in self.deferred:
            look()
        for function in self.defined:
            if not any(function is called for called in self._called):
                self.aside(function.body, state, function)

    def aside(self, command: Command, state: State, function: Function | None = None) -> Outcome:
        """Follow a command, or the body of a function, that may run at any time: only the functions are known there."""
        state = state.copy()
        state.forget_all()
        if not self.moves:
            state.folders = self.start
        self.frames.append(Frame(function))
        outcome = self.command(command, state)
        self.frames.pop()
        return outcome

    # ---- lists and pipelines -----------------------------------------------------------------------------------------

    def script(self, items: Script, state: State) -> Outcome:
        """Follow a list of commands."""
        outcome: Outcome = (state, state)
        is_reached = True
        last = state
        for item in items:
            here = joined(*outcome)
            if here is None:
                # What cannot be reached is listed all the same.
                is_reached, here = False, last.copy()
            last = here
            outcome = self._and_or(item, here)
        return outcome if is_reached else (None, None)

    def _and_or(self, item: AndOr, state: State) -> Outcome:
        if item.background:
            self._chain(item, state.copy())
            return (state, state)
        return self._chain(item, state)

    def _chain(self, item: AndOr, state: State) -> Outcome:
        if len(item.pipelines) == 1:
            return self._pipeline(item.pipelines[0][1], state)
        good, bad = self._pipeline(item.pipelines[0][1], state)
        for operator, pipeline in item.pipelines[1:]:
            before = good if operator == "&&" else bad
            outcome = self._pipeline(pipeline, (before or state).copy())
            if before is None:
                continue
            if operator == "&&":
                good, bad = outcome[0], joined(bad, outcome[1])
            else:
                good, bad = joined(good, outcome[0]), outcome[1]
        self.printed = UnknownInput()
        return (good, bad)

    def _pipeline(self, pipeline: Pipeline, state: State) -> Outcome:
        if len(pipeline.commands) == 1:
            good, bad = self.command(pipeline.commands[0], state)
            return (bad, good) if pipeline.negated else (good, bad)
        stdin: Stdin = state.stdin
        for command in pipeline.commands:
            inner = state.copy()
            inner.stdin = stdin if isinstance(command, Simple) or not isinstance(stdin, str) else UnknownInput()
            self.command(command, inner)
            stdin = self.printed if not isinstance(self.printed, Kind) else UnknownInput()
        return (state, state)

    def command(self, command: Command, state: State) -> Outcome:
        """Follow a command."""
        if not self.findings.step():
            return (state, state)
        if isinstance(command, Simple):
            return self.commands.run(self, command, state)
        outcome = self._compound(command, state)
        self.printed = UnknownInput()
        return outcome

    def _compound(self, command: Command, state: State) -> Outcome:
        match command:
            case Group():
                if not command.is_subshell:
                    return self.script(command.body, state)
                self.script(command.body, state.copy())
            case If():
                return self._if(command, state)
            case While():
                return self._while(command, state)
            case For():
                return self._for(command, state)
            case ArithmeticFor():
                return self._counting(command, state)
            case Case():
                return self._case(command, state)
            case ArithmeticCommand():
                self.expander.arithmetic(command.expression, state)
            case Conditional():
                look_at_condition(self.expander, command, state)
            case Function():
                self._define(command, state)
            case Redirected():
                return self._redirected(command, state)
            case Simple():
                return self.commands.run(self, command, state)
            case _:
                assert_never(command)
        return (state, state)

    def _redirected(self, command: Redirected, state: State) -> Outcome:
        if isinstance(command.command, Function):
            self._define(Function(command.command.name, command), state)
            return (state, state)
        before = state.stdin
        stdin = self.commands.redirect(self, command.redirects, state)
        state.stdin = UnknownInput() if isinstance(stdin, str) else stdin
        # A redirection that fails keeps the command from being run.
        here = state.copy()
        good, bad = self._compound(command.command, state)
        bad = joined(bad, here)
        for end in (good, bad):
            if end is not None:
                end.stdin = before
        return good, bad

    def _define(self, function: Function, state: State) -> None:
        if function.name == "command_not_found_handle":
            self.findings.doubt("it says what is done with commands that are not found")
        state.functions[function.name] = (function,)
        self.defined.append(function)

    # ---- branches ----------------------------------------------------------------------------------------------------

    def _if(self, command: If, state: State) -> Outcome:
        ends: list[State | None] = []
        here: State | None = state
        for condition, body in command.branches:
            good, bad = self.script(condition, (here or state).copy())
            outcome = self.script(body, (good or bad or state).copy())
            if good is not None and here is not None:
                ends += outcome
            here = bad if here is not None else None
        if command.otherwise:
            outcome = self.script(command.otherwise, (here or state).copy())
            ends += outcome if here is not None else ()
        else:
            ends.append(here)
        return _both(ends)

    def _case(self, command: Case, state: State) -> Outcome:
        self.expander.value(command.word, state)
        ends: list[State | None] = []
        for patterns, body in command.branches:
            for pattern in patterns:
                # Patterns are expanded one after the other, until one fits.
                before = state.copy()
                self.expander.value(pattern, state)
                state.merge(before)
            ends += self.script(body, state.copy())
        return _both([state, *ends])

    # ---- loops -------------------------------------------------------------------------------------------------------

    def _while(self, command: While, state: State) -> Outcome:
        return self._loop(command, command.body, state, None)

    def _for(self, command: For, state: State) -> Outcome:
        if is_dangerous(command.name, None):
            self.findings.doubt(f"it sets {command.name}")
        values = self._values(command, state)
        here: State | None = state
        is_unrolled = (
            len(values) <= _MAX_UNROLLED and self.findings.steps < _STEPS_FOR_UNROLLING and not command.is_select
        )
        if not values or not is_unrolled or Kind.UNKNOWN in values:
            value = Kind.NUMBER if values and all(map(is_number, values)) else Kind.UNKNOWN
            return self._loop(None, command.body, state, (command.name, value))
        ends: list[State | None] = []
        for value in values:
            if here is None:
                break
            if isinstance(value, str):
                here = self._round(command, value, here, ends)
            else:
                here, bad = self._loop(None, command.body, here, (command.name, value))
                here = joined(here, bad)
        return _both([here, *ends])

    def _round(self, command: For, value: Value, state: State, ends: list[State | None]) -> State | None:
        """Go through a loop once; add to *ends* where it may be left."""
        jumps: list[State] = []
        self.frames[-1].jumps.append(jumps)
        state = state.copy()
        state.assign(command.name, value)
        outcome = self.script(command.body, state)
        self.frames[-1].jumps.pop()
        ends += jumps
        return _both([*outcome, *jumps])[0]

    def _values(self, command: For, state: State) -> list[Value]:
        """Return what the variable of a loop goes through; Kind.UNKNOWN among them: nobody knows."""
        if command.words is None:
            fields = state.positional if state.positional is not None else (Field(None, is_many=True),)
        else:
            found = self.expander.list_of(command.words, state)
            if isinstance(found, Kind):
                return [found]
            fields = tuple(found)
        values: list[Value] = []
        for field in fields:
            if field.pattern is not None and field.text is not None:
                values.append(Fitting(field.pattern, field.text))
            else:
                values.append(field.text if field.text is not None else Kind.UNKNOWN)
        return values

    def _counting(self, command: ArithmeticFor, state: State) -> Outcome:
        """Follow `for ((a; b; c))`: a once, b before each turn, c after it."""
        first, *others = expressions(command.expression, ";")
        self.expander.arithmetic(first, state)
        again = [ArithmeticCommand(tuple(expression)) for expression in others]
        body = [AndOr([("", Pipeline([step], negated=False))], background=False) for step in again]
        return self._loop(None, [*body[:1], *command.body, *body[1:]], state, None)

    def _loop(self, command: While | None, body: Script, state: State, value: tuple[str, Value] | None) -> Outcome:
        """Go through a loop until nothing new is learned."""
        entry = state
        for _ in range(_MAX_ROUNDS):
            again, end = self._turn(command, body, entry.copy(), value)
            merged = joined(entry, again) or entry
            if merged == entry:
                return (end, end)
            entry = merged
        entry = entry.copy()
        entry.forget_all()
        _, end = self._turn(command, body, entry, value)
        return (end, end)

    def _turn(
        self, command: While | None, body: Script, state: State, value: tuple[str, Value] | None
    ) -> tuple[State | None, State | None]:
        """Go once through a loop; return what holds before the next turn, and after the loop."""
        jumps: list[State] = []
        self.frames[-1].jumps.append(jumps)
        good: State | None = state
        bad: State | None = state.copy()
        if command is not None:
            good, bad = self.script(command.condition, state)
            good, bad = (bad, good) if command.until else (good, bad)
        inner = (good or bad or state).copy()
        if value is not None:
            inner.assign(*value)
        outcome = self.script(body, inner)
        self.frames[-1].jumps.pop()
        again = _both([*outcome, *jumps])[0]
        # A `for` may end after its last turn, with what that left.
        end = joined(bad, again) if command is None else _both([bad, *jumps])[0]
        return again, end

    # ---- functions and substitutions ---------------------------------------------------------------------------------

    def call(self, function: Function, fields: Sequence[Field], state: State) -> Outcome:
        """Follow a function that is called."""
        self._called.append(function)
        if len(self.frames) > _MAX_CALLS or any(frame.function is function for frame in self.frames):
            self.findings.doubt(f"the function {function.name} calls itself, or too many others")
            return (state, state)
        positional, state.positional = state.positional, tuple(fields)
        frame = Frame(function)
        self.frames.append(frame)
        outcome = self.command(function.body, state)
        self.frames.pop()
        end = _both([*outcome, *frame.returns])[0]
        if end is None:
            return (None, None)
        end.positional = positional
        for name, value in frame.saved.items():
            # It may not have been made local on the way that was taken.
            if value is None or end.variables.get(name) != value:
                end.variables.pop(name, None)
        return (end, end)

    def _substitute(self, script: Script, state: State) -> Value:
        inner = state.copy()
        self.printed = UnknownInput()
        self.script(script, inner)
        is_one = len(script) == 1 and len(script[0].pipelines) == 1 and not script[0].background
        printed, self.printed = self.printed, UnknownInput()
        if not is_one or isinstance(printed, UnknownInput) or printed is None:
            return Kind.UNKNOWN
        return printed if isinstance(printed, Kind) else printed.rstrip("\n")

    def _process(self, script: Script, state: State) -> None:
        inner = state.copy()
        inner.stdin = UnknownInput()
        self.script(script, inner)


def _both(ends: Sequence[State | None]) -> Outcome:
    """Return an outcome that may be any of these, whether it succeeds or not."""
    result: State | None = None
    for end in ends:
        result = joined(result, end)
    return (result, result)
