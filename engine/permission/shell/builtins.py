"""The shell builtins: how each changes the state of the simulated shell, and which make the scan opaque."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import Stdin, UnknownInput
from engine.permission.shell.builtin_args import record_command, set_unknown
from engine.permission.shell.change_dir import change_folder, pop_folder, push_folder
from engine.permission.shell.conditions import is_safe_test
from engine.permission.shell.parser.nodes import LiteralText, Simple, Word
from engine.permission.shell.set_shopt import set_options, shopt
from engine.permission.shell.shell_state import Field
from engine.permission.shell.simulated_shell import CommandCall, Outcome, SimulatedShell
from engine.permission.shell.variable_builtins import declare, getopts, let, mapfile, read, shift, unset

# Numbers that bash certainly accepts: no sign, no octal, no overflow.
_COUNT: Final = re.compile(r"0|[1-9]\d{0,8}")
# More output than this is of no use for a later `sh` or `read`.
_MAX_PRINTED: Final = 10_000
_FORMAT: Final = re.compile(r"%s|%%|\\n|\\t|[^%\\]+")


def _harmless(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    return call.outcome


def _changes(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call, reads_only=False)
    return call.outcome


def _opaque(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call, reads_only=False)
    shell.findings.mark_opaque(f"the builtin {call.name}")
    return call.outcome


def _echo(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    words = [field.exact_text for field in call.arguments]
    texts = [word for word in words if word is not None]
    if len(texts) == len(words) and not call.command.redirects:
        end = "\n"
        if texts[:1] == ["-n"]:
            texts, end = texts[1:], ""
        # With options or backslashes, the output depends on shell options such as `xpg_echo`.
        if not (texts and texts[0].startswith("-")) and not any("\\" in text for text in texts):
            shell.output = " ".join(texts) + end
    return call.outcome


def _printf(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    arguments = call.arguments
    # `printf -v name` assigns a variable.
    if arguments and arguments[0].may_be_option:
        shell.findings.mark_opaque("printf with a format that may be an option")
    first = _first_text(arguments)
    if first.startswith("-v"):
        set_unknown(shell, call, (arguments[1:2] if first == "-v" else []) or [Field(first[2:])])
    elif first.startswith("-") and first not in ("-", "--"):
        shell.findings.mark_opaque("an unknown option of printf")
    elif not call.command.redirects:
        words = [field.exact_text for field in arguments]
        shell.output = UnknownInput() if "--" in words else _format_printf(words)
    return call.outcome


def _first_text(fields: Sequence[Field]) -> str:
    return (fields[0].exact_text or "") if fields else ""


def _format_printf(words: Sequence[str | None]) -> Stdin:
    """Return what printf prints, for simple formats."""
    texts = [word for word in words if word is not None]
    if not texts or len(texts) != len(words) or "\\" in "".join(texts[1:]):
        return UnknownInput()
    pieces: list[str] = _FORMAT.findall(texts[0])
    if "".join(pieces) != texts[0] or ("%s" not in pieces and len(texts) > 1):
        return UnknownInput()
    return _apply_format(pieces, texts[1:])


def _apply_format(pieces: Sequence[str], values: list[str]) -> Stdin:
    """Return what printf prints: the format is used again until no value is left."""
    text = ""
    while True:
        for piece in pieces:
            if piece == "%s":
                text += values.pop(0) if values else ""
            else:
                text += {"%%": "%", "\\n": "\n", "\\t": "\t"}.get(piece, piece)
        if not values:
            return text
        if len(text) > _MAX_PRINTED:
            return UnknownInput()


def _pwd(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    folders = call.state.folders
    if len(call.fields) == 1 and folders is not None and len(folders) == 1 and not call.command.redirects:
        shell.output = folders[0] + "\n"
    return call.outcome


def _test(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    arguments = call.arguments
    if call.name == "[":
        if not arguments or arguments[-1].exact_text != "]":
            shell.findings.mark_opaque("a test without its closing bracket")
        arguments = arguments[:-1]
    if not is_safe_test(arguments):
        shell.findings.mark_opaque("a test with unknown operators")
    return call.outcome


def _check_options(*dangerous: str) -> Callable[[SimulatedShell, CommandCall], Outcome]:
    """Return a handler for a builtin that only these options make dangerous."""

    def check(shell: SimulatedShell, call: CommandCall) -> Outcome:
        for field in call.arguments:
            text = field.exact_text
            # Uncertain words may be such an option.
            if field.may_be_option or (text is not None and text.startswith("-") and set(text) & set(dangerous)):
                shell.findings.mark_opaque(f"an option of {call.name}")
        return _harmless(shell, call)

    return check


def _history(shell: SimulatedShell, call: CommandCall) -> Outcome:
    # Its options read and write files, and expand history into commands.
    if any(not (field.exact_text or "").isdecimal() for field in call.arguments):
        return _opaque(shell, call)
    return _harmless(shell, call)


def _alias(shell: SimulatedShell, call: CommandCall) -> Outcome:
    # Aliases replace words before parsing, so the syntax tree would be wrong.
    if any(field.exact_text is None or "=" in field.exact_text for field in call.arguments):
        shell.findings.mark_opaque("an alias")
    return _harmless(shell, call)


def _exit_builtin(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    is_certain = _has_certain_count(call)
    frame = shell.frames[-1]
    if call.name == "return":
        if frame.function is None:
            # Outside of a function `return` fails, and the script goes on.
            return call.outcome
        frame.returns.append(call.state.copy())
    elif call.name != "exit":
        if not frame.jumps:
            return call.outcome
        # `break 2`: the state goes to each loop that may end here.
        for jumps in frame.jumps:
            jumps.append(call.state.copy())
    return (None, None) if is_certain else call.outcome


def _has_certain_count(call: CommandCall) -> bool:
    """Return whether `exit`, `return`, `break` or `continue` certainly succeeds: its number is one that it accepts."""
    if len(call.fields) > 2 or call.command.redirects:
        return False
    count = (call.fields[1].exact_text or "") if len(call.fields) > 1 else "1"
    return _COUNT.fullmatch(count) is not None and (count != "0" or call.name in ("exit", "return"))


def _command(shell: SimulatedShell, call: CommandCall) -> Outcome:
    count = 1
    while count < len(call.fields) and (call.fields[count].exact_text or "").startswith("-"):
        option = call.fields[count].exact_text or ""
        count += 1
        if option == "--":
            break
        if set(option[1:]) - set("pvV") or option == "-":
            shell.findings.mark_opaque("an unknown option of command")
        # Only prints what the command is.
        if set(option) & set("vV"):
            return _harmless(shell, call)
    return _run_inner(shell, call, count)


def _builtin(shell: SimulatedShell, call: CommandCall) -> Outcome:
    return _run_inner(shell, call, 2 if len(call.fields) > 1 and call.fields[1].exact_text == "--" else 1)


def _run_inner(shell: SimulatedShell, call: CommandCall, count: int) -> Outcome:
    if count >= len(call.fields):
        return _harmless(shell, call)
    inner = call.drop_words(count)
    if inner.fields[0].exact_text is None:
        shell.findings.mark_opaque("a command with an unknown name")
        return call.outcome
    # `declare` parses its arguments as assignments only when called directly.
    if inner.name in ("declare", "typeset", "local", "export", "readonly"):
        # Behind `command` and `builtin` its arguments are plain words, not assignments.
        words = [
            Word((LiteralText(field.exact_text, quoted=True),), 0, 0, field.exact_text)
            for field in inner.fields
            if field.exact_text
        ]
        if len(words) != len(inner.fields):
            shell.findings.mark_opaque(f"{inner.name} with unknown words")
        inner = attrs.evolve(inner, command=Simple([], list(words), call.command.redirects))
    return shell.run_builtin_or_program(inner)


def _exec(shell: SimulatedShell, call: CommandCall) -> Outcome:
    count = 1
    while count < len(call.fields):
        option = call.fields[count].exact_text or ""
        if call.fields[count].may_be_option:
            shell.findings.mark_opaque("an unknown option of exec")
        if not option.startswith("-"):
            break
        count += 1
        if option == "--":
            break
        if set(option[1:]) - set("cla"):
            shell.findings.mark_opaque("an unknown option of exec")
        # `-a name` replaces the program's own name.
        if "a" in option[1:-1]:
            shell.findings.mark_opaque("an unknown option of exec")
        count += option.endswith("a")
    if count >= len(call.fields):
        # Without a command, `exec` changes the shell's redirections for good.
        call.state.stdin = UnknownInput() if isinstance(call.stdin, str) else call.stdin
        return call.outcome
    inner = call.drop_words(count)
    if inner.fields[0].exact_text is None:
        shell.findings.mark_opaque("a command with an unknown name")
        return call.outcome
    shell.run_program(inner)
    return call.outcome


def _eval(shell: SimulatedShell, call: CommandCall) -> Outcome:
    # Its words are joined and parsed again; a text that is certain could be followed, but models rarely need it.
    shell.findings.mark_opaque("eval")
    return call.outcome


def _trap(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    arguments = call.arguments
    first = arguments[0] if arguments else Field("-p")
    if first.exact_text is None:
        shell.findings.mark_opaque("an unknown trap")
    # Lists, resets or ignores.
    elif first.exact_text in ("-l", "-p", "-", "") or len(arguments) == 1:
        pass
    elif first.exact_text.startswith("-") and first.exact_text != "--":
        shell.findings.mark_opaque("an unknown option of trap")
    else:
        action = (arguments[1] if first.exact_text == "--" else first).exact_text
        if action is None:
            shell.findings.mark_opaque("an unknown trap")
        else:
            signals = arguments[2:] if first.exact_text == "--" else arguments[1:]
            is_last = all(signal.exact_text in ("EXIT", "0") for signal in signals)
            state = call.state.copy()
            # Scanned at the end: the trap sees the variables and functions of that time.
            shell.deferred.append(lambda: shell.run_trap(action, state, is_last=is_last))
    return call.outcome


def _cd(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    return change_folder(shell, call)


def _pushd(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    return push_folder(shell, call)


def _popd(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    return pop_folder(shell, call)


def _set(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    set_options(shell, call)
    return call.outcome


def _shopt(shell: SimulatedShell, call: CommandCall) -> Outcome:
    record_command(shell, call)
    shopt(shell, call)
    return call.outcome


BUILTINS: Final[Mapping[str, Callable[[SimulatedShell, CommandCall], Outcome]]] = {
    **dict.fromkeys(
        [
            ":",
            "true",
            "false",
            "type",
            "umask",
            "ulimit",
            "times",
            "dirs",
            "caller",
            "help",
            "logout",
            "suspend",
            "bg",
            "fg",
            "unalias",
        ],
        _harmless,
    ),
    **dict.fromkeys([".", "source", "enable", "bind", "complete", "compgen", "compopt", "fc"], _opaque),
    **dict.fromkeys(("declare", "typeset", "local", "export", "readonly"), declare),
    **dict.fromkeys(("break", "continue", "return", "exit"), _exit_builtin),
    **dict.fromkeys(("[", "test"), _test),
    **dict.fromkeys(("mapfile", "readarray"), mapfile),
    "alias": _alias,
    "builtin": _builtin,
    "cd": _cd,
    "chdir": _cd,
    "command": _command,
    "disown": _harmless,
    "echo": _echo,
    "eval": _eval,
    "exec": _exec,
    "getopts": getopts,
    "hash": _check_options("p"),
    "history": _history,
    "jobs": _check_options("x"),
    "kill": _changes,
    "let": let,
    "popd": _popd,
    "printf": _printf,
    "pushd": _pushd,
    "pwd": _pwd,
    "read": read,
    "set": _set,
    "shift": shift,
    "shopt": _shopt,
    "trap": _trap,
    "unset": unset,
    "wait": _check_options("p"),
}
