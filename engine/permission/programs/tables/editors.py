"""Editors, pagers, debuggers, schedulers and others whose own commands may execute anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_VI: Final = Program(
    reader="editor",
    operands="edits*",
    options="""-c=code --cmd=code -S=code -s=code -u=code -U=code -i=code -W=writes -w=writes -r -t= -T= --remote-expr=code --remote-send=code
        --startuptime=writes -l=code -e!code -E!code +=code -bdfghHLMNnORpRvxyZACDFV --version --help --clean --noplugin
        --servername= --remote? --headless --listen= --embed --api-info""",
)
_EMACS: Final = Program(
    reader="editor",
    operands="edits*",
    options="""--eval=code --execute=code -e=code -f=code --funcall=code -l=code --load=code --script=code -x=code -L=code --directory=code
        --batch -Q -q -nw --no-init-file --init-directory=code -a= --alternate-editor=program +=""",
)
_SCHEDULED: Final = Program(
    reader="shell_from_stdin", options="-f=code -q= -t= -m -M -l!reading -d!changes -r!changes -c -v -V -b"
)

EDITORS: Final[Mapping[str, Program]] = {
    **rows("vi vim nvim view gvim rvim rview vimdiff nvi elvis vile", _VI),
    **rows(
        "ex ed red",
        Program(
            reader="editor",
            operands="edits*",
            options="+=code -c=code --cmd=code -S=code -s -E -e -G -l -p= -r -v --quiet",
        ),
    ),
    **rows("emacs emacsclient", _EMACS),
    **rows(
        "nano pico",
        Program(reader="editor", operands="edits*", options="-s=program --speller=program -f=code --rcfile=code +="),
    ),
    **rows("code subl micro hx helix kak joe jed mcedit", Program(reader="editor")),
    "man": Program(
        options="""-P=shell --pager=shell -H?shell --html?shell -C=code --config-file=code -M=code --manpath=code --local-file!code
            -X? -T? -Zt -p= --preprocessor= -L= --locale= -m= --systems= -S= -s= --sections= -e= --extension= -r= --prompt= -E= --encoding= -R=
            --recode= -akfwWcdDihKu7IV -l!code --all --apropos --whatis --where --path --regex --wildcard --names-only --no-hyphenation --debug --default --warnings? --global-apropos --where-cat --catman --ignore-case --match-case --update --no-subpages --ascii --no-justification --troff --troff-device? --gxditview? --ditroff --usage --help --version""",
        reading="free",
        strict=True,
    ),
    **rows(
        "apropos whatis info tldr cheat",
        Program(reading="free", options="-C=code --config-file=code -o=writes --output=writes --init-file=code"),
    ),
    **rows(
        "gdb gdbserver cgdb",
        Program(
            options="-ex=code -eval-command=code -iex=code -init-eval-command=code -x=code -command=code -ix=code -init-command=code -cd=code -args -p= -batch -q -nx -nh -tui -d= -s= -c= -e= -python=code -P=code -data-directory=code",
            dashes="single",
            reader="debugger",
        ),
    ),
    "lldb": Program(
        options="-o=code --one-line=code -O=code -s=code --source=code -S=code -k=code -K=code -b --batch -f= --file= -n= -p=",
        reader="debugger",
    ),
    **rows("screen", Program(opaque="starts shells")),
    "tmux": Program(reader="tmux"),
    **rows("at batch", _SCHEDULED),
    **rows("atq atrm", Program()),
    "crontab": Program(reading="asked", options="-l!reading -r!changes -e!changes -i -u= -s", reader="crontab"),
    **rows(
        "expect tclsh wish itclsh",
        Program(reader="interpreter", permutes=False, options="-c=code -f=runs -b=runs -d -D= -i -n -N -v"),
    ),
    "bc": Program(reading="free", operands="reads*"),
    "dc": Program(reader="dc", options="-ilqsvhw -e= --expression= -f=reads --file=reads --mathlib --quiet --standard"),
    "m4": Program(reader="interpreter", options="-D= -U= -I= -P -Q -s -E -d? -t= -o=writes -l= -F=writes -R=code"),
    "gnuplot": Program(reader="interpreter", permutes=False, options="-e=code -p --persist -c=runs -d -V"),
    **rows("run-parts", Program(opaque="runs every program in a folder")),
    "dialog": Program(),
    "fzf": Program(
        options="--preview=shell --bind=code --listen? -q= --query= -f= --filter= --with-shell=code --become=code --history=edits --height= --prompt= -m -0 -1 +m +s -e -i -n= -d= --preview-window= --layout= --header= --ansi --multi --no-sort --tac --reverse --border? --with-nth= --delimiter= --nth="
    ),
    **rows("pdb ipdb pudb", Program(options="-c=code", operands="runs", permutes=False)),
    "tig": Program(),
    "lazygit": Program(),
    **rows("dmsetup modprobe insmod kexec ldconfig update-alternatives visudo", Program()),
}
