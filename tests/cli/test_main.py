"""`engine` itself: version, help, and words that are no command."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli import main
from engine.cli.command_table.command_list import COMMANDS
from engine.core.version import __version__
from tests.cli.processes import REPOSITORY
from tests.test_imports import modules_after


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr().out == f"engine {__version__}\n"


@pytest.mark.parametrize("flag", ["--help", "-h", "help"])
def test_the_help_names_every_command(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    out = capsys.readouterr().out
    assert "run " in out
    assert "models " in out
    assert "demo " in out


def test_no_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"engine {__version__}:")


@pytest.mark.parametrize(
    ("word", "rest"),
    [
        ("fly", "\nNext: engine --help"),
        ("--fly", "\nNext: engine --help"),
        ("toolz", ": did you mean tools?\nNext: engine tools"),
        ("../run", ": did you mean run?\nNext: engine run"),
        ("\x1b[31m", "\nNext: engine --help"),
        ("fix the test", "\nNext: engine run 'fix the test'"),
        (["fix", "it's"], "\nNext: engine run 'fix it'\"'\"'s'"),
        (["fix", "\x1b[31m"], "\nNext: engine --help"),
        (["toolz", "--json"], ": did you mean tools?\nNext: engine tools --json"),
        (["rnu", "fix it"], ": did you mean run?\nNext: engine run 'fix it'"),
        (["rnu", "\x1b[31m"], ": did you mean run?\nNext: engine --help"),
        (["-p", "fix it"], "\nNext: engine run 'fix it'"),
        ("--continue", "\nNext: engine chat --continue"),
        (["exec", "fix it"], "\nNext: engine run 'fix it'"),
        (["resume", "--model", "x"], "\nNext: engine chat --resume --model x"),
        (["login", "openai"], "\nNext: engine auth add HOST"),
        ("upgrade", "\nNext: engine doctor --online"),
        (["--model=opus", "--continue"], "\nNext: engine chat --model=opus --continue"),
    ],
)
def test_an_unknown_command(word: str | list[str], rest: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word] if isinstance(word, str) else word
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err == f"engine: unknown command {words[0]!r}{rest}\n"
    assert "\x1b" not in err


def test_the_version_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["name"], record["version"], record["record_schema"]) == ("engine", __version__, 1)
    assert main(["--version", "--jsn"]) == 2
    assert "no other flag than --json" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_helps(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: engine {command}" in text
    assert main(["help", command]) == 0
    assert capsys.readouterr().out == text


def test_help_loads_no_command() -> None:
    """Help comes from the table: neither the command nor Trio is needed for it."""
    modules = modules_after("from engine.cli import main; main(['tools', '--help']); main(['help', 'models'])")
    assert not {"trio", "httpx", "engine.cli.tools", "engine.cli.models"} & modules


@pytest.mark.os
@pytest.mark.parametrize(
    ("redirection", "code", "error"),
    [(">&-", 74, "standard output is closed"), (">/dev/full", 74, "No space left on device")],
)
def test_nowhere_to_write_to(redirection: str, code: int, error: str) -> None:
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m engine --version {redirection}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code
    assert error in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.os
def test_a_reader_who_has_left() -> None:
    command = f"{sys.executable} -m engine --help | true; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert result.stdout == "0\n"
    assert result.stderr == ""


def test_windows_is_refused_before_anything_is_imported() -> None:
    missing = "fcntl grp pty pwd resource termios tty"
    lines = [
        "import sys",
        "sys.platform = 'win32'",
        f"sys.modules.update(dict.fromkeys('{missing}'.split()))",
        "from engine.cli import main",
        "assert main(['--version']) == 0",
        "sys.exit(main(['run', 'hello']))",
    ]
    ended = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("engine: Windows is not supported; it works in WSL\nNext: use wsl --install")


@pytest.mark.parametrize("command", ["run hello", "config", "sessions list", "chat"])
def test_directory_that_is_gone_is_named(tmp_path: Path, command: str) -> None:
    script = f"rmdir ../gone && exec {shlex.quote(sys.executable)} -m engine {command}"
    (tmp_path / "gone").mkdir()
    ended = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path / "gone",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    name = command.partition(" ")[0]
    message = f"engine {name}: the current directory is gone\nNext: change to another directory\n"
    assert (ended.returncode, ended.stderr) == (2, message)
