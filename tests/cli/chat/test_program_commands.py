"""Slash commands that other commands of the program answer, as real processes; and the user's pager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from engine.cli.chat.external_editor import EditFailure, edit_text, show_text
from engine.cli.chat.program_commands import ProgramCommands
from engine.core.errors import ConfigError
from tests.cli.conftest import environment_for
from tests.cli.processes import REPOSITORY
from tests.support.cancel_at import CancelAt

pytestmark = pytest.mark.os


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProgramCommands:
    for name, value in environment_for("http://127.0.0.1:9", tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return ProgramCommands(lambda: str(tmp_path), str(tmp_path / "sessions.db"))


@pytest.mark.slow
def test_other_commands_say_it_in_their_words(commands: ProgramCommands) -> None:
    async def main() -> None:
        async def run(lines: list[str], name: str, argument: str = "") -> None:
            method = {"config": commands.config, "permissions": commands.permissions, "mcp": commands.mcp}[name]
            lines += (await method(argument)).lines

        config, allowed, revoked, servers = list[str](), list[str](), list[str](), list[str]()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, config, "config", "explain chat.theme")
            nursery.start_soon(run, allowed, "permissions")
            nursery.start_soon(run, revoked, "permissions", "revoke nothing")
            nursery.start_soon(run, servers, "mcp")
        assert any("chat.theme" in line for line in config)
        assert allowed
        assert any("nothing" in line for line in revoked)
        assert servers == ["No MCP servers are configured.", "Next: engine mcp add NAME -- COMMAND"]

    trio.run(main)


# What the system shows of a chat's environment has no keys; a program that it starts needs them.
_HIDDEN = """
import sys, trio
from engine.cli.chat.program_commands import ProgramCommands
from engine.process.own_environment import overwrite
overwrite(["ANTHROPIC_API_KEY"])
print("\\n".join(trio.run(ProgramCommands(lambda: sys.argv[1]).doctor, "").lines))
"""


@pytest.mark.slow
def test_doctor_sees_the_keys_of_the_chat(tmp_path: Path) -> None:
    env = {**os.environ, **environment_for("http://127.0.0.1:9", tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", _HIDDEN, str(tmp_path)], env=env, capture_output=True, text=True, check=True, timeout=120
    )
    assert "anthropic ($ANTHROPIC_API_KEY)" in done.stdout


def children() -> set[int]:
    """The children of this process, zombies too."""
    lists = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    return {int(pid) for text in lists for pid in text.split()}


@pytest.mark.slow
def test_cancel_everywhere_leaves_no_program(commands: ProgramCommands, tmp_path: Path, is_full: bool) -> None:
    def play(step: int | None) -> CancelAt:
        points = CancelAt(step)

        async def main() -> None:
            with points.scope():
                await commands.config("get chat.theme")

        # Of this process there may be others: the hosts of other tests.
        before = children()
        trio.run(main, instruments=[points])
        assert children() <= before
        return points

    steps = play(None).steps
    runs = range(0, steps, 1 if is_full else max(1, steps // 3))
    assert sum(play(step).has_fired for step in runs) > len(runs) // 2


async def test_export_does_not_overwrite_by_itself(commands: ProgramCommands, tmp_path: Path) -> None:
    (tmp_path / "kept.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"kept\.md exists already\nNext: /export kept\.md force"):
        await commands.export("ses_a", "kept.md")
    for line in ("", "kept", "kept.pdf", "kept.md please"):
        with pytest.raises(ConfigError, match=r"must end with"):
            await commands.export("ses_a", line)
    assert (tmp_path / "kept.md").read_text() == "mine"


# -- the pager and the editor ----------------------------------------------------------------------------------

_PAGER = "import json,os,sys; json.dump([open(sys.argv[-1]).read(), sys.argv[-1], os.environ.get('SOME_KEY')], open(sys.argv[1], 'w'))"


def pager(tmp_path: Path) -> str:
    program = tmp_path / "pager.py"
    program.write_text(_PAGER)
    return f"{sys.executable} {program} {tmp_path / 'seen'}"


def test_text_is_shown_in_the_pager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", pager(tmp_path))
    monkeypatch.setenv("SOME_KEY", "value")
    assert trio.run(show_text, "a long text\n") == ""
    text, path, key = json.loads((tmp_path / "seen").read_text())
    assert (text, key) == ("a long text\n", "value")
    # Nothing of it is left.
    assert not Path(path).exists()


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "/nowhere/pager")
    assert trio.run(show_text, "text") == "can't run /nowhere/pager: No such file or directory. Next: set PAGER"
    monkeypatch.setenv("PAGER", "'unbalanced")
    assert trio.run(show_text, "text").endswith("Next: set PAGER")
    monkeypatch.setenv("VISUAL", "'unbalanced")
    failure = trio.run(edit_text, "text")
    assert isinstance(failure, EditFailure)
    assert failure.message.endswith("Next: set EDITOR")


def test_cancelled_pager_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    monkeypatch.setenv("PAGER", f"sh -c 'echo $$ $1 > {started}; exec sleep 86400' sh")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(show_text, "text")
            until = time.monotonic() + 30
            while not (started.exists() and started.read_text()):
                assert time.monotonic() < until
                await trio.sleep(0.02)
            nursery.cancel_scope.cancel()

    trio.run(main)
    pid, path = started.read_text().split()
    assert not Path(path).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


async def test_files_of_the_project_are_not_the_program(commands: ProgramCommands, tmp_path: Path) -> None:
    for name in ("engine.py", "json.py", "trio.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(0)\n")
    result = await commands.permissions("")
    assert not (tmp_path / "ran").exists()
    assert any("profile" in line for line in result.lines)
