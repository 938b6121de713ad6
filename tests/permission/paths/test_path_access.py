"""Where paths lead, on a real file system: to the byte what the kernel says, and never inside what is outside."""

import json
import os
import pwd
import random
import subprocess
import sys
import time
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from engine.files.real_path import MAX_LINKS, Real, Unclear, is_within, real_path
from engine.permission.effects.scan_result import Access, PathUse, Scan, ScannedCommand
from engine.permission.paths.path_access import PathAnalysis, PathLocation, analyse_paths, judge_path
from engine.permission.paths.shell_glob import MAX_MATCHES, expand_glob
from engine.permission.project_root import find_project_root
from engine.permission.shell.scan import scan

FILES = (
    "home/project/README.md",
    "home/project/src/main.py",
    "home/project/sub/deep/x.txt",
    "home/project/~tilde",
    "home/project/$HOME.txt",
    "home/project/..dotdot",
    "home/project/.../three.txt",
    "home/project/-dash.txt",
    "home/project/a*b.txt",
    "home/project/with space.txt",
    "home/outside/secret.txt",
    "home/project-evil/x.txt",
    "home/proj/x.txt",
    "home/Project/x.txt",
    "home/.bashrc",
)
LINKS = {
    "home/project/out": "../outside",
    "home/project/out_file": "../outside/secret.txt",
    "home/project/in": "src",
    "home/project/in_absolute": "{root}/home/project/src",
    "home/project/hop1": "hop2",
    "home/project/hop2": "./out/.",
    "home/project/dangling_in": "src/new.py",
    "home/project/dangling_out": "../outside/new.txt",
    "home/project/dangling_folder": "../nowhere/x",
    "home/project/loop": "loop",
    "home/project/loop_a": "loop_b/x",
    "home/project/loop_b": "loop_a",
    "home/project/up": "..",
    "home/project/machine": "/",
    "home/project/cross": "sub/deep",
    "home/project/sub/deep/cross": "../../out",
    "home/outside/back": "../project/src",
    "home/portal": "project",
}


@attrs.frozen
class Tree:
    """Folders with links in all directions; `home/project` is the project."""

    root: Path

    @property
    def home(self) -> str:
        return str(self.root / "home")

    @property
    def project(self) -> str:
        return str(self.root / "home/project")

    def judge(self, text: str) -> PathLocation | Unclear:
        return judge_path(text, cwd=self.project, project=self.project, home=self.home, kind="file")

    def analyse(
        self,
        *uses: tuple[Access, str],
        by: str = "cat",
        cwd: str = "",
        commands: tuple[ScannedCommand, ...] = (),
        pattern: bool = False,
    ) -> PathAnalysis:
        """Judge what a script touches; paths are relative to the project."""
        paths = tuple(
            PathUse(path=f"{self.project}/{path}", access=access, by=by, is_pattern=pattern) for access, path in uses
        )
        ran = ScannedCommand(argv=(by,), cwd=f"{self.project}/{cwd}" if cwd else self.project)
        return analyse_paths(Scan(commands=(*commands, ran), paths=paths), cwd=self.project, project=self.project)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    root = Path(os.path.realpath(tmp_path))
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    for name, target in LINKS.items():
        (root / name).symlink_to(target.format(root=root))
    return Tree(root)


def leads(analyse: PathAnalysis) -> str:
    """Say it in one word."""
    if analyse.opaque:
        return "unclear"
    return "inside" if all(path.inside for path in analyse.paths) else "outside"


# ---- paths that a tool is given --------------------------------------------------------------------------------------

INSIDE = {
    "README.md": "README.md",
    "./README.md": "README.md",
    "src//main.py": "src/main.py",
    "src/./main.py": "src/main.py",
    "src/": "src",
    ".": "",
    "./": "",
    "src/..": "",
    "src/../README.md": "README.md",
    "in/main.py": "src/main.py",
    "in/../README.md": "README.md",
    "in_absolute/main.py": "src/main.py",
    "cross/../../README.md": "README.md",
    "dangling_in": "src/new.py",
    "new": "new",
    "new/folder/file": "new/folder/file",
    "new/../README.md": "README.md",
    "up/project/README.md": "README.md",
    "machine{root}/home/project/README.md": "README.md",
    "out/back/main.py": "src/main.py",
    "{root}/home/portal/README.md": "README.md",
    "{root}/home/project": "",
    "//{root}/home/project/README.md": "README.md",
    "~/project/README.md": "README.md",
    "~/../home/portal/src": "src",
    "~tilde": "~tilde",
    "~New File": "~New File",
    "./~": "~",
    "./~root/x": "~root/x",
    "$HOME.txt": "$HOME.txt",
    "$HOME": "$HOME",
    "${{HOME}}/x": "${{HOME}}/x",
    "$(id)": "$(id)",
    "..dotdot": "..dotdot",
    "...": "...",
    ".../three.txt": ".../three.txt",
    "..../x": "..../x",
    "-dash.txt": "-dash.txt",
    "--": "--",
    "a*b.txt": "a*b.txt",
    "*": "*",
    "{{a,b}}": "{{a,b}}",
    "with space.txt": "with space.txt",
    " leading": " leading",
    "line\nbreak": "line\nbreak",
    "back\\slash": "back\\slash",
    "\\..\\x": "\\..\\x",
    "file:///etc/passwd": "file:/etc/passwd",
    "%2e%2e/x": "%2e%2e/x",
    "\u2024\u2024/x": "\u2024\u2024/x",
    "\udcff": "\udcff",
}
OUTSIDE = {
    "..": "home",
    "../": "home",
    "../.bashrc": "home/.bashrc",
    "./../.bashrc": "home/.bashrc",
    ".//..//.bashrc": "home/.bashrc",
    "src/../../.bashrc": "home/.bashrc",
    "new/../../.bashrc": "home/.bashrc",
    "../project-evil/x.txt": "home/project-evil/x.txt",
    "../proj/x.txt": "home/proj/x.txt",
    "../Project/x.txt": "home/Project/x.txt",
    "../PROJECT/README.md": "home/PROJECT/README.md",
    "out": "home/outside",
    "out/": "home/outside",
    "out/.": "home/outside",
    "out/new": "home/outside/new",
    "out_file": "home/outside/secret.txt",
    "hop1/secret.txt": "home/outside/secret.txt",
    "out/../proj/x.txt": "home/proj/x.txt",
    "cross/cross/secret.txt": "home/outside/secret.txt",
    "cross/cross/..": "home",
    "dangling_out": "home/outside/new.txt",
    "dangling_folder/y": "home/nowhere/x/y",
    "dangling_folder/../y": "home/nowhere/y",
    "up": "home",
    "up/.bashrc": "home/.bashrc",
    "machine": "",
    "machine/x": "/x",
    "~": "home",
    "~/": "home",
    "~/.bashrc": "home/.bashrc",
    "~/project/../.bashrc": "home/.bashrc",
    "/": "",
    "/etc/passwd": "/etc/passwd",
    "/..": "",
    "/../../etc/passwd": "/etc/passwd",
    "/proc/self/root/nowhere": "/nowhere",
}
UNCLEAR = (
    "",
    " ",
    "\n",
    "a\0b",
    "\ud800",
    "loop",
    "loop/x",
    "loop/../README.md",
    "loop_a",
    "x" * 300,
    "x/" * 3_000,
    "/proc/self/cwd",
    "/proc/self/cwd/README.md",
    "/proc/self/exe",
    "/proc/self/fd/0",
    "/dev/fd/0",
    "/dev/stdin",
    "~nobody_has_that_name",
    "~nobody_has_that_name/x",
)


@pytest.mark.parametrize(("text", "leads_to"), INSIDE.items())
def test_inside(tree: Tree, text: str, leads_to: str) -> None:
    path = "/".join(filter(None, (tree.project, leads_to.format())))
    assert tree.judge(text.format(root=tree.root)) == PathLocation(path, inside=True)


@pytest.mark.parametrize(("text", "leads_to"), OUTSIDE.items())
def test_outside(tree: Tree, text: str, leads_to: str) -> None:
    path = str(tree.root / leads_to) if leads_to else "/"
    if path.startswith("/etc"):
        path = os.path.realpath(path)
    assert tree.judge(text) == PathLocation(path, inside=False)


@pytest.mark.parametrize("text", UNCLEAR)
def test_unclear(tree: Tree, text: str) -> None:
    assert isinstance(tree.judge(text), Unclear)


def test_names_differ_by_their_bytes(tree: Tree) -> None:
    """What looks the same is another file on Linux."""
    for form in ("NFC", "NFD"):
        (tree.root / "home" / f"{unicodedata.normalize(form, 'über')}-{form}").mkdir()
        name = unicodedata.normalize(form, "ünï.txt")
        assert tree.judge(name) == PathLocation(f"{tree.project}/{name}", inside=True)
    project = tree.root / "home" / f"{unicodedata.normalize('NFC', 'über')}-NFC"
    other = str(tree.root / "home" / f"{unicodedata.normalize('NFD', 'über')}-NFC/x")
    assert judge_path(other, cwd=tree.project, project=str(project), home=tree.home, kind="file") == PathLocation(
        other, inside=False
    )


def test_the_home_of_a_user(tree: Tree) -> None:
    somebody = pwd.getpwuid(os.getuid())
    assert tree.judge(f"~{somebody.pw_name}/nowhere") == PathLocation(
        f"{os.path.realpath(somebody.pw_dir)}/nowhere", inside=False
    )
    assert judge_path(
        f"~{somebody.pw_name}", cwd=tree.project, project=tree.project, home=tree.home, kind="shell"
    ) == PathLocation(f"{tree.project}/~{somebody.pw_name}", inside=True), "a script's tilde was read by the shell"


def test_where_there_is_no_project_all_is_outside(tree: Tree) -> None:
    for project in ("", "/nowhere"):
        assert judge_path("README.md", cwd=tree.project, project=project, home=tree.home, kind="file") == PathLocation(
            f"{tree.project}/README.md", inside=False
        )


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("/a", "/a", True),
        ("/a/b", "/a", True),
        ("/ab", "/a", False),
        ("/", "/a", False),
        ("/a", "", False),
        ("/a", "/", True),
    ],
)
def test_within(path: str, folder: str, expected: bool) -> None:
    assert is_within(path, folder) is expected


@pytest.mark.parametrize("count", [MAX_LINKS, MAX_LINKS + 1])
def test_as_many_links_as_the_kernel_follows(tree: Tree, count: int) -> None:
    for number in range(count):
        (tree.root / f"link{number}").symlink_to(f"link{number + 1}")
    (tree.root / f"link{count}").write_text("")
    result = real_path(str(tree.root / "link0"))
    assert isinstance(result, Real) == (count <= MAX_LINKS) == (tree.root / "link0").exists()


def test_missing_paths(tree: Tree) -> None:
    assert real_path(f"{tree.project}/src") == Real(f"{tree.project}/src")
    assert real_path(f"{tree.project}/a/b/c") == Real(f"{tree.project}/a/b/c", missing=f"{tree.project}/a")
    assert real_path(f"{tree.project}/a/b/../c") == Real(f"{tree.project}/a/c", missing=f"{tree.project}/a")
    assert real_path(f"{tree.project}/a/../src") == Real(f"{tree.project}/src")
    assert real_path(f"{tree.project}/README.md/x") == Real(
        f"{tree.project}/README.md/x", missing=f"{tree.project}/README.md/x"
    )
    assert isinstance(real_path("relative"), Unclear)


def test_unreadable_folder(tree: Tree) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to step down from")
    closed = tree.root / "closed"
    closed.mkdir(mode=0o700)
    for folder in tree.root.parents:
        if folder.owner() == "root" and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        assert isinstance(real_path(str(closed / "x")), Unclear)
    finally:
        os.seteuid(0)


# ---- against the kernel ----------------------------------------------------------------------------------------------


def kernel_says(path: str) -> str | None:
    """Return which file the kernel opens, or makes where there is none; None: it does neither."""
    is_new = False
    try:
        result = os.open(path, os.O_PATH)
    except OSError:
        try:
            result = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
        except OSError:
            return None
        is_new = True
    try:
        real = str(Path(f"/proc/self/fd/{result}").readlink())
    finally:
        os.close(result)
    if is_new:
        Path(real).unlink()
    return real


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which file was opened")
@pytest.mark.parametrize("seed", range(20))
def test_path_is_the_file_that_the_kernel_opens(tmp_path: Path, seed: int) -> None:
    """Random links to random places, random paths through them."""
    dice = random.Random(seed)
    root = Path(os.path.realpath(tmp_path))
    names = ("a", "b", "c")

    def some_path(length: int) -> str:
        parts = (dice.choice((*names, *names, "..", ".", "", "new")) for _ in range(dice.randint(1, length)))
        return "/".join(parts) or "."

    folders = [root]
    for _ in range(25):
        place = dice.choice(folders) / dice.choice(names)
        if os.path.lexists(place):
            continue
        match dice.randrange(3):
            case 0:
                place.mkdir()
                folders.append(place)
            case 1:
                target = some_path(3) or "."
                place.symlink_to(f"{root}/{target}" if dice.random() < 0.3 else target)
            case _:
                place.write_text("")
    checked = 0
    for _ in range(300):
        path = f"{dice.choice(folders)}/{some_path(6)}"
        expected = kernel_says(path)
        if expected is not None:
            checked += 1
            result = real_path(path)
            assert isinstance(result, Real), path
            assert result.path == expected, path
    assert checked > 30


# ---- scripts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("README.md", "inside"),
        ("out_file", "outside"),
        ("src/../../.bashrc", "outside"),
        ("new/file", "inside"),
        ("loop", "unclear"),
        ("cross/../../README.md", "inside"),
        ("cross/../../../.bashrc", "outside"),
    ],
)
def test_paths_of_a_script(tree: Tree, path: str, expected: str) -> None:
    assert leads(tree.analyse(("read", path))) == expected
    assert leads(tree.analyse(("write", path), by="redirection")) == expected


@pytest.mark.parametrize("path", ["/dev/null", "/dev/urandom", "/dev/stderr", "/dev/fd/1", "/dev/../dev/null"])
def test_empty_devices(tree: Tree, path: str) -> None:
    scan = Scan(paths=(PathUse(path=path, access="write", by="redirection"),))
    assert analyse_paths(scan, cwd=tree.project, project=tree.project) == PathAnalysis()


@pytest.mark.parametrize("path", ["/dev/sda", "/dev/fd/3", "/dev/tcp/host/80", "/dev/shm/x"])
def test_devices_with_content(tree: Tree, path: str) -> None:
    scan = Scan(paths=(PathUse(path=path, access="write", by="redirection"),))
    assert leads(analyse_paths(scan, cwd=tree.project, project=tree.project)) != "inside"


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [("src", "inside"), ("in", "inside"), ("..", "outside"), ("out", "outside"), ("README.md", "unclear")],
)
def test_the_folder_that_a_command_runs_in(tree: Tree, cwd: str, expected: str) -> None:
    assert leads(tree.analyse(cwd=cwd)) == expected


def test_unknown_folder(tree: Tree) -> None:
    scan = Scan(commands=(ScannedCommand(argv=("ls",), cwd=None),))
    assert leads(analyse_paths(scan, cwd=tree.project, project=tree.project)) == "unclear"
    remote = Scan(commands=(ScannedCommand(argv=("ls",), cwd=None, remote=True),))
    assert analyse_paths(remote, cwd=tree.project, project=tree.project) == PathAnalysis()


def test_a_folder_that_the_script_makes(tree: Tree) -> None:
    """`mkdir -p build/debug && cd build && cat ../README.md`, and without the first."""

    def analyse(*made: str) -> str:
        commands = (
            ScannedCommand(argv=("mkdir",), cwd=tree.project),
            ScannedCommand(argv=("cat",), cwd=f"{tree.project}/build"),
        )
        uses = [PathUse(path=f"{tree.project}/{path}", access="write", by="mkdir") for path in made]
        read = PathUse(path=f"{tree.project}/build/../README.md", access="read", by="cat")
        scan = Scan(commands=commands, paths=(*uses, read))
        return leads(analyse_paths(scan, cwd=tree.project, project=tree.project))

    assert analyse("build/debug") == "inside"
    assert analyse() == "unclear"
    assert analyse("other") == "unclear"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("cat", "inside"),
        ("/usr/bin/cat", "inside"),
        ("/bin/sh", "inside"),
        ("./src/main.py", "inside"),
        ("../tool", "outside"),
        ("out/tool", "outside"),
        ("/opt/tool/bin/x", "outside"),
        ("/usr/bin/../../tmp/x", "outside"),
    ],
)
def test_the_program_that_is_run(tree: Tree, program: str, expected: str) -> None:
    assert leads(tree.analyse(by=program)) == expected


def test_doubts_of_the_scanner_are_passed_on(tree: Tree) -> None:
    analyse = analyse_paths(Scan(opaque=("eval",)), cwd=tree.project, project=tree.project)
    assert analyse == PathAnalysis(opaque=("eval",))


@pytest.mark.parametrize(
    ("program", "operands", "used", "expected"),
    [
        ("ln", ("src", "fresh"), "fresh/main.py", "unclear"),  # where it leads from there, nobody has looked
        ("ln", ("src", "fresh"), "README.md", "inside"),
        ("mv", ("src", "fresh"), "fresh/main.py", "inside"),
        ("mv", ("sub", "fresh"), "fresh/deep/cross/secret.txt", "unclear"),
        ("mv", ("in", "fresh"), "fresh", "unclear"),
        ("mv", ("sub", "fresh"), "README.md", "inside"),
        ("cp", ("sub", "fresh/"), "fresh/sub/deep/cross", "unclear"),
        ("cat", ("sub",), "fresh/x", "inside"),
    ],
)
def test_links_created_by_the_script(
    tree: Tree, program: str, operands: tuple[str, ...], used: str, expected: str
) -> None:
    commands = tuple(ScannedCommand(argv=(name,), cwd=tree.project) for name in (program, "cat"))
    uses = [PathUse(path=f"{tree.project}/{path}", access="write", by=program) for path in operands]
    read = PathUse(path=f"{tree.project}/{used}", access="read", by="cat")
    scan = Scan(commands=commands, paths=(*uses, read))
    assert leads(analyse_paths(scan, cwd=tree.project, project=tree.project)) == expected


# ---- patterns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.md", "inside"),
        ("src/*", "inside"),
        ("s*/*.py", "inside"),
        ("nothing*", "inside"),
        ("a\\*b.txt", "inside"),
        ("*", "unclear"),  # out, up, loop and others are among them
        ("o*/secret.txt", "outside"),
        ("*/secret.txt", "outside"),
        ("out?file", "outside"),
        ("[o]ut", "outside"),
        ("[!a]ut_file", "outside"),
        ("sub/*/*/secret.txt", "outside"),
        ("../*/x.txt", "outside"),
        (".*", "outside"),
        ("*/../*", "unclear"),
        ("loo*", "unclear"),
    ],
)
def test_patterns_of_a_script(tree: Tree, pattern: str, expected: str) -> None:
    assert leads(tree.analyse(("read", pattern), pattern=True)) == expected


PATTERNS = (
    "*", "*/*", "?", "a*", "*b", "[ab]*", "[!a]*", "[^a]?", "[a-c]x", "[]]*", "[[:alpha:]]*", ".*", "*.txt", "\\*", "\\[*",
    "[", "[a", "a]", "*[", "sub/*", "*/x", "su?/[a-z]*", "**", "***/x", "sub/\\*x", "?\\?", "*\\[*",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_paths_that_bash_expands_are_found(tmp_path: Path, pattern: str) -> None:
    names = (
        "a",
        "ab",
        "b",
        "bx",
        "cx",
        ".h",
        "x.txt",
        "*",
        "*x",
        "[",
        "[a",
        "[z",
        "a]",
        "]",
        "]]",
        "?",
        "??",
        "ü",
        "A",
    )
    for name in names:
        (tmp_path / name).write_text("")
    for folder in ("sub", "other", ".hidden"):
        (tmp_path / folder).mkdir()
        for name in ("a", "x", "*x", "ü"):
            (tmp_path / folder / name).write_text("")
    script = f'printf "%s\\0" {tmp_path}/{pattern}'
    output = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    result = expand_glob(f"{tmp_path}/{pattern}")
    assert not isinstance(result, Unclear)
    assert set(output.decode().split("\0")[:-1]) <= set(result)


def test_too_many_files_to_look_at(tmp_path: Path) -> None:
    for number in range(MAX_MATCHES + 1):
        (tmp_path / str(number)).write_text("")
    assert isinstance(expand_glob(f"{tmp_path}/*"), Unclear)
    assert expand_glob(f"{tmp_path}/99*8") == (f"{tmp_path}/998",)
    assert isinstance(expand_glob("/" + "*" * 5_000), Unclear)


def test_hostile_file_names_match_quickly(tmp_path: Path) -> None:
    name = "a" * 200
    (tmp_path / name).touch()
    began = time.process_time()
    assert expand_glob(f"{tmp_path}/{'*a' * 30}*b") == (f"{tmp_path}/{'*a' * 30}*b",)
    assert expand_glob(f"{tmp_path}/{'*a' * 30}*") == (f"{tmp_path}/{name}",)
    assert time.process_time() - began < 5


# ---- the project -----------------------------------------------------------------------------------------------------


def test_project_is_the_surrounding_repository(tree: Tree) -> None:
    deep = f"{tree.project}/sub/deep"
    assert find_project_root(deep, home=tree.home) == deep
    (tree.root / "home/project/.git").mkdir()
    assert find_project_root(deep, home=tree.home) == tree.project
    assert find_project_root(f"{tree.home}/portal/cross", home=tree.home) == tree.project
    (tree.root / "home/project/sub/.git").write_text("gitdir: elsewhere")  # a worktree, or a submodule
    assert find_project_root(deep, home=tree.home) == f"{tree.project}/sub"


def test_a_home_repository_is_not_the_project(tree: Tree) -> None:
    (tree.root / "home/.git").mkdir()
    assert find_project_root(f"{tree.project}/src", home=tree.home) == f"{tree.project}/src"
    assert find_project_root(f"{tree.project}/src", home="/elsewhere") == tree.home
    assert find_project_root(tree.home, home=tree.home) == tree.home, "who starts there means it"


def test_a_repository_of_another_user_does_not_count(tree: Tree) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a folder away")
    git = tree.root / "home/project/.git"
    git.mkdir()
    os.chown(git, 12345, 12345)
    assert find_project_root(f"{tree.project}/src", home=tree.home) == f"{tree.project}/src"
    os.chown(f"{tree.project}/src", 12345, 12345)
    assert find_project_root(f"{tree.project}/src", home=tree.home) == tree.project, (
        "it is as much his as the folder itself"
    )


@pytest.mark.parametrize("cwd", ["/", "//", "/home/.."])
def test_the_whole_machine_is_no_project(cwd: str) -> None:
    assert find_project_root(cwd, home="/root") == ""


# ---- as a program ----------------------------------------------------------------------------------------------------


@contextmanager
def serving() -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "engine.permission.paths", "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        yield program
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(10) == 0


def test_requests_line_by_line(tree: Tree) -> None:
    def request(tool: str, text: str, worktree: str = tree.project) -> bytes:
        request = {"tool": tool, "text": text, "cwd": tree.project, "worktree": worktree, "home": tree.home}
        return json.dumps(request).encode()

    with serving() as program:
        assert program.stdin is not None
        assert program.stdout is not None

        def answer(line: bytes) -> object:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write(line + b"\n")
            program.stdin.flush()
            output = json.loads(program.stdout.readline())
            return output if not output["opaque"] else ("opaque", len(output["reasons"]))

        inside = {"path": f"{tree.project}/README.md", "inside": True}
        assert answer(request("read", "README.md")) == {"paths": [inside], "opaque": False, "reasons": []}
        assert answer(request("edit", "README.md", worktree="/")) == {"paths": [inside], "opaque": False, "reasons": []}
        outside = {"path": f"{tree.root}/home/outside/secret.txt", "inside": False}
        assert answer(request("write", "out_file")) == {"paths": [outside], "opaque": False, "reasons": []}
        assert answer(request("read", "loop")) == ("opaque", 1)
        for wrong in (b"", b"{", b"[]", b'{"tool": 1}', b"\xff", b"null", b'{"tool":"read","text":"x"}'):
            assert answer(wrong) == ("opaque", 1)


def test_a_wrong_command_line() -> None:
    run = subprocess.run([sys.executable, "-m", "engine.permission.paths", "--help"], capture_output=True, check=False)
    assert (run.returncode, run.stdout) == (1, b"")
    assert run.stderr.startswith(b"usage: ")


@pytest.mark.parametrize("name", ["--checkpoint-action=exec=x", "a -delete"])
@pytest.mark.parametrize("script", ["ls | xargs tar cf x.tar", "git ls-files | xargs sed -i s/a/b/"])
def test_expanded_names_may_be_options(tmp_path: Path, script: str, name: str) -> None:
    (tmp_path / "a.txt").touch()
    result = scan(script, cwd=str(tmp_path), home="/home/dev")
    assert analyse_paths(result, cwd=str(tmp_path), project=str(tmp_path)).opaque == ()
    (tmp_path / name).touch()
    (reason,) = analyse_paths(result, cwd=str(tmp_path), project=str(tmp_path)).opaque
    assert "may read as an option" in reason


def test_creating_an_option_like_file_is_opaque(tmp_path: Path) -> None:
    result = scan("touch -- --checkpoint=1; ls | xargs tar cf x.tar", cwd=str(tmp_path), home="/home/dev")
    assert result.opaque == ("it creates a file whose name looks like an option",)


@pytest.mark.parametrize("script", ["cat <(ls)", "diff <(ls) <(ls -a)", "exec 3<a; cat /dev/fd/3"])
def test_open_file_descriptors_are_not_outside(tmp_path: Path, script: str) -> None:
    result = scan(script, cwd=str(tmp_path), home="/home/dev")
    analyse = analyse_paths(result, cwd=str(tmp_path), project=str(tmp_path))
    assert (analyse.opaque, [judge.path for judge in analyse.paths if not judge.inside]) == ((), [])
