"""Shells, and interpreters of other languages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_shell: Final = partial(Program, strict=True, permutes=False, reader="shell")
_interpreter: Final = partial(Program, permutes=False, reader="interpreter")

_POSIX: Final = "-abcefhilmnpqrstuvxCEVI -o= +o= +abefhlmnptuvxCEBH"
_PYTHON: Final = _interpreter(
    options="-h!reading -bBdEiIOPqsSuvxR3V -c=code -m=stops -W= -X= --check-hash-based-pycs= --help --version"
)
_NODE: Final = _interpreter(
    options="""-e|--eval=code -p|--print=code -c|--check -r|--require=runs --import=runs --loader=runs
        --experimental-loader=runs -C= --conditions= --env-file=reads --env-file-if-exists=reads --title= --inspect?
        --stack-trace-limit= --test-reporter= --test-name-pattern= --input-type= -v|--version -i"""
)
_DENO: Final = _interpreter(options="--preload=runs -c=reads --config=reads --import-map=reads -I=")

INTERPRETERS: Final[Mapping[str, Program]] = {
    **rows(
        "sh dash ash bash rbash",
        _shell(
            options=_POSIX
            + """ -BDHPT -k!code -O=code +O=code --debug --debugger --dump-po-strings --dump-strings --help
            --init-file=code --login --noediting --noprofile --norc --posix --pretty-print --rcfile=code --restricted
            --verbose --version"""
        ),
    ),
    **rows("ksh zsh", _shell(options=_POSIX + " -dfgkwyNZFXY --version --emulate=")),
    **rows("python pypy", _PYTHON),
    **rows("node nodejs", _NODE),
    **rows(
        "ts-node tsx",
        _interpreter(
            options="""-e=code --eval=code -p=code --print=code -r=runs --require=runs --import=runs --loader=code
                -P=reads --project=reads -T --transpile-only --esm --cwd=folder -O= --tsconfig=reads --env-file=reads
                -v --version --files -i"""
        ),
    ),
    "perl": _interpreter(
        # Digits belong to -0, -l and -C, and more letters may follow.
        options="-e=code -E=code -M=code -m=code -I= -d?code -vV -0123456789 -cnpalswWtTuUXfxCS -i? -F? --version"
    ),
    "ruby": _interpreter(
        options="-e=code -r=runs -I= -C=folder -v --version -cnpalswWUSxy -0123456789 -i? -F? -K? -E="
    ),
    "php": _interpreter(
        options="-r=code -B=code -R=code -E=code -F=runs -f=runs -d=code -c= -S= -t=folder -z=code -livmanqswHC --version"
    ),
    "lua": _interpreter(options="-e=code -l=runs -i -v -E -W"),
    "Rscript": _interpreter(options="-e=code --eval=code --vanilla --no-save --version"),
    "coverage": Program(
        permutes=False,
        commands={
            "run": _interpreter(
                options="""-m=stops --module=stops -a --append --branch -p --parallel-mode --source= --include= --omit=
                    --rcfile=code --data-file=writes --concurrency= --context= -L --timid --debug= --pylib"""
            ),
        },
    ),
    "deno": Program(
        permutes=False,
        strict=True,
        options="-q -V --quiet --version -L= --log-level=",
        commands={"eval": Program(opaque="runs inline code"), **rows("run serve", _DENO)},
    ),
}
