"""`set` and `shopt`: any option that changes parsing makes the scan opaque."""

from __future__ import annotations

from typing import Final

from engine.permission.shell.simulated_shell import CommandCall, SimulatedShell

# Not `a`: it exports functions to other shells, where they may replace builtins.
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


def set_options(shell: SimulatedShell, call: CommandCall) -> None:
    """Simulate `set`, which sets the positional parameters, too."""
    remaining = list(call.arguments)
    while remaining:
        word = remaining[0]
        text = word.exact_text
        # The word may be an option, or a positional parameter.
        if word.may_be_option:
            shell.findings.mark_opaque("an unknown option of set")
            call.state.positional = None
            return
        if text is None or text[:1] not in ("-", "+"):
            break
        remaining.pop(0)
        if text in ("-", "--"):
            call.state.positional = tuple(remaining)
            return
        names = [remaining.pop(0).exact_text for letter in text[1:] if letter == "o" and remaining]
        if set(text[1:]) - _LETTERS - {"o"} or set(names) - _NAMES:
            shell.findings.mark_opaque("an option of set that changes how the script is parsed")
    if remaining:
        call.state.positional = tuple(remaining)


def shopt(shell: SimulatedShell, call: CommandCall) -> None:
    # `extglob`, `expand_aliases` and others change the grammar.
    """Simulate `shopt`."""
    for field in call.arguments:
        text = field.exact_text
        if text is None or (text not in _SHOPT and text not in ("-s", "-u", "-q", "-p", "-sq", "-qs")):
            shell.findings.mark_opaque("an option of shopt that changes how the script is parsed")
