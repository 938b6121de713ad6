"""Command lines that change nothing: examples, and what must not be inserted into any of them."""

import shlex

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.tools.builtin.bash_permissions import only_reads

SAFE = (
    "ls -la",
    "ls -la | head -3\npwd",
    "git status && git diff HEAD~1 -- a b",
    "cat a | grep -n 'x$' | sort | uniq -c | sort -rn | head -20",
    'grep -rn "def \\w\\+\\|class$" src 2>/dev/null | wc -l',
    "cat 'a b' \"c d\" e\\ f",
    "(cd src && ls); echo '---'; pwd",
    "ls \\\n  -la",
    "# what is there\nls  # all of it\n",
    "wc -l < a.txt",
    "ls nowhere 2>&1 | cat",
    "ls &>/dev/null || echo none",
    "du -sh * | sort -h",
    "cat src/*.py",
    "set -euo pipefail; ls | wc -l",
    "echo 'rm -rf / > x; `y` $(z)'",
    # An unknown word can't make it do more.
    "ls $x",
    'ls "$x"',
    "ls ${x:=1}",
    'for f in $(git ls-files); do wc -l "$f"; done',
    'git ls-files | while read -r f; do head -n 1 "$f"; done',
    "find . -name '*.py' -exec grep -c a {} +",
    "find . -name '*.py' -print0 | xargs -0 grep -c a",
    "timeout 10 nice -n 5 env A=1 wc -l a",
    "n=$(wc -l < a.txt); echo $((n + 1))",
)

# For each rule that forbids something: what it allows, and what it does not.
TRIED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "awk": (
        ("awk '{print $1}' a", "awk -F: '/x/ {print $1, $NF}'", "awk -F ' ' 'NR==2{print}' a b"),
        ("awk '{print > \"x\"}'", "awk 'BEGIN{system(\"x\")}'", "awk -f x", "awk '{print}' /inet/tcp/0/h/1"),
    ),
    "base32": (("base32 a",), ("base32 -o b a",)),
    "base64": (("base64 -d a",), ("base64 -o b a", "base64 --output=b a")),
    "command": (("command -v ls",), ()),
    "date": (
        ("date", "date -u +%F", "date -d yesterday '+%s'", "date --iso-8601=s"),
        ("date -s 12:00", "date --set 12:00", "date 01010101", "date --se=x", "date -d x 01010101"),
    ),
    "diff": (("diff -u a b",), ("diff -l a b", "diff --paginate a b", "diff --pag a b")),
    "env": (("env", "env ls", "env A=1 ls -la"), ("env -S 'rm x'", "env A=1 rm x", "env LD_PRELOAD=./x ls")),
    "fd": (("fd x",), ("fd x -x rm", "fd --exec rm", "fd -tf -X rm")),
    "file": (("file a",), ("file -C -m a", "file -bC a", "file --compile")),
    "find": (
        ("find . -name '*.py' -mtime -1 -size +10k", "find src \\( -type f -o ! -empty \\) -print0", "find ."),
        (
            "find . -delete",
            "find . -exec rm {} +",
            "find . -ok rm ';'",
            "find . -fprint x",
            "find . -fls x",
            "find *",
            "find . -execdir rm x",
        ),
    ),
    "jq": (("jq -r '.a | {b: .c}' a.json",), ("jq -i . a", "jq --in-place . a")),
    "rg": (("rg -n -tpy 'a|b' src",), ("rg --pre x a", "rg --pre=x a", "rg -z a", "rg --hostname-bin x a")),
    "sed": (
        ("sed -n '1,20p' a", "sed -n '/^def/,$p' a", "sed 's/a/b/g; 5q' a", "sed -E '/x/d'"),
        (
            "sed -i s/a/b/ a",
            "sed -n 1w a",
            "sed 's/a/b/w x' a",
            "sed '1e rm x' a",
            "sed s/a/b/e a",
            "sed -n -f x a",
            "sed -n '/[/]/w x/p' a",
        ),
    ),
    "set": (
        ("set -e", "set -euxo pipefail"),
        (
            "set -k",
            "set -o posix",
        ),
    ),
    "sort": (
        ("sort -t, -k2 -u a", "sort -- a"),
        ("sort -o a a", "sort -uo a", "sort --output=a", "sort --outp a", "sort --compress-program=x", "sort -T x a"),
    ),
    "tree": (("tree -L 2",), ("tree -o x", "tree --output x", "tree -R")),
    "uniq": (("uniq -c a", "uniq"), ("uniq a b", "uniq -c a b", "uniq -- a b", "uniq -- -a -b", "uniq a*")),
    "git branch": (
        ("git branch -av", "git branch --show-current", "git branch --contains HEAD", "git branch --merged"),
        ("git branch x", "git branch -D x", "git branch -m"),
    ),
    "git cat-file": (("git cat-file -p HEAD:a",), ("git cat-file --textconv HEAD:a", "git cat-file --filt x")),
    "git config": (
        ("git config --get a.b", "git config -l"),
        ("git config a.b c", "git config --unset a", "git config"),
    ),
    "git diff": (("git diff --stat HEAD", "git --no-pager diff"), ("git diff --output=x", "git diff --ext-diff")),
    "git grep": (
        ("git grep -n a -- src",),
        ("git grep -Oless a", "git grep -nO a", "git grep --open-files-in-pager a"),
    ),
    "git log": (
        ("git -C x log --oneline -5 -- a", "git log --format=%H"),
        ("git log --outp x", "git log --format=%G?", "git log --show-sig", "git -c a=b log", "git log '--output' x"),
    ),
    "git reflog": (("git reflog -5",), ("git reflog expire --all", "git reflog delete x")),
    "git remote": (("git remote -v",), ("git remote add a b", "git remote rm a", "git remote prune x")),
    "git tag": (
        ("git tag", "git tag -l 'v1*'", "git tag --sort=-version:refname"),
        ("git tag v1", "git tag -d v1", "git tag -l -d v1"),
    ),
    **{
        f"git {name}": ((f"git {name} --stat",), (f"git {name} --output=x", f"git {name} --o x"))
        for name in ["diff-files", "diff-index", "diff-tree", "range-diff", "shortlog", "show", "whatchanged"]
    },
    "git stash list": (("git stash list",), ("git stash list --output x", "git stash", "git stash pop")),
    "git stash show": (("git stash show -p",), ("git stash show --output=x", "git stash drop")),
}
ALLOWED = [command for allowed, _ in TRIED.values() for command in allowed]
FORBIDDEN = [command for _, forbidden in TRIED.values() for command in forbidden]

UNSAFE = (
    "rm x",
    "./ls",
    "/tmp/ls",
    "ls > x",
    "ls >> x",
    "ls >| x",
    "ls &> x",
    "ls 2> x",
    "ls <> x",
    "ls >& x",
    "ls > /dev/null/../../x",
    "ls > /dev/nullx",
    "ls > /dev/tcp/h/1",
    "cat < /dev/tcp/h/1",
    "cat < $x",
    "cat <<x\n$(rm y)\nx",
    "cat <(rm x)",
    "ls $(rm x)",
    "ls `rm x`",
    'ls "$(rm x)"',
    'ls "`rm x`"',
    "$x",
    "PATH=. ls",
    "LD_PRELOAD=x ls",
    "GIT_DIR=x git status",
    "export PATH=.",
    "alias ls=rm; ls",
    "eval ls",
    "source x",
    ". x",
    "trap 'rm x' EXIT",
    "ls() { rm x; }; ls",
    "ls () (rm x)",
    "function ls { rm x; }",
    "ls |& tee x",
    "ls | tee x",
    "ls | xargs rm",
    "ls | sh",
    "sh -c ls",
    "sudo ls",
    "timeout 1 rm x",
    "timeout 1 ./ls",
    "nohup ls",
    "ls; rm x",
    "ls && rm x",
    "ls || rm x",
    "ls\nrm x",
    "(ls; rm x)",
    "coproc ls",
    "find . -{exec,x} rm",
    "ls 'x",
    'ls "x',
    "ls (",
    "ls )",
    "ls ;; ls",
    "ls &&",
    "| ls",
    "fi\\\nnd",
    "ls \\",
    'ls $"x"',
    "l? x",
    "ls\0",
    "ls \x1b[0m",
    "ls\r\nrm x",
    "ls \u202e x",
    "ls a\u00a0b",
    "git",
    "git push",
    "git --exec-path=x status",
    "git --git-dir=x status",
    "git g* -O",
    "git commit -m x",
    "test -v 'a[$(rm x)]'",
    "(" * 1_000 + "ls" + ")" * 1_000,
    # The two witnesses disagree: tree-sitter takes what follows for another name of the file.
)


@pytest.mark.parametrize("command", [*SAFE, *ALLOWED])
def test_reads_only(command: str) -> None:
    assert only_reads(command)


@pytest.mark.parametrize("command", [*UNSAFE, *FORBIDDEN], ids=lambda command: repr(command)[:60])
def test_may_write(command: str) -> None:
    assert not only_reads(command)


# Options with which a program that otherwise only reads does more: letters, and long names.
MORE: dict[str, tuple[str, tuple[str, ...]]] = {
    "base32": ("o", ("output",)),
    "base64": ("o", ("output",)),
    "diff": ("l", ("paginate",)),
    "fd": ("xX", ("exec", "exec-batch")),
    "file": ("CzZ", ("compile", "uncompress")),
    "git annotate": ("", ("output",)),
    "git blame": ("", ("output",)),
    "git cat-file": ("", ("textconv", "filters")),
    "git diff": ("", ("output", "ext-diff", "show-signature")),
    "git diff-files": ("", ("output", "ext-diff", "show-signature")),
    "git diff-index": ("", ("output", "ext-diff", "show-signature")),
    "git diff-tree": ("", ("output", "ext-diff", "show-signature")),
    "git grep": ("O", ("open-files-in-pager",)),
    "git log": ("", ("output", "ext-diff", "show-signature")),
    "git range-diff": ("", ("output", "ext-diff", "show-signature")),
    "git reflog": ("", ("output", "ext-diff", "show-signature")),
    "git rev-list": ("", ("output",)),
    "git shortlog": ("", ("output", "ext-diff", "show-signature")),
    "git show": ("", ("output", "ext-diff", "show-signature")),
    "git stash list": ("", ("output", "ext-diff", "show-signature")),
    "git stash show": ("", ("output", "ext-diff", "show-signature")),
    "git whatchanged": ("", ("output", "ext-diff", "show-signature")),
    "jq": ("i", ("in-place",)),
    "rg": ("z", ("pre", "hostname-bin", "search-zip")),
    "sort": ("To", ("output", "compress-program", "temporary-directory")),
    "tree": ("oR", ("output",)),
}


@pytest.mark.parametrize("name", [name for name, (_, names) in MORE.items() if names])
def test_abbreviated_option_is_recognized(name: str) -> None:
    for long in MORE[name][1]:
        for end in range(1, len(long) + 1):
            assert not only_reads(f"{name} --{long[:end]} x"), long[:end]
            assert not only_reads(f"{name} '--{long[:end]}=x'"), long[:end]


@pytest.mark.parametrize("name", [name for name, (letters, _) in MORE.items() if letters])
def test_option_in_cluster_is_recognized(name: str) -> None:
    for letter in MORE[name][0]:
        assert not only_reads(f"{name} -n{letter}x y")


# ---- what may be put into none of them -------------------------------------------------------------------------------

PIECES = (
    "$(touch x)",
    "`touch x`",
    "> x",
    ">> x",
    ">| x",
    "&> x",
    "2> x",
    "<> x",
    "; touch x ;",
    "\ntouch x\n",
    "&& touch x &&",
    "| tee x |",
    "| sh",
    "& touch x",
    "<(touch x)",
    ">(touch x)",
    "${x:-`touch x`}",
    "; PATH=. ls ;",
    "; eval x ;",
    "; ls() { touch x; } ;",
    "; find . -delete ;",
    "; sort -o x y ;",
    "; git -c a.b='!touch x' b ;",
)
safe_commands = st.sampled_from([*SAFE, *ALLOWED])
safe_lines = st.lists(safe_commands, min_size=1, max_size=3).flatmap(
    lambda commands: st.sampled_from([" && ", "; ", "\n", " || "]).map(lambda border: border.join(commands))
)


@given(safe_lines)
def test_combined_scripts_stay_read_only(line: str) -> None:
    assume("#" not in line and "\\\n" not in line)
    assert only_reads(line)


def _borders(command: str) -> list[int]:
    """Where a word begins or ends, outside of quotes."""
    lexer = shlex.shlex(command, posix=False, punctuation_chars=True)
    places = [0]
    for token in lexer:
        places.append(command.index(token, places[-1]) + len(token))
    return places


@given(safe_lines, st.sampled_from(PIECES))
def test_dangerous_part_makes_script_unsafe(line: str, piece: str) -> None:
    assume("#" not in line)
    for place in _borders(line):
        assert not only_reads(f"{line[:place]} {piece} {line[place:]}"), place


@given(safe_lines, st.sampled_from(["$(touch x)", "`touch x`"]), st.data())
def test_dangerous_part_in_a_word_is_unsafe(line: str, piece: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(line)))
    assume("'" not in line and "\\" not in line and "#" not in line)
    assert not only_reads(line[:place] + piece + line[place:])


@given(st.text(max_size=60) | st.text(alphabet="lsrm ;|&()<>$`'\"\\\n-=*{}#0", max_size=30))
def test_any_text_has_an_answer(text: str) -> None:
    assert only_reads(text) in {True, False}


@pytest.mark.parametrize(
    "command",
    [
        # A project says which program is run, or is one.
        *(
            "cargo tree",
            "cargo metadata",
            "yarn list",
            "pnpm ls",
            "bundle list",
            "poetry show",
            "uv pip list",
            "rustup show",
        ),
        "composer show",
        "ldd tool",
        # It writes, or runs what an option names.
        *("cloc --out=x .", "cloc --extract-with='sh x' .", "scc -o x ."),
        # It tells somebody else.
        *("host a.example", "nslookup a.example", "getent hosts a.example", "npm view a", "npm outdated"),
    ],
)
def test_looks_like_reading(command: str) -> None:
    assert not only_reads(command)
