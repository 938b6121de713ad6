"""`set` and `shopt`: the options of the shell that change nothing for us, and all the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine.permission.shell.builtin_args import Call
    from engine.permission.shell.interpreter import Walk

# Not `a`: it hands functions on to other shells, where they may stand for builtins.
_LETTERS: Final = frozenset("bCeEfhmnTuvx")
_NAMES: Final = frozenset(
    [
        "errexit",
        "errtrace",
        "functrace",
        "hashall",
        "monitor",
        "noclobber",
        "noexec",
        "noglob",
        "nolog",
        "nounset",
        "notify",
        "onecmd",
        "pipefail",
        "verbose",
        "xtrace",
    ]
)
_SHOPT: Final = frozenset(
    [
        "checkhash",
        "checkwinsize",
        "cmdhist",
        "dotglob",
        "failglob",
        "globasciiranges",
        "globstar",
        "huponexit",
        "inherit_errexit",
        "lithist",
        "nocaseglob",
        "nocasematch",
        "nullglob",
    ]
)


def set_options(walk: Walk, call: Call) -> None:
    """Follow `set`, which sets the positional parameters, too."""
    waiting = list(call.arguments)
    while waiting:
        word = waiting[0]
        known = word.exact_text
        if word.may_be_option:
            walk.findings.mark_opaque("an option of set that is not known")
            call.state.positional = None
            return
        if known is None or known[:1] not in ("-", "+"):
            break
        waiting.pop(0)
        if known in ("-", "--"):
            call.state.positional = tuple(waiting)
            return
        for letter in known[1:]:
            if letter == "o" and waiting:
                if waiting.pop(0).exact_text not in _NAMES:
                    walk.findings.mark_opaque("an option of set that changes how the script is read")
            elif letter != "o" and letter not in _LETTERS:
                walk.findings.mark_opaque("an option of set that changes how the script is read")
    if waiting:
        call.state.positional = tuple(waiting)


def shopt(walk: Walk, call: Call) -> None:
    """Follow `shopt`."""
    for field in call.arguments:
        known = field.exact_text
        if known is None or (known not in _SHOPT and known not in ("-s", "-u", "-q", "-p", "-sq", "-qs")):
            walk.findings.mark_opaque("an option of shopt that changes how the script is read")
