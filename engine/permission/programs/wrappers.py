"""How programs that start others read their words, where a row of the tables can't say it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.permission.effects.scan_result import Word
from engine.permission.programs.analysis import Study, known, split_assignment
from engine.permission.programs.option_spec import Used
from engine.permission.programs.program_spec import Program


def follow_watch(study: Study, program: Program) -> None:
    """Read the words of `watch`: a text for a shell, or a command."""
    arguments = study.read(program)
    study.judge(program, arguments)
    if any(used.name in {"-x", "--exec"} for used in arguments.used):
        study.start(arguments.operands)
    else:
        study.run_joined(arguments.operands)


def follow_script(study: Study, program: Program) -> None:
    """Read the words of `script`: it records a shell, or a command."""
    arguments = study.read(program)
    study.judge(program, arguments)
    operands = arguments.operands
    if operands:
        study.touch(operands[0], "write")
    else:
        study.touch("typescript", "write")
    if len(operands) > 1:
        study.start(operands[1:])
    elif not any(used.name in {"-c", "--command"} for used in arguments.used):
        study.start_shell()


def follow_su(study: Study, program: Program) -> None:
    """Read the words of `su` and `runuser`: a user, and what his shell gets."""
    arguments = study.read(program)
    study.judge(program, arguments)
    names = {used.name for used in arguments.used}
    operands = list(arguments.operands)
    if names & {"-u", "--user"}:
        study.start(operands)
        return
    if operands and known(operands[0]) == "-":
        del operands[0]
    if len(operands) > 1:
        study.start(["sh", *operands[1:]])
    elif not names & {"-c", "--command", "--session-command"}:
        study.start_shell()


def follow_exec_in(study: Study, program: Program) -> None:
    """Read words such as those of `kubectl exec`: the command stands behind `--`, or behind the first operand."""
    words = study.words
    border = next((at for at, word in enumerate(words) if known(word) == "--"), None)
    arguments = study.read_words(program, words if border is None else words[:border])
    study.judge(program, arguments)
    study.remote = study.remote or program.remote
    study.start(arguments.operands[1:] if border is None else words[border + 1 :])


def follow_npx(study: Study, program: Program) -> None:
    """Read the words of `npx` and its like: they run a package, or what else is called so beside a package.

    A package's own program is not a command of this machine: that it runs is said by the command itself. With
    a package named as an option, anything that is on the PATH may be started.
    """
    arguments = study.read(program)
    study.judge(program, arguments)
    names = {used.name for used in arguments.used}
    operands = arguments.operands
    if names & {"-p", "--package", "--from", "--spec"} and operands:
        study.start(operands)
    elif operands and known(operands[0]) is None:
        study.give_up("the package to run is not known")


def follow_uv_run(study: Study, program: Program) -> None:
    """Read the words of `uv run`: a command, a script of Python, or a module."""
    arguments = study.read(program)
    study.judge(program, arguments)
    names = {used.name for used in arguments.used}
    operands = list(arguments.operands)
    first = known(operands[0]) if operands else ""
    if names & {"-m", "--module"}:
        study.start(["python", "-m", *operands])
    elif first is None:
        study.give_up("the command to run is not known")
    elif (
        names & {"-s", "--script", "--gui-script"}
        or first.endswith((".py", ".pyw", ".pyz"))
        or first == "-"
        or "://" in first
    ):
        if "://" in first:
            study.give_up("runs a program text from elsewhere")
        study.start(["python", *operands])
    elif operands:
        study.start(operands)


def follow_dotenv(study: Study, program: Program) -> None:
    """Read the words of `dotenv`: it sets variables and starts a command."""
    arguments = study.read(program)
    study.judge(program, arguments)
    operands = list(arguments.operands)
    if operands and known(operands[0]) in {"list", "get", "set", "unset"}:
        return
    if operands and known(operands[0]) == "run":
        operands = [word for word in operands[1:2] if known(word) not in {"--", "--override"}] + operands[2:]
    if operands and known(operands[0]) == "--":
        del operands[0]
    study.start(operands)


def follow_nix(study: Study, program: Program) -> None:
    """Read the words of `nix` and `nix-shell`."""
    words = study.words
    if study.name != "nix":
        arguments = study.read(program)
        study.judge(program, arguments)
        if study.name == "nix-shell":
            study.run_input()
        return
    for at, word in enumerate(words):
        text = known(word)
        if text is None or text in {"--expr", "-f", "--file", "repl"}:
            study.give_up("evaluates what is not known")
        if text in {"-c", "--command"}:
            study.start(words[at + 1 :])
            return


def follow_just(study: Study, program: Program) -> None:
    """Read the words of `just`."""
    arguments = study.read(program)
    study.judge(program, arguments)
    if any(used.name in {"-c", "--command"} for used in arguments.used):
        study.start(arguments.operands)
    study.runs += [study.inside(name) for name in program.runs.split()]


def follow_text(study: Study, program: Program) -> None:
    """Read the words of `at` and its like: commands come in."""
    arguments = study.read(program)
    study.judge(program, arguments)
    if any(used.option.role in {"reading", "changes"} for used in arguments.used):
        return
    study.run_input()


def uses(used: Sequence[Used], *names: str) -> bool:
    """Tell whether one of these options is there."""
    return any(option.name in names for option in used)


def assigned(word: Word) -> tuple[str, str] | None:
    """Return the parts of an operand NAME=VALUE."""
    text = known(word)
    return split_assignment(text) if text is not None else None
