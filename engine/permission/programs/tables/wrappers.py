"""Programs that start the command in their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program

_wrapper: Final = partial(Program, strict=True, permutes=False, tail="command")
_env: Final = partial(Program, strict=True, permutes=False, reader="env")

_HELP: Final = " --help --version"

WRAPPERS: Final[Mapping[str, Program]] = {
    "sudo": _env(
        options="""
            -A|--askpass -b|--background -B|--bell -E --preserve-env? -e|--edit!code -H|--set-home -h!code --help
            -i|--login -K|--remove-timestamp -k|--reset-timestamp -l|--list -n|--non-interactive -N|--no-update
            -P|--preserve-groups -S|--stdin -s|--shell -v|--validate -V|--version -C|--close-from= -D|--chdir=folder
            -g|--group= --host= -p|--prompt= -R|--chroot=code -r|--role= -t|--type= -T|--command-timeout=
            -U|--other-user= -u|--user=
        """
    ),
    "env": _env(
        options="""
            -i|--ignore-environment -0|--null -v|--debug -u|--unset= -C|--chdir=folder -S|--split-string=split
            -a|--argv0= -P=code --block-signal? --default-signal? --ignore-signal? --list-signal-handling
        """
        + _HELP
    ),
    "nice": _wrapper(reading="free", options="-n|--adjustment= -0123456789 --0 --1 --2 --5 --10 --15 --20" + _HELP),
    "nohup": _wrapper(options=_HELP),
    "timeout": _wrapper(
        reading="free",
        options="-k|--kill-after= -s|--signal= -v|--verbose -f|--foreground -p|--preserve-status" + _HELP,
        operands="plain",
    ),
    "stdbuf": _wrapper(reading="free", options="-i|--input= -o|--output= -e|--error=" + _HELP),
    "setsid": _wrapper(options="-c|--ctty -f|--fork -w|--wait -hV" + _HELP),
    "ionice": _wrapper(
        reading="free", options="-c|--class= -n|--classdata= -t|--ignore -p|--pid= -P|--pgid= -u|--uid= -hV" + _HELP
    ),
    "time": _wrapper(
        reading="free",
        options="-a|--append -f|--format= -o|--output=writes -p|--portability -v|--verbose -q|--quiet -l",
    ),
    "xargs": Program(
        strict=True,
        permutes=False,
        reader="xargs",
        options="""-0|--null -r|--no-run-if-empty -t|--verbose -p|--interactive -x|--exit -o|--open-tty --show-limits
            -a|--arg-file=reads -d|--delimiter= -E= -e? --eof? -I= -i? --replace? -L= -l? --max-lines? -n|--max-args=
            -P|--max-procs= -s|--max-chars= --process-slot-var= -J= -R= -S="""
        + _HELP,
    ),
    # It sets variables as `env` does.
    "cross-env": Program(reader="env", permutes=False, strict=True),
}
