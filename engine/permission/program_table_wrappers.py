"""Programs that start a command which they are given."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.program_record import Program

_wrapper: Final = partial(Program, strict=True, permutes=False, tail="command")
_env: Final = partial(Program, strict=True, permutes=False, manner="env")

_SUDO: Final = """
    -A|--askpass -b|--background -B|--bell -E --preserve-env? -e|--edit!code -H|--set-home -h|--help -i|--login
    -K|--remove-timestamp -k|--reset-timestamp -l|--list -n|--non-interactive -N|--no-update -P|--preserve-groups
    -S|--stdin -s|--shell -v|--validate -V|--version -C|--close-from= -D|--chdir=folder -g|--group= --host=
    -p|--prompt= -R|--chroot=code -r|--role= -t|--type= -T|--command-timeout= -U|--other-user= -u|--user=
"""
_HELP: Final = " --help --version"

WRAPPERS: Final[Mapping[str, Program]] = {
    "sudo": _env(options=_SUDO),
    "doas": _env(options="-n -L -s -C=code -u= -a="),
    "env": _env(
        options="""
            -i|--ignore-environment -0|--null -v|--debug -u|--unset= -C|--chdir=folder -S|--split-string=split
            -a|--argv0= -P=code --block-signal? --default-signal? --ignore-signal? --list-signal-handling
        """
        + _HELP
    ),
    "nice": _wrapper(options="-n|--adjustment= -0123456789 --0 --1 --2 --5 --10 --15 --20" + _HELP),
    "nohup": _wrapper(options=_HELP),
    "timeout": _wrapper(
        options="-k|--kill-after= -s|--signal= -v|--verbose -f|--foreground -p|--preserve-status" + _HELP,
        operands="plain",
    ),
    "stdbuf": _wrapper(options="-i|--input= -o|--output= -e|--error=" + _HELP),
    "setsid": _wrapper(options="-c|--ctty -f|--fork -w|--wait -hV" + _HELP),
    "ionice": _wrapper(options="-c|--class= -n|--classdata= -t|--ignore -p|--pid= -P|--pgid= -u|--uid= -hV" + _HELP),
    "chrt": _wrapper(
        options="""-a|--all-tasks -b|--batch -d|--deadline -f|--fifo -i|--idle -o|--other -r|--rr -e|--ext
            -R|--reset-on-fork -v|--verbose -m|--max -p|--pid -T|--sched-runtime= -P|--sched-period=
            -D|--sched-deadline= -hV"""
        + _HELP,
        operands="plain",
    ),
    "taskset": _wrapper(options="-a|--all-tasks -c|--cpu-list -p|--pid -hV" + _HELP, operands="plain"),
    "time": _wrapper(options="-a|--append -f|--format= -o|--output=writes -p|--portability -v|--verbose -q|--quiet -l"),
    "flock": _wrapper(
        options="""-s|--shared -x|--exclusive -e -n|--nb|--nonblock -u|--unlock -o|--close -F|--no-fork --verbose -c!
            -w|--wait|--timeout= -E|--conflict-exit-code= -hV"""
        + _HELP,
        operands="writes",
        tail="either",
    ),
    "xargs": Program(
        strict=True,
        permutes=False,
        manner="xargs",
        options="""-0|--null -r|--no-run-if-empty -t|--verbose -p|--interactive -x|--exit -o|--open-tty --show-limits
            -a|--arg-file=reads -d|--delimiter= -E= -e? --eof? -I= -i? --replace? -L= -l? --max-lines? -n|--max-args=
            -P|--max-procs= -s|--max-chars= --process-slot-var= -J= -R= -S="""
        + _HELP,
    ),
    "find": Program(manner="find"),
    "fd": Program(
        manner="fd",
        options="""-H|--hidden -I|--no-ignore -u|--unrestricted -s|--case-sensitive -i|--ignore-case -g|--glob
            -F|--fixed-strings -a|--absolute-path -l|--list-details -L|--follow -p|--full-path -d|--max-depth=
            --min-depth= -t|--type= -e|--extension= -S|--size= --changed-within= --changed-before= -o|--owner=
            -E|--exclude= -c|--color= -j|--threads= -0|--print0 -q|--quiet -1 --max-results= --base-directory=folder
            --search-path=reads -C= --format= --and= --exact-depth= --ignore-file=reads --batch-size= -V -h
            --regex --no-ignore-vcs --no-ignore-parent --one-file-system --prune --strip-cwd-prefix?"""
        + _HELP,
        reading="free",
    ),
    "ssh": Program(
        strict=True,
        permutes=False,
        manner="ssh",
        remote=True,
        options="""-46AaCfGgKkMNnqsTtVvXxYy -B= -b= -c= -D= -E=writes -e= -F=code -I=code -i=reads -J= -L= -l= -m= -O=
            -o= -P= -p= -Q= -R= -S= -W= -w=""",
    ),
}
