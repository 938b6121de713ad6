"""Which program searches, and how it is asked. Real programs: scripts that claim to be a ripgrep."""

# ruff: noqa: ASYNC240 -- the files are small

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import trio

from engine.tools.search.python_search import Job
from engine.tools.search.ripgrep import Searcher, find_searcher
from tests.support.searched import RIPGREP, make, needs_ripgrep

pytestmark = pytest.mark.os


def program(folder: Path, says: str, *, code: int = 0) -> str:
    """Put a script named rg into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rg"
    path.write_text(f"#!/bin/sh\necho {says!r}\necho asked >>{folder}/asked\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


async def test_the_one_on_path_comes_first_then_that_of_the_environment(tmp_path: Path) -> None:
    on_path, second = program(tmp_path / "a", "ripgrep 14.1.0"), program(tmp_path / "b", "ripgrep 15.2.0 (rev abc)")
    for path, scripts, found in [
        (f"{tmp_path}/a:{tmp_path}/b", "/nowhere", on_path),
        (f"{tmp_path}/missing:{tmp_path}/a", f"{tmp_path}/b", on_path),
        (f"{tmp_path}/missing", f"{tmp_path}/b", second),
        ("", f"{tmp_path}/b", second),
        ("", "/nowhere", None),
    ]:
        assert await find_searcher(path, scripts) == Searcher(found)


@pytest.mark.parametrize(
    "says", ["ripgrep 12.1.1", "ripgrep 0.10.0", "rg, a generator of rails", "", "not ripgrep 15.0", "ripgrep fifteen"]
)
async def test_what_is_too_old_or_something_else_is_passed_over(tmp_path: Path, says: str) -> None:
    program(tmp_path / "a", says)
    good = program(tmp_path / "b", "ripgrep 13.0.0")
    assert await find_searcher(f"{tmp_path}/a", f"{tmp_path}/b") == Searcher(good)


async def test_what_can_not_run_is_passed_over(tmp_path: Path) -> None:
    Path(program(tmp_path / "broken", "ripgrep 15.0.0")).write_text("#!/no/such/interpreter\n")
    Path(program(tmp_path / "plain", "ripgrep 15.0.0")).chmod(0o644)
    make(tmp_path, {"folder": {"rg": {}}, "junk": {"rg": b"\x7fELF junk"}})
    (tmp_path / "junk" / "rg").chmod(0o755)
    path = ":".join(str(tmp_path / name) for name in ("broken", "plain", "folder", "junk"))
    assert await find_searcher(path, "/nowhere") == Searcher()


async def test_a_folder_that_may_not_be_looked_into_is_passed_over(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs a folder of somebody else's")
    (tmp_path / "theirs/bin").mkdir(parents=True)
    (tmp_path / "theirs").chmod(0o700)
    os.seteuid(65_534)
    try:
        assert await find_searcher(str(tmp_path / "theirs/bin"), "/nowhere") == Searcher()
    finally:
        os.seteuid(0)


async def test_a_program_in_the_working_directory_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "ripgrep 15.0.0")
    program(tmp_path / "bin", "ripgrep 15.0.0")
    monkeypatch.chdir(tmp_path)
    assert await find_searcher(".:bin::", "bin") == Searcher()
    monkeypatch.chdir("/")
    assert await find_searcher(str(tmp_path.relative_to("/")), "bin") == Searcher()
    assert not list(tmp_path.rglob("asked"))


async def test_each_is_asked_once_and_again_when_it_changes(tmp_path: Path) -> None:
    path = program(tmp_path, "ripgrep 15.0.0")
    for _ in range(3):
        assert await find_searcher(str(tmp_path), "/nowhere") == Searcher(path)
    assert (tmp_path / "asked").read_text() == "asked\n"
    program(tmp_path, "ripgrep 9.0.0")
    os.utime(path, ns=(1, 1))
    assert await find_searcher(str(tmp_path), "/nowhere") == Searcher()


async def test_two_can_ask_at_once(tmp_path: Path) -> None:
    path = program(tmp_path, "ripgrep 15.0.0")
    found: list[Searcher] = []

    async def find() -> None:
        found.append(await find_searcher(str(tmp_path), "/nowhere"))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(find)
    assert found == [Searcher(path)] * 5


def test_without_python_there_is_nothing_to_run() -> None:
    """An application that was frozen into one file would start itself instead."""
    code = """
import sys
sys.frozen = True
from engine.core.errors import ToolError
from engine.tools.search.python_search import Job
from engine.tools.search.ripgrep import Searcher
print(Searcher("/bin/rg").command(Job(pattern="x"), in_repository=False)[0])
try:
    Searcher().command(Job(pattern="x"), in_repository=False)
except ToolError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == (
        "/bin/rg\nNothing can be searched here: ripgrep (rg) is not installed, and there is no Python to do its work.\n"
    )


def run(searcher: Searcher, folder: Path, job: Job, **env: str) -> subprocess.CompletedProcess[bytes]:
    command = searcher.command(job, in_repository=False, ordered=True)
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **env}, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )


SEARCHERS = [pytest.param(Searcher(RIPGREP), id="ripgrep", marks=needs_ripgrep), pytest.param(Searcher(), id="ours")]


@pytest.mark.parametrize("searcher", SEARCHERS)
@pytest.mark.parametrize("pattern", ["-x", "--pre=touch", "--", "-e", "-f/etc/passwd", "$(touch pwned)", "`id`", ";id"])
def test_a_pattern_is_never_an_option_or_a_command(tmp_path: Path, searcher: Searcher, pattern: str) -> None:
    make(tmp_path, {"a": f"{pattern}\n"})
    done = run(searcher, tmp_path, Job(pattern=pattern, literal=True))
    assert done.stdout == f"./a\x001\x1f1\x1f0\x1f{pattern}\n".encode()
    assert (done.returncode, done.stderr, [path.name for path in tmp_path.iterdir()]) == (0, b"", ["a"])


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_no_configuration_is_read_and_no_program_run(tmp_path: Path, searcher: Searcher) -> None:
    make(
        tmp_path,
        {
            "tree": {"a": "x\n", "b.gz": "x\n"},
            "config": f"--pre={tmp_path}/program\n--search-zip\n--invert-match\n--glob=!a\n--colors=path:fg:red\n",
            "home": {
                ".gitconfig": "[core]\n\texcludesFile = ~/ignored\n",
                "ignored": "a\n",
                ".config/git/ignore": "a\n",
            },
            "program": f"#!/bin/sh\ntouch {tmp_path}/pwned\n",
        },
    )
    (tmp_path / "program").chmod(0o755)
    home = str(tmp_path / "home")
    done = run(
        searcher,
        tmp_path / "tree",
        Job(pattern="x"),
        RIPGREP_CONFIG_PATH=str(tmp_path / "config"),
        HOME=home,
        XDG_CONFIG_HOME=f"{home}/.config",
    )
    assert done.stdout == b"./a\x001\x1f1\x1f0\x1fx\n./b.gz\x001\x1f1\x1f0\x1fx\n"
    assert not (tmp_path / "pwned").exists()


def test_our_own_searcher_is_found_wherever_the_modules_come_from(tmp_path: Path) -> None:
    """Not by the working directory or PYTHONPATH, which a stranger may have set: by our own path of modules."""
    make(tmp_path, {"a": "x\n", "json.py": "raise SystemExit('pwned')", "engine": {"__init__.py": "raise SystemExit"}})
    done = run(Searcher(), tmp_path, Job(pattern="x", names=["a"]), PYTHONPATH=str(tmp_path))
    assert (done.stdout, done.stderr) == (b"./a\x001\x1f1\x1f0\x1fx\n", b"")
    assert json.loads(Searcher().command(Job(pattern=None), in_repository=True)[-1]) == attrs.asdict(
        Job(pattern=None)
    ) | {"names": []}


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_a_wrong_pattern_is_told_apart(tmp_path: Path, searcher: Searcher) -> None:
    done = run(searcher, tmp_path, Job(pattern="("))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"unclosed group" in done.stderr
