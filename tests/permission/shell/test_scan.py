"""The scanner of shell scripts: what it lists, what it refuses, and that no script takes it long.

`shell_cases.jsonl` records what bash did with each script in a sandbox of stubs: the programs in `runs`, the files in
`writes`. `shell_everyday.jsonl` has everyday lines, which must not be opaque.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.permission.effects.scan_result import PathUse, Scan, ScannedCommand
from engine.permission.shell.builtins import BUILTINS
from engine.permission.shell.parser.nodes import UnsupportedSyntax
from engine.permission.shell.parser.parser import parse_script
from engine.permission.shell.scan import MAX_CHARS, reads_only, scan
from engine.permission.shell.treesitter_check import find_disagreement

HERE = Path(__file__).parent
PROJECT = "/home/dev/project"


def scanned(script: str) -> Scan:
    return scan(script, cwd=PROJECT, home="/home/dev")


def rows(name: str) -> Iterator[object]:
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_scans_match_recorded_runs() -> None:
    wrong = []
    for row in rows("shell_cases.jsonl"):
        assert isinstance(row, dict)
        result = scanned(row["script"])
        actual: dict[str, object] = {"script": row["script"]}
        if result.opaque:
            actual["asks"] = True
        else:
            programs = [command.argv for command in result.commands if command.argv[0] not in BUILTINS]
            actual["runs"] = [" ".join("?" if word is None else word for word in argv) for argv in programs]
            if writes := [use.path for use in result.paths if use.access == "write"]:
                actual["writes"] = writes
        if actual != row:
            wrong.append((row, actual, result.opaque))
    assert wrong == []


def test_everyday_lines_are_not_opaque() -> None:
    assert {str(line): result for line in rows("shell_everyday.jsonl") if (result := scanned(str(line)).opaque)} == {}


@pytest.mark.conformance
def test_shared_sample_matches(shared_dir: Path) -> None:
    sample = shared_dir / "shell" / "corpus_sample.jsonl"
    if not sample.exists():
        pytest.skip("no corpus of shell scripts in the shared folder")
    wrong = []
    for line in sample.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        result = scanned(case["script"])
        names = {(command.argv[0] or "").rpartition("/")[2] for command in result.commands}
        missed = set(case["must_see"]) - names if not result.opaque else set()
        writes = {os.path.normpath(use.path) for use in result.paths if use.access == "write"}
        expected = {os.path.normpath(Path(PROJECT, path.replace("~", "/home/dev", 1))) for path in case["writes"]}
        if missed or (expected - writes and not result.opaque) or (case["benign"] and result.opaque):
            wrong.append((case["script"], missed, result))
    assert wrong == []


# ---- whole values ----------------------------------------------------------------------------------------------------


def test_commands_have_folder_and_wrappers() -> None:
    assert scanned("cd src && sudo env A=1 make all > ../log; echo *.c '*'") == Scan(
        commands=(
            ScannedCommand(argv=("cd", "src"), cwd=PROJECT, reads_only=True),
            ScannedCommand(argv=("sudo", "env", "A=1", "make", "all"), cwd=f"{PROJECT}/src"),
            ScannedCommand(
                argv=("env", "A=1", "make", "all"), cwd=f"{PROJECT}/src", through=("sudo",), reads_only=True
            ),
            ScannedCommand(argv=("make", "all"), cwd=f"{PROJECT}/src", through=("sudo", "env")),
            ScannedCommand(argv=("echo", "*.c", "*"), cwd=f"{PROJECT}/src", reads_only=True),
            ScannedCommand(argv=("echo", "*.c", "*"), cwd=PROJECT, reads_only=True),
        ),
        paths=(
            PathUse(path=f"{PROJECT}/src", access="read", by="cd"),
            PathUse(path=f"{PROJECT}/src/../log", access="write", by="redirection"),
        ),
    )


def test_remote_commands_use_no_local_files() -> None:
    result = scanned("ssh host 'cat /etc/passwd > copy'")
    assert result.opaque == ()
    assert (
        ScannedCommand(argv=("cat", "/etc/passwd"), through=("ssh",), remote=True, reads_only=True) in result.commands
    )
    assert result.paths == ()


def test_patterns_are_listed_as_bash_expands_them() -> None:
    assert scanned("rm src/'*'*.o").paths == (
        # Bash lists the folder, even if the command doesn't use the names.
        PathUse(path=f"{PROJECT}/src", access="read", by="pattern", is_pattern=True),
        PathUse(path=f"{PROJECT}/src/\\**.o", access="write", by="rm", is_pattern=True),
    )
    folders = [use.path for use in scanned("for f in ../*/x*; do :; done; echo *; a=(../b*) b=(/*/c/'*'/*/d)").paths]
    assert folders == [f"{PROJECT}/..", f"{PROJECT}/../*", "/", "/*/c/\\*"]


def test_cd_to_existing_folder_never_fails() -> None:
    def folders(script: str) -> set[str | None]:
        result = scan(script, cwd=PROJECT, home="/home/dev", is_folder={f"{PROJECT}/src"}.__contains__)
        return {command.cwd for command in result.commands if command.argv == ("ls",)}

    assert folders("cd src; ls") == {f"{PROJECT}/src"}
    assert folders("cd doc; ls") == {PROJECT, f"{PROJECT}/doc"}
    assert folders("rm -r src; cd src; ls") == {PROJECT, f"{PROJECT}/src"}, "not any more"
    assert folders("x > src; cd src; ls") == {PROJECT, f"{PROJECT}/src"}
    assert folders("./x; cd src; ls") == {PROJECT, f"{PROJECT}/src"}


def test_unknown_words_parse_as_none() -> None:
    assert [command.argv for command in scanned('echo "$1x" ~/a $(date) "$X"').commands] == [
        ("date",),
        ("echo", "x", "/home/dev/a", None, None),
    ]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("eval x", "eval"),
        ("$x", "a command with an unknown name"),
        ("PATH=/tmp ls", "it sets PATH"),
        ("echo a\rb", "a control character or an invisible one"),
        ("echo a\u202eb", "a control character or an invisible one"),
        ("echo a\u00a0b", "a character that only looks like a space"),
        ("echo 'a", "line 1: a quote is not closed"),
        ("ls\nfi", "line 2: unexpected 'fi'"),
        ("x" * (MAX_CHARS + 1), f"it is longer than {MAX_CHARS} characters"),
        ("echo > $x", "a redirection with an unknown file"),
        ('cd "$x"; ls', "an unknown folder"),
        ("zsh -c ls", None),
    ],
)
def test_opaque_scan_has_reason(script: str, reason: str | None) -> None:
    result = scanned(script).opaque
    assert result
    assert reason is None or reason in result


@pytest.mark.parametrize(
    ("script", "is_reading"),
    [
        ("git status && ls -la | head", True),
        ("cat a.txt > /dev/null", True),
        ("for f in a b; do wc -l $f; done", True),
        ("cat a > b", False),
        ("rm a", False),
        ("ls; frobnicate", False),
        ("bash -c ls", False),
        ("ls $(rm x)", False),
        ("eval ls", False),
        ("kill 1", False),
    ],
)
def test_reads_only(script: str, is_reading: bool) -> None:
    assert reads_only(scanned(script)) is is_reading


# ---- the second witness ----------------------------------------------------------------------------------------------


def test_command_only_in_grammar_is_disagreement() -> None:
    _, parser = parse_script("ls; rm x")
    assert find_disagreement("ls; rm x", parser) == ""
    parser.starts.pop()
    assert find_disagreement("ls; rm x", parser) == "the two parsers disagree about its commands"


@pytest.mark.parametrize("script", ["cat <<E; ls\na $(rm x) b\nE", "echo `rm x`"])
def test_grammar_checks_here_documents_and_backticks(script: str) -> None:
    _, parser = parse_script(script)
    assert find_disagreement(script, parser) == ""
    ((_, inner),) = parser.inner
    inner.starts[0] = 10**6
    assert find_disagreement(script, parser) == "the two parsers disagree about its commands"


# ---- anything at all -------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "a",
        "ls",
        "$x",
        '"$x"',
        "${x:-y}",
        "$(ls)",
        "`ls`",
        "$((1))",
        "'",
        '"',
        "\\",
        "|",
        "&",
        ";",
        "&&",
        "||",
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        ">>",
        "<<",
        "<<<",
        "E",
        "if",
        "then",
        "fi",
        "for",
        "in",
        "do",
        "done",
        "case",
        "esac",
        "while",
        "function",
        "f()",
        "[[",
        "]]",
        "((",
        "))",
        "!",
        "*",
        "?",
        "[",
        "]",
        "~",
        "#",
        "=",
        "a=b",
        "a[0]=1",
        "2>&1",
        "&>",
        "<(",
        ">(",
        "time",
        "coproc",
        "select",
        "-1",
        "--",
        "{a,b}",
        "$'x'",
        "eval",
        "exec",
        "export",
        "declare",
        "trap",
        "cd",
        "x=1",
        "$@",
        '"$@"',
        "${!x}",
        "${x[@]}",
        "=~",
        "-v",
        "-eq",
    ]
)


@given(st.lists(PIECES, max_size=30))
def test_scan_never_raises(pieces: list[str]) -> None:
    scanned("".join(pieces))
    scanned(" ".join(pieces))


@given(st.text(max_size=60))
def test_parser_raises_only_unsupported_syntax(text: str) -> None:
    with contextlib.suppress(UnsupportedSyntax):
        parse_script(text)


SLOW = {
    "parentheses": "(" * 5000,
    "substitutions": "$(" * 4000,
    "quotes": '"$(' * 3000,
    "backticks": "`" * 9000,
    "operands": "${x:-" * 1900,
    "braces": "{a,b}" * 1900,
    "background": "a&" * 4900,
    "here-documents": "cat <<E\n\\\n" * 900 + "E\n",
    "loops": "for x in a b c d; do " * 20 + "ls;" + "done;" * 20,
    "turns": "while x; do cd a; " * 30 + "ls;" + "done;" * 30,
    "calls": "".join(f"f{n}(){{ f{n + 1};f{n + 1}; }};" for n in range(300)) + "f0",
    "doubling": "x=aaaaaaaaaa;" + "x=$x$x;" * 1400,
    "wrappers": "env " * 2400 + "ls",
    "patterns": "ls " + "* " * 4900,
    "functions": "f(){ ls; f2; };" * 600,
    "subshells": "".join(f"v{n}=1;(ls);" for n in range(700)),
    "escapes": "echo " + "\\\\" * 4900,
}


@pytest.mark.parametrize("name", SLOW)
def test_scan_time_is_bounded(name: str) -> None:
    scanned("ls")
    start = time.process_time()
    scanned(SLOW[name][:MAX_CHARS])
    # A quadratic one takes seconds.
    assert time.process_time() - start < 2


# ---- as a program ----------------------------------------------------------------------------------------------------


def run(*arguments: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "engine.permission.shell_scan", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=60, cwd=HERE.parents[2])


@pytest.mark.os
def test_command_scans_standard_input() -> None:
    answer = json.loads(run(stdin=b"cd src && git add x > log").stdout)
    assert answer == {
        "commands": [["cd", "src"], ["git", "add", "x"]],
        "writes": ["src/log"],
        "opaque": False,
        "reasons": [],
    }


@pytest.mark.os
def test_invalid_text_is_opaque() -> None:
    assert json.loads(run(stdin=b"ls \xff").stdout)["opaque"] is True


@pytest.mark.os
def test_serve_answers_each_line() -> None:
    requests = [
        '"ls > a"',
        '{"script": "ls > a", "cwd": "/x", "home": "/h"}',
        "[]",
        "{",
        '{"script": 1}',
        '"echo > ~/a"',
    ]
    answers = [json.loads(line) for line in run("--serve", stdin="\n".join(requests).encode()).stdout.splitlines()]
    assert [answer["writes"] for answer in answers] == [["a"], ["a"], [], [], [], ["/home/dev/a"]]
    assert [answer["opaque"] for answer in answers] == [False, False, True, True, True, False]


def test_grammar_is_loaded_lazily() -> None:
    code = "import sys, engine.permission.shell.scan; print('tree_sitter' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, cwd=HERE.parents[2]
    )
    assert result.stdout.strip() == "False"
