"""`engine` itself: version, help, and words that are no command."""

import subprocess
import sys

import pytest

from engine.cli import main
from engine.core.version import __version__
from tests.cli.processes import REPOSITORY


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


@pytest.mark.parametrize("word", ["fly", "--fly", "RUN", "run.py", "../run", "\x1b[31m"])
def test_an_unknown_command(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    err = capsys.readouterr().err
    assert err == f"engine: unknown command {word!r}; `engine --help` lists the commands\n"
    assert "\x1b" not in err


@pytest.mark.parametrize("command", ["run", "models", "demo"])
def test_each_command_helps(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"usage: engine {command}" in capsys.readouterr().out


@pytest.mark.os
@pytest.mark.parametrize(
    ("redirection", "code", "error"), [(">&-", 0, ""), (">/dev/full", 1, "No space left on device")]
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
