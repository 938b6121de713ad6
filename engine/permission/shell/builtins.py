"""The builtins of the shell: what they do to what is known, and which of them nobody can follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from engine.permission.effects.program_effects import Stdin, UnknownInput
from engine.permission.shell.builtin_args import Call, listed, set_unknown
from engine.permission.shell.change_dir import change_folder, pop_folder, push_folder
from engine.permission.shell.conditions import is_safe_test
from engine.permission.shell.parser.nodes import Simple, Text, Word
from engine.permission.shell.set_shopt import set_options, shopt
from engine.permission.shell.state import Field
from engine.permission.shell.variable_builtins import declare, getopts, let, mapfile, read, shift, unset

if TYPE_CHECKING:
    from engine.permission.shell.interpreter import Walk
    from engine.permission.shell.loops import Outcome

_COUNT: Final = re.compile(r"0|[1-9]\d{0,8}")
_FORMAT: Final = re.compile(r"%s|%%|\\n|\\t|[^%\\]+")


def _harmless(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    return call.stays


def _changes(walk: Walk, call: Call) -> Outcome:
    listed(walk, call, reads_only=False)
    return call.stays


def _doubtful(walk: Walk, call: Call) -> Outcome:
    listed(walk, call, reads_only=False)
    walk.findings.mark_opaque(f"the builtin {call.name}")
    return call.stays


def _echo(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    words = [field.exact_text for field in call.arguments]
    texts = [word for word in words if word is not None]
    if len(texts) == len(words) and not call.command.redirects:
        end = "\n"
        if texts[:1] == ["-n"]:
            texts, end = texts[1:], ""
        if not (texts and texts[0].startswith("-")) and not any("\\" in text for text in texts):
            walk.printed = " ".join(texts) + end
    return call.stays


def _printf(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    arguments = call.arguments
    if arguments and arguments[0].may_be_option:
        walk.findings.mark_opaque("printf with a format that may be an option")
    first = arguments[0].exact_text or "" if arguments else ""
    if first.startswith("-v"):
        name = arguments[1] if first == "-v" and len(arguments) > 1 else Field(first[2:])
        set_unknown(walk, call, [name])
    elif first.startswith("-") and first not in ("-", "--"):
        walk.findings.mark_opaque("an option of printf that is not known")
    elif not call.command.redirects:
        walk.printed = _formatted([field.exact_text for field in arguments if field.exact_text != "--"], len(arguments))
    return call.stays


def _formatted(words: Sequence[str | None], count: int) -> Stdin:
    """Return what printf prints, if that is simple."""
    known = [word for word in words if word is not None]
    if not known or len(known) != count or "\\" in "".join(known[1:]):
        return UnknownInput()
    pieces: list[str] = _FORMAT.findall(known[0])
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
    listed(walk, call)
    folders = call.state.folders
    if len(call.fields) == 1 and folders is not None and len(folders) == 1 and not call.command.redirects:
        walk.printed = folders[0] + "\n"
    return call.stays


def _test(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    arguments = call.arguments
    if call.name == "[":
        if not arguments or arguments[-1].exact_text != "]":
            walk.findings.mark_opaque("a test that does not end")
        arguments = arguments[:-1]
    if not is_safe_test(arguments):
        walk.findings.mark_opaque("a test whose operators are not known")
    return call.stays


def _guarded(*dangerous: str) -> Callable[[Walk, Call], Outcome]:
    """Return what looks at a builtin that only some options make dangerous."""

    def look(walk: Walk, call: Call) -> Outcome:
        for field in call.arguments:
            known = field.exact_text
            if field.may_be_option or (known is not None and known.startswith("-") and set(known) & set(dangerous)):
                walk.findings.mark_opaque(f"an option of {call.name}")
        return _harmless(walk, call)

    return look


def _history(walk: Walk, call: Call) -> Outcome:
    if any(not (field.exact_text or "").isdecimal() for field in call.arguments):
        return _doubtful(walk, call)
    return _harmless(walk, call)


def _alias(walk: Walk, call: Call) -> Outcome:
    if any(field.exact_text is None or "=" in field.exact_text for field in call.arguments):
        walk.findings.mark_opaque("an alias")
    return _harmless(walk, call)


def _leave(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    count = call.fields[1].exact_text or "" if len(call.fields) > 1 else "1"
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


def _command(walk: Walk, call: Call) -> Outcome:
    count = 1
    while count < len(call.fields) and (call.fields[count].exact_text or "").startswith("-"):
        option = call.fields[count].exact_text or ""
        count += 1
        if option == "--":
            break
        if set(option[1:]) - set("pvV") or option == "-":
            walk.findings.mark_opaque("an option of command that is not known")
        if set(option) & set("vV"):
            return _harmless(walk, call)
    return _unwrapped(walk, call, count)


def _builtin(walk: Walk, call: Call) -> Outcome:
    return _unwrapped(walk, call, 2 if len(call.fields) > 1 and call.fields[1].exact_text == "--" else 1)


def _unwrapped(walk: Walk, call: Call, count: int) -> Outcome:
    if count >= len(call.fields):
        return _harmless(walk, call)
    inner = call.without(count)
    if inner.fields[0].exact_text is None:
        walk.findings.mark_opaque("a command whose name is not known")
        return call.stays
    if inner.name in ("declare", "typeset", "local", "export", "readonly"):
        # Its words were read as plain ones.
        words = [
            Word((Text(field.exact_text, quoted=True),), 0, 0, field.exact_text)
            for field in inner.fields
            if field.exact_text
        ]
        if len(words) != len(inner.fields):
            walk.findings.mark_opaque(f"{inner.name} with words that are not known")
        inner = attrs.evolve(inner, command=Simple([], list(words), call.command.redirects))
    return walk.commands.without_functions(walk, inner)


def _exec(walk: Walk, call: Call) -> Outcome:
    count = 1
    while count < len(call.fields):
        option = call.fields[count].exact_text or ""
        if call.fields[count].may_be_option:
            walk.findings.mark_opaque("an option of exec that is not known")
        if not option.startswith("-"):
            break
        count += 1
        if option == "--":
            break
        if set(option[1:]) - set("cla"):
            walk.findings.mark_opaque("an option of exec that is not known")
        if "a" in option[1:-1]:
            walk.findings.mark_opaque("an option of exec that is not known")
        count += option.endswith("a")
    if count >= len(call.fields):
        call.state.stdin = UnknownInput() if isinstance(call.stdin, str) else call.stdin
        return call.stays
    inner = call.without(count)
    if inner.fields[0].exact_text is None:
        walk.findings.mark_opaque("a command whose name is not known")
        return call.stays
    walk.commands.program(walk, inner)
    return call.stays


def _eval(walk: Walk, call: Call) -> Outcome:
    walk.findings.mark_opaque("eval")
    return call.stays


def _trap(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    arguments = call.arguments
    first = arguments[0] if arguments else Field("-p")
    if first.exact_text is None:
        walk.findings.mark_opaque("a trap that is not known")
    elif first.exact_text in ("-l", "-p", "-", "") or len(arguments) == 1:
        pass
    elif first.exact_text.startswith("-") and first.exact_text != "--":
        walk.findings.mark_opaque("an option of trap that is not known")
    else:
        action = (arguments[1] if first.exact_text == "--" else first).exact_text
        if action is None:
            walk.findings.mark_opaque("a trap that is not known")
        else:
            signals = arguments[2:] if first.exact_text == "--" else arguments[1:]
            is_last = all(signal.exact_text in ("EXIT", "0") for signal in signals)
            state = call.state.copy()
            walk.deferred.append(lambda: walk.commands.trap(walk, action, state, is_last))
    return call.stays


def _cd(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    return change_folder(walk, call)


def _pushd(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    return push_folder(walk, call)


def _popd(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    return pop_folder(walk, call)


def _set(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
    set_options(walk, call)
    return call.stays


def _shopt(walk: Walk, call: Call) -> Outcome:
    listed(walk, call)
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
    **dict.fromkeys(("declare", "typeset", "local", "export", "readonly"), declare),
    **dict.fromkeys(("break", "continue", "return", "exit"), _leave),
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
    "hash": _guarded("p"),
    "history": _history,
    "jobs": _guarded("x"),
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
    "wait": _guarded("p"),
}
