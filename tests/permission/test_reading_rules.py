"""A rule about reading a file holds for each command whose words name the file, whatever reads it."""

import os
import subprocess
from pathlib import Path

import pytest

from engine.core.events import Verdict
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.permission_types import PermissionQuery, PermissionScope
from engine.permission.policy import Policy
from engine.permission.rules.rule_file import parse_rule
from engine.tools.builtin.bash_permissions import need_of

# `deny read *.pem` forbids these.
DENIED = """
awk 1 x.pem
sort x.pem
git blame x.pem
git blame HEAD -- x.pem
git blame -L1,2 HEAD x.pem
git blame --contents x.pem a.txt
git blame --ignore-revs-file x.pem a.txt
git blame -S x.pem a.txt
git annotate x.pem
git show HEAD:x.pem
git show HEAD:./x.pem
git show HEAD:sub/y.pem
git show :x.pem
git show :0:x.pem
git show HEAD -- x.pem
git show HEAD -- ':(top)x.pem'
git -C sub show HEAD:y.pem
git log -p -- x.pem
git log -p x.pem
git log -L1,2:x.pem
git diff x.pem
git diff HEAD -- '*.pem'
git diff --no-index a.txt x.pem
git cat-file -p HEAD:x.pem
git cat-file blob HEAD:x.pem
git grep --no-index SECRET
git grep --untracked SECRET
git grep --no-ind SECRET sub
git grep SECRET -- x.pem
git ls-files -X x.pem
rgrep SECRET
rgrep SECRET .
grep -r SECRET .
grep --dir=recurse SECRET .
grep --directories=recurse SECRET
sort --files0-from=x.pem
""".strip().splitlines()
# These may read it, which no word tells.
ASKED = """
awk 'BEGIN {ARGV[1] = "x." "pem"; ARGC = 2} 1'
awk 'BEGIN {SYMTAB["AR" "GV"][1] = "x." "pem"} 1'
awk 'BEGIN {while ((getline l < ("x." "pem")) > 0) print l}'
sort --files0-from=list
wc --files0-from=list
git cat-file --batch
""".strip().splitlines()
# Ordinary reading is as free as it was.
FREE = """
git show HEAD
git show HEAD:a.txt
git log --oneline -5 main
git log -p -- a.txt
git diff HEAD~1 HEAD
git diff origin/main...HEAD
git blame a.txt
git blame -L1,2 a.txt
git grep pem
git ls-files -x '*.pem'
git stash show -p
awk '{print NR, $1}' a.txt
grep -n pem a.txt
sort -u a.txt
""".strip().splitlines()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "sub").mkdir()
    for name in ("x.pem", "sub/y.pem", "a.txt", "list"):
        (folder / name).write_text("SECRET\n")
    who = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, env={**os.environ, **who})
    return folder


def verdict(command: str, project: Path) -> Verdict:
    need = need_of(command, str(project))
    query = PermissionQuery(
        chain=(PermissionScope(session_id=SessionId("s"), turn_id=TurnId("t")),),
        call_id=CallId("c"),
        cwd=str(project),
        tool="bash",
        read_only=False,
        permission="bash",
        rights=need.rights,
        opaque=need.opaque,
    )
    return Policy(profile="ask", user=(parse_rule("deny read *.pem", "test"),)).judge(query).verdict


@pytest.mark.parametrize("command", DENIED)
def test_denied_file_is_read_by_nothing(command: str, project: Path) -> None:
    assert verdict(command, project) == "deny"


@pytest.mark.parametrize("command", ASKED)
def test_file_that_no_word_names_is_asked_about(command: str, project: Path) -> None:
    assert verdict(command, project) == "ask"


@pytest.mark.parametrize("command", FREE)
def test_other_files_are_read_without_a_question(command: str, project: Path) -> None:
    assert verdict(command, project) == "allow"
