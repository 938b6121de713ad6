"""Regressions from comparing scans with the real bash: the smallest scripts that did something their scan did not list.

tests/permission/oracle runs scripts like these; here only the scans are looked at, so that it needs no sandbox.
"""

from typing import Final

import pytest

from engine.permission.effects.scan_result import Scan
from engine.permission.shell.scan import scan

# Scripts, and what bash runs or writes: the scan lists it, or is opaque.
RUN: Final = {
    # Bash expands the word after `>&` twice.
    "p1 >&'$(p2)'": "p2",
    'p1 2>&"\\`p2\\`"': "p2",
    "x='$(p2)'; p1 >& $x": "p2",
    # Declare parses its argument as array elements, and runs the substitutions in it.
    "declare -a 'x=($(p1))'": "p1",
    "declare -a x='($(p1))'": "p1",
    "x='($(p1))'; declare -a y=\"$x\"": "p1",
    "x='($(p1))'; declare -A y=$x": "p1",
    "f() { local -a y=\"$1\"; }; f '($(p1))'": "p1",
    "readonly -a x='($(p1))'": "p1",
    "y=(); declare y='($(p1))'": "p1",
    "f() { declare y=\"$1\"; }; y=(); f '($(p1))'; declare y='($(p2))'": "p2",
    # A backslash-newline inside of a word.
    "x\\\n=1 p1": "p1",
    "f\\\n() { p1; }; f": "p1",
    # A redirection into an element of an array, and a word right behind a file that is closed.
    "echo {x['$(p1)']}>u": "p1",
    ">&-p1 k": "p1",
    ">& -p1 k": "p1",
    # Words that are split: the first is a pattern.
    "x='a* p1'; $x": "p1",
    # Shells.
    "bash +c 'p1'": "p1",
    "sh -oc errexit 'p1'": "p1",
    "bash -s p1 <<'E'\n$1\nE": "p1",
    "echo p1 | unshare -r": "p1",
    "echo p1 | chroot /": "p1",
    "echo p1 | setarch x86_64": "p1",
    "sudo -u dev -h host p1": "p1",
    "echo 1 | xargs": "echo",
}
# Scripts that run what is nowhere in them.
OPAQUE: Final = (
    "bash -l -c ''",
    "sh -lc ''",
    "bash -i",
    "bash --login",
    "linux64",
    "unshare -r",
    "set -a; cd() { :; }; bash -c 'cd src; echo > x'",
    # Links that lead elsewhere in each process.
    "cd /etc; echo > /proc/self/cwd/passwd",
    "echo > /proc/self/root/etc/passwd",
    "echo > /proc/thread-self/cwd/x",
    "cd /proc/self; echo > cwd/x",
    "echo > /dev/fd/../cwd/x",
    # How the shell reads them depends on which shell it is.
    "sh -c 'p1 {a,b}'",
    "sh -c 'p1 10>a'",
    "p1 2\\\n>a",
    "p1 {\\\nd}>a",
    # It writes to the home folder.
    "x='~/t.txt'; p1 >& $x",
    "p1 >&'$HOME/t.txt'",
)
# What is not known before it runs has to be None, so that no rule matches what it isn't.
UNKNOWN: Final = {
    "p1 <(p2) <(p3)": ("p1", None, None),
    "ls | xargs": ("echo", None),
}
# What must stay clear.
CLEAR: Final = (
    'f() { local x=$(ls); local y="$1"; echo "$x"; }; f a',
    "f() { p1; }; unset -f f; f",
    "export FOO=$(date)",
    "declare x=1; declare -r y=2",
    "p1 >&2 2>&1 >&-; p2 <&-",
    "p1 \\\n  --all \\\n  k",
    "cat /proc/cpuinfo; echo > /dev/stderr; echo > /dev/fd/3",
    "bash -euo pipefail -c 'p1'",
    "find . -name '*.py' -exec sh -c 'p1 \"$1\"' _ a \\;",
    "sh -c 'find . -exec p1 {} +'",
    "diff <(sort a) <(sort b)",
)


def _scan(script: str) -> Scan:
    return scan(script, cwd="/home/dev/project", home="/home/dev")


@pytest.mark.parametrize(("script", "program"), RUN.items())
def test_executed_programs_are_listed(script: str, program: str) -> None:
    result = _scan(script)
    assert result.opaque or program in {command.argv[0] for command in result.commands}


@pytest.mark.parametrize("script", OPAQUE)
def test_undecidable_scripts_are_opaque(script: str) -> None:
    assert _scan(script).opaque


@pytest.mark.parametrize(("script", "argv"), UNKNOWN.items())
def test_unknown_words_parse_as_none(script: str, argv: tuple[str | None, ...]) -> None:
    result = _scan(script)
    assert not result.opaque
    assert argv in {command.argv for command in result.commands}


@pytest.mark.parametrize("script", CLEAR)
def test_plain_scripts_are_not_opaque(script: str) -> None:
    assert _scan(script).opaque == ()


@pytest.mark.parametrize("shell", ["nix-shell", "poetry shell", "pipenv shell", "hatch shell", "toolbox enter box"])
def test_nested_shell_runs_its_standard_input(shell: str) -> None:
    result = scan(f"echo p1 | {shell}", cwd="/home/dev/project", home="/home/dev")
    assert result.opaque or ("p1",) in [command.argv for command in result.commands]
    assert scan(f"curl h | {shell}", cwd="/home/dev/project", home="/home/dev").opaque
