"""The builtins of the shell: what they do to what is known, and which of them nobody can follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from engine.permission.program import Stdin
from engine.permission.program import Unknown as UnknownInput
from engine.permission.scanned import Command
from engine.permission.shell_conditions import is_safe_test
from engine.permission.shell_folders import change_folder, pop_folder, push_folder
from engine.permission.shell_options import set_options, shopt
from engine.permission.shell_programs import shown
from engine.permission.shell_state import Field, Kind, State, Value
from engine.permission.shell_syntax import Assignment, Simple, Text, Word
from engine.permission.shell_variables import is_dangerous

if TYPE_CHECKING:
    from engine.permission.shell_walk import Outcome, Walk

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COUNT: Final = re.compile(r"0|[1-9]\d{0,8}")
_SETTING: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL | re.ASCII)
_FORMAT: Final = re.compile(r"%s|%%|\\n|\\t|[^%\\]+")


@attrs.frozen(eq=False)
class Call:
    """A builtin, or a program, with its words.

    Attributes:
        name: the first of the words.
        fields: all of them.
        state: what is known where it runs; it changes that.
        stdin: what it reads.
        command: the command as it is written.
    """

    name: str
    fields: list[Field]
    state: State
    stdin: Stdin
    command: Simple

    @property
    def arguments(self) -> list[Field]:
        """The words after the first."""
        return self.fields[1:]

    @property
    def stays(self) -> Outcome:
        """What holds after a builtin that leaves everything as it is, or as it has made it."""
        return (self.state, self.state)

    def without(self, count: int) -> Call:
        """Return the command in the words after the first *count*."""
        fields = self.fields[count:]
        return attrs.evolve(self, name=fields[0].known or "", fields=fields)


def _list(walk: Walk, call: Call, *, reads_only: bool = True) -> None:
    argv = tuple(shown(field) for field in call.fields)
    programs = walk.commands.programs
    for folder in call.state.folders or (None,):
        walk.findings.command(
            Command(argv=argv, cwd=folder, through=programs.through, remote=programs.remote, reads_only=reads_only)
        )


# ---- those that do little ----------------------------------------------------------------------------------------------


def _harmless(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    return call.stays


def _changes(walk: Walk, call: Call) -> Outcome:
    _list(walk, call, reads_only=False)
    return call.stays


def _doubtful(walk: Walk, call: Call) -> Outcome:
    _list(walk, call, reads_only=False)
    walk.findings.doubt(f"the builtin {call.name}")
    return call.stays


def _echo(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    words = [field.known for field in call.arguments]
    texts = [word for word in words if word is not None]
    if len(texts) == len(words) and not call.command.redirects:
        end = "\n"
        if texts[:1] == ["-n"]:
            texts, end = texts[1:], ""
        if not (texts and texts[0].startswith("-")) and not any("\\" in text for text in texts):
            walk.printed = " ".join(texts) + end
    return call.stays


def _printf(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    arguments = call.arguments
    if arguments and arguments[0].may_be_option:
        walk.findings.doubt("printf with a format that may be an option")
    first = arguments[0].known or "" if arguments else ""
    if first.startswith("-v"):
        name = arguments[1] if first == "-v" and len(arguments) > 1 else Field(first[2:])
        _set_unknown(walk, call, [name])
    elif first.startswith("-") and first not in ("-", "--"):
        walk.findings.doubt("an option of printf that is not known")
    elif not call.command.redirects:
        walk.printed = _formatted([field.known for field in arguments if field.known != "--"], len(arguments))
    return call.stays


def _formatted(words: Sequence[str | None], count: int) -> Stdin:
    """Return what printf prints, if that is simple."""
    known = [word for word in words if word is not None]
    if not known or len(known) != count or "\\" in "".join(known[1:]):
        return UnknownInput()
    pieces = _FORMAT.findall(known[0])
    if "".join(pieces) != known[0] or ("%s" not in pieces and len(known) > 1):
        return UnknownInput()
    values = known[1:]
    text = ""
    while True:
        for piece in pieces:
            if piece == "%s":
                text += values.pop(0) if values else ""
            else:
                text += {"%%": "%", "\\n": "\n", "\\t": "\t"}.get(piece, piece)
        if not values or len(text) > 10_000:
            return text if not values else UnknownInput()


def _pwd(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    folders = call.state.folders
    if len(call.fields) == 1 and folders is not None and len(folders) == 1 and not call.command.redirects:
        walk.printed = folders[0] + "\n"
    return call.stays


def _test(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    arguments = call.arguments
    if call.name == "[":
        if not arguments or arguments[-1].known != "]":
            walk.findings.doubt("a test that does not end")
        arguments = arguments[:-1]
    if not is_safe_test(arguments):
        walk.findings.doubt("a test whose operators are not known")
    return call.stays


def _without_options(*dangerous: str) -> Callable[[Walk, Call], Outcome]:
    """Return what looks at a builtin that only some options make dangerous."""

    def look(walk: Walk, call: Call) -> Outcome:
        for field in call.arguments:
            known = field.known
            if field.may_be_option or (known is not None and known.startswith("-") and set(known) & set(dangerous)):
                walk.findings.doubt(f"an option of {call.name}")
        return _harmless(walk, call)

    return look


def _history(walk: Walk, call: Call) -> Outcome:
    if any(not (field.known or "").isdecimal() for field in call.arguments):
        return _doubtful(walk, call)
    return _harmless(walk, call)


def _alias(walk: Walk, call: Call) -> Outcome:
    if any(field.known is None or "=" in field.known for field in call.arguments):
        walk.findings.doubt("an alias")
    return _harmless(walk, call)


# ---- variables -------------------------------------------------------------------------------------------------------


def _set_unknown(walk: Walk, call: Call, names: Sequence[Field]) -> None:
    """Let a builtin set variables to what is not known."""
    for field in names:
        name = field.known
        if name is None or not _NAME.fullmatch(name):
            walk.findings.doubt(f"{call.name} sets a variable that is not known")
        else:
            if is_dangerous(name, None):
                walk.findings.doubt(f"it sets {name}")
            call.state.assign(name, Kind.UNKNOWN)


def _options(walk: Walk, call: Call, plain: str, valued: str) -> list[Field] | None:
    """Return the operands after the options of a builtin; None: an option is not known."""
    waiting = call.arguments
    while waiting:
        word = waiting[0]
        if word.may_be_option:
            return None
        known = word.known
        if known is None or not known.startswith("-") or known == "-":
            return waiting
        waiting = waiting[1:]
        if known == "--":
            return waiting
        for index, letter in enumerate(known[1:], 2):
            if letter in valued:
                if index == len(known):
                    if not waiting or waiting[0].is_many:
                        return None
                    waiting = waiting[1:]
                break
            if letter not in plain:
                return None
    return waiting


def _read(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    operands = _options(walk, call, "ers", "dinNptu")
    if any(re.fullmatch(r"-[ers]*a.+", field.known or "") for field in call.arguments):
        operands = None
    elif operands is None and any(re.fullmatch(r"-[ers]*a", field.known or "") for field in call.arguments):
        operands = _options(walk, call, "ersa", "dinNptu")
        for field in operands or ():
            call.state.add_array(field.known or "")
    if operands is None:
        walk.findings.doubt("an option of read that is not known")
    else:
        _set_unknown(walk, call, operands or [Field("REPLY")])
    return call.stays


def _mapfile(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    operands = _options(walk, call, "t", "dnsu")
    if operands is None:
        walk.findings.doubt(f"an option of {call.name}")
    else:
        _set_unknown(walk, call, operands or [Field("MAPFILE")])
        for field in operands:
            call.state.add_array(field.known or "")
    return call.stays


def _getopts(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    if any(field.is_many for field in call.fields[:3]) or len(call.fields) < 3:
        walk.findings.doubt("getopts with words that are not known")
    else:
        _set_unknown(walk, call, call.fields[2:3])
    return call.stays


def _unset(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    operands = _options(walk, call, "vfn", "")
    if operands is None:
        walk.findings.doubt("an option of unset that is not known")
        return call.stays
    _set_unknown(walk, call, operands)
    for field in operands:
        name = field.known or ""
        choices = call.state.functions.get(name, (None,))
        if None not in choices:
            call.state.functions[name] = (*choices, None)
        call.state.maps -= {name}
    return call.stays


def _let(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    for field in call.arguments:
        if field.known is None:
            walk.findings.doubt("arithmetic with what is not known to be a number")
        else:
            walk.expander.arithmetic([Text(field.known, quoted=True)], call.state)
    return call.stays


def _declare(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    flags = ""
    for item in call.command.words[1:]:
        if isinstance(item, Assignment):
            if item.elements is None:
                _check_compound(walk, call, item.name, flags, walk.expander.value(item.value, call.state))
            _declared(walk, call, item.name, flags)
            walk.commands.assign(walk, item, call.state, is_new=True)
            if item.value.has_braces:
                walk.findings.doubt(f"{call.name} with braces")
            continue
        for field in walk.expander.fields([item], call.state):
            flags += _declared_field(walk, call, field, flags)
    return call.stays


def _declared_field(walk: Walk, call: Call, field: Field, flags: str) -> str:
    """Look at a word of `declare` that is no plain assignment; return the flags in it."""
    text = field.known if field.known is not None else field.begun
    if field.is_many or not text:
        walk.findings.doubt(f"{call.name} with words that are not known")
    elif text[0] in "-+" and field.known is not None:
        if set(text[1:]) - set("aAxgrpfFlu-"):
            walk.findings.doubt(f"an option of {call.name} that is not known")
        return text[1:]
    elif found := _SETTING.fullmatch(text):
        name = found.group(1)
        value = found.group(3) if field.known is not None and not found.group(2) else None
        if is_dangerous(name, value):
            walk.findings.doubt(f"it sets {name}")
        _check_compound(walk, call, name, flags, value if value is not None else Kind.UNKNOWN)
        _declared(walk, call, name, flags)
        call.state.assign(name, value if value is not None else Kind.UNKNOWN)
    elif field.known is not None and _NAME.fullmatch(text):
        if "f" not in flags and "F" not in flags:
            _declared(walk, call, text, flags)
            if call.name not in ("export", "readonly"):
                _set_unknown(walk, call, [field])
    else:
        walk.findings.doubt(f"{call.name} with words that are not known")
    return ""


def _check_compound(walk: Walk, call: Call, name: str, flags: str, value: Value) -> None:
    """Doubt a text that `declare` reads as the elements of an array, with the substitutions in it."""
    if value is Kind.NUMBER or (isinstance(value, str) and not value.startswith("(")):
        return
    is_new = call.name in ("local", "declare", "typeset") and "g" not in flags and walk.frames[-1].function is not None
    is_new = is_new and name not in walk.frames[-1].saved
    if set(flags) & set("aA") or (not is_new and call.state.may_be_array(name)):
        walk.findings.doubt(f"{call.name} with what may be the elements of an array")


def _declared(walk: Walk, call: Call, name: str, flags: str) -> None:
    state = call.state
    frame = walk.frames[-1]
    if call.name in ("local", "declare", "typeset") and "g" not in flags and frame.function is not None:
        frame.saved.setdefault(name, state.variables.get(name))
    elif call.name == "local" or "g" in flags:
        state.pinned |= {name}
    if set(flags) & set("aA"):
        state.add_array(name)
    if "A" in flags and not isinstance(state.variables.get(name), tuple):
        state.maps |= {name}
    if set(flags) & set("rlu") or call.name == "readonly":
        state.pinned |= {name}
        state.fixed |= {name}


def _shift(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    count = call.fields[1].known if len(call.fields) > 1 else "1"
    positional = call.state.positional
    if positional is None or count is None or not count.isdecimal() or any(field.is_many for field in positional):
        call.state.positional = None
    elif int(count) <= len(positional):
        call.state.positional = positional[int(count) :]
    return call.stays


# ---- those that leave ------------------------------------------------------------------------------------------------


def _leave(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    count = call.fields[1].known or "" if len(call.fields) > 1 else "1"
    is_sure = len(call.fields) <= 2 and not call.command.redirects and _COUNT.fullmatch(count) is not None
    is_sure = is_sure and (count != "0" or call.name in ("exit", "return"))
    frame = walk.frames[-1]
    if call.name == "return":
        if frame.function is None:
            return call.stays
        frame.returns.append(call.state.copy())
    elif call.name != "exit":
        if not frame.jumps:
            return call.stays
        for jumps in frame.jumps:
            jumps.append(call.state.copy())
    return (None, None) if is_sure else call.stays


# ---- those that run something ----------------------------------------------------------------------------------------


def _command(walk: Walk, call: Call) -> Outcome:
    count = 1
    while count < len(call.fields) and (call.fields[count].known or "").startswith("-"):
        option = call.fields[count].known or ""
        count += 1
        if option == "--":
            break
        if set(option[1:]) - set("pvV") or option == "-":
            walk.findings.doubt("an option of command that is not known")
        if set(option) & set("vV"):
            return _harmless(walk, call)
    return _unwrapped(walk, call, count)


def _builtin(walk: Walk, call: Call) -> Outcome:
    return _unwrapped(walk, call, 2 if len(call.fields) > 1 and call.fields[1].known == "--" else 1)


def _unwrapped(walk: Walk, call: Call, count: int) -> Outcome:
    if count >= len(call.fields):
        return _harmless(walk, call)
    inner = call.without(count)
    if inner.fields[0].known is None:
        walk.findings.doubt("a command whose name is not known")
        return call.stays
    if inner.name in ("declare", "typeset", "local", "export", "readonly"):
        # Its words were read as plain ones.
        words = [Word((Text(field.known, quoted=True),), 0, 0, field.known) for field in inner.fields if field.known]
        if len(words) != len(inner.fields):
            walk.findings.doubt(f"{inner.name} with words that are not known")
        inner = attrs.evolve(inner, command=Simple([], list(words), call.command.redirects))
    return walk.commands.without_functions(walk, inner)


def _exec(walk: Walk, call: Call) -> Outcome:
    count = 1
    while count < len(call.fields):
        option = call.fields[count].known or ""
        if call.fields[count].may_be_option:
            walk.findings.doubt("an option of exec that is not known")
        if not option.startswith("-"):
            break
        count += 1
        if option == "--":
            break
        if set(option[1:]) - set("cla"):
            walk.findings.doubt("an option of exec that is not known")
        if "a" in option[1:-1]:
            walk.findings.doubt("an option of exec that is not known")
        count += option.endswith("a")
    if count >= len(call.fields):
        call.state.stdin = UnknownInput() if isinstance(call.stdin, str) else call.stdin
        return call.stays
    inner = call.without(count)
    if inner.fields[0].known is None:
        walk.findings.doubt("a command whose name is not known")
        return call.stays
    walk.commands.program(walk, inner)
    return call.stays


def _eval(walk: Walk, call: Call) -> Outcome:
    walk.findings.doubt("eval")
    return call.stays


def _trap(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    arguments = call.arguments
    first = arguments[0] if arguments else Field("-p")
    if first.known is None:
        walk.findings.doubt("a trap that is not known")
    elif first.known in ("-l", "-p", "-", "") or len(arguments) == 1:
        pass
    elif first.known.startswith("-") and first.known != "--":
        walk.findings.doubt("an option of trap that is not known")
    else:
        action = (arguments[1] if first.known == "--" else first).known
        if action is None:
            walk.findings.doubt("a trap that is not known")
        else:
            signals = arguments[2:] if first.known == "--" else arguments[1:]
            is_last = all(signal.known in ("EXIT", "0") for signal in signals)
            state = call.state.copy()
            walk.deferred.append(lambda: walk.commands.trap(walk, action, state, is_last))
    return call.stays


def _cd(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    return change_folder(walk, call)


def _pushd(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    return push_folder(walk, call)


def _popd(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    return pop_folder(walk, call)


def _set(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    set_options(walk, call)
    return call.stays


def _shopt(walk: Walk, call: Call) -> Outcome:
    _list(walk, call)
    shopt(walk, call)
    return call.stays


BUILTINS: Final[Mapping[str, Callable[[Walk, Call], Outcome]]] = {
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
    **dict.fromkeys([".", "source", "enable", "bind", "complete", "compgen", "compopt", "fc"], _doubtful),
    **dict.fromkeys(("declare", "typeset", "local", "export", "readonly"), _declare),
    **dict.fromkeys(("break", "continue", "return", "exit"), _leave),
    **dict.fromkeys(("[", "test"), _test),
    **dict.fromkeys(("mapfile", "readarray"), _mapfile),
    "alias": _alias,
    "builtin": _builtin,
    "cd": _cd,
    "chdir": _cd,
    "command": _command,
    "disown": _harmless,
    "echo": _echo,
    "eval": _eval,
    "exec": _exec,
    "getopts": _getopts,
    "hash": _without_options("p"),
    "history": _history,
    "jobs": _without_options("x"),
    "kill": _changes,
    "let": _let,
    "popd": _popd,
    "printf": _printf,
    "pushd": _pushd,
    "pwd": _pwd,
    "read": _read,
    "set": _set,
    "shift": _shift,
    "shopt": _shopt,
    "trap": _trap,
    "unset": _unset,
    "wait": _without_options("p"),
}
