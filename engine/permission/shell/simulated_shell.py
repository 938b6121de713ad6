"""The shell that a scan simulates, as builtins see it: its state, its functions, and the commands that it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import attrs

from engine.permission.effects.program_effects import Stdin, UnknownInput
from engine.permission.shell.findings import Findings
from engine.permission.shell.parser.nodes import Assignment, Function, Simple
from engine.permission.shell.program_calls import ProgramScanner
from engine.permission.shell.shell_state import Field, ShellState, Value, ValueKind
from engine.permission.shell.word_expansion import Expander

# The states after success and after failure; None: that does not happen.
Outcome = tuple[ShellState | None, ShellState | None]


@attrs.define(eq=False)
class Frame:
    """A function that is being simulated, or the script itself (without a function)."""

    function: Function | None
    returns: list[ShellState] = attrs.field(factory=list[ShellState])
    jumps: list[list[ShellState]] = attrs.field(factory=list[list[ShellState]])
    saved: dict[str, Value | None] = attrs.field(factory=dict[str, Value | None])


@attrs.frozen(eq=False)
class CommandCall:
    """A call of a builtin or a program.

    Attributes:
        name: the first word.
        fields: all words.
        state: the state of the shell, which the command changes.
        stdin: its standard input.
        command: the command in the syntax tree.
    """

    name: str
    fields: list[Field]
    state: ShellState
    stdin: Stdin
    command: Simple

    @property
    def arguments(self) -> list[Field]:
        """The words after the name."""
        return self.fields[1:]

    @property
    def outcome(self) -> Outcome:
        """The outcome of a builtin that may succeed or fail, with the state as the builtin has left it."""
        return (self.state, self.state)

    def drop_words(self, count: int) -> CommandCall:
        """Return the command that the words behind the first *count* make."""
        fields = self.fields[count:]
        return attrs.evolve(self, name=fields[0].exact_text or "", fields=fields)


@attrs.define(eq=False)
class SimulatedShell(ABC):
    """The shell that runs the script.

    Attributes:
        findings: collects the commands, the files and the reasons for opacity.
        home: the home folder of the user who runs the script; None: unknown.
        programs: scans the programs that the script starts.
        expander: expands words.
        frames: the functions being called; the script itself is the first.
        changes_folder: whether the script has changed its folder.
        deferred: what to scan at the end of the script.
        output: what the last command printed, as far as known.
    """

    findings: Findings
    home: str | None
    programs: ProgramScanner
    expander: Expander = attrs.field(init=False)
    frames: list[Frame] = attrs.field(factory=lambda: [Frame(None)], init=False)
    changes_folder: bool = attrs.field(default=False, init=False)
    deferred: list[Callable[[], None]] = attrs.field(factory=list[Callable[[], None]], init=False)
    output: Stdin | ValueKind = attrs.field(factory=UnknownInput, init=False)

    @abstractmethod
    def assign(self, assignment: Assignment, state: ShellState, *, is_new: bool = False) -> None:
        """Assign to a variable of the shell."""

    @abstractmethod
    def run_builtin_or_program(self, call: CommandCall) -> Outcome:
        """Run a command that is no function."""

    @abstractmethod
    def run_program(self, call: CommandCall) -> Outcome:
        """Run a program."""

    @abstractmethod
    def call_function(self, function: Function, fields: Sequence[Field], state: ShellState) -> Outcome:
        """Call a function."""

    @abstractmethod
    def run_trap(self, text: str, state: ShellState, *, is_last: bool) -> None:
        """Run the text of a trap; *is_last*: only when the script is at its end."""
