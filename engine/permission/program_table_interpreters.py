"""Shells, and interpreters of other languages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.program_record import Program

_shell: Final = partial(Program, strict=True, permutes=False, manner="shell")
_interpreter: Final = partial(Program, permutes=False, manner="interpreter", reading="asked")

_POSIX: Final = "-abcefhilmnpqrstuvxCEVI -o= +o= +abefhlmnptuvxCEBH"
_BASH: Final = (
    _POSIX
    + """
    -BDHPT -k!code -O=code +O=code --debug --debugger --dump-po-strings --dump-strings --help --init-file=code --login
    --noediting --noprofile --norc --posix --pretty-print --rcfile=code --restricted --verbose --version
"""
)

INTERPRETERS: Final[Mapping[str, Program]] = {
    **dict.fromkeys(("sh", "dash", "ash"), _shell(options=_BASH)),
    **dict.fromkeys(("bash", "rbash"), _shell(options=_BASH)),
    **dict.fromkeys(
        ("ksh", "ksh93", "mksh", "zsh", "yash"), _shell(options=_POSIX + " -dfgkwyNZFXY --version --emulate=")
    ),
    **dict.fromkeys(
        ("csh", "tcsh", "fish", "nu", "elvish", "xonsh"),
        _shell(options="-befinsVvXx -c -dlmqt --login --no-config --norc"),
    ),
    "python": _interpreter(
        options="""-bBdEhiIOPqsSuvxR3 -c=code -m=stops -W= -X= --check-hash-based-pycs= --help --version!reading
            -V!reading"""
    ),
    "node": _interpreter(options="-e|--eval=code -p|--print=code -c|--check -r|--require=runs -v|--version!reading -i"),
    "perl": _interpreter(
        options="-e=code -E=code -M=code -m=code -I= -d?code -v!reading -cnpalswWtTuUXfx -i? -0? -F? -C? -D?"
    ),
    "ruby": _interpreter(
        options="-e=code -r=runs -I= -C=folder -v!reading --version!reading -cnpalswWUSxy -i? -0? -F? -K? -E="
    ),
    "php": _interpreter(
        options="-r=code -B=code -R=code -E=code -F=runs -f=runs -d= -c= -S= -t=folder -l -i!reading -v!reading -m -a -n -q -s -w -z=code -H -C"
    ),
    "lua": _interpreter(options="-e=code -l=runs -i -v!reading -E -W"),
    "osascript": _interpreter(options="-e=code -l= -i -s="),
}
