"""Builtins that set variables: `read`, `declare`, `unset` and their like."""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine.permission.effects.program_effects import UnknownInput
from engine.permission.shell.builtin_args import record_command, set_unknown, without_options
from engine.permission.shell.parser.nodes import Assignment, LiteralText
from engine.permission.shell.shell_state import Field, Listed, ShellState, Value, ValueKind
from engine.permission.shell.simulated_shell import CommandCall, Outcome, SimulatedShell
from engine.permission.shell.special_variables import is_dangerous

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SETTING: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL | re.ASCII)


def read(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `read`."""
    record_command(shell, call)
    operands = _read_operands(call)
    if operands is None:
        shell.findings.mark_opaque("an unknown option of read")
    else:
        set_unknown(shell, call, operands or [Field("REPLY")])
        # One variable gets all of a line.
        if len(operands) == 1 and isinstance(call.stdin, UnknownInput) and call.stdin.lists_files and not _is_cut(call):
            call.state.assign(operands[0].exact_text or "", Listed(call.stdin.listing, is_one=True))
    return call.outcome


def _is_cut(call: CommandCall) -> bool:
    """Return whether `read` may read a part of a line, or into an array."""
    options = [field.exact_text or "" for field in call.arguments[:-1]]
    return any(option and option not in {"-r", "-d", "-rd"} for option in options)


def _read_operands(call: CommandCall) -> list[Field] | None:
    """Return the variables that `read` sets, with `-a` an array; None: an option is unknown."""
    options = [field.exact_text or "" for field in call.arguments]
    # `-aNAME` in one word is too rare to be followed.
    if any(re.fullmatch(r"-[ers]*a.+", option) for option in options):
        return None
    operands = without_options(call, "ers", "dinNptu")
    if operands is None and any(re.fullmatch(r"-[ers]*a", option) for option in options):
        operands = without_options(call, "ersa", "dinNptu")
        for field in operands or ():
            call.state.add_array(field.exact_text or "")
    return operands


def mapfile(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `mapfile`, also known as `readarray`."""
    record_command(shell, call)
    operands = without_options(call, "t", "dnsu")
    if operands is None:
        shell.findings.mark_opaque(f"an option of {call.name}")
    else:
        set_unknown(shell, call, operands or [Field("MAPFILE")])
        for field in operands:
            call.state.add_array(field.exact_text or "")
    return call.outcome


def getopts(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `getopts`."""
    record_command(shell, call)
    if any(field.is_many for field in call.fields[:3]) or len(call.fields) < 3:
        # The name of the variable must be certain.
        shell.findings.mark_opaque("getopts with unknown words")
    else:
        set_unknown(shell, call, call.fields[2:3])
    return call.outcome


def unset(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `unset`."""
    record_command(shell, call)
    operands = without_options(call, "vfn", "")
    if operands is None:
        shell.findings.mark_opaque("an unknown option of unset")
        return call.outcome
    set_unknown(shell, call, operands)
    for field in operands:
        # The name may be a variable or a function; `unset` tries both.
        name = field.exact_text or ""
        choices = call.state.functions.get(name, (None,))
        if None not in choices:
            call.state.functions[name] = (*choices, None)
        call.state.associative_arrays -= {name}
    return call.outcome


def let(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `let`."""
    record_command(shell, call)
    for field in call.arguments:
        if field.exact_text is None:
            shell.findings.mark_opaque("arithmetic with a value that may not be a number")
        else:
            shell.expander.check_arithmetic([LiteralText(field.exact_text, quoted=True)], call.state)
    return call.outcome


def shift(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `shift`."""
    record_command(shell, call)
    count = call.fields[1].exact_text if len(call.fields) > 1 else "1"
    positional = call.state.positional
    # With an uncertain number of parameters, nothing of them is left certain.
    if positional is None or count is None or not count.isdecimal() or any(field.is_many for field in positional):
        call.state.positional = None
    elif int(count) <= len(positional):
        call.state.positional = positional[int(count) :]
    return call.outcome


def declare(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `declare`, `local`, `export` and `readonly`."""
    flags = ""
    words = call.fields[:1]
    for item in call.command.words[1:]:
        if isinstance(item, Assignment):
            words.append(_assignment_field(shell, item, call.state))
            if item.elements is None:
                _check_array_text(shell, call, item.name, flags, shell.expander.expand_to_value(item.value, call.state))
            _mark_declared(shell, call, item.name, flags)
            shell.assign(item, call.state, is_new=True)
            # Braces would make several assignments of one word.
            if item.value.has_braces:
                shell.findings.mark_opaque(f"{call.name} with braces")
            continue
        for field in shell.expander.expand_words([item], call.state):
            words.append(field)
            flags += _declare_field(shell, call, field, flags)
    record_command(shell, attrs.evolve(call, fields=words))
    return call.outcome


def _assignment_field(shell: SimulatedShell, assignment: Assignment, state: ShellState) -> Field:
    """Return the word of an assignment, for the list of commands."""
    prefix = f"{assignment.name}="
    if assignment.elements is not None or assignment.subscript is not None or assignment.appends:
        return Field(None, assignment.name)
    value = shell.expander.expand_to_value(assignment.value, state)
    return Field(prefix + value, prefix + value) if isinstance(value, str) else Field(None, prefix)


def _declare_field(shell: SimulatedShell, call: CommandCall, field: Field, flags: str) -> str:
    """Simulate a word of `declare` that is no plain assignment; return the flags in it."""
    text = field.exact_text if field.exact_text is not None else field.prefix
    if field.is_many or not text:
        shell.findings.mark_opaque(f"{call.name} with unknown words")
    elif text[0] in "-+" and field.exact_text is not None:
        # Above all `-n`: a name reference makes one variable an alias of another.
        if set(text[1:]) - set("aAxgrpfFlu-"):
            shell.findings.mark_opaque(f"an unknown option of {call.name}")
        return text[1:]
    elif match := _SETTING.fullmatch(text):
        is_exact = field.exact_text is not None and not match[2]
        _declare_value(shell, call, match[1], match[3] if is_exact else None, flags)
    elif field.exact_text is not None and _NAME.fullmatch(text):
        _declare_name(shell, call, field, flags)
    else:
        shell.findings.mark_opaque(f"{call.name} with unknown words")
    return ""


def _declare_value(shell: SimulatedShell, call: CommandCall, name: str, text: str | None, flags: str) -> None:
    """Declare NAME=VALUE; a text of None is unknown."""
    value = text if text is not None else ValueKind.UNKNOWN
    if is_dangerous(name, text):
        shell.findings.mark_opaque(f"it sets {name}")
    _check_array_text(shell, call, name, flags, value)
    _mark_declared(shell, call, name, flags)
    call.state.assign(name, value)


def _declare_name(shell: SimulatedShell, call: CommandCall, field: Field, flags: str) -> None:
    """Declare a variable without a value; with `-f` and `-F` it is a function."""
    if "f" in flags or "F" in flags:
        return
    _mark_declared(shell, call, field.exact_text or "", flags)
    if call.name not in ("export", "readonly"):
        set_unknown(shell, call, [field])


def _check_array_text(shell: SimulatedShell, call: CommandCall, name: str, flags: str, value: Value) -> None:
    """Mark the scan as opaque if `declare` may parse a text as array elements, and run the substitutions in it."""
    if value is ValueKind.NUMBER or (isinstance(value, str) and not value.startswith("(")):
        return
    is_new = _declares_local(shell, call, flags) and name not in shell.frames[-1].saved
    if set(flags) & set("aA") or (not is_new and call.state.may_be_array(name)):
        shell.findings.mark_opaque(f"{call.name} with what may be the elements of an array")


def _mark_declared(shell: SimulatedShell, call: CommandCall, name: str, flags: str) -> None:
    state = call.state
    frame = shell.frames[-1]
    if _declares_local(shell, call, flags):
        # Restored when the function returns.
        frame.saved.setdefault(name, state.variables.get(name))
    elif call.name == "local" or "g" in flags:
        state.untracked |= {name}
    if set(flags) & set("aA"):
        state.add_array(name)
    if "A" in flags and not isinstance(state.variables.get(name), tuple):
        state.associative_arrays |= {name}
    if name in state.readonly:
        shell.findings.mark_opaque(f"it sets {name}, which is readonly")
    # `-l` and `-u` change the case of each value that is assigned later.
    if set(flags) & set("lu"):
        state.untracked |= {name}
    if "r" in flags or call.name == "readonly":
        state.readonly |= {name}


def _declares_local(shell: SimulatedShell, call: CommandCall, flags: str) -> bool:
    """Return whether a declaration makes a local variable."""
    is_local = call.name in ("local", "declare", "typeset") and "g" not in flags
    return is_local and shell.frames[-1].function is not None
