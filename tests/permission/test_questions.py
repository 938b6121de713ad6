"""Which commands are asked about: of those that only read hardly any, where the kernel can confine them."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from engine.core.events import Verdict
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.permission_types import PermissionQuery, PermissionScope
from engine.files.real_path import followed
from engine.permission.policy import Policy
from engine.permission.rules.rule_file import parse_rule
from engine.tools.builtin.bash_permissions import need_of
from tests.permission.oracle.reading import reading_script
from tests.permission.oracle.scanners import scan_in_project
from tests.support.reading_project import READING, make_reading_project

# These would not work in a box: they ask a server or a daemon, or read the user's home.
REFUSED_BY_A_BOX: Final = {"ls ~/.config", "ss -tlnp", "docker compose ps", "systemctl status", "npm ls"}
SCRIPTS: Final = 600
MOST_OPAQUE: Final = 0.03
MOST_ASKED: Final = 0.1

# Nothing that runs unasked may show a secret of the project, start something unknown, or need what a box refuses.
ASKED: Final = r"""
docker ps
docker images
podman ps -a
kubectl get pods
kubectl version --client
oc status
helm list
terraform show
npm ls
npm config get registry
npm root
yarn list
pip list
pip show pytest
uv pip list
conda list
go list ./...
aws s3 ls
gh pr list
cat .env
wc -l .env
grep -r x .
grep -r --exclude=a --include='*.py' x .
grep -r --include='*.py' --inc=.env x .
grep -r --include='*.py' --include='.*' x .
grep -r --include='*.py' --exclude=a --include='.e*' x .
grep -r -e --include=*.py x .
grep -r --include='[.]env' x .
grep -r --include="$x" x .
find . | xargs cat
find . -type f -exec cat {} +
find . -exec grep x {} \;
find . -name '.*' -exec cat {} +
find . -path -name -exec cat {} +
find . -not -path -name -exec cat {} +
find . -name '*.py' -o -name '.e*' | xargs cat
find . -exec cat {} + -name '*.py'
find . -not -name '*.py' -exec cat {} +
find . ! -name '*.py' | xargs head
find -files0-from list.txt -exec cat {} +
find . -name "$x" | xargs cat
cd src && find .. -type f | xargs cat
find . -type f | (cd src; xargs cat)
ls -a | xargs cat
ls -A | while read -r f; do cat "$f"; done
for f in $(ls -A); do cat < "$f"; done
for f in .*; do cat "$f"; done
git ls-files -o | xargs cat
git ls-files --format=.env | xargs cat
git -C src ls-files | xargs cat
git grep -l x | xargs cat
basename ../.env | xargs cat
while read -r f; do cat "$f"; done < list.txt
while read -r f; do wc -l "$f"; done < list.txt
cat list.txt | xargs wc -l
cat list.txt | xargs cat
x=$(head -1 list.txt); cat "$x"
x=$(head -1 list.txt); git show "HEAD:$x"
for f in $(git ls-files); do git show "HEAD:$f"; done
for f in $(git branch); do cat "$f"; done
xargs -a list.txt cat
git tag v2
git tag -d v1
git branch new
git branch -D main
git branch --contains HEAD -d main
unzip archive.zip
unzip -o archive.zip -d src
gzip README.md
xxd -r README.md made
yq -i .a compose.yml
yq 'load_str(".env")' compose.yml
openssl genrsa -out made
openssl x509 -in cert.crt -out made
python3 -m json.tool package.json made
python3 -m http.server
python3 tool.py --version
./tool --version
src/tool --help
bash tool --version
npx tsc --version
sudo rm --help x
ctest -V
pytest -v
make -n
timeout 5 ./tool
timeout 5 make
env X=1 ./tool
env PATH=. ls
env LD_PRELOAD=./x ls
nice make
sudo ls
xargs rm < list.txt
find . -exec ./tool {} +
find . -name '*.py' -exec rm {} +
find . -name '*.py' | xargs sed -i s/a/b/
ls && touch made
git status; make
MAGIC=.env file README.md
BC_ENV_ARGS=.env bc
BAT_CONFIG_DIR=. bat README.md
UNZIP=-p unzip -l archive.zip
strings @list.txt
nm @list.txt
objdump -S src/main.py
objdump -dS src/main.py
objdump --source src/main.py
zstd -l --filelist=.env
zstd -t --filelist list.txt
xz -l --files=list.txt
xzcat --files=.env
yq --from-file list.txt compose.yml
yq -f list.txt compose.yml
man ./list.txt
man ./page.so
at now
zstdcat -o made README.md
git diff README.md ~/.ssh/id_rsa
man src/main.py
who .env
users .env
git diff --no-index src .
cat /etc/shadow
cat /etc/passwd
cat /proc/self/environ
ls ~
cat ~/.config/gh/hosts.yml
""".strip().splitlines()

# Without a box these ask, as before: only the bare list runs unconfined.
NOT_BARE: Final = """
env X=1 ls
nice ls
timeout 5 ls
python3 --version
ls --version | cat && node --help
find . -name '*.py' -exec wc -l {} +
ls src | xargs wc -l
for f in $(ls src); do wc -l < "$f"; done
x=$(basename README.md); wc -l "$x"
cat /etc/os-release
head -3 /proc/cpuinfo
git tag
xxd README.md
grep -R import src
diff -r src tests
""".strip().splitlines()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_reading_project(tmp_path_factory.mktemp("reading"))


def verdict(command: str, project: Path, *rules: str, has_box: bool = True) -> Verdict:
    need = need_of(command, str(project), has_box=has_box)
    query = PermissionQuery(
        chain=(PermissionScope(session_id=SessionId("s"), turn_id=TurnId("t")),),
        call_id=CallId("c"),
        cwd=str(project),
        tool="bash",
        read_only=False,
        permission="bash",
        rights=need.rights,
        opaque=need.opaque,
        detail=command,
    )
    return Policy(profile="ask", user=tuple(parse_rule(one, "test") for one in rules)).judge(query).verdict


def test_ordinary_reading_is_hardly_asked_about(project: Path) -> None:
    assert len(READING) >= 158
    asked = {command for command in READING if verdict(command, project) != "allow"}
    assert asked == REFUSED_BY_A_BOX
    assert len(asked) <= 5


@pytest.mark.parametrize("command", ASKED)
def test_what_must_be_asked_about(command: str, project: Path) -> None:
    assert verdict(command, project) == "ask"


@pytest.mark.parametrize("command", NOT_BARE)
def test_nothing_new_runs_without_a_box(command: str, project: Path) -> None:
    assert verdict(command, project) == "allow"
    assert verdict(command, project, has_box=False) == "ask"


def _scripts() -> Iterator[str]:
    return map(reading_script, range(SCRIPTS))


def test_plain_reading_scripts_are_rarely_opaque(project: Path) -> None:
    opaque = [script for script in _scripts() if scan_in_project(script).opaque]
    asked = [script for script in _scripts() if verdict(script, project) != "allow"]
    assert len(opaque) <= SCRIPTS * MOST_OPAQUE, opaque
    assert len(asked) <= SCRIPTS * MOST_ASKED, asked


# ---- secrets on lists ------------------------------------------------------------------------------------------------

LISTED: Final = (
    "git ls-files | xargs cat",
    "git ls-files -z | xargs -0 grep x",
    "for f in $(git ls-files); do head -1 $f; done",
    'while read -r f; do cat "$f"; done < <(git ls-files)',
)


@pytest.mark.parametrize("command", LISTED)
def test_secret_on_a_list_is_asked_about_if_git_tracks_it(command: str, tmp_path: Path) -> None:
    project = make_reading_project(tmp_path)
    assert verdict(command, project) == "allow"
    subprocess.run(["git", "add", "-f", ".env"], cwd=project, check=True)
    assert verdict(command, project) == "ask"


@pytest.mark.parametrize("version", ["2", "3", "4", "split"])
def test_index_in_each_format(version: str, tmp_path: Path) -> None:
    project = make_reading_project(tmp_path)
    (project / "new.txt").touch()
    for command in {
        "3": ["git add -N new.txt"],
        "split": ["git update-index --split-index"],
    }.get(version, [f"git update-index --index-version {version}"]):
        subprocess.run(command.split(), cwd=project, check=True)
    # An index that can't be read leaves all files below the folder.
    assert verdict("git ls-files | xargs cat", project) == ("allow" if version in "23" else "ask")
    (project / ".env").rename(project / "env")
    assert verdict("git ls-files | xargs cat", project) == "allow"


@pytest.mark.parametrize("name", ["a .env", "-rf", "x -n", "a'b", "a\\b", " .env"])
def test_odd_name_on_a_list_is_asked_about(name: str, tmp_path: Path) -> None:
    project = make_reading_project(tmp_path)
    (project / name).touch()
    assert verdict("for f in $(git ls-files); do cat $f; done", project) == "ask"
    assert verdict("git ls-files | xargs wc -l", project) == "ask"


FOLLOWED: Final = (
    "find src | xargs cat",
    "find src -exec cat {} +",
    "cd src && ls | xargs cat",
    "git ls-files | xargs cat",
    "grep -R x src",
    "diff -r src tests",
    "rg -L x src",
)


@pytest.mark.parametrize("command", FOLLOWED)
def test_link_to_a_secret_is_asked_about(command: str, tmp_path: Path) -> None:
    project = make_reading_project(tmp_path)
    assert verdict(command, project) == "allow"
    (project / "src/link").symlink_to("../.env")
    subprocess.run(["git", "add", "src/link"], cwd=project, check=True)
    assert verdict(command, project) == "ask"
    assert verdict("grep -r x src", project) == "allow", "it follows none"


@pytest.mark.parametrize("command", FOLLOWED[4:])
def test_link_out_of_the_folder_is_asked_about(command: str, tmp_path: Path) -> None:
    project = make_reading_project(tmp_path)
    (project / "src/link").symlink_to("..")
    assert verdict(command, project) == "ask"


def test_rule_about_a_file_holds_for_lists(project: Path) -> None:
    rule = "deny read src/private/*"
    for command in ("find src -type f | xargs cat", "find src -name '*.py' -exec head {} +", 'x=$(ls); ls "$x"'):
        assert verdict(command, project) == "allow"
        assert verdict(command, project, rule) == "ask"
        assert verdict(command, project, "allow read src/private/*") == "allow"


def test_rule_about_outside_holds_for_public_files(project: Path) -> None:
    assert verdict("cat /proc/cpuinfo", project) == "allow"
    assert verdict("cat /proc/cpuinfo", project, "ask outside *") == "ask"
    assert verdict("cat /proc/cpuinfo", project, "deny outside /proc/*") == "deny"


def test_outside_of_a_project_nothing_is_listed(tmp_path: Path) -> None:
    assert os.path.isdir(tmp_path)  # noqa: PTH112
    assert verdict("find / -name '*.txt' | xargs cat", tmp_path) == "ask"


@pytest.mark.parametrize("command", ["rg -L x", "rg -L x .", "grep -R x src", "diff -r src tests", "rg --follow x src"])
@pytest.mark.parametrize("target", ["/etc", "../tests"])
def test_link_that_is_followed_has_one_correct_reason(command: str, target: str, tmp_path: Path) -> None:
    for name in ("src", "tests"):
        (tmp_path / name).mkdir()
    subprocess.run(("git", "init", "-q", str(tmp_path)), check=True)
    (tmp_path / "src" / "link").symlink_to(target)
    project = followed(str(tmp_path))
    reason = need_of(command, project).opaque
    left = "the project" if target == "/etc" else f"{project}/src"
    is_below = target != "/etc" and command in {"rg -L x", "rg -L x ."}
    assert reason == (
        "" if is_below else f"{command.split(maxsplit=1)[0]} follows links, and {project}/src/link leads out of {left}"
    )


def test_no_guard_of_git_reaches_a_filter(tmp_path: Path) -> None:
    """Why git is not on the bare list: what it runs at `git status` has a name that only the repository knows."""
    guards = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "diff.external=")

    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(("git", *who, *guards, *words), cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / ".gitattributes").write_text("*.txt filter=any\n")
    (tmp_path / "x.txt").write_text("x\n")
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    git("config", "filter.any.clean", f"touch '{tmp_path}/ran'; cat")
    (tmp_path / "x.txt").write_text("y\n")
    git("status")
    assert (tmp_path / "ran").exists()
    assert all(verdict(f"git {name}", tmp_path, has_box=False) == "ask" for name in ("status", "diff", "log", "branch"))
