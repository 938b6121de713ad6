"""Random scripts in a tree full of links, run by bash while strace tells which files it opens: none of them outside of the
project unless the judgement of the script has said so."""

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.permission.paths.path_access import analyse_paths, can_enter
from engine.permission.shell.scan import scan
from tests.conftest import Soak

STRACE = shutil.which("strace")
pytestmark = [
    pytest.mark.os,
    pytest.mark.skipif(STRACE is None or sys.platform != "linux", reason="needs strace"),
]

FILES = ("p/README.md", "p/src/main.py", "p/src/deep/x.txt", "p/docs/guide.md", "p/a b.txt", "out/secret.txt", "out/sub/more.txt", ".bashrc")  # fmt: skip
LINKS = {
    "p/out_dir": "{root}/out", "p/out_rel": "../out", "p/out_file": "../out/secret.txt", "p/in_dir": "src",
    "p/hop1": "hop2", "p/hop2": "out_rel/sub", "p/dangling_out": "../out/new", "p/dangling_in": "src/new",
    "p/src/up": "../..", "p/src/up1": "..", "p/loop": "loop", "p/cross": "src/deep", "p/src/deep/cross": "../../out_dir",
    "p/dot": ".", "out/back": "../p/docs", "portal": "p/src",
}  # fmt: skip
NAMES = (
    *(path.removeprefix("p/") for path in (*FILES, *LINKS) if " " not in path), "'a b.txt'", "..", "../..", ".", "../out",
    "../p", "../portal", "new", "~", "$HOME", "~/p", "secret.txt", "main.py", "x.txt", "s*", "*/", "o*", "[o]ut_dir",
    "{src,..}", "$D", '"$D"', "${D}/x.txt", "$F",
)  # fmt: skip
COMMANDS = (
    *("cat {p}", "cat {p} {p}", "cat < {p}", "ls", "ls {p}", "head -n1 {p}", "echo x > {p}", "echo x >> {p}", "echo {p}"),
    *("cp {p} {p}", "cp -r {p} {p}", "mkdir {p}", "mkdir -p {p}", "touch {p}", "mv {p} {p}", "ln -s {p} {p}", "wc -l {p}"),
    *("grep -r x {p}", "grep -R x {p}", "find {p} -name '*.txt'", "find -L {p} -maxdepth 2", "diff -r {p} {p}"),
    *("cd {p}", "cd {p}", "cd {p}", "cd", "cd -", "pushd {p}", "popd", "D={p}", "D=..", "D=src", "F=../.bashrc", "F=out_file"),
    *("tee {p} < README.md", "test -f {p}", "sort {p}"),
)  # fmt: skip
GROUPS = (
    *("{c}", "{c}", "{c}", "{c}", "( {c}; {c} )", "{c} | {c}", "cat $({c})", "if {c}; then {c}; else {c}; fi"),
    *("for f in {p} {p}; do cat $f; {c}; done", "f() {{ {c}; cat $1; }}; f {p}"),
)


def script(dice: random.Random) -> str:
    def path() -> str:
        return "/".join(dice.choice(NAMES) for _ in range(dice.choice((1, 1, 1, 2, 3))))

    def filled(form: str) -> str:
        form = re.sub(r"\{c\}", lambda _: dice.choice(COMMANDS), form).replace("{{", "{").replace("}}", "}")
        return re.sub(r"\{p\}", lambda _: path(), form)

    text = filled(dice.choice(GROUPS))
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        text += dice.choice((" && ", " || ", "; ")) + filled(dice.choice(GROUPS))
    return text


def opened(text: str, root: Path, log: Path) -> set[str]:
    """Run a script; return the real paths of the files and folders that were opened."""
    assert STRACE is not None
    command = [STRACE, "-f", "-y", "-qq", "-s", "4096", "-e", "trace=openat,open,creat", "-o", str(log)]
    subprocess.run(
        [*command, "bash", "--noprofile", "--norc", "-c", text],
        cwd=root / "p", env={"HOME": str(root), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}, timeout=20, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return set(re.findall(r"= \d+<(/.*)>$", log.read_text(errors="replace"), re.MULTILINE))


@pytest.mark.soak
def test_only_reported_outside_paths_are_opened(tmp_path: Path, soak: Soak) -> None:
    outside = 0
    for number, seed in enumerate(soak.seeds(60)):
        root = Path(os.path.realpath(tmp_path)) / f"r{number}"
        for name in FILES:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("x\n")
        for name, target in LINKS.items():
            (root / name).symlink_to(target.format(root=root))
        text, project = script(random.Random(seed)), str(root / "p")
        scanned = scan(text, cwd=project, home=str(root), is_folder=can_enter)
        analysis = analyse_paths(scanned, cwd=project, project=project)
        touched = opened(text, root, tmp_path / "log")
        left = {path for path in touched if path.startswith(f"{root}/") and not f"{path}/".startswith(f"{project}/")}
        is_told = bool(analysis.opaque) or not all(path.inside for path in analysis.paths)
        assert is_told or not left, (seed, text, left)
        outside += bool(left)
        shutil.rmtree(root)
    assert outside, "some of them must go out, or nothing was tried"
