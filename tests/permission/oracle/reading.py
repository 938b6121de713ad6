"""Random scripts that only read, plainly written: loops, variables, conditions and substitutions over reading commands."""

from __future__ import annotations

import random
import re
from typing import Final

# What a rule may become; `§rule` stands for another one, and `¶` for the end of a line.
_RULES: Final = {
    "script": (
        "§simple", "§simple", "§simple | §filter", "§simple | §filter | §filter", "§simple && §simple", "§simple; §simple", "§loop", "§loop",
        "§loop", "§set; §use", "§set; §use; §use", "§set¶§loop", "§test && §simple", "if §test; then §simple; else §simple; fi", "§loop | §filter",
        "cd src && §simple", "§count", "(cd src && §simple)", "§simple || echo none", "show() { §simple; }; show", "case §word in a*) §simple;; *) §simple;; esac",
    ),
    "simple": (
        "ls -la §dir", "cat §file", "head -n 20 §file", "tail -5 §file", "wc -l §file §file", "grep -n §pattern §file", "grep -c §pattern §file", "stat -c %s §file",
        "git log --oneline -§number", "git status --short", "git diff --stat HEAD~§number", "git show --stat HEAD~§number", "git blame -L 1,§number §file", "du -sh §dir",
        "find §dir -name '*.py'", "find §dir -type f | wc -l", "find §dir -name '*.py' -exec wc -l {} +", "find §dir -name '*.py' | xargs grep -n §pattern", "diff §file §file",
        "sed -n 1,§numberp §file", "awk '{print $1}' §file", "cut -d: -f1 §file", "sort -u §file", "git ls-files | wc -l", "date +%F", "basename §file", "md5sum §file",
        "timeout 10 git log -§number", "env LC_ALL=C sort §file", "python3 --version", "file §file", "nl §file", "git grep -n §pattern", "jq .name package.json", "echo §word",
    ),
    "filter": ("sort", "sort -rn", "uniq -c", "head -§number", "tail -n §number", "wc -l", "grep -v §pattern", "cut -c1-80", "awk '{print $2}'", "sed 's/a/b/'", "tr a b", "cat -n", "tee /dev/null"),
    "lister": ("git ls-files", "git ls-files '*.py'", "find src -name '*.py'", "find . -name '*.md'", "git diff --name-only HEAD~1", "ls src", "git ls-files | grep py", "find src -type f | sort"),
    "loop": (
        "for f in $(§lister); do §onfile; done", "for f in $(§lister); do §onfile; §onfile; done", "for f in src/*.py; do §onfile; done", "for f in *.md *.txt; do §onfile; §onfile; done",
        "§lister | while read -r f; do §onfile; done", "§lister | while IFS= read -r f; do §onfile; §onfile; done", "while read -r f; do §onfile; done < <(§lister)",
        "for f in README.md §file §file; do §onfile; done", "for i in 1 2 3; do §oni; done", "for i in $(seq 1 §number); do §oni; done", "for ((i=1; i<§number; i++)); do §oni; done",
        "for d in src tests; do §ondir; done", "for d in */; do §ondir; done", "while read -r line; do §online; done < §file", "cat §file | while read -r line; do §online; done",
        "for c in $(git log --format=%h -§number); do §oncommit; done", "git log --format=%h -§number | while read -r c; do §oncommit; done", "for b in $(git branch --format='%(refname:short)'); do git log -1 --oneline $b; done",
        "for f in $(§lister); do if §onfiletest; then §onfile; fi; done", "for f in src/*.py; do §onfiletest && §onfile; done", "for w in one two three; do grep -rn \"$w\" src | wc -l; done",
        "i=0; while [ $i -lt §number ]; do §oni; i=$((i+1)); done", "total=0; for f in $(§lister); do n=$(wc -l < \"$f\"); total=$((total + n)); done; echo $total",
    ),
    "onfile": (
        "wc -l \"$f\"", "echo \"$f\"", "echo \"== $f\"", "head -n §number \"$f\"", "grep -c §pattern \"$f\"", "grep -Hn §pattern \"$f\"", "n=$(wc -l < \"$f\"); echo \"$n $f\"", "echo \"$f: $(wc -l < \"$f\")\"",
        "stat -c '%s %n' \"$f\"", "ls -l \"$f\"", "git log -1 --format=%cd -- \"$f\"", "basename \"$f\" .py", "echo \"${f%.py}\"", "echo \"${f##*/}\"", "n=$(grep -c §pattern \"$f\"); [ \"$n\" -gt 0 ] && echo \"$f $n\"",
        "sed -n 1,5p \"$f\"", "awk 'NR<3' \"$f\"", "printf '%s\\n' \"$f\"", "name=$(basename \"$f\"); echo \"$name\"", "wc -l $f", "cat \"$f\" | head -3", "tail -1 \"$f\" | tr a b", "dirname \"$f\"", "md5sum \"$f\" | cut -d' ' -f1",
    ),
    "onfiletest": ("[ -f \"$f\" ]", "grep -q §pattern \"$f\"", "[[ $f == *.py ]]", "[ $(wc -l < \"$f\") -gt 10 ]", "test -s \"$f\"", "[[ -f $f ]]", "[[ $(wc -l < \"$f\") -gt 10 ]]"),
    "oni": ("echo $i", "git show --stat HEAD~$i", "git log -1 --skip=$i --oneline", "sed -n \"${i}p\" §file", "head -n $i §file | tail -1", "echo $((i * 2))", "git diff --stat HEAD~$i HEAD~$((i-1))"),
    "ondir": ("ls \"$d\"", "du -sh \"$d\"", "find \"$d\" -name '*.py' | wc -l", "echo \"$d $(ls \"$d\" | wc -l)\"", "grep -rn §pattern \"$d\"", "[ -d \"$d\" ] && ls -la \"$d\"", "(cd \"$d\" && ls)", "git log --oneline -3 -- \"$d\""),
    "online": ("echo \"$line\"", "echo \"> $line\"", "echo \"${#line}\"", "[[ $line == a* ]] && echo \"$line\"", "case \"$line\" in a*) echo a;; *) echo b;; esac", "echo \"$line\" | cut -d: -f1", "printf '%s\\n' \"$line\"", "n=$((n+1))"),
    "oncommit": ("git show --stat \"$c\"", "git show --stat $c | head -5", "echo $c", "git log -1 --format=%s \"$c\"", "git diff --stat \"$c\" HEAD"),
    "set": (
        "x=$(git rev-parse HEAD)", "x=$(git branch --show-current)", "x=src", "x=§word", "x=$(basename §file)", "x=$(date +%F)", "x=$(grep -c §pattern §file)", "x=$(wc -l < §file)", "x=$(ls | wc -l)", "x=$(§lister)",
        "x=$(git log -1 --format=%h)", "x=$(pwd)", "x=$(git rev-parse --show-toplevel)", "x=\"src/main.py\"", "x=$(find src -name '*.py' | head -1)", "x=$((§number * 2))", "x=${1:-src}", "x=$(cat §file | head -1)", "x=($(§lister))", "x=$(nproc)",
    ),
    "use": ("echo \"$x\"", "echo $x", "echo \"value: ${x}\"", "[ -n \"$x\" ] && echo yes", "printf '%s\\n' \"$x\"", "echo \"$x\" | wc -l", "ls \"$x\"", "git log -1 \"$x\"", "[[ $x == a* ]] && echo a", "grep -n \"$x\" §file", "echo \"${x:0:7}\"", "[ -z \"$x\" ] || echo set", "git show --stat \"$x\"", "echo \"${#x}\""),
    "test": ("[ -f §file ]", "[ -d src ]", "test -e §file", "[[ -f §file ]]", "grep -q §pattern §file", "git diff --quiet", "[ -n \"$HOME\" ]", "command -v git > /dev/null", "[ $(ls | wc -l) -gt §number ]", "[ \"$(git branch --show-current)\" = main ]"),
    "count": ("n=$(§simple | wc -l); echo $n", "echo \"$(§simple | wc -l) lines\"", "echo $(( $(wc -l < §file) + §number ))", "n=$(wc -l < §file); [ \"$n\" -gt §number ] && echo long", "n=$(wc -l < §file); if [ $n -gt 5 ]; then echo $n; fi"),
    "file": ("README.md", "src/main.py", "a.txt", "notes.md", "src/util.py", "tests/test_a.py"),
    "dir": ("src", "tests", ".", "src/app"),
    "pattern": ("import", "'def '", "TODO", "'^class'", "-i error"),
    "word": ("abc", "'two words'", "\"$HOME\"", "main", "\"$(date +%F)\""),
    "number": ("1", "3", "5", "12", "20"),
}  # fmt: skip


def reading_script(seed: int) -> str:
    """Return the script of a seed."""
    chance = random.Random(f"reading {seed}")

    def fill(template: str) -> str:
        return re.sub(r"§(lister|onfiletest|oncommit|onfile|online|ondir|oni|[a-z]+?(?=p §|\b))", made, template)

    def made(match: re.Match[str]) -> str:
        return fill(chance.choice(_RULES[match[1]]))

    return fill("§script").replace("¶", "\n")
