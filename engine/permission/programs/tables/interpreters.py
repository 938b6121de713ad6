"""Shells, and interpreters of other languages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_shell: Final = partial(Program, strict=True, permutes=False, reader="shell")
_interpreter: Final = partial(Program, permutes=False, reader="interpreter", reading="asked")

_POSIX: Final = "-abcefhilmnpqrstuvxCEVI -o= +o= +abefhlmnptuvxCEBH"
_BASH: Final = (
    _POSIX
    + """
    -BDHPT -k!code -O=code +O=code --debug --debugger --dump-po-strings --dump-strings --help --init-file=code --login
    --noediting --noprofile --norc --posix --pretty-print --rcfile=code --restricted --verbose --version
"""
)

_PYTHON: Final = _interpreter(
    options="""-bBdEhiIOPqsSuvxR3 -c=code -m=stops -W= -X= --check-hash-based-pycs= --help --version!reading
            -V!reading"""
)
_NODE: Final = _interpreter(
    options="-e|--eval=code -p|--print=code -c|--check -r|--require=runs --import=runs --loader=runs --experimental-loader=runs -C= --conditions= --env-file=reads --env-file-if-exists=reads --title= --inspect? --stack-trace-limit= --test-reporter= --test-name-pattern= --input-type= -v|--version!reading -i"
)
_LUA: Final = _interpreter(options="-e=code -l=runs -i -v!reading -E -W")
_DENO: Final = "-A --allow-all --allow-read? --allow-write? --allow-net? --allow-env? --allow-run? --allow-sys? --allow-ffi? -c=reads --config=reads --import-map=reads -r? --watch --check? --no-check? --unstable --env-file? --preload=runs -q -I= --lock? --v8-flags? --cached-only --no-lock --inspect?"

INTERPRETERS: Final[Mapping[str, Program]] = {
    **rows("sh dash ash", _shell(options=_BASH)),
    **rows("bash rbash", _shell(options=_BASH)),
    **rows("ksh ksh93 mksh zsh yash", _shell(options=_POSIX + " -dfgkwyNZFXY --version --emulate=")),
    **rows(
        "csh tcsh fish nu elvish",
        _shell(options="-befinsVvXx -c -dlmqt --login --no-config --norc"),
    ),
    "python": _PYTHON,
    "node": _NODE,
    "perl": _interpreter(
        # Digits belong to -0, -l and -C, and more letters may follow.
        options="""-e=code -E=code -M=code -m=code -I= -d?code -v!reading -V? -0123456789 -cnpalswWtTuUXfxCS -i? -F?
            --version!reading"""
    ),
    "ruby": _interpreter(
        options="-e=code -r=runs -I= -C=folder -v!reading --version!reading -cnpalswWUSxy -0123456789 -i? -F? -K? -E="
    ),
    "php": _interpreter(
        options="-r=code -B=code -R=code -E=code -F=runs -f=runs -d= -c= -S= -t=folder -l -i!reading -v!reading -m -a -n -q -s -w -z=code -H -C"
    ),
    "lua": _LUA,
    "osascript": _interpreter(options="-e=code -l= -i -s="),
    "pythonw": _PYTHON,
    **rows("pypy graalpy micropython ipython bpython", _PYTHON),
    "nodejs": _NODE,
    "luajit": _LUA,
    "deno": Program(
        permutes=False,
        options="-V!reading --version!reading -h -q --quiet --unstable -L= --log-level=",
        commands={
            "eval": Program(opaque="runs inline code"),
            "run": Program(reader="interpreter", permutes=False, options=_DENO),
            "serve": Program(reader="interpreter", permutes=False, options=_DENO),
            "repl": Program(reader="interpreter", options="--eval=code --eval-file=runs"),
            **rows(
                "test fmt lint check cache install compile task add remove info doc types bench",
                Program(),
            ),
        },
    ),
    **rows(
        "Rscript R r littler",
        _interpreter(
            options="-e=code --eval=code -f=runs --file=runs -g= --args --vanilla --slave --no-save --quiet -q --version!reading "
        ),
    ),
    "julia": _interpreter(
        options="-e=code --eval=code -E=code --print=code -L=code --load=code -m=stops -J=code --sysimage=code -H= -t= -p= --project? --threads= -q -i -v!reading --version!reading --startup-file= -O?"
    ),
    **rows(
        "ghc runghc runhaskell ghci",
        _interpreter(dashes="single", options="-e=code -F=code -pgmF=code -o=writes"),
    ),
    **rows(
        "scala groovy kotlin kotlinc-jvm bsh",
        _interpreter(options="-e=code -cp= -classpath= -D= -i=runs -v!reading --version!reading"),
    ),
    **rows(
        "elixir iex",
        _interpreter(
            options="-e=code --eval=code -r=runs -S= --rpc-eval=code --erl=code --dot-iex=code -pa= -v!reading --version!reading"
        ),
    ),
    "erl": _interpreter(
        dashes="single",
        options="-eval=code -s=code -run=code -noshell -noinput -pa= -name= -sname= -config=code -args_file=code -boot=code -version",
    ),
    **rows(
        "pwsh powershell",
        _interpreter(
            dashes="single",
            options="-c=code -Command=code -command=code -e=code -ec=code -EncodedCommand=code -encodedcommand=code -f=runs -File=runs -file=runs -NoProfile -NonInteractive -ExecutionPolicy= -v!reading -Version!reading",
        ),
    ),
    **rows(
        "guile racket gsi chez scheme petite csi mzscheme",
        _interpreter(
            options="-c=code -e=code -l=runs -s=runs -f=runs -t=runs -r=runs -i -q -L= -x= --eval=code --script=runs"
        ),
    ),
    **rows(
        "sbcl clisp ecl ccl abcl",
        _interpreter(
            options="--eval=code --load=runs --script=runs -x=code -e=code --non-interactive --quit --noinform -i=runs --userinit=code --sysinit=code"
        ),
    ),
    **rows(
        "clojure clj bb joker lumo planck nbb",
        _interpreter(
            options="-e=code --eval=code -f=runs -M? -X? -A? -i=runs -m=stops --main=stops -Sdeps=code --classpath="
        ),
    ),
    **rows("ocaml ocamlrun utop", _interpreter(dashes="single", options="-e=code -I= -init=code -stdin!code")),
    **rows(
        "octave octave-cli matlab scilab maxima gp sage idl",
        _interpreter(
            options="--eval=code -e=code -r=code --batch=code --quiet -q --no-gui --path= --batch-string=code"
        ),
    ),
    **rows("raku perl6 rakudo", _interpreter(options="-e=code -n=code -p=code -I= -M= -v!reading")),
    **rows(
        "jshell irb pry gore ipdb3 evcxr",
        _interpreter(options="-e=code -r=runs -R=code -J=code --startup=code"),
    ),
    **rows("swipl gprolog yap", _interpreter(options="-g=code -t=code -s=runs -f=runs -q")),
    **rows(
        "crystal nim zig v dart flutter vlang odin gleam rebar3 dub dmd rdmd",
        Program(
            permutes=False,
            options="--eval=code",
            commands={"eval": Program(opaque="runs inline code"), "e": Program(opaque="runs inline code")},
        ),
    ),
    **rows(
        "js d8 qjs jsc rhino hermes njs duk mujs gjs phantomjs casperjs electron",
        _interpreter(options="-e=code --eval=code -c=code -f=runs -m --module -I=runs --include=runs --std -i"),
    ),
    **rows(
        "icon rexx regina snobol4 spitbol gforth gst io wren",
        _interpreter(options="-e=code --evaluate=code"),
    ),
    "xonsh": _interpreter(options="-c=code -i -l --rc=code --no-rc -D=sets"),
    **rows(
        "stack cabal opam",
        Program(
            permutes=False,
            commands={
                "exec": Program(permutes=False, strict=True, options="--package= -v -q --enable-nix", tail="command"),
                **rows("runghc runhaskell eval ghci", Program(opaque="runs program text")),
            },
        ),
    ),
    **rows("gs ghostscript bpftrace dtrace", Program(opaque="its language may execute commands")),
}
