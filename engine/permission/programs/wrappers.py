"""Programs that start others, where a row of the tables can't describe their arguments."""

from __future__ import annotations

from collections.abc import Sequence

from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text, split_assignment
from engine.permission.programs.shell_scripts import run_joined_words, run_stdin
from engine.permission.programs.table_analysis import apply_options, parse_and_apply, parse_words
from engine.permission.programs.tables.option_spec import UsedOption
from engine.permission.programs.tables.program_spec import Program


def analyze_watch(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `watch`: a text for a shell, or a command."""
    arguments = parse_and_apply(analysis, program)
    if any(used.name in {"-x", "--exec"} for used in arguments.used):
        # With `-x`, the words are a command; without, they are joined and passed to a shell.
        analysis.start(arguments.operands)
    else:
        run_joined_words(analysis, arguments.operands)


def analyze_script(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `script`: it records a shell, or a command."""
    arguments = parse_and_apply(analysis, program)
    operands = arguments.operands
    if operands:
        analysis.touch(operands[0], "write")
    else:
        analysis.touch("typescript", "write")
    if len(operands) > 1:
        analysis.start(operands[1:])
    elif not any(used.name in {"-c", "--command"} for used in arguments.used):
        # Without a command, `script` starts the user's shell.
        analysis.start(["sh"])


def analyze_su(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `su` and `runuser`: a user, and the arguments of the user's shell."""
    arguments = parse_and_apply(analysis, program)
    names = {used.name for used in arguments.used}
    operands = list(arguments.operands)
    # `runuser -u USER COMMAND` is without a shell.
    if names & {"-u", "--user"}:
        analysis.start(operands)
        return
    # `su - USER`: a login shell.
    if operands and exact_text(operands[0]) == "-":
        del operands[0]
    if len(operands) > 1:
        analysis.start(["sh", *operands[1:]])
    elif not names & {"-c", "--command", "--session-command"}:
        analysis.start(["sh"])


def analyze_exec_in(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze arguments like those of `kubectl exec`: the command follows `--`, or the first operand."""
    words = analysis.words
    border = next((at for at, word in enumerate(words) if exact_text(word) == "--"), None)
    arguments = parse_words(program, words if border is None else words[:border])
    apply_options(analysis, program, arguments)
    analysis.remote = analysis.remote or program.remote
    analysis.start(arguments.operands[1:] if border is None else words[border + 1 :])


def analyze_npx(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `npx` and its like: they run the program of a package, or another one.

    A package's own program is no command of this machine, and the arguments name it. But if an option names the
    package, any program on the PATH may be started.
    """
    arguments = parse_and_apply(analysis, program)
    names = {used.name for used in arguments.used}
    operands = arguments.operands
    if names & {"-p", "--package", "--from", "--spec"} and operands:
        analysis.start(operands)
    elif operands and exact_text(operands[0]) is None:
        analysis.mark_opaque("the package to run is unknown")


def analyze_uv_run(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `uv run`: a command, a Python script, or a module."""
    arguments = parse_and_apply(analysis, program)
    names = {used.name for used in arguments.used}
    operands = list(arguments.operands)
    first = exact_text(operands[0]) if operands else ""
    # The order is that of `uv run` itself: options, the file's suffix, then a command.
    if names & {"-m", "--module"}:
        analysis.start(["python", "-m", *operands])
    elif first is None:
        analysis.mark_opaque("the command to run is unknown")
    elif (
        names & {"-s", "--script", "--gui-script"}
        or first.endswith((".py", ".pyw", ".pyz"))
        or first == "-"
        or "://" in first
    ):
        if "://" in first:
            analysis.mark_opaque("runs code from another machine")
        analysis.start(["python", *operands])
    elif operands:
        analysis.start(operands)


def analyze_dotenv(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `dotenv`: it sets variables and starts a command."""
    arguments = parse_and_apply(analysis, program)
    operands = list(arguments.operands)
    if operands and exact_text(operands[0]) in {"list", "get", "set", "unset"}:
        return
    if operands and exact_text(operands[0]) == "run":
        operands = [word for word in operands[1:2] if exact_text(word) not in {"--", "--override"}] + operands[2:]
    if operands and exact_text(operands[0]) == "--":
        del operands[0]
    analysis.start(operands)


def analyze_nix(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `nix` and `nix-shell`."""
    words = analysis.words
    if analysis.name != "nix":
        parse_and_apply(analysis, program)
        if analysis.name == "nix-shell":
            run_stdin(analysis)
        return
    for at, word in enumerate(words):
        text = exact_text(word)
        if text is None or text in {"--expr", "-f", "--file", "repl"}:
            analysis.mark_opaque("evaluates an unknown expression")
        if text in {"-c", "--command"}:
            analysis.start(words[at + 1 :])
            return


def analyze_just(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `just`."""
    arguments = parse_and_apply(analysis, program)
    if any(used.name in {"-c", "--command"} for used in arguments.used):
        analysis.start(arguments.operands)
    analysis.runs += [analysis.resolve(name) for name in program.runs.split()]


def analyze_stdin_shell(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `at` and the like, which read commands from standard input."""
    arguments = parse_and_apply(analysis, program)
    if any(used.option.role in {"reading", "changes"} for used in arguments.used):
        return
    run_stdin(analysis)


def uses(used: Sequence[UsedOption], *names: str) -> bool:
    """Return whether one of these options is used."""
    return any(option.name in names for option in used)


def assigned(word: Argument) -> tuple[str, str] | None:
    """Return the parts of an operand NAME=VALUE."""
    text = exact_text(word)
    return split_assignment(text) if text is not None else None
