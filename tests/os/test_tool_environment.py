"""Processes of tools get no key of the user's, wherever they look for one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import engine
from engine.config.config import Config, HostConfig
from engine.config.formatter_config import FileProgram
from engine.core.errors import ConfigError
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.settings_file.config_file import read_config
from engine.testing.script import Answer, call, done
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.cli.conftest import Start, host
from tests.cli.conftest import started_engine as start_engine

__all__ = ["host", "start_engine"]

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

CANARY = "sk-canary-0123456789abcdef"
# Each writes what it finds to a file, where no mask can hide it.
EVERYWHERE = "env >$OUT; ps eww >>$OUT; bash -c 'bash -c env' >>$OUT; export -p >>$OUT; python3 -c 'import os; print(os.environ)' >>$OUT"


async def run(folder: Path, answers: list[Answer], config: Config | None = None) -> None:
    """Let a model with these answers work in *folder*."""
    async with engine.open_engine(
        model=ScriptedProvider([*answers, [*done()]]),
        config=config,
        tools=builtin_tools({}),
        permissions=PermissionOptions(approver=AllowAll()),
    ) as eng:
        session = await eng.create_session(cwd=folder)
        await session.run("go")


def bash(command: str, **more: object) -> Answer:
    return [*call("bash", {"command": command, **more}, id="1"), *done("calls")]


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "SOME_SECRET_2", "STRIPE_KEY", "PGPASSWORD"])
@pytest.mark.parametrize("background", [False, True])
async def test_commands_get_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, background: bool
) -> None:
    monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("ORDINARY", "stays")
    more = {"background": True, "name": "job"} if background else {}
    wait: list[Answer] = [[*call("bash_output", {"name": "job", "wait": 30}, id="2"), *done("calls")]]
    await run(tmp_path, [bash(f"OUT={tmp_path}/found; {EVERYWHERE}", **more), *(wait if background else [])])
    found = (tmp_path / "found").read_text()
    assert "ORDINARY=stays" in found
    assert CANARY not in found
    assert f"{name}=" not in found


async def test_copies_of_a_key_are_removed_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("REGISTRY_OPTIONS", f"--header=Bearer {CANARY}")
    await run(tmp_path, [bash("env >found")])
    assert CANARY not in (tmp_path / "found").read_text()


async def test_variables_that_only_point_to_a_secret_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent/socket-0123456789")
    monkeypatch.setenv("DEPLOY_KEY", str(Path.home()))
    await run(tmp_path, [bash("env >found")])
    found = (tmp_path / "found").read_text()
    assert "SSH_AUTH_SOCK=/run/agent/socket-0123456789" in found
    assert f"HOME={os.environ['HOME']}" in found
    assert "DEPLOY_KEY" not in found


async def test_key_of_a_configured_host_is_removed_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB", CANARY)
    monkeypatch.setenv("TRACE", CANARY[::-1])
    config = Config(hosts={"lab": HostConfig(like="vllm", base_url="http://x", key="LAB", headers={"x-t": "$TRACE"})})
    await run(tmp_path, [bash("env >found; echo $LAB $TRACE >>found")], config)
    found = (tmp_path / "found").read_text()
    assert CANARY not in found
    assert CANARY[::-1] not in found


async def test_configuration_may_pass_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_TOKEN", CANARY)
    monkeypatch.setenv("NPM_TOKEN", CANARY)
    await run(tmp_path, [bash("env >found")], Config(pass_env=("GH_TOKEN",)))
    found = (tmp_path / "found").read_text().splitlines()
    assert [line for line in found if CANARY in line] == [f"GH_TOKEN={CANARY}"]


def test_configuration_file_names_variables() -> None:
    assert read_config(b'[environment]\npass_env = ["GH_TOKEN", "npm_token"]', "f").pass_env == (
        "GH_TOKEN",
        "npm_token",
    )
    for wrong in ("GH_*", "GH_TOKEN=x", ""):
        with pytest.raises(ConfigError, match="pass_env names variables"):
            read_config(f'[environment]\npass_env = ["{wrong}"]'.encode(), "f")


async def test_formatters_and_checkers_get_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    found = tmp_path / "found"
    program = FileProgram(("sh", "-c", f"env >>{found}"), ("*.py",))
    config = Config(formatters={"one": program}, checkers={"one": program})
    await run(tmp_path, [[*call("write", {"path": "a.py", "content": "pass\n"}, id="1"), *done("calls")]], config)
    assert found.read_text().count("PATH=") >= 2
    assert CANARY not in found.read_text()


async def test_search_program_gets_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    found = tmp_path / "found"
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "rg"
    program.write_text(f"#!/bin/sh\nenv >>{found}\necho 'ripgrep 14.1.0'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    await run(tmp_path, [[*call("grep", {"pattern": "x"}, id="1"), *done("calls")]])
    assert CANARY not in found.read_text()


def test_proc_shows_no_key_of_the_command_line(start_engine: Start, tmp_path: Path) -> None:
    script = 'cat /proc/[0-9]*/environ | tr "\\0" "\\n" >found; echo $PPID >parent'
    command = start_engine("run", "--yes", f"bash {script}", ANTHROPIC_API_KEY=CANARY, OTHER_TOKEN=CANARY[::-1])
    assert command.wait() == 0
    found = (tmp_path / "found").read_text(errors="replace")
    assert "ANTHROPIC_API_KEY=" in found, "the engine's own environment was read"
    assert CANARY not in found
    assert CANARY[::-1] not in found
